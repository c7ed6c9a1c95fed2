"""What differs between two captures, out of their tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import dataset as ds

from kafkascope.reports.answers.changes import Change, Side, changes
from kafkascope.reports.columns.words import iso_time
from kafkascope.reports.incidents.incident import incident_table
from kafkascope.reports.measures.chance import Verdict
from kafkascope.reports.measures.latency.histogram import Histogram
from kafkascope.reports.vocabulary.tables import LATENCY
from tests.reports.answers.test_clients import exchange, table
from tests.reports.incidents.tables_of import BEGIN, SECOND, connection
from tests.reports.show.page.made_tables import broker_down, restart


def latency(api: str, milliseconds: list[float], **parts: float) -> list[dict[str, Any]]:
    """Rows of ``latency``: exchanges, and what their time was spent on, in all."""
    from numpy import array, flatnonzero

    of = Histogram()
    of.add(array(milliseconds))
    used = flatnonzero(of.counts)
    whole = {"api": api, "part": "total", "count": len(milliseconds), "sum_ms": sum(milliseconds)}
    whole |= {"max": of.highest_ms, "bucket": used.tolist(), "counts": of.counts[used].tolist()}
    return [whole, *(whole | {"part": part, "sum_ms": spent} for part, spent in parts.items())]


def side(name: str, seconds: float = 60, **tables: ds.Dataset) -> Side:
    return Side(name, tables, {"first": iso_time(BEGIN), "last": iso_time(BEGIN + round(seconds * SECOND))})


def found(before: Side, after: Side) -> dict[tuple[str, str, str], Change]:
    return {(one.section, one.subject, one.what): one for one in changes(before, after)}


def test_latency_says_what_the_time_was_spent_on() -> None:
    was = latency("Produce", [10.0] * 100, broker=900, network=100)
    is_now = [*latency("Produce", [30.0] * 100, broker=2900, network=100), *latency("Fetch", [1.0])]
    made = found(
        side("a", latency=ds.dataset(pa.Table.from_pylist(was, LATENCY))),
        side("b", latency=ds.dataset(pa.Table.from_pylist(is_now, LATENCY))),
    )
    assert {key[1] for key in made} == {"Produce"}  # what only one side has is no latency that changed
    median = made["latency", "Produce", "p50"]
    assert (median.verdict, median.spent) == (Verdict.UP, "mean +20.0 ms: broker +20.0 ms")
    assert median.ratio is not None
    assert 2.9 < median.ratio < 3.1
    assert made["latency", "Produce", "p99"].after_samples == 100


def test_settings_clients_and_load() -> None:
    def of(acks: int, client: str, count: int) -> dict[str, ds.Dataset]:
        body = f'{{"transactionalId": null, "acks": {acks}, "timeoutMs": 30000, "topicData": []}}'
        rows = [exchange(n, "Produce", n / 10, body) for n in range(1, count + 1)]
        connections = [connection(1, client_id="p1"), connection(2, client_id=client, software=client)]
        return {"connections": table("connections", *connections), "exchanges": table("exchanges", *rows)}

    made = found(side("a", **of(1, "c1", 100)), side("b", **of(-1, "c2", 300)))
    acks = made["settings", "client p1", "acks"]
    assert (acks.before, acks.after, acks.verdict) == ("1", "-1", Verdict.CHANGED)
    assert made["settings", "client p1", "request_timeout_ms"].verdict == Verdict.SAME
    assert not any(one.subject == "client c1" for one in made.values() if one.section == "settings")
    seen = {key[1]: one.verdict for key, one in made.items() if key[0] == "seen"}
    same = {"client p1": Verdict.SAME, "broker 10.0.0.1:9092": Verdict.SAME}
    assert seen == same | {"client c1": Verdict.GONE, "client c2": Verdict.NEW}
    load = made["load", "Produce", ""]
    assert (load.before_value, load.after_value, load.verdict) == (100, 300, Verdict.UP)


def test_rates_are_by_the_length_of_captures_and_ordinary_errors_no_trouble() -> None:
    def of(times: int) -> dict[str, ds.Dataset]:
        error = {"api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER", "count": times, "ordinary": False}
        usual = error | {"error": "MEMBER_ID_REQUIRED", "ordinary": True}
        rebalances = [{"group_id": "g", "trigger": "poll_timeout"}] * times
        return {
            "error_histogram": table("error_histogram", error, usual),
            "rebalances": table("rebalances", *rebalances),
        }

    made = found(side("a", 60, **of(20)), side("b", 600, **of(200)))
    assert {key: one.verdict for key, one in made.items()} == dict.fromkeys(
        [
            ("errors", "Fetch", "NOT_LEADER_OR_FOLLOWER"),
            ("rebalances", "group g", "all"),
            ("rebalances", "group g", "poll timeout"),
        ],
        Verdict.SAME,
    )
    made = found(side("a", 600, **of(20)), side("b", 60, **of(200)))
    assert {one.verdict for one in made.values()} == {Verdict.UP}


def test_incidents_are_the_same_by_kind_and_whom_they_are_about() -> None:
    both = side("a", incidents=ds.dataset(incident_table([broker_down(), restart()])))
    one = side("b", incidents=ds.dataset(incident_table([broker_down()])))
    verdicts = {key[1]: change.verdict for key, change in found(both, one).items()}
    assert verdicts == {
        "broker 2 (10.77.0.2): broker down": Verdict.SAME,
        "broker 1 (10.77.0.1): broker restarted": Verdict.GONE,
    }


def test_what_one_side_lacks_is_not_compared() -> None:
    assert changes(side("a"), side("b", incidents=table("incidents"))) == []
    assert changes(Side("a", {}, {}), Side("b", {}, {})) == []
