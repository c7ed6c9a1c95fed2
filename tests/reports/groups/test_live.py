"""Groups as they are watched: when what is told, how often, and what is remembered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from kafkascope.decoders.limits import Limits
from kafkascope.reports.groups import by_cluster, live
from kafkascope.reports.groups.history import GroupHistory, GroupLog
from kafkascope.reports.groups.live import LiveGroups
from kafkascope.reports.groups.messages import Message, group_rows, messages_of
from kafkascope.reports.groups.one_group import analyze_group
from kafkascope.reports.vocabulary.tables import GROUP_CONNECTIONS, GROUP_MESSAGES
from tests.reports.groups.epochs.epoch_logs import Epochs, ms
from tests.reports.groups.group_logs import MS, START, Conversation

TOPICS = {"t-id": "t"}
SECOND = 1000


def rows(messages: Iterable[Message], group: str = "g") -> pa.Table:
    """Messages as the view of groups makes them."""
    table = [
        {name: getattr(message, name, None) for name in GROUP_MESSAGES.names}
        | {"group_id": group, "api_version": message.version}
        | {"request": message.request_text, "response": message.response_text}
        for message in messages
    ]
    return group_rows("message", pa.Table.from_pylist(table, schema=GROUP_MESSAGES))


def ended(connection: int, closed: float | None, group: str = "g") -> pa.Table:
    row: dict[str, Any] = {"group_id": group, "connection": connection, "client": "c", "broker": "b"}
    row |= {"closed": None if closed is None else START + int(closed * MS), "how_closed": closed and "fin"}
    return group_rows("connection", pa.Table.from_pylist([row], schema=GROUP_CONNECTIONS))


def moment(at: float) -> int:
    return START + int(at * MS)


def two() -> Epochs:
    talk = Epochs()
    talk.two()  # its last answer is at 2,011 ms; epoch 2 is stable at 2,001 ms, and both members work at 2,010 ms
    return talk


class Counted:
    """Counts analyses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        monkeypatch.setattr(by_cluster, "analyze_group", self._analyze)

    def _analyze(self, log: GroupLog) -> GroupHistory:
        self.sizes.append(len(log.messages))
        return analyze_group(log)


def test_events_are_told_two_seconds_after_the_last_news_and_once() -> None:
    groups = LiveGroups(clock=lambda: 0.0)
    known = analyze_group(two().log())
    assert groups.feed(rows(two().messages), TOPICS) == GroupHistory()
    assert groups.feed(None, TOPICS, moment(4010)) == GroupHistory()
    told = groups.feed(None, TOPICS, moment(4011))
    assert told.events == known.events
    assert [each.to_generation for each in told.rebalances] == [1]  # another was stable after it
    assert groups.feed(None, TOPICS, moment(6000)).events == []
    assert groups.finish(TOPICS).events == []


@pytest.mark.parametrize(("now", "told"), [(7_009, []), (7_010, [2])])
def test_a_rebalance_is_told_five_seconds_after_its_members_worked_again(now: float, told: list[int]) -> None:
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(two().messages), TOPICS)
    groups.feed(None, TOPICS, moment(4011))
    found = groups.feed(None, TOPICS, moment(now))
    assert [each.to_generation for each in found.rebalances] == told
    assert [each.to_generation for each in groups.finish(TOPICS).rebalances] == [2][len(told) :]


@pytest.mark.parametrize(("now", "told"), [(5_999, []), (6_000, ["left"])])
def test_an_event_is_told_two_seconds_after_it(now: float, told: list[str]) -> None:
    talk = two()
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    groups.feed(rows([talk.beat(4000, "b", -1)]), TOPICS)
    known = groups.feed(None, TOPICS, moment(4011)).events
    assert known
    assert all(each.at <= moment(2011) for each in known)
    assert [each.event for each in groups.feed(None, TOPICS, moment(now)).events] == told


def test_a_group_that_begins_anew_has_its_first_epochs_once_more() -> None:
    talk = two()
    talk.beat(3000, "a", -1)
    talk.beat(3100, "b", -1)
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    first = groups.feed(None, TOPICS, moment(20_000)).rebalances
    groups.feed(rows([talk.beat(30_000, "c", 0, 1)]), TOPICS)
    again = groups.feed(None, TOPICS, moment(50_000)).rebalances
    assert [[(each.to_generation, ms(each.started)) for each in told] for told in (first, again)] == [
        [(1, 0), (2, 1000), (3, 3000), (4, 3100)],
        [(1, 30_000)],
    ]


def test_what_is_not_settled_is_looked_at_again_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(two().messages), TOPICS)
    for now in (4011, 5010, 5011, 6010, 6011, 7011, 20_000):
        groups.feed(None, TOPICS, moment(now))
    assert len(counted.sizes) == 4  # at 4,011, 5,011, 6,011 and 7,011 ms: then all is told


def test_heartbeats_that_repeat_themselves_are_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    talk = two()
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    groups.feed(None, TOPICS, moment(20_000))
    before = len(counted.sizes)
    for says, analyses in (
        ({"epoch": 2}, 1),  # b said what it had before: that it is silent about it now, is news once
        ({"epoch": 2}, 0),
        ({"epoch": 3}, 1),
        ({"error": "UNKNOWN_MEMBER_ID"}, 1),
        ({"error": "UNKNOWN_MEMBER_ID"}, 1),  # errors always are
    ):
        at = 30_000 + 30_000 * len(talk.messages)
        groups.feed(rows([talk.beat(at, "b", 2, **says)]), TOPICS)
        groups.feed(None, TOPICS, moment(at + 20_000))
        groups.feed(None, TOPICS, moment(at + 29_000))
        assert (len(counted.sizes) > before) is bool(analyses), says
        before = len(counted.sizes)


def test_commits_are_no_news_but_for_the_first_of_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    talk = Conversation()
    groups = LiveGroups(clock=lambda: 0.0)
    for at in range(3):
        request = {"memberId": "a~1", "topics": [{"name": "t", "offset": at}]}
        groups.feed(rows([talk.say(10_000 * at, "OffsetCommit", "a", request, {})]), TOPICS)
        groups.feed(None, TOPICS, moment(10_000 * at + 9_000))
    assert counted.sizes == [1]


@pytest.mark.parametrize(("closed", "analyses"), [(3000.0, 1), (None, 0)])
def test_that_a_connection_ended_is_news(monkeypatch: pytest.MonkeyPatch, closed: float | None, analyses: int) -> None:
    talk = two()
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    groups.feed(None, TOPICS, moment(20_000))
    counted = Counted(monkeypatch)
    groups.feed(ended(talk.messages[-1].connection, closed), TOPICS)
    found = groups.feed(None, TOPICS, moment(30_000))
    assert len(counted.sizes) == analyses
    assert [each.event for each in found.events] == ["connection_ended"] * analyses


def test_the_end_of_a_connection_of_a_group_of_which_nothing_is_known_is_left_out() -> None:
    groups = LiveGroups(clock=lambda: 0.0)
    assert groups.feed(ended(1, 3000), TOPICS, moment(10_000)) == GroupHistory()
    assert groups.finish(TOPICS) == GroupHistory()


def test_messages_that_come_late_are_put_in_order() -> None:
    talk = two()
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages[3:]), TOPICS)
    groups.feed(rows(talk.messages[:3]), TOPICS)
    told = groups.finish(TOPICS)
    known = analyze_group(talk.log())
    assert (told.events, told.rebalances) == (known.events, known.rebalances)


def test_messages_of_two_connections_that_come_one_after_the_other_are_put_in_order() -> None:
    talk = two()
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages[::2]), TOPICS)
    groups.feed(rows(talk.messages[1::2]), TOPICS)
    assert [message.at for message in groups._groups["g"].messages] == [message.at for message in talk.messages]


def test_a_file_is_looked_at_when_a_group_has_grown_by_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    talk = two()
    groups = LiveGroups(hurry=False)
    groups.feed(rows(talk.messages), TOPICS, moment(10_000))
    for at in range(20):
        beat = talk.beat(20_000 + 10_000 * at, "a", 2 + at, 3 + at)
        groups.feed(rows([beat]), TOPICS, moment(20_000 + 10_000 * at + 5_000))
    assert counted.sizes[:6] == [8, 10, 12, 15, 18, 22]


def test_groups_are_analyzed_in_turn_and_no_longer_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    analyzed: list[str] = []

    def slow(log: GroupLog) -> GroupHistory:
        nonlocal now
        now += 0.3
        analyzed.append(log.group_id)
        return GroupHistory()

    monkeypatch.setattr(by_cluster, "analyze_group", slow)
    groups = LiveGroups(clock=lambda: now)
    for place, name in enumerate(("c", "b", "a")):
        talk = Conversation(name)
        groups.feed(rows([talk.heartbeat(place, "m~1", 1)], name), TOPICS)
    groups.feed(None, TOPICS, moment(10_000))
    assert analyzed == ["c", "b"]  # longer than half a second: one more waits as long as that took
    now = 101.19
    groups.feed(None, TOPICS, moment(10_000))
    assert analyzed == ["c", "b"]
    now = 101.21
    groups.feed(None, TOPICS, moment(10_000))
    assert analyzed == ["c", "b", "a"]


def test_groups_are_told_to_the_end_in_order_of_their_names() -> None:
    groups = LiveGroups(clock=lambda: 0.0)
    for name in ("h", "g"):
        talk = Epochs(name)
        talk.beat(0, "a", 0, 1)
        groups.feed(rows(talk.messages, name), TOPICS)
    assert [each.group_id for each in groups.finish(TOPICS).rebalances] == ["g", "h"]
    assert groups.finish(TOPICS) == GroupHistory()


def test_of_too_many_messages_those_are_kept_that_say_something_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_MESSAGES", 20)
    monkeypatch.setattr(live, "THINNED_AFTER", 5 * SECOND * MS)
    talk = two()
    talk.beats(3000, 40_000, "a", 2)
    talk.beat(40_500, "b", 2, error="UNKNOWN_MEMBER_ID")
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    told = groups.feed(None, TOPICS, moment(50_000))
    kept = [ms(message.at) for message in groups._groups["g"].messages]
    assert kept == [0, 50, 1000, 1050, 1100, 2000, 2010, 3000, 40_500]
    again = groups.finish(TOPICS)
    assert [each.to_generation for each in told.rebalances + again.rebalances] == [1, 2, 3]
    assert again.events == []


def test_errors_and_what_is_new_enough_are_kept_though_they_repeat_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_MESSAGES", 5)
    monkeypatch.setattr(live, "THINNED_AFTER", 5 * SECOND * MS)
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    for at in (1000, 2000):
        talk.beat(at, "a", 1, error="NOT_COORDINATOR")
    for at in (3000, 4000, 5000, 6000, 7000):
        talk.beat(at, "a", 1)
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    groups.feed(None, TOPICS, moment(11_000))
    assert [ms(message.at) for message in groups._groups["g"].messages] == [3000, 6000, 7000]
    monkeypatch.setattr(live, "MOST_MESSAGES", 6)
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    groups.feed(None, TOPICS, moment(11_000))
    assert [ms(message.at) for message in groups._groups["g"].messages] == [0, 1000, 2000, 3000, 6000, 7000]


def test_of_the_time_before_the_half_that_is_left_nothing_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_MESSAGES", 6)
    talk = two()
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    groups.feed(None, TOPICS, moment(10_000))
    group = groups._groups["g"]
    assert (ms(group.thinned), [ms(message.at) for message in group.messages]) == (1100, [1100, 2000, 2010])
    assert min(at for at in group.events.values()) == group.thinned
    assert groups.finish(TOPICS).rebalances == []


def test_if_that_is_still_too_much_the_older_half_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_MESSAGES", 6)
    monkeypatch.setattr(live, "THINNED_AFTER", 5 * SECOND * MS)
    talk = two()
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages), TOPICS)
    groups.feed(ended(talk.messages[0].connection, None), TOPICS)
    told = groups.feed(None, TOPICS, moment(50_000))
    group = groups._groups["g"]
    assert [ms(message.at) for message in group.messages] == [1100, 2000, 2010]
    assert ms(group.thinned) == 45_000
    assert [each.to_generation for each in told.rebalances] == [1, 2]
    assert groups.finish(TOPICS) == GroupHistory()


def test_groups_are_forgotten_until_a_quarter_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_IN_ALL", 8)
    groups = LiveGroups(clock=lambda: 0.0)
    for name in "abcdefghi":
        groups.feed(rows(two().messages[:1], name), TOPICS)
    assert "".join(groups._groups) == "defghi"


def test_groups_beyond_the_limit_are_forgotten_and_told() -> None:
    groups = LiveGroups(clock=lambda: 0.0, limits=Limits(groups=5))
    for name in "abcdefghia":
        groups.feed(rows(two().messages[:1], name), TOPICS)
        assert len(groups._groups) <= 5
    assert "".join(groups._groups) == "fghia"
    (issue,) = groups.take_issues()
    assert (issue.kind, issue.count, "(--limit groups=5)" in issue.detail) == ("too_many_groups", 5, True)


def test_where_all_groups_have_too_much_what_is_repeated_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_IN_ALL", 20)
    monkeypatch.setattr(live, "THINNED_AFTER", 5 * SECOND * MS)
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beats(1000, 22_000, "a", 1)
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(rows(talk.messages[:20]), TOPICS)
    groups.feed(rows(talk.messages[20:]), TOPICS)
    kept = [ms(message.at) for message in groups._groups["g"].messages]
    assert kept == [0, 1000, *range(17_000, 22_000, 1000)]  # of the last five seconds all is there


@pytest.mark.parametrize(("most", "kept", "told"), [(21, ["b", "a", "d"], []), (20, ["a", "d"], ["b", "a", "d", "b"])])
def test_the_groups_that_were_silent_longest_are_told_and_forgotten_first(
    monkeypatch: pytest.MonkeyPatch, most: int, kept: list[str], told: list[str]
) -> None:
    monkeypatch.setattr(live, "MOST_IN_ALL", most)
    groups = LiveGroups(clock=lambda: 0.0)
    found: list[str] = []
    for name in ("b", "a", "d"):  # of seven messages each
        found += [each.group_id for each in groups.feed(rows(two().messages, name), TOPICS).rebalances]
    assert (list(groups._groups), found) == (kept, told)


def test_a_group_that_is_heard_again_is_the_last_to_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_IN_ALL", 19)  # down to 14, so that the next message does not make it too much again
    talk = two()
    groups = LiveGroups(clock=lambda: 0.0)
    for name in ("b", "a"):
        groups.feed(rows(talk.messages[:6], name), TOPICS)
    groups.feed(rows(talk.messages[6:], "b"), TOPICS)
    groups.feed(rows(two().messages, "d"), TOPICS)
    assert list(groups._groups) == ["b", "d"]


def test_a_fault_of_ours_is_told_once_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKASCOPE_RAISE_FAULTS", raising=False)

    def broken(log: GroupLog) -> GroupHistory:
        if log.group_id == "bad":
            raise ValueError("no")
        return analyze_group(log)

    monkeypatch.setattr(by_cluster, "analyze_group", broken)
    groups = LiveGroups(clock=lambda: 0.0)
    talk = two()
    for name in ("bad", "good"):
        groups.feed(rows(talk.messages, name), TOPICS)
    told = groups.feed(None, TOPICS, moment(10_000))
    assert {each.group_id for each in told.events} == {"good"}
    [issue] = groups.take_issues()
    assert issue.kind == "internal_error"
    assert issue.detail is not None
    assert issue.detail.startswith("group bad: ValueError at ")
    assert (issue.connection, issue.packet) == (talk.messages[0].connection, 2)
    groups.finish(TOPICS)
    assert groups.take_issues() == []


def test_rows_that_cannot_be_read_are_told_and_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKASCOPE_RAISE_FAULTS", raising=False)
    talk = two()

    def broken(table: pa.Table) -> Any:
        if table["group_id"][0].as_py() == "bad":
            raise ValueError("no")
        return messages_of(table)

    monkeypatch.setattr(live, "messages_of", broken)
    groups = LiveGroups(clock=lambda: 0.0)
    groups.feed(pa.concat_tables([rows(talk.messages, "bad"), rows(talk.messages, "good")]), TOPICS)
    assert list(groups._groups) == ["good"]
    [issue] = groups.take_issues()
    assert issue.detail is not None
    assert issue.detail.startswith("group bad: ValueError at ")
