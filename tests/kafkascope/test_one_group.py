"""What a notebook can ask of a capture: its groups, and why they rebalanced; latency, errors, lag, throughput."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import kafkascope
from kafkascope.answering import Answering
from kafkascope.capture import Capture
from kafkascope.groups import Group
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS
from tests.paths import PCAPS

HOSTILE = "<img src=x onerror=alert(1)>&"


@cache
def story(name: str) -> Capture:
    capture = kafkascope.read(PCAPS / name / "capture.pcap")
    assert isinstance(capture, Capture)
    return capture


class Nothing(Answering):
    """The answers to a capture that has no group."""

    def __init__(self) -> None:
        names = ("rebalances", "group_events", "findings")
        self._tables = {name: ALL_SCHEMAS[name].empty_table() for name in names}

    def arrow(self, name: str, where: Any = None, columns: Any = None) -> pa.Table:
        table = self._tables[name] if where is None else self._tables[name].filter(where)
        return table if columns is None else table.select(columns)

    def _has(self, name: str) -> bool:
        return name in self._tables

    def _contents_html(self) -> str:
        return ""

    def _headline(self) -> str:
        return ""


class Hostile(Nothing):
    """The answers to a capture whose names would be markup."""

    def __init__(self) -> None:
        super().__init__()
        capture = story("killed-silent")
        for name in ("rebalances", "group_events", "findings"):
            table = capture.arrow(name)
            for column in ("group_id", "title"):
                if column in table.column_names:
                    named = pa.array([HOSTILE] * len(table), pa.string())
                    table = table.set_column(table.column_names.index(column), column, named)
            self._tables[name] = table


def test_a_group_has_its_rows_of_each_table() -> None:
    capture = story("kip848")
    for group_id in ("next", "ranged"):
        group = capture.group(group_id)
        assert set(group.rebalances.group_id) == {group_id}
        assert set(group.events.group_id) == {group_id}
        assert len(group.rebalances) == (capture.rebalances.group_id == group_id).sum() > 0
        assert len(group.events) == (capture.group_events.group_id == group_id).sum() > 0
        assert group.rebalances.started.is_monotonic_increasing
    assert list(capture.group("next").findings.kind) == ["member_lost"]
    assert list(capture.group("ranged").findings.kind) == []


def test_lists_of_structures_have_whole_numbers_and_times() -> None:
    evidence = story("rebalance-storm").rebalances.evidence.iloc[1]
    assert isinstance(evidence[0]["packet"], int)
    assert isinstance(evidence[0]["at"], pd.Timestamp)
    member = story("rebalance-storm").rebalances.members.iloc[0][0]
    assert member["assignment"] == ["jobs-0", "jobs-3"]
    assert member["session_timeout_ms"] == 6000


def test_a_group_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"orders: groups of the capture are \['next', 'ranged'\]"):
        story("kip848").group("orders")


def test_a_generation_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(KeyError, match="pay: no generation 77; those of the capture are 1, 2, 3, 4, 5"):
        story("killed-silent").group("pay").explain(77)


def test_without_a_rebalance_there_is_nothing_to_explain() -> None:
    capture = story("killed-silent")
    events = capture.arrow("group_events")
    group = Group("pay", ALL_SCHEMAS["rebalances"].empty_table(), events, ALL_SCHEMAS["findings"].empty_table())
    with pytest.raises(KeyError, match="no rebalance"):
        group.explain()
    assert "0 rebalances" in repr(group)
    assert "0 rebalances" in group._repr_html_()
    assert group.timeline().layout.title.text == "no rebalance was seen"


def test_without_a_generation_the_last_is_explained() -> None:
    group = story("killed-silent").group("pay")
    assert str(group.explain()) == str(group.explain(5))
    assert str(group.explain()).startswith("Group pay, generation 4 → 5")
    assert repr(group.explain()) == str(group.explain())  # a notebook shows lines


@pytest.mark.parametrize(
    ("name", "group_id", "generation", "texts"),
    [
        (
            "rebalance-storm",
            "storm",
            2,
            [
                "Trigger: poll_timeout, c2 (certain)",
                "packet 835: LeaveGroup of c2",
                "While it was open:",
                "packet 895: poll_timeout, c3",
                "2 members:",
                "leader",
                "has jobs 0-1,3, had jobs 0,3",
                "Without owner: 4 partitions",
                "Read a second time: 65 records",
            ],
        ),
        (
            "killed-silent",
            "pay",
            2,
            ["Trigger: session_timeout, c3 (likely)", "packet 668:", "2 members:", "c1: 10.77.3.13", "had orders 0-1"],
        ),
        (
            "kip848",
            "next",
            6,
            [
                "Group next, epoch 5 → 6 (consumer protocol)",
                "session_timeout, c2 (likely)",
                "packet 2606:",
                "2 members:",
            ],
        ),
    ],
)
def test_explanations_have_trigger_certainty_packets_and_members(
    name: str, group_id: str, generation: int, texts: list[str]
) -> None:
    told = str(story(name).group(group_id).explain(generation))
    for text in texts:
        assert text in told, text


def test_every_rebalance_of_a_group_can_be_explained() -> None:
    for name in ("rebalance-storm", "killed-silent", "kip848"):
        capture = story(name)
        assert len(capture.rebalances), name
        for row in capture.rebalances.to_dict("records"):
            told = str(capture.group(row["group_id"]).explain(row["to_generation"]))
            assert f"Trigger: {row['trigger']}" in told
            assert f"({row['certainty']})" in told


def test_the_timeline_has_a_lane_for_each_member() -> None:
    figure = story("killed-silent").group("pay").timeline()
    assert {"c1", "c2", "c3"} <= {*figure.layout.yaxis.categoryarray}


def test_a_group_shows_itself() -> None:
    group = story("killed-silent").group("pay")
    assert repr(group) == f"<Group pay: 5 rebalances, {len(group.events)} events>"
    shown = group._repr_html_()
    assert "session_timeout" in shown
    assert "<table" in shown


def test_names_of_a_capture_are_no_markup() -> None:
    capture = Hostile()
    for shown in (capture.group(HOSTILE)._repr_html_(), capture._repr_html_()):
        assert "<img" not in shown
        assert "&lt;img src=x onerror=alert(1)&gt;&amp;" in shown


def test_a_capture_shows_findings_and_groups_first() -> None:
    shown = story("rebalance-storm")._repr_html_()
    assert shown.index("Rebalance storm") < shown.index("storm (30)") < shown.index("<th>API</th>")
    healthy = story("net_vlan")._repr_html_()
    assert "<ol>" not in healthy
    assert "rebalances of groups: vlan-g (" in healthy


def test_without_findings_and_groups_nothing_is_shown_of_them() -> None:
    capture = Nothing()
    assert capture._repr_html_() == "<p></p>"
    with pytest.raises(KeyError, match=r"orders: groups of the capture are \[\]"):
        capture.group("orders")


def test_latency_by_what_one_wants() -> None:
    capture = story("rebalance-storm")
    times = capture.latency()
    assert list(times.columns) == ["api", "part", "count", "sum_ms", "p50", "p90", "p99", "p99.9", "max"]
    total = times[times.part == "total"].set_index("api")["count"]
    assert dict(total) == dict(capture.exchanges.dropna(subset="latency_ms").api.value_counts())
    joins = times[times.api == "JoinGroup"].set_index("part")
    assert joins.p50["waiting"] > 100 * joins.p90["slow"]  # the others are waited for, the broker is not slow
    application = capture.latency(by=["api", "client_id"], part="application")
    fetches = application[application.api == "Fetch"].set_index("client_id").p90
    assert fetches["c1"] < 100 < 3000 < min(fetches["c2"], fetches["c3"])
    with pytest.raises(ValueError, match="by: colour"):
        capture.latency(by="colour")


def test_errors_histogram_tells_trouble_from_what_is_ordinary() -> None:
    capture = story("rebalance-storm")
    errors = capture.errors_histogram()
    assert errors["count"].sum() == len(capture.errors) == 93
    by_name = errors.set_index("error")
    assert by_name.trouble["MEMBER_ID_REQUIRED"] == 0
    assert by_name.trouble["REBALANCE_IN_PROGRESS"] > 0
    assert errors.trouble.is_monotonic_decreasing
    by_client = capture.errors_histogram(by=["error", "client_id"])
    assert by_client["count"].sum() == 93
    assert {"c1", "c2", "c3"} <= {*by_client.client_id}


def test_lag_of_one_group() -> None:
    capture = story("rebalance-storm")
    lag = capture.lag("storm")
    assert {*lag.partition} == {*range(6)}
    worst = lag.groupby("partition").commit_stuck_ms.max()
    assert {partition for partition, stuck in worst.items() if stuck > 60_000} == {2, 4, 5}
    assert len(capture.lag()) == len(lag)  # it has this group alone
    assert capture.lag("orders").empty


def test_throughput_by_what_one_wants() -> None:
    capture = story("rebalance-storm")
    flows = capture.throughput().set_index("direction")
    assert flows.records["produce"] == capture.batches[capture.batches.direction == "produce"].records.sum()
    assert flows.records["fetch"] > 5 * flows.records["produce"]  # read again and again
    by_client = capture.throughput(by=["client_id", "direction"]).set_index("client_id")
    assert by_client.direction["p1"] == "produce"
