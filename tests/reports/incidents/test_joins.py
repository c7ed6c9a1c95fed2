"""Members that may not join."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    CLIENT,
    H1,
    H2,
    Row,
    connection,
    error,
    finding,
    found,
    names,
    only,
    rebalance,
    seconds,
)


@pytest.mark.parametrize("kind", ["join_refused", "no_common_assignor", "instance_id_shared"])
def test_joins_that_trying_again_does_not_mend(kind: str) -> None:
    rows = [
        finding(kind, "group shop", "c1 is refused 4 times", 20, 30, client_ids=["c1"], severity="critical"),
        finding(kind, "group b", "so are others", 9, 9, client_ids=["c2", "c1"]),
    ]
    incidents = found(findings=rows, connections=[CLIENT, connection(2, H2, client_id="c2")])
    assert {one.kind for one in incidents} == {"join_refused"}
    of_shop = next(one for one in incidents if "shop" in names(one))
    assert (of_shop.severity, names(of_shop)) == ("critical", ["c1", H1, "shop"])
    assert of_shop.headline.endswith(" on: c1 is refused 4 times")
    assert of_shop.findings == {f"{kind} group shop"}
    of_b = next(one for one in incidents if one is not of_shop)
    assert (of_b.severity, names(of_b)) == ("warning", ["c1", H1, "c2", H2, "b"])


def test_a_group_that_refuses_somebody_of_whom_no_name_is_known() -> None:
    one = only(findings=[finding("join_refused", "group shop", "clients are refused", 20, 30)])
    assert one.headline.startswith("group shop refuses clients from")


def test_their_commits_are_refused_for_the_same_reason() -> None:
    shared = finding(
        "instance_id_shared", "group shop", "c1 and c2 have one instance id", 20, 30, client_ids=["c1", "c2"]
    )
    commits = [
        finding("commit_refused", f"group {group}", "t", 21, 22, client_ids=[name], id=f"{group} {name}")
        for group, name in (("shop", "c1"), ("shop", "c3"), ("pay", "c1"))
    ]
    assert only(findings=[shared, *commits]).findings == {shared["id"], "shop c1"}


def unstored(api: str, first: float, last: float, count: int, group: str | None = "shop", **given: Any) -> Row:
    return error("UNKNOWN_SERVER_ERROR", api, first, last, count, group_id=group, **given)


def test_a_group_that_its_coordinator_cannot_store() -> None:
    rows = [unstored("SyncGroup", 20, 29, 2), unstored("JoinGroup", 30, 31, 1, client_id="c2")]
    begun = [
        rebalance("member_joined", 1, 19),
        *(rebalance("assignment_not_stored", n, 19 + n) for n in (2, 3, 4)),
        rebalance("assignment_not_stored", 2, 25, group="other"),
        rebalance("assignment_not_stored", 5, None),
    ]
    loop = finding("error_loop", f"client c1 ({H1})", "t", 20, 29)
    one = only(error_histogram=rows, rebalances=begun, findings=[loop], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("join_refused", "critical", "likely")
    assert names(one) == ["shop", "c1", H1, "c2"]
    assert (seconds(one.started), seconds(one.ended)) == (20, 31)
    assert one.headline.startswith("the coordinator cannot store group shop, from ")
    assert ": JoinGroup, SyncGroup of c1, c2 answered UNKNOWN_SERVER_ERROR 3 times, " in one.headline
    assert one.rebalances == {("shop", n) for n in (2, 3, 4)}
    assert one.findings == {loop["id"]}
    assert [effect.text for effect in one.effects][:2] == ["no assignment in all that time", "3 rebalances"]
    assert one.cost_ms == 22_000


@pytest.mark.parametrize(
    "row",
    [
        unstored("SyncGroup", 20, 21, 2),
        unstored("SyncGroup", 20, 21, 3, group=None),
        unstored("Heartbeat", 20, 21, 3),
        unstored("SyncGroup", 20, 21, 3) | {"error": "COORDINATOR_NOT_AVAILABLE"},
    ],
)
def test_errors_that_tell_nothing_of_that(row: Row) -> None:
    assert not [one for one in found(error_histogram=[row]) if one.kind == "join_refused"]


def test_heartbeats_of_the_new_protocols_tell_it_as_well() -> None:
    assert only(error_histogram=[unstored("StreamsGroupHeartbeat", 20, 21, 3)]).kind == "join_refused"
