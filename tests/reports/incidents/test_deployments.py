"""Members that are replaced, one after the other: planned, and told as that."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kafkascope.reports.incidents.planned import deployments
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    H1,
    Row,
    at,
    connection,
    exchange,
    found,
    group_event,
    member,
    names,
    only,
    rebalance,
    seconds,
)


def turn(name: str, generation: int, left: float, came: float) -> list[Row]:
    """A member that leaves and comes back."""
    return [
        rebalance("member_left", generation, left, trigger_client_id=name, unowned_ms=100.0),
        rebalance("member_joined", generation + 1, came, trigger_client_id=name),
    ]


def test_members_that_leave_and_come_back_in_turn_are_a_deployment() -> None:
    one = only(rebalances=[*turn("c1", 1, 10, 20), *turn("c2", 3, 30, 40)], connections=[connection(1)])
    assert (one.kind, one.severity, one.certainty) == ("client_deploy", "info", "likely")
    assert names(one) == ["shop", "c1", H1, "c2"]
    assert (seconds(one.started), seconds(one.ended), one.cost_ms) == (10, 41, 200)
    assert one.rebalances == {("shop", n) for n in range(1, 5)}
    assert "c1, c2 left in an orderly way and came back; 4 rebalances" in one.headline


@pytest.mark.parametrize(
    ("protocol", "advice"),
    [
        ("classic", "Static membership"),
        ("consumer", "Static membership"),
        ("connect", "Nothing, if this was planned. A worker that is back within scheduled.rebalance.max.delay.ms"),
        ("share", "Nothing, if this was planned."),
        ("streams", "Nothing, if this was planned."),
    ],
)
def test_static_membership_is_advised_where_there_is_any(protocol: str, advice: str) -> None:
    rows = [row | {"protocol": protocol} for row in [*turn("c1", 1, 10, 20), *turn("c2", 3, 30, 40)]]
    assert only(rebalances=rows).advice.startswith(advice)


@pytest.mark.parametrize("back", [30 + threshold("one_trouble"), 30.1 + threshold("one_trouble")])
def test_each_has_to_be_back_within_a_minute(back: float) -> None:
    rows = [*turn("c1", 1, 10, 20), *turn("c2", 3, 30, back)]
    assert len(found(rebalances=rows)) == (back <= 90)


@pytest.mark.parametrize(("later", "told"), [(600, 1), (601, 0)])
def test_who_is_started_anew_much_later_is_of_another_deployment(later: float, told: int) -> None:
    after = threshold("deployed_after") - 600
    assert len(found(rebalances=[*turn("c1", 1, 10, 20), *turn("c2", 3, 20 + later + after, 30 + later)])) == told


def test_each_deployment_of_a_group_is_told() -> None:
    again = [*turn("c1", 5, 2010, 2020), *turn("c2", 7, 2030, 2040)]
    both = found(rebalances=[*turn("c1", 1, 10, 20), *turn("c2", 3, 30, 40), *again])
    assert sorted(seconds(one.started) or 0 for one in both) == [10, 2010]
    later = [row | {"to_generation": 10 + n} for n, row in enumerate(steps("cd", "de", "ef"))]
    for n, row in enumerate(later):
        row |= {"started": at(1000 + 10 * n), "stable": at(1001 + 10 * n)}
    replaced = found(rebalances=[*steps("ab", "bc", "cd"), *later])
    assert sorted(seconds(one.started) or 0 for one in replaced) == [20, 1010]


def test_one_member_alone_and_members_that_do_not_come_back_are_no_deployment() -> None:
    assert found(rebalances=[*turn("c1", 1, 10, 20), *turn("c1", 3, 30, 40)]) == []
    assert found(rebalances=[*turn("c1", 1, 10, 20), *turn("c2", 3, 30, 40)[:1]]) == []
    others = turn("c2", 3, 30, 40)
    others[1]["trigger_client_id"] = "c3"
    assert found(rebalances=[*turn("c1", 1, 10, 20), *others]) == []


def test_one_that_comes_back_while_the_next_one_leaves_is_among_what_contributed() -> None:
    came = {"trigger": "member_joined", "client_id": "c1"}
    rows = [
        rebalance("member_left", 1, 10, trigger_client_id="c1"),
        rebalance("member_left", 2, 20, trigger_client_id="c2", contributing=[came]),
        rebalance("static_member_replaced", 3, 30, trigger_client_id="c2"),
    ]
    assert only(rebalances=rows).kind == "client_deploy"


# --- administrators --------------------------------------------------------------------------------------------------


def steps(*of_members: str, every: float = 10, trigger: str = "member_joined", name: str | None = None) -> list[Row]:
    """Rebalances with these members each, of one letter: its name, or its host where all have one name."""
    rows = []
    for n, letters in enumerate(of_members):
        members = [member(name or letter, f"10.0.9.{ord(letter)}" if name else H1) for letter in letters]
        rows.append(rebalance(trigger, n, 10 + every * n, members=members, unowned_ms=100.0))
    return rows


def test_members_that_are_replaced_one_by_one_are_told_to_the_last() -> None:
    in_turn = steps("abc", "bc", "bcx", "cx", "cxy", "xy", "xyz", "yz", "z")
    one = only(rebalances=in_turn, connections=[connection(1)])
    assert f": a, b, c ({H1}) left, and x, y, z ({H1}) came instead; 6 rebalances" in one.headline
    assert (seconds(one.started), seconds(one.ended)) == (20, 71)  # who leaves then has nobody in its place
    (first, second) = found(rebalances=steps("ab", "bx", "xy", "yp", "pq"), connections=[connection(1)])
    assert [f"a, b ({H1}) left, and x, y" in first.headline, f"x, y ({H1}) left, and p, q" in second.headline] == [
        True
    ] * 2


def test_as_many_others_come_instead() -> None:
    one = only(rebalances=steps("ab", "abc", "abcd", "bcd", "cd", "c"), connections=[connection(1)])
    assert (one.kind, one.severity, one.certainty) == ("client_deploy", "info", "guessed")
    assert (seconds(one.started), seconds(one.ended)) == (20, 51)
    assert f": a, b ({H1}) left, and c, d ({H1}) came instead; 4 rebalances" in one.headline
    assert one.rebalances == {("shop", n) for n in (1, 2, 3, 4)}
    assert [seen.text for seen in one.evidence] == [
        f"in the group were a ({H1}), b ({H1})",
        f"in the group are c ({H1}), d ({H1})",
    ]


def timed(rows: list[Row], *times: float) -> list[Row]:
    """The same rebalances at these times."""
    return [row | {"started": at(time), "stable": at(time + 1)} for row, time in zip(rows, times, strict=True)]


def test_how_a_group_grows_and_ends_is_no_part_of_a_deployment() -> None:
    grows = ("a", "ab", "abx", "bx", "bxy", "xy", "xyz", "xyzu", "yzu", "zu", "u")
    rows = timed(steps(*grows), 0, 0.5, 10, 14, 17, 21, 24, 24.5, 32, 32.5, 33)
    one = only(rebalances=rows, connections=[connection(1)])
    assert f": a, b ({H1}) left, and x, y ({H1}) came instead; 4 rebalances" in one.headline
    assert (seconds(one.started), seconds(one.ended)) == (10, 22)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (steps("ab", "bc", "cd"), True),
        (steps("ab", "bc", "cd", name="app"), True),
        (steps("abx", "axc", "xcd"), True),  # one stays
        (steps("ab", "b", "bc"), False),  # one alone
        (steps("ab", "abc", "abcd"), False),  # more of them
        (steps("abcd", "abc", "ab"), False),
        (steps("", "a", "ab", "b", ""), False),  # they come, work, and go
        (steps("ab", "bc", "cd", trigger="subscription_changed"), False),
        (steps("ab", "bc", "cd", every=threshold("one_trouble") + 1), False),
        (steps("ab", "bc", "cd", every=threshold("one_trouble")), True),
    ],
)
def test_who_is_replaced(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(rebalances=rows, connections=[connection(1)])] == ["client_deploy"] * told


def test_who_was_killed_was_not_replaced() -> None:
    rows = steps("ab", "bc", "cd")
    rows[2] |= {"contributing": [{"trigger": "session_timeout", "client_id": "b"}]}
    assert "client_deploy" not in [one.kind for one in found(rebalances=rows, connections=[connection(1)])]


def test_tasks_that_move_between_workers_are_not_replaced() -> None:
    rows = steps("ab", "bc", "cd", name="task-0")
    worker = rebalance("member_left", 3, 12, "connect", protocol="connect", members=[member("w1", "10.0.9.97")])
    assert found(rebalances=[*rows, worker], connections=[connection(1)]) == []


def test_members_that_are_started_again_and_again_are_no_deployment() -> None:
    times = [(20 * n + late, name) for n in range(1, 4) for name, late in (("c2", 0), ("c3", 10))]
    rows, events = [], []
    for place, (time, name) in enumerate(times):
        known: Row = {"client_id": name, "client": H1}
        rows.append(rebalance("member_left", 2 * place + 1, time, trigger_client_id=name))
        rows.append(rebalance("member_joined", 2 * place + 2, time + 2, trigger_client_id=name))
        events.append(group_event("left", time, packet=10 * place, connection=place, **known))
        events.append(group_event("joined", time + 2, packet=10 * place + 1, connection=100 + place, **known))
    assert [one.kind for one in found(rebalances=rows)] == ["client_deploy"]
    connections = [connection(100 + place, client_id=name, opened=time + 1) for place, (time, name) in enumerate(times)]
    looping = found(rebalances=rows, group_events=events, connections=connections)
    assert {one.kind for one in looping} == {"client_restarting"}


def took_over(time: float, name: str) -> Row:
    """A process that comes with the instance id of another."""
    detail = f"its instance id was that of {name}-old"
    return group_event("replaced", time, client_id=name, client=H1, detail=detail)


def test_static_members_whose_processes_are_replaced_in_turn_are_a_deployment() -> None:
    one = only(group_events=[took_over(10, "c1"), took_over(30, "c2")], connections=[connection(1)])
    assert (one.kind, one.severity, one.certainty) == ("client_deploy", "info", "guessed")  # or they died
    assert names(one) == ["shop", "c1", H1, "c2"]
    assert (seconds(one.started), seconds(one.ended), one.rebalances) == (10, 30, frozenset())
    assert one.headline.startswith("static members of group shop were restarted in turn from ")
    assert one.advice.endswith("whether they were closed, or died, the capture does not show.")
    assert "c1, c2 took over from processes with the same instance ids, without a rebalance" in one.headline
    assert one.evidence[0].text == "c1 joined: its instance id was that of c1-old"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([took_over(10, "c1"), took_over(610, "c2")], True),
        ([took_over(10, "c1"), took_over(611, "c2")], False),
        ([took_over(10, "c1"), took_over(30, "c1")], False),  # one alone may have its own reason
        ([took_over(10, "c1"), took_over(20, "c1"), took_over(30, "c2"), took_over(40, "c1")], False),
        ([took_over(10, "c1"), took_over(20, "c1"), took_over(30, "c2")], True),
        ([took_over(10, "c1"), took_over(30, "c2"), group_event("fenced", 31, client_id="c1")], False),
        ([took_over(10, "c1"), took_over(30, "c2"), group_event("fenced", 31, "pay", client_id="c1")], True),
    ],
)
def test_who_comes_late_again_and_again_or_fences_another_is_not_deployed(rows: list[Row], told: bool) -> None:
    assert bool(found(group_events=rows)) == told


def ended(
    name: str, number: int, time: float, epoch: int = 7, session: int = 123, **given: Any
) -> dict[str, list[Row]]:
    """A process that fetched, with what it said last of its session, and ended."""
    known: Row = {"software": "apache-kafka-java", "software_version": "4.1.1"} | given
    said = [
        f'{{"maxWaitMs": 500, "sessionId": {session}, "sessionEpoch": {of_one}, "topics": []}}' for of_one in (6, epoch)
    ]
    return {
        "connections": [connection(number, client_id=name, opened=1, closed=time, how_closed="fin", **known)],
        "exchanges": [
            exchange(
                number * 10 + n, "Fetch", time - 2 + n, time - 1.9 + n, connection=number, api_key=1, request=request
            )
            for n, request in enumerate(said)
        ],
    }


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (ended("c1", 1, 8), ended("c2", 2, 27), "client_died"),
        (ended("c1", 1, 8, -1), ended("c2", 2, 27, -1), "client_deploy"),
        (ended("c1", 1, 8), ended("c2", 2, 27, -1), "client_deploy"),  # one was closed
        (ended("c1", 1, 8), ended("c2", 2, 27, session=0), "client_deploy"),  # it had no session, as librdkafka
        (ended("c1", 1, 8), ended("c2", 2, 27, software_version="2.8.1"), "client_deploy"),  # may not end its session
        (ended("c1", 1, 8), ended("c2", 2, 27, software=None), "client_deploy"),
        (ended("c1", 1, 8), ended("c2", 2, 27, lost_bytes=1), "client_deploy"),  # which may have ended it
        (ended("c1", 1, 8), ended("c2", 2, 31), "client_deploy"),  # it went on behind the takeover
    ],
)
def test_static_members_that_are_killed_in_turn_and_come_back_are_no_deployment(
    first: dict[str, list[Row]], second: dict[str, list[Row]], kind: str
) -> None:
    events = [took_over(10, "c1"), took_over(30, "c2")]
    one = only(group_events=events, **{name: first[name] + second[name] for name in first})
    assert one.kind == kind
    if kind == "client_died":
        assert (one.severity, one.certainty, seconds(one.started), seconds(one.ended)) == ("warning", "likely", 8, 30)
        assert names(one) == ["c1", H1, "c2", H1, "shop"]
        assert one.headline.startswith("c1, c2 ended without being closed one after the other, from ")
        assert one.cost_ms == 5000


@pytest.mark.parametrize(("version", "words"), [("4.1.1", "likely replaced"), ("2.8.1", "guessed restarted")])
def test_static_members_that_end_their_sessions_were_closed(version: str, words: str) -> None:
    first, second = (ended(f"c{n}", n, 20 * n - 12, -1, software_version=version) for n in (1, 2))
    events = [took_over(10, "c1"), took_over(30, "c2")]
    one = only(group_events=events, **{name: first[name] + second[name] for name in first})
    certainty, how = words.split()
    assert one.certainty == certainty
    assert f" were {how} in turn from " in one.headline


@pytest.mark.parametrize(("started", "told"), [(8.9, True), (9.5, False), (10.1, True)])
def test_what_rebalances_tell_is_not_told_again(started: float, told: bool) -> None:
    """A rebalance takes a second."""
    rows = [rebalance("static_member_replaced", 2, started, trigger_client_id="c1")]
    assert bool(found(rebalances=rows, group_events=[took_over(10, "c1"), took_over(30, "c2")])) == told


class Looked(list[set[tuple[str, str]]]):
    """Members of generations, and the first place that was looked at."""

    first = sys.maxsize

    def __getitem__(self, place: Any) -> Any:
        self.first = min(self.first, (place.start or 0) if isinstance(place, slice) else place)
        return super().__getitem__(place)


def test_generations_before_a_run_are_not_looked_at_for_it() -> None:
    """Or thousands of runs would take as many times as long as there are generations."""
    present = Looked([{("a", H1), ("b", H1)}, {("c", H1), ("d", H1)}] * 500)
    rows = [{"started": at(second)} for second in range(1000)]
    assert deployments._replacements(rows, present, 990, 999)
    assert present.first == 990
