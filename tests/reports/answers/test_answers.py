from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import dataset as ds

from kafkascope.decoders.limits import Limits
from kafkascope.reports.answers import incident_timelines
from kafkascope.reports.answers.answers import Answers, answers
from kafkascope.reports.answers.coverage import facts
from kafkascope.reports.answers.latency import latency
from kafkascope.reports.measures.latency.histogram import ERROR
from kafkascope.reports.show.page.data import page_data
from kafkascope.reports.vocabulary.tables import LATENCY
from tests.reports.incidents.tables_of import dataset, health
from tests.reports.show.page.made_tables import (
    BEGIN,
    HOSTILE,
    SECOND,
    SUMMARY,
    everything,
    latency_row,
    tables_of,
    with_incidents,
)


@pytest.fixture(scope="module")
def found() -> Answers:
    return answers(everything(), SUMMARY)


def test_findings_are_in_order_of_weight(found: Answers) -> None:
    assert found.findings is not None
    assert [one.severity for one in found.findings.shown] == ["critical", "critical", "warning", "warning", "info"]
    assert found.findings.shown[0].evidence[0].packet == 4711
    assert found.findings.shown[0].since == BEGIN


def test_the_answers_span_the_capture(found: Answers) -> None:
    assert found.begin == BEGIN
    assert found.end == BEGIN + 600 * SECOND


def test_trouble_stands_apart_from_what_is_ordinary(found: Answers) -> None:
    assert found.errors is not None
    assert [(one.error, one.count) for one in found.errors.trouble] == [
        ("NOT_LEADER_OR_FOLLOWER", 45),
        ("COORDINATOR_LOAD_IN_PROGRESS", 2),
    ]
    assert [(one.error, one.count, one.reason) for one in found.errors.ordinary] == [
        ("REBALANCE_IN_PROGRESS", 10, "a member learns of a rebalance so")
    ]
    first = found.errors.trouble[0]
    assert (first.packet, sum(first.spans.values())) == (704, 45)
    assert first.where()[:2] == [("topic", "orders", 45), ("client", "orders-1", 27)]
    assert ("client", HOSTILE, 18) in first.where()


def test_lag_is_that_of_groups_and_of_clients_without_one(found: Answers) -> None:
    assert found.lag is not None
    assert [group.name for group in found.lag.groups] == ["orders-app", "group-1", "no group known, client orders-1"]
    worst = found.lag.groups[0]
    assert worst.highest == 15 * 40 + 3
    assert [one.name for one in worst.partitions] == ["orders-3", "orders-2", "orders-1", "orders-0"]
    assert max(worst.sums) == 4 * 15 * 40 + 6
    assert len(worst.times) == 30


def test_throughput_counts_each_request_of_a_topic_once(found: Answers) -> None:
    assert found.throughput is not None
    assert {(one.topic, one.direction) for one in found.throughput.flows} == {
        (topic, direction) for topic in ("orders", "payments") for direction in ("produce", "fetch")
    }
    flow = found.throughput.flows[0]
    assert flow.records == sum(100 + 10 * span for span in range(30))
    assert flow.ratio == 0.75
    assert flow.codecs == {"lz4": flow.batches}
    assert sum(found.throughput.rates[0].rates) * 10 == pytest.approx(flow.bytes)


def test_issues_are_summed_by_kind_and_explained(found: Answers) -> None:
    assert found.issues is not None
    assert [(one.kind, one.count) for one in found.issues] == [("kernel_drops", 17), ("tcp_gap", 3)]
    assert found.issues[1].packet == 99
    assert found.issues[1].weakens


def test_no_more_rebalances_are_on_the_page_than_its_limit(found: Answers) -> None:
    few = answers(everything(), SUMMARY, Limits(page_rows=2))
    assert found.groups is not None
    assert few.groups is not None
    assert sum(len(group.rebalances) for group in found.groups.shown) > 2
    assert sum(len(group.rebalances) for group in few.groups.shown) == 2
    assert few.groups.rebalances == found.groups.rebalances


def test_when_the_capture_has_nothing_is_told(found: Answers) -> None:
    assert found.remarks == {}
    rows = [health(1, "client", [time], []) for time in (10.0, 90.0)]
    remarks = answers({"tcp_health": dataset("tcp_health", rows)}, SUMMARY).remarks
    assert "(1 min 20 s)" in remarks["pause"]
    assert ("pause", remarks["pause"]) in facts(SUMMARY, remarks)


def test_every_answer_may_be_absent() -> None:
    nothing = answers({}, {})
    assert (nothing.findings, nothing.groups, nothing.latency, nothing.errors) == (None, None, None, None)
    assert (nothing.lag, nothing.throughput, nothing.issues) == (None, None, None)


def test_percentiles_of_many_spans_are_those_of_all_values() -> None:
    chance = np.random.default_rng(3)
    values = [chance.lognormal(2, 1, 400) for _ in range(9)]
    rows = [latency_row("Produce", None, "total", span, some) for span, some in enumerate(values)]
    rows += [latency_row("Produce", "orders", "total", span, some) for span, some in enumerate(values)]
    found = latency(tables_of(t=pa.Table.from_pylist(rows, schema=LATENCY))["t"])
    assert found is not None
    (api,) = found.apis
    together = np.sort(np.concatenate(values))
    assert api.total.count == len(together)
    assert api.total.sum_ms == pytest.approx(together.sum())
    assert api.total.highest == together.max()
    for fraction, shown in zip((0.5, 0.9, 0.99, 0.999), api.total.at, strict=True):
        true = together[int(np.ceil(fraction * len(together))) - 1]
        assert shown == pytest.approx(true, rel=2.1 * ERROR)
    (heat,) = found.heats
    assert heat.cells[:, 2].sum() == len(together)
    assert set(heat.cells[:, 0]) == set(range(9))
    for _, row, _ in heat.cells:
        assert found.row_ms(row) <= together.max()


def test_the_slowest_are_named_without_what_was_waited_for(found: Answers) -> None:
    assert found.latency is not None
    kinds = {(one.api, one.kind, one.name) for one in found.latency.slowest}
    assert ("Fetch", "topic", "orders") in kinds
    assert ("JoinGroup", "broker", "10.77.0.2:9092") in kinds
    assert {one.api for one in found.latency.applications} == {"Fetch"}
    fetch = next(one for one in found.latency.apis if one.api == "Fetch")
    assert fetch.parts["waiting"].sum_ms > 10 * fetch.parts["slow"].sum_ms


def test_a_name_with_a_nul_is_a_name() -> None:
    row = latency_row("Produce", None, "slow", 0, np.array([1.0])) | {"client_id": "a\x00b"}
    found = latency(tables_of(t=pa.Table.from_pylist([row], schema=LATENCY))["t"])
    assert found is not None
    assert "a\x00b" in {one.name for one in found.slowest}


@pytest.mark.parametrize("held", [3, 2_000])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (2, 3))])
def test_answers_do_not_depend_on_the_order_of_rows(held: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows of one group stay in their order: they are written together."""
    monkeypatch.setattr(incident_timelines, "_HELD", held)
    tables = with_incidents()
    random = np.random.default_rng(seed)

    def shuffled(name: str, table: ds.Dataset) -> ds.Dataset:
        rows = table.to_table()
        order = random.permutation(rows.num_rows)
        if name in ("rebalances", "group_events"):
            groups = rows["group_id"].combine_chunks().dictionary_encode()
            order = np.argsort(random.permutation(len(groups.dictionary))[groups.indices.to_numpy()], kind="stable")
        parts = [pa.array(order[first : first + 5]) for first in range(0, len(order), 5)]
        return ds.dataset([rows.take(part) for part in parts], schema=rows.schema) if parts else table

    other = {name: shuffled(name, table) for name, table in tables.items()}
    assert page_data(answers(other, SUMMARY)) == page_data(answers(tables, SUMMARY))
