"""Groups that several applications use."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    H1,
    H2,
    LASTS,
    Row,
    at,
    connection,
    finding,
    found,
    member,
    names,
    only,
    rebalance,
    row,
    seconds,
)

LONG = threshold("one_trouble")
A, B, C = {"c1": H1}, {"c2": H2}, {"c3": "10.0.1.3"}
TOPICS = {"c1": ["orders"], "c2": ["payments"], "c3": ["refunds"]}


def turn(
    number: int, started: float, who: dict[str, str], by: str, trigger: str = "member_joined", **given: Any
) -> Row:
    """A rebalance that one client began, and those who were in the group then."""
    topics = TOPICS | given.pop("topics", {})
    members = [member(name, host) | {"subscription": topics[name]} for name, host in who.items()]
    return rebalance(
        trigger, number, started, members=members, trigger_member=f"{by}-id", trigger_client_id=by, **given
    )


def comes_and_goes(stays: dict[str, str] = A, comes: dict[str, str] = B, **given: Any) -> list[Row]:
    """One joins twice, and leaves twice, while another one is there."""
    by, both = next(iter(comes)), stays | comes
    return [
        turn(1, 10, stays, next(iter(stays)), **given),
        turn(2, 20, both, by, unowned_ms=300.0, **given),
        turn(3, 30, stays, by, "member_left", **given),
        turn(4, 40, both, by, **given),
        turn(5, 50, stays, by, "member_left", **given),
    ]


def test_one_comes_and_goes_while_the_other_is_there() -> None:
    storm = finding("rebalance_storm", "group shop", "t", 20, 50)
    one = only(rebalances=comes_and_goes(), findings=[storm])
    assert (one.kind, one.severity, one.certainty) == ("group_shared", "warning", "likely")
    assert names(one) == ["shop", "c1", "c2", "orders", "payments"]
    assert (seconds(one.started), seconds(one.ended)) == (20, 50)
    assert one.headline.startswith(
        f"group shop is used by 2 applications (c1 ({H1}) reads orders; c2 ({H2}) reads payments): from "
    )
    assert " on the members of one had to rebalance 4 times for what those of another did; 4 rebalances" in one.headline
    assert [(seen.text, seen.at) for seen in one.evidence[:2]] == [
        (f"member joined of c2, which reads payments: c1 ({H1}) read orders and had to rebalance as well", at(20)),
        (f"member left of c2, which reads payments: c1 ({H1}) read orders and had to rebalance as well", at(30)),
    ]
    assert one.findings == {storm["id"]}
    assert one.rebalances == {("shop", n) for n in (2, 3, 4, 5)}


def test_the_one_that_is_there_at_the_end_is_not_over() -> None:
    assert only(rebalances=comes_and_goes()[:-1]).ended is None


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (comes_and_goes(protocol="consumer"), True),
        (comes_and_goes(protocol="share"), False),  # its members divide records, not partitions
        (comes_and_goes(protocol="connect"), False),
        (comes_and_goes(topics={"c2": ["orders", "payments"]}), False),  # some of them alike
        (comes_and_goes(topics={"c2": []}), False),  # nobody knows which
        (comes_and_goes(topics={"c2": ["ord.*"]}), False),
        (comes_and_goes(topics={"c2": ["id:Z0x"]}), False),
        (comes_and_goes(comes={"c2": H1}), False),  # listeners of one process
        (comes_and_goes()[:3], False),  # it came once, and was there for a moment
        ([*comes_and_goes()[:3], turn(4, 40, A | B, "c2", topics={"c2": ["orders"]})], False),  # it changed its topics
    ],
)
def test_who_shares_and_who_does_not(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(rebalances=rows)] == ["group_shared"] * told


@pytest.mark.parametrize(("lasts", "told"), [(LONG, True), (LONG - 1, False)])
def test_both_are_there_for_long(lasts: float, told: bool) -> None:
    started = LASTS - lasts
    rows = [turn(1, 10, A, "c1"), turn(2, started, A | B, "c2")]
    assert [seconds(one.started) for one in found(rebalances=rows)] == [started] * told


def test_a_deployment_with_other_topics_is_none() -> None:
    """Of those that read the old topic one after the other goes, of those that read the new one comes."""
    old, new = {f"o{n}": f"10.0.2.{n}" for n in (1, 2, 3)}, {f"n{n}": f"10.0.3.{n}" for n in (1, 2, 3)}
    topics = {name: ["orders"] for name in old} | {name: ["orders-v2"] for name in new}
    there, rows, number = dict(old), [turn(1, 1, old, "o1", topics=topics)], 1
    for gone, come in zip(old, new, strict=True):
        there[come] = new[come]
        rows.append(turn(number := number + 1, 50 * number, there, come, topics=topics))
        del there[gone]
        rows.append(turn(number := number + 1, 50 * number - 25, there, gone, "member_left", topics=topics))
    assert not found(rebalances=rows)  # to its end
    assert not found(rebalances=rows[:-1])
    assert not found(rebalances=rows[:4])  # and amid it
    single = [turn(1, 1, A, "c1"), turn(2, 10, A | B, "c2"), turn(3, 10 + LONG, B, "c1", "member_left")]
    assert not found(rebalances=single)
    assert found(rebalances=single[:-1])


def test_three_applications_and_more_than_are_looked_at() -> None:
    rows = [*comes_and_goes(A | C), turn(6, 60, A | B | C, "c2")]
    one = only(rebalances=rows)
    assert f"is used by 3 applications (c1 ({H1}) reads orders; c2 ({H2}) reads payments; c3 (10.0.1.3) reads" in (
        one.headline
    )
    assert f"c1 ({H1}); c3 (10.0.1.3) read orders, refunds and had to rebalance as well" in one.evidence[0].text
    many = {f"m{n:02}": f"10.0.4.{n}" for n in range(20)}
    topics = {name: [f"topic-{name}"] for name in many}
    crowd = [
        turn(n, 10 * n, {**many} if n % 2 else dict(list(many.items())[1:]), "m00", topics=topics) for n in range(1, 8)
    ]
    assert "is used by 20 applications (" in only(rebalances=crowd).headline
    assert "; and 17 more): from " in only(rebalances=crowd).headline


def test_what_nobody_else_had_to_do_with_is_no_disturbance() -> None:
    """Both are there, and only the coordinator's moves make them rebalance."""
    rows = [turn(n, 10 * n, A | B, "nobody", "coordinator_moved") for n in (1, 2, 3)]
    assert not found(rebalances=rows)


def apart(client: str = "c2", since: float = 20, until: float = 60, **given: Any) -> Row:
    title = f"{client} has the configuration up to offset -1: it joined again 99 times"
    return finding("configurations_apart", "group shop", title, since, until, client_ids=[client], weight=0.9) | given


def reads(host: str, topic: str | None, direction: str = "fetch") -> Row:
    return row("throughput", client=host, topic=topic, direction=direction)


WORKERS = [
    rebalance("member_joined", 1, 19, members=[member("c1"), member("c2", H2)], protocol="connect"),
    rebalance("session_timeout", 2, 30, members=[member("c1")], trigger_client_id="c2", protocol="connect"),
]
HOSTS = [connection(1, H1), connection(2, H2, client_id="c2")]


def test_two_clusters_of_connect_with_one_group_id() -> None:
    seen = [reads(H1, "one-config"), reads(H2, "two-config"), reads(H2, "two-config", "produce"), reads(H1, None)]
    storm = finding("rebalance_storm", "group shop", "t", 20, 50)
    one = only(rebalances=WORKERS, findings=[apart(), storm], throughput=seen, connections=HOSTS)
    assert (one.kind, one.severity, one.certainty) == ("group_shared", "critical", "likely")
    assert names(one) == ["shop", "c2", H2]
    assert (seconds(one.started), seconds(one.ended)) == (20, 60)
    assert one.headline.startswith("workers of Connect in group shop do not have one configuration, from ")
    assert (
        "it joined again 99 times, and reads two-config where the others read one-config; 1 rebalance" in one.headline
    )
    assert one.findings == {apart()["id"], storm["id"]}
    assert one.rebalances == {("shop", 2)}
    assert one.cost_ms == 40_000


@pytest.mark.parametrize("seen", [[], [("one", H1)], [("two", H2)], [("one", H1), ("one", H2), ("two", H2)]], ids=str)
def test_where_topics_do_not_tell_it_is_a_guess(seen: list[tuple[str, str]]) -> None:
    rows = [reads(host, topic) for topic, host in seen]
    one = only(rebalances=WORKERS, findings=[apart()], throughput=rows, connections=HOSTS)
    assert one.certainty == "guessed"
    assert " where the others read " not in one.headline


def test_several_workers_of_one_group_are_one_incident() -> None:
    found_ = [apart(), apart("c3", 25, 70, id="b")]
    one = only(rebalances=WORKERS, findings=found_, connections=HOSTS)
    assert (seconds(one.started), seconds(one.ended)) == (20, 70)
    assert one.findings == {apart()["id"], "b"}
    assert names(one) == ["shop", "c2", H2, "c3"]
