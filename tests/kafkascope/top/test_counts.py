"""What the screen counts is what the tables have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kafkascope
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.engine import EngineOptions
from kafkascope.reading import Listening, Reading
from kafkascope.reports.columns.series import OTHERS
from kafkascope.sniffer.units import SECOND_NS
from kafkascope.top import counts as module
from kafkascope.top.counts import (
    APIS,
    BROKERS,
    CLIENTS,
    GROUPS,
    KINDS,
    SLOT_NS,
    SLOTS,
    TOPICS,
    WAITING,
    Counts,
    Row,
    follow,
    with_needed,
)
from tests.kafkascope.test_cli import begun_late
from tests.kafkascope.test_incident_watch import Replayed
from tests.kafkascope.test_reading import Dropping
from tests.paths import PCAPS

OPTIONS = with_needed(EngineOptions(tables=frozenset(), exchange_columns=frozenset(), views=frozenset()))
LAGGING = PCAPS / "lagging" / "capture.pcap.gz"
STORM = PCAPS / "rebalance-storm" / "capture.pcap"


def counted(path: Path) -> Counts:
    return counted_with(path, DEFAULT)[0]


def counted_with(path: Path, limits: Limits) -> tuple[Counts, list[str]]:
    """What is counted, and what is remarked at the end."""
    counts = Counts(limits)
    with Reading([str(path)], OPTIONS, progress_bar=False) as reading:
        follow(reading, counts)
        return counts, list(reading.remarks())


def rows_of(counts: Counts, kind: str) -> dict[str, Row]:
    rows = counts.rows(kind)
    assert len({row.name for row in rows}) == len(rows)
    return {row.name: row for row in rows}


def test_sums_are_those_of_the_tables() -> None:
    counts, cap = counted(LAGGING), kafkascope.read(LAGGING)
    exchanges, errors, partitions = cap.exchanges, cap.errors, cap.partitions
    for kind in (BROKERS, CLIENTS, APIS):
        rows = counts.rows(kind)
        assert sum(row.in_all.exchanges for row in rows) == len(exchanges)
        assert sum(row.in_all.request_bytes for row in rows) == exchanges.request_bytes.sum()
        assert sum(row.in_all.response_bytes for row in rows) == exchanges.response_bytes.sum()
        assert sum(row.in_all.errors for row in rows) == len(errors) > 0
    assert {name: row.in_all.exchanges for name, row in rows_of(counts, APIS).items()} == Counter(exchanges.api)
    clients: Counter[str] = Counter()
    for name, row in rows_of(counts, CLIENTS).items():
        clients[name.rpartition(" ")[0]] += row.in_all.exchanges
    assert clients == Counter(exchanges.client_id)
    groups = {name: row.in_all.exchanges for name, row in rows_of(counts, GROUPS).items()}
    assert groups == Counter(exchanges.group_id.dropna())
    orders = rows_of(counts, TOPICS)["orders"]
    for way, api in (("produced", "Produce"), ("fetched", "Fetch")):
        of_api = partitions[(partitions.api == api) & (partitions.topic == "orders")]
        assert getattr(orders.in_all, f"{way}_records") == of_api.records.sum() > 0
        assert getattr(orders.in_all, f"{way}_bytes") == of_api.bytes.sum()
    last = cap.lag("shop").groupby("partition").tail(1)
    assert rows_of(counts, GROUPS)["shop"].lag == last.lag.sum() > 0
    assert orders.lag == last.lag.sum()
    detail = counts.detail(GROUPS, "shop")
    assert detail is not None
    assert detail.lags == (("orders", last.lag.sum()),)
    assert counts.packets == 858


def test_the_window_is_the_latest_minute() -> None:
    counts, exchanges = counted(STORM), kafkascope.read(STORM).exchanges
    done = exchanges.response_done.fillna(exchanges.request_done).astype("int64")
    first = (counts.now // SLOT_NS - SLOTS + 1) * SLOT_NS
    latest = exchanges[done >= first]
    assert 0 < len(latest) < len(exchanges)
    (row,) = [row for row in counts.rows(APIS) if row.name == "Heartbeat"]
    assert row.window.exchanges == (latest.api == "Heartbeat").sum()
    assert row.in_all.exchanges == (exchanges.api == "Heartbeat").sum()
    assert row.seconds == (counts.now - first) / SECOND_NS
    assert row.per_second(row.window.exchanges) == row.window.exchanges / row.seconds
    later = counts.rows(APIS, now=counts.now + 120 * SECOND_NS)
    assert sum(row.window.exchanges for row in later) == 0
    assert sum(row.in_all.exchanges for row in later) == len(exchanges)
    assert all(row.p99_ms is None for row in later)


def test_percentiles_are_those_of_exchanges_that_do_not_wait() -> None:
    counts, exchanges = counted(LAGGING), kafkascope.read(LAGGING).exchanges
    exchanges = exchanges[exchanges.response_done.astype("int64") >= (counts.now // SLOT_NS - SLOTS + 1) * SLOT_NS]
    (row,) = counts.rows(BROKERS)
    prompt = exchanges[~exchanges.api.isin(WAITING)].latency_ms.dropna()
    assert row.median_ms == pytest.approx(np.quantile(prompt, 0.5, method="inverted_cdf"), rel=0.011)
    assert row.p99_ms == pytest.approx(np.quantile(prompt, 0.99, method="inverted_cdf"), rel=0.011)
    detail = counts.detail(BROKERS, row.name)
    assert detail is not None
    assert {of.api: of.exchanges for of in detail.apis} == Counter(exchanges.api)
    for of in detail.apis:
        latency = exchanges[exchanges.api == of.api].latency_ms.dropna()
        assert of.p99_ms == pytest.approx(np.quantile(latency, 0.99, method="inverted_cdf"), rel=0.011, abs=0.002)


def test_errors_have_names() -> None:
    counts, errors = counted(STORM), kafkascope.read(STORM).errors
    for kind, column in ((BROKERS, "broker"), (GROUPS, "group_id"), (APIS, "api")):
        names = errors[column].dropna().unique()
        assert len(names), kind
        for name in names:
            detail = counts.detail(kind, name)
            assert detail is not None
            assert dict(detail.errors) == Counter(errors[errors[column] == name].error)


def test_topics_that_were_counted_by_id_go_by_their_names_once_these_are_told(tmp_path: Path) -> None:
    counts, file = Counts(), begun_late(tmp_path)
    follow(Listening(Replayed(str(file), 60_000), OPTIONS), counts)  # type: ignore[arg-type]
    cap = kafkascope.read(file)
    rows, fetched = rows_of(counts, TOPICS), cap.partitions[cap.partitions.api == "Fetch"]
    assert {name for name in rows if name.startswith("id:")} == set()
    for name, of_topic in fetched.groupby("topic"):
        assert rows[str(name)].in_all.fetched_records == of_topic.records.sum()
        assert rows[str(name)].in_all.fetched_bytes == of_topic.bytes.sum()
    assert fetched.records.sum() > 0
    errors = {name: row.in_all.errors for name, row in rows.items() if row.in_all.errors}
    assert errors == Counter(cap.errors.topic.dropna())
    for name in {name for name, row in rows.items() if row.in_all.errors}:
        detail = counts.detail(TOPICS, name)
        assert detail is not None
        assert dict(detail.errors) == Counter(cap.errors[cap.errors.topic == name].error)


def test_rebalances_are_counted_and_kept() -> None:
    counts = Counts()
    source = Replayed(str(STORM), 20_000)
    follow(Listening(source, OPTIONS), counts)  # type: ignore[arg-type]
    rebalances = kafkascope.read(STORM).rebalances
    settled = sum(row.in_all.rebalances for row in counts.rows(GROUPS))
    assert settled == len(rebalances) > 0
    (name,) = rebalances.group_id.unique()
    detail = counts.detail(GROUPS, name)
    assert detail is not None
    assert len(detail.rebalances) == settled
    assert {one.trigger for one in detail.rebalances} <= set(rebalances.trigger)
    assert [one.at for one in detail.rebalances] == sorted((one.at for one in detail.rebalances), reverse=True)


def test_rows_are_bounded_and_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ERRORS_PER_ROW", 0)
    monkeypatch.setattr(module, "MOST_CELLS", 0)
    (counts, remarks), cap = counted_with(STORM, Limits(rows=2)), kafkascope.read(STORM)
    assert any("(--limit rows=2)" in remark for remark in remarks)
    for kind in (BROKERS, CLIENTS, APIS):
        rows = counts.rows(kind)
        assert len(rows) <= 3
        assert sum(row.in_all.exchanges for row in rows) == len(cap.exchanges)
        assert sum(row.in_all.errors for row in rows) == len(cap.errors)
        details = [counts.detail(kind, row.name) for row in rows]
        assert sum(count for one in details if one for _, count in one.errors) == len(cap.errors)
    assert rows_of(counts, APIS)[OTHERS].in_all.exchanges > 0


def test_rows_that_are_silent_make_room() -> None:
    counts, _ = counted_with(LAGGING, Limits(rows=1))
    (before, *_) = (row.name for row in counts.rows(CLIENTS) if row.name != OTHERS)
    in_all = sum(row.in_all.exchanges for row in counts.rows(CLIENTS))
    (silent,) = counts.rows(CLIENTS, now=counts.now + 120 * SECOND_NS)
    assert (silent.name, silent.in_all.exchanges) == (OTHERS, in_all)
    assert counts.detail(CLIENTS, before) is None


def test_what_is_lost_counts() -> None:
    counts = Counts()
    follow(Listening(Dropping(), OPTIONS), counts)
    assert counts.lost == {"kernel_drops": 7}


def test_nothing_yet() -> None:
    counts = Counts()
    assert all(counts.rows(kind) == [] for kind in KINDS)
    assert counts.detail(GROUPS, "shop") is None


def test_needed_columns_are_added_to_those_wanted() -> None:
    assert with_needed(EngineOptions()).exchange_columns is None
    wanted = replace(OPTIONS, exchange_columns=frozenset({"issue"}))
    assert {"issue", "latency_ms"} <= (with_needed(wanted).exchange_columns or set())
