"""Who is a member when, and what each had meanwhile."""

from __future__ import annotations

import pytest

from kafkascope.reports.groups.epochs.heartbeats import CLASSIC, CONSUMER, Beat, BeatReader
from kafkascope.reports.groups.epochs.lives import Life, Roster
from tests.reports.groups.epochs.epoch_logs import Epochs
from tests.reports.groups.group_logs import MS, START, Conversation, assignment

A, B, AB = frozenset({"t-0"}), frozenset({"t-1"}), frozenset({"t-0", "t-1"})


def life(member: str = "a", protocol: str = CONSUMER) -> Life:
    return Life(member, protocol, 0)


def beats(talk: Conversation) -> list[Beat]:
    reader = BeatReader({"t-id": "t"})
    return [beat for message in talk.messages for beat in reader.beats(message)]


def test_a_roster_has_members_from_the_epoch_they_join_with_to_the_one_before_they_are_none() -> None:
    before, joins, leaves, returns = (life(name) for name in ("before", "joins", "leaves", "returns"))
    before.begin, joins.begin = None, 3
    leaves.begin, leaves.end = 2, 4
    returns.begin = 5
    roster = Roster([returns, joins, leaves, before])
    named = {number: sorted(each.member_id for each in roster.members(number)) for number in (1, 2, 3, 4)}
    assert named == {
        1: ["before"],
        2: ["before", "leaves"],
        3: ["before", "joins", "leaves"],
        4: ["before", "joins"],
    }
    roster.take_out(joins)
    assert [each.member_id for each in roster.members(5)] == ["before", "returns"]


def test_what_a_member_is_known_by_when_it_comes_back() -> None:
    member = life("a~1")
    assert (member.key, member.name) == ("a~1", "a~1")
    member.instance_id, member.client_id = "i", "a"
    assert (member.key, member.name) == ("i", "a")


@pytest.mark.parametrize(
    ("session_ms", "interval_ms", "allowed_ms", "silent_ms", "why"),
    [
        (10_000, 3_000, 10_000, 9_000, "its session timeout is 10000 ms"),
        (None, 3_000, 7_500, 7_500, "it should be heard every 3000 ms"),
        (None, None, 12_500, 12_500, "members are usually heard every 5000 ms"),
    ],
)
def test_how_long_a_member_may_be_silent(
    session_ms: int | None, interval_ms: int | None, allowed_ms: int, silent_ms: int, why: str
) -> None:
    member = life()
    member.session_timeout_ms, member.interval_ms = session_ms, interval_ms
    allowed = member.allowed_silence()
    assert (allowed.ns, allowed.why, member.silent_after()) == (allowed_ms * MS, why, silent_ms * MS)


def test_a_member_is_silent_since_its_last_word_or_since_it_stepped_out() -> None:
    member = life()
    member.heard = 5
    assert member.silent_since() == 5
    member.away = 4
    assert member.silent_since() == 4


def test_what_a_member_asked_for_last() -> None:
    member = life()
    assert member.asked_for(10) == []
    member.topics = ("t",)
    assert member.asked_for(10) == ["t"]
    member.asked = [(10, ["t"]), (20, ["u"]), (30, ["v"])]
    assert [member.asked_for(at) for at in (9, 10, 19, 20, 40)] == [["t"], ["t"], ["t"], ["u"], ["v"]]


def test_when_a_member_joined_last() -> None:
    member = life()
    member.joins = [(10, 11), (20, 21)]
    assert [member.joined(at) for at in (9, 10, 19, 20)] == [None, (10, 11), (10, 11), (20, 21)]


def test_a_member_has_what_it_was_given_else_what_it_said() -> None:
    member = life()
    member.begin = 3
    assert member.had(100) == frozenset()
    member.owned = [(10, A), (30, B)]
    assert [member.had(at) for at in (9, 10, 29, 30)] == [frozenset(), A, A, B]
    member.given = [(20, 3, AB), (40, 4, A)]
    assert [member.had(at) for at in (19, 20, 39, 40)] == [A, AB, AB, A]


@pytest.mark.parametrize(
    ("owned", "given", "before"),
    [
        ([(10, A)], [], A),
        ([(10, A)], [(10, 3, B)], A),
        ([(10, A), (30, B)], [(20, 3, B)], A),
        ([(11, A)], [(10, 3, B), (20, 4, A)], None),
        ([(11, A)], [(10, 3, B)], None),  # that may be of what it was given
        ([], [(10, 3, B)], None),
        ([], [], None),
    ],
)
def test_a_member_of_before_the_capture_had_all_the_time_what_it_said_first(
    owned: list[tuple[int, frozenset[str]]], given: list[tuple[int, int, frozenset[str]]], before: frozenset[str] | None
) -> None:
    member = life()
    member.owned, member.given = owned, given
    assert member.had(5) == before


def test_a_member_settles_in_an_epoch_when_it_reaches_it_or_is_given_partitions_in_it() -> None:
    member = life()
    assert member.settled(3, 100) is None
    member.reached = {3: 20, 4: 60}
    member.given = [(10, 3, A), (20, 3, AB), (30, 3, B), (60, 4, A)]
    assert [member.settled(3, until) for until in (19, 20, 29, 30, 100)] == [None, 20, 20, 30, 30]
    assert member.settled(4, 100) == 60


def test_a_member_works_when_it_says_that_it_has_what_it_was_given() -> None:
    member = life()
    member.worked = [10, 20]
    assert [member.working(since) for since in (9, 10, 11, 20, 21)] == [10, 10, 20, 20, None]


def test_what_a_member_tells_stays_until_it_tells_otherwise() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 1], topics=["u", "t"], instance="i", host="10.0.0.5")
    talk.beat(100, "a", 1, owned=[0, 1])
    talk.beat(200, "a", 1, owned=[0, 1], instance="i")
    talk.beat(300, "a", 1, given=[0])
    talk.beat(400, "a", 1, 2, owned=[0], regex="v.*", took=7)
    talk.beat(500, "a", 2, topics=["t"])
    talk.beat(600, "a", 2, regex="")
    member = life()
    for beat in beats(talk):
        member.learn(beat)
        member.take(beat)
    assert (member.client_id, member.host, member.instance_id) == ("a", "host-of-a", "i")
    assert list(member.connections) == list(dict.fromkeys(message.connection for message in talk.messages))
    assert (member.topics, member.regex, member.rebalance_timeout_ms, member.interval_ms) == (("t",), "", 4000, 1000)
    since = [(at - START) / MS for at, _ in member.asked]
    asked = [topics for _, topics in member.asked]
    assert list(zip(since, asked, strict=True)) == [
        (0, ["t", "u"]),
        (407, ["t", "u", "v.*"]),
        (500, ["t", "v.*"]),
        (600, ["t"]),
    ]
    assert [((at - START) / MS, owned) for at, owned in member.owned] == [(0, frozenset()), (100, AB), (400, A)]
    assert [((at - START) / MS, epoch, given) for at, epoch, given in member.given] == [(1, 1, AB), (301, 1, A)]
    assert [(at - START) / MS for at in member.worked] == [0, 100, 200, 400]
    assert {epoch: (at - START) / MS for epoch, at in member.reached.items()} == {1: 1, 2: 407}
    assert (member.epoch, member.heard, member.heard_packet) == (2, START + 600 * MS, 14)


def test_an_eager_member_that_joins_again_says_nothing_of_what_it_had() -> None:
    talk = Conversation()
    talk.join(0, "a~1", generation=2)
    talk.join(100, "a~1", generation=2, owned={"t": [0]})
    member = life("a~1", CLASSIC)
    for beat in beats(talk):
        member.learn(beat)
    assert [owned for _, owned in member.owned] == [A]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, member.assignors) == (10_000, 60_000, ["range"])


def test_an_answer_brings_a_member_back_that_had_stepped_out() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, instance="i")
    member = life()
    member.away = 5
    member.take(beats(talk)[0])
    assert [member.away, member.heard] == [None, START]


def test_an_answer_without_an_epoch_gives_partitions_all_the_same() -> None:
    talk = Conversation()
    talk.say(0, "SyncGroup", "a", None, {"assignment": assignment({"t": [0]})})
    member = life("a~1", CLASSIC)
    member.take(beats(talk)[0])
    assert (member.epoch, member.reached, member.given) == (None, {}, [(START + MS, 0, A)])
