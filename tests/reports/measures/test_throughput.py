"""What was moved, against the batches and requests themselves."""

from __future__ import annotations

import math

import pandas as pd
import pyarrow as pa
import pytest

from kafkascope.reports.columns import series
from kafkascope.reports.columns.series import OTHERS
from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures import throughput as measured
from kafkascope.reports.views.throughput import ThroughputView
from kafkascope.reports.vocabulary.tables import THROUGHPUT
from tests.reports.captured_tables import captured, observed

MEASURES = ["batches", "records", "bytes", "bytes_uncompressed"]


def table_of(rows: pa.Table) -> pa.Table:
    return ThroughputView().result(rows, Known())["throughput"]


def of_capture(capture: str) -> pa.Table:
    return table_of(observed(ThroughputView(), capture))


def throughput(table: pa.Table, by: str | list[str]) -> pd.DataFrame:
    frame: pd.DataFrame = measured.throughput(table, by).to_pandas()
    return frame


@pytest.mark.parametrize("capture", ["transactions", "clients_codecs"])
def test_sums_are_those_of_the_batches(capture: str) -> None:
    tables, _ = captured(capture, ThroughputView.needs)
    batches = tables["batches"].to_pandas()
    batches = batches[batches.control != True]  # noqa: E712  (null is no marker)
    table = of_capture(capture)
    assert table.schema.equals(THROUGHPUT)
    table.validate(full=True)
    for by in (["direction"], ["topic", "direction"], ["codec"], ["topic", "codec"]):
        found = throughput(table, by).set_index(by).sort_index()
        exact = batches.groupby(by).agg(
            batches=("records", "size"), **{name: (name, "sum") for name in MEASURES if name != "batches"}
        )
        found = found[found["batches"] > 0]
        assert (found[MEASURES] == exact.sort_index()[MEASURES]).all(axis=None)
        single = batches[batches.records == 1].groupby(by).size()
        assert found.single_record_batches.to_dict() == single.reindex(found.index, fill_value=0).to_dict()
    everything = throughput(table, [])
    assert everything["bytes"].tolist() == [batches["bytes"].sum()]
    assert everything.compression_ratio[0] == pytest.approx(batches.bytes_uncompressed.sum() / batches["bytes"].sum())


def test_requests_are_counted_once_and_by_topic() -> None:
    tables, _ = captured("net_fetch_latency", ThroughputView.needs)
    exchanges = tables["exchanges"].to_pandas()
    table = of_capture("net_fetch_latency")
    by_direction = throughput(table, "direction").set_index("direction")
    assert by_direction.requests.to_dict() == {
        "produce": (exchanges.api == "Produce").sum(),
        "fetch": (exchanges.api == "Fetch").sum(),
    }
    by_client = throughput(table, ["client_id", "direction"]).set_index(["client_id", "direction"]).to_dict("index")
    idle = by_client["lat-idle-cons", "fetch"]
    assert idle["empty_share"] == 1.0
    fetches = (exchanges.client_id == "lat-idle-cons").mul(exchanges.api == "Fetch").sum()
    assert idle["requests"] == idle["empty"] == fetches
    # What a quota emptied is not idle: of the fetches of this client 11 were.
    assert by_client["lat-throttled", "fetch"]["empty"] <= 2
    assert math.isnan(idle["records_per_batch"])
    sent = by_client["lat-slow-prod", "produce"]
    assert [sent[name] for name in ("requests", "batches", "records", "records_per_batch")] == [160, 160, 160, 1.0]
    by_topic = throughput(table, ["topic", "direction"]).set_index(["topic", "direction"]).to_dict("index")
    assert by_topic["lat-slow", "produce"]["requests"] == 160
    assert by_topic["lat-slow", "fetch"]["records"] == 160


def test_series_beyond_the_cap_are_summed_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = observed(ThroughputView(), "clients_codecs")
    whole = throughput(table_of(rows), "direction")
    monkeypatch.setattr(series, "MOST_SERIES", 1)
    table = table_of(rows)
    assert throughput(table, "direction").equals(whole)
    assert OTHERS in throughput(table, "client_id").client_id.tolist()
    assert OTHERS in throughput(table, "topic").topic.tolist()


def test_groupings() -> None:
    table = of_capture("net_fetch_latency")
    over_time = throughput(table, ["from", "direction"])
    assert over_time["bytes"].sum() == throughput(table, [])["bytes"][0]
    assert over_time.bytes_per_second.sum() * 10 == pytest.approx(over_time["bytes"].sum())
    with pytest.raises(ValueError, match="by: partition: not among topic"):
        throughput(table, "partition")
    for by in ([], ["topic"], ["codec"], ["from"]):
        assert len(throughput(table.slice(0, 0), by)) == (not by)
