from __future__ import annotations

from typing import Any

from kafkascope.reports.answers.lanes import lanes
from kafkascope.reports.groups.history import Member, Rebalance, Unowned


def member(member_id: str, joined: int, synced: int | None, owns: list[str] | None, **known: Any) -> Member:
    return Member(member_id, joined=joined, synced=synced, assignment=owns, **known)


def generation(number: int, at: int, *members: Member, unowned: tuple[str, ...] = ()) -> Rebalance:
    gaps = [Unowned(partition, at, 1.0) for partition in unowned]
    return Rebalance("g", "classic", number, started=at, stable=at + 10, members=list(members), unowned=gaps)


def test_a_process_that_comes_back_keeps_its_lane() -> None:
    rows = [
        generation(1, 0, member("a-1", 1, 10, ["t-0"], client_id="a"), member("b-1", 2, 10, ["t-1"], client_id="b")),
        generation(2, 100, member("b-1", 101, 110, ["t-0", "t-1"], client_id="b")),
        generation(
            3, 200, member("b-1", 201, 210, ["t-1"], client_id="b"), member("a-2", 202, 211, ["t-0"], client_id="a")
        ),
    ]
    drawn = lanes(rows)
    assert drawn.names == ["a", "b"]
    assert [(bar.rebalance, bar.lane) for bar in drawn.bars] == [(0, 0), (0, 1), (1, 1), (2, 1), (2, 0)]


def test_members_that_share_a_client_id_are_told_apart_by_host_and_then_by_id() -> None:
    same = {"client_id": "app"}
    rows = [
        generation(
            1,
            0,
            member("app-1111111111", 1, 10, [], host="10.0.0.1", **same),
            member("app-2222222222", 1, 10, [], host="10.0.0.2", **same),
            member("app-3333333333", 1, 10, [], host="10.0.0.2", **same),
            member("other-4", 1, 10, [], client_id="other"),
        )
    ]
    assert lanes(rows).names == ["app 10.0.0.1", "app 10.0.0.2 …22222222", "app 10.0.0.2 …33333333", "other"]


def test_an_instance_id_names_its_lane_whatever_the_process() -> None:
    rows = [
        generation(1, 0, member("x", 1, 10, [], client_id="c1", instance_id="i-1")),
        generation(2, 50, member("y", 51, 60, [], client_id="c2", instance_id="i-1")),
    ]
    assert lanes(rows).names == ["i-1"]


def test_eager_members_own_until_they_join_again_and_cooperative_ones_go_on() -> None:
    before = generation(1, 0, member("a", 1, 10, ["t-0", "t-1"]), member("b", 2, 12, ["t-2"]))
    eager = generation(2, 100, member("a", 105, 120, ["t-0"]), member("b", 106, 121, ["t-2"]), unowned=("t-0", "t-2"))
    kept = generation(2, 100, member("a", 105, 120, ["t-0"]), member("b", 106, 121, ["t-2"]), unowned=("t-1",))
    assert [(bar.begin, bar.end) for bar in lanes([before, eager]).bars[:2]] == [(10, 105), (12, 106)]
    assert [(bar.begin, bar.end) for bar in lanes([before, kept]).bars[:2]] == [(10, 120), (12, 121)]


def test_a_member_that_joined_once_owns_until_the_epoch_that_takes_all_from_it() -> None:
    before = generation(7, 0, member("a", -500, 10, ["t-0"]), member("b", -400, 12, ["t-1"]))
    after = generation(8, 100, member("a", -500, 120, ["u-0"]), member("b", -400, 121, ["t-0", "t-1"]))
    assert [(bar.begin, bar.end) for bar in lanes([before, after]).bars[:2]] == [(10, 100), (12, 121)]


def test_a_member_that_is_gone_owns_until_the_next_rebalance_began() -> None:
    rows = [generation(1, 0, member("a", 1, 10, ["t-0"])), generation(2, 100, member("b", 101, 110, ["t-0"]))]
    assert [bar.end for bar in lanes(rows).bars] == [100, None]


def test_no_bar_ends_before_it_begins() -> None:
    rows = [generation(1, 0, member("a", 1, 200, ["t-0"])), generation(2, 100, member("b", 101, 210, ["t-0"]))]
    assert [(bar.begin, bar.end) for bar in lanes(rows).bars] == [(200, 200), (210, None)]


def test_who_never_got_an_assignment_has_no_bar() -> None:
    assert [bar.begin for bar in lanes([generation(1, 0, member("a", 1, None, None))]).bars] == [None]
