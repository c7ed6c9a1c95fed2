"""Streams applications that end altogether."""

from __future__ import annotations

import pytest

from tests.reports.incidents.tables_of import H1, LASTS, Row, connection, finding, names, only, rebalance, seconds

ENDED = finding(
    "application_shut_down",
    "group counts",
    "s1 met a fatal error and had the whole application shut down",
    100,
    102,
    client_ids=["s1", "s2"],
)
LEFT = [rebalance("member_left", n, 99 + n, group="counts") for n in range(3)]


def test_an_application_that_one_instance_ends() -> None:
    storm = finding("rebalance_storm", "group counts", "t", 100, 101)
    one = only(findings=[ENDED, storm], rebalances=LEFT, connections=[connection(1, client_id="s1")])
    assert (one.kind, one.severity, one.certainty, one.ended) == ("application_stopped", "critical", "certain", None)
    assert names(one) == ["counts", "s1", H1, "s2"]
    assert seconds(one.started) == 100
    assert one.headline.endswith(
        ": s1 met a fatal error and had the whole application shut down; nobody did its work for 3 min 20 s; "
        "2 rebalances"
    )
    assert one.cost_ms == (LASTS - 100) * 1000
    assert one.rebalances == {("counts", 1), ("counts", 2)}
    assert one.findings == {ENDED["id"], storm["id"]}


@pytest.mark.parametrize(
    ("row", "ended"),
    [
        (rebalance("member_joined", 9, 130, group="counts"), 130),
        (rebalance("member_joined", 9, 107, group="counts"), None),  # it was just ending
        (rebalance("member_left", 9, 130, group="counts"), None),
        (rebalance("member_joined", 9, 130, group="other"), None),
    ],
)
def test_it_is_over_when_somebody_starts_it_again(row: Row, ended: float | None) -> None:
    one = only(findings=[ENDED], rebalances=[*LEFT, row])
    assert seconds(one.ended) == ended
    assert ("; it was started again at " in one.headline) == (ended is not None)
