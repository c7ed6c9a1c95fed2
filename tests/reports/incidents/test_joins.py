"""Members that may not join."""

from __future__ import annotations

import pytest

from tests.reports.incidents.tables_of import (
    CLIENT,
    H1,
    H2,
    connection,
    finding,
    found,
    names,
    only,
)


@pytest.mark.parametrize("kind", ["join_refused", "no_common_assignor", "instance_id_shared"])
def test_joins_that_trying_again_does_not_mend(kind: str) -> None:
    rows = [
        finding(kind, "group shop", "c1 is refused 4 times", 20, 30, client_ids=["c1"]),
        finding(kind, "group b", "so are others", 9, 9, client_ids=["c2", "c1"]),
    ]
    incidents = found(findings=rows, connections=[CLIENT, connection(2, H2, client_id="c2")])
    assert {one.kind for one in incidents} == {"join_refused"}
    of_shop = next(one for one in incidents if "shop" in names(one))
    assert (of_shop.severity, names(of_shop)) == ("critical", ["c1", H1, "shop"])
    assert of_shop.headline.endswith(" on: c1 is refused 4 times")
    assert of_shop.findings == {f"{kind} group shop"}
    of_b = next(one for one in incidents if one is not of_shop)
    assert names(of_b) == ["c1", H1, "c2", H2, "b"]


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
