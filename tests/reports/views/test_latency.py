"""What exchanges were spent on, on captures of which it is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkascope.reports.columns import series
from kafkascope.reports.columns.series import OTHERS
from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures.latency import counts, parts
from kafkascope.reports.measures.latency.histogram import ERROR
from kafkascope.reports.views.latency import LatencyView
from kafkascope.reports.vocabulary.tables import LATENCY
from tests.paths import PCAPS
from tests.reports.captured_tables import captured, observed

MILLISECOND = 1_000_000
PHASES = json.loads((PCAPS / "net_fetch_latency" / "truth.json").read_text())["phases"]
CAUSES = {"long_poll_wait": parts.WAITING, "throttled": parts.THROTTLED, "slow": parts.SLOW}


def table_of(rows: pa.Table) -> pa.Table:
    return LatencyView().result(rows, Known())["latency"]


def of_capture(capture: str) -> pa.Table:
    return table_of(observed(LatencyView(), capture))


def latency(*args: Any, **given: Any) -> pd.DataFrame:
    frame: pd.DataFrame = counts.latency(*args, **given).to_pandas()
    return frame


def by_cells(rows: pa.Table) -> pd.DataFrame:
    """A row for each cell, its part by name."""
    cells = pd.json_normalize(rows["cells"].combine_chunks().flatten().to_pylist())
    of_row = pc.list_parent_indices(rows["cells"].combine_chunks())
    names: pd.DataFrame = rows.drop_columns("cells").take(of_row).to_pandas()
    return names.join(cells).assign(part=[sorted(parts.PARTS)[part] for part in cells.part])


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase["name"])
def test_each_phase_is_put_down_to_its_cause(phase: dict[str, Any]) -> None:
    rows = by_cells(observed(LatencyView(span=5 * MILLISECOND), "net_fetch_latency"))
    at = rows["from"].astype("int64")
    mine = rows[
        (rows.client_id == phase["client_id"])
        & rows.api.isin(["Fetch", "Produce"])
        & rows.topic.isna()
        & (at >= phase["start_ms"] * MILLISECOND)
        & (at < phase["end_ms"] * MILLISECOND)
    ]
    spent = mine.groupby("part").sum_ns.sum()
    assert mine[mine.part == parts.TOTAL]["count"].sum() >= 5
    if phase["expect"] == "fast":
        assert mine[mine.part == parts.TOTAL].max_ns.max() < 10 * MILLISECOND
        assert set(spent.index) <= {parts.TOTAL, parts.SLOW, *parts.OF_SLOW, parts.TRANSFER, parts.APPLICATION}
        return
    causes = spent.drop([parts.TOTAL, parts.APPLICATION, *parts.OF_SLOW], errors="ignore")
    assert causes.idxmax() == CAUSES[phase["expect"]]
    assert causes.max() > 0.8 * causes.sum(), dict(causes)
    if "delay_ms" in phase or "pause_ms" in phase:
        expected = phase.get("delay_ms") or phase["pause_ms"]
        assert mine[mine.part == parts.SLOW].max_ns.max() > 0.7 * expected * MILLISECOND
        # On the wire acknowledgements took as long, which a host may hold back as well: nobody can tell.
        share = spent[parts.BROKER] / spent[parts.SLOW]
        assert share > 0.8 if "pause_ms" in phase else share < 0.01
    if "fetch_max_wait_ms" in phase:
        assert mine[mine.part == parts.WAITING].max_ns.max() == phase["fetch_max_wait_ms"] * MILLISECOND


def test_parts_make_up_the_total() -> None:
    whole = latency(of_capture("mixed-versions"), ["api", "part"])
    sums, numbers = (whole.pivot(index="api", columns="part", values=name) for name in ("sum_ms", "count"))
    sums = sums.fillna(0)
    of_totals = sums.drop(columns=[parts.TOTAL, parts.APPLICATION, *parts.OF_SLOW]).sum(axis="columns")
    assert np.allclose(of_totals, sums[parts.TOTAL])  # nothing was throttled here, so nothing lies between exchanges
    assert (numbers[parts.SLOW] == numbers[parts.TOTAL]).all()
    assert np.allclose(sums[list(parts.OF_SLOW)].sum(axis="columns"), sums[parts.SLOW])


def test_members_who_wait_for_others_are_not_slow() -> None:
    whole = latency(of_capture("mixed-versions"), ["api", "part"]).set_index(["api", "part"]).to_dict("index")
    assert whole["JoinGroup", "waiting"]["sum_ms"] > 10 * whole["JoinGroup", "slow"]["sum_ms"]
    assert whole["SyncGroup", "waiting"]["count"] > 0
    assert ("Heartbeat", "waiting") not in whole


def test_the_table_counts_what_the_exchanges_say() -> None:
    tables, _ = captured("mixed-versions", LatencyView.needs)
    exchanges = tables["exchanges"].to_pandas()
    exchanges = exchanges[exchanges.request_done.notna() & exchanges.answered.notna()]
    took = (exchanges.response_done - exchanges.requested).dt.total_seconds() * 1000
    table = of_capture("mixed-versions")
    assert table.schema.equals(LATENCY)
    for by in (["api"], ["api", "api_version"], ["client_id"], ["api", "client_id"]):
        found = latency(table, by).set_index(by)
        exact = took.groupby([exchanges[name] for name in by])
        assert found["count"].to_dict() == exact.count().to_dict()
        for name, fraction in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)):
            at_rank = exact.apply(lambda values, f=fraction: np.sort(values)[int(np.ceil(f * len(values))) - 1])
            assert np.allclose(found[name], at_rank.reindex(found.index), rtol=ERROR * 1.01, atol=0.001)
        assert np.allclose(found["max"], exact.max().reindex(found.index))


def test_groupings_of_the_table() -> None:
    table = of_capture("net_fetch_latency")
    everything = latency(table, [])
    assert len(everything) == 1
    assert everything["count"][0] == latency(table, "api")["count"].sum() == latency(table, "from")["count"].sum()
    by_topic = latency(table, ["topic", "api"])
    assert set(by_topic.topic) == {"lat-busy", "lat-idle", "lat-slow"}
    assert by_topic[(by_topic.topic == "lat-slow") & (by_topic.api == "Produce")]["count"].tolist() == [160]
    acks = latency(table, ["acks"], part="throttled")
    assert acks["count"].tolist() == [9, 11]  # acks=-1, and null: the fetches
    assert latency(table.slice(0, 0), ["api"]).empty
    assert latency(table.slice(0, 0), []).empty
    with pytest.raises(ValueError, match="by: colour: not among api"):
        latency(table, ["api", "colour"])
    with pytest.raises(ValueError, match="part: fast: not among total"):
        latency(table, ["api"], part="fast")


def test_series_beyond_the_cap_are_counted_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = observed(LatencyView(), "mixed-versions")
    whole = latency(table_of(rows), ["api"])
    monkeypatch.setattr(series, "MOST_SERIES", 2)
    table = table_of(rows)
    shards = len(pc.unique(rows["shard"]))
    names = table.select(["api", "api_version", "client_id", "topic"]).filter(pc.not_equal(table["client_id"], OTHERS))
    assert names.group_by(names.column_names).aggregate([]).num_rows <= 2 * shards
    assert OTHERS in latency(table, ["client_id"]).client_id.tolist()
    assert latency(table, ["api"]).equals(whole)


def test_long_captures_have_longer_spans() -> None:
    rows = observed(LatencyView(), "mixed-versions")
    day = 86_400_000_000_000
    again = rows.set_column(
        rows.schema.get_field_index("from"),
        rows.schema.field("from"),
        pc.add(rows["from"].cast(pa.int64()), 40 * day).cast(rows.schema.field("from").type),
    )
    table = table_of(pa.concat_tables([rows, again]))
    over_time, everything = latency(table, ["from"]), latency(table_of(rows), [])
    assert len(over_time) == 2
    assert set(table["width_ms"].to_pylist()) == {43_200_000}
    assert over_time["count"].tolist() == [everything["count"][0]] * 2
