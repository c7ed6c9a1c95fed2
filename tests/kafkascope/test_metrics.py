"""What Prometheus is told is what the tables have; the dashboard asks for what there is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import kafkascope
from kafkascope import incident_watch, lags
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.engine import EngineOptions
from kafkascope.metrics import ALL, BUCKETS_S, COUNTERS, LAG, Metrics, Place, served, with_needed
from kafkascope.reading import Listening, Reading
from kafkascope.reports.columns.series import OTHERS
from tests.kafkascope.conftest import Command
from tests.kafkascope.damaged_captures import beginning
from tests.kafkascope.test_incident_watch import KILLED, Replayed, of_file
from tests.kafkascope.test_reading import Dropping
from tests.paths import PCAPS, ROOT

LEAST = EngineOptions(tables=frozenset(), exchange_columns=frozenset(), views=frozenset())
LAGGING = PCAPS / "lagging" / "capture.pcap.gz"
Told = dict[str, dict[tuple[str, ...], float]]


def counted(path: Path) -> Metrics:
    return counted_with(path, DEFAULT)[0]


def counted_with(path: Path, limits: Limits) -> tuple[Metrics, list[str]]:
    """What is counted, and what is remarked at the end."""
    metrics = Metrics(limits=limits)
    with Reading([str(path)], with_needed(LEAST), watcher=metrics, progress_bar=False) as reading:
        for _ in reading.batches():
            pass
        return metrics, list(reading.remarks())


def told(text: str) -> Told:
    """Values of each sample by its labels' values, in order of the labels' names."""
    found: Told = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[values] = sample.value
    return found


def text_of(metrics: Metrics) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    return generate_latest(registry).decode()


def test_numbers_are_those_of_the_tables() -> None:
    found = told(text_of(counted(LAGGING)))
    cap = kafkascope.read(LAGGING)
    exchanges = cap.exchanges
    by_api = Counter(exchanges.api)
    for (api, _, _), value in found["kafkascope_exchanges_total"].items():
        assert value == by_api.pop(api)
    assert not by_api
    assert sum(found["kafkascope_errors_total"].values()) == len(cap.errors) > 0
    assert sum(found["kafkascope_request_bytes_total"].values()) == exchanges.request_bytes.sum()
    assert sum(found["kafkascope_response_bytes_total"].values()) == exchanges.response_bytes.sum()
    produced = cap.partitions[cap.partitions.api == "Produce"]
    assert found["kafkascope_topic_records_total"]["Produce", "orders"] == produced.records.sum()
    assert found["kafkascope_topic_bytes_total"]["Produce", "orders"] == produced.bytes.sum()
    assert found["kafkascope_packets_total"] == {(): 858}
    last = cap.lag("shop").groupby("partition").tail(1)
    assert found["kafkascope_group_lag_records"]["shop", "orders"] == last.lag.sum()


def test_latency_is_in_the_bucket_that_it_belongs_to() -> None:
    found = told(text_of(counted(LAGGING)))
    latency = kafkascope.read(LAGGING).exchanges.query("api == 'Produce'").latency_ms / 1000
    (broker,) = {labels[1] for labels in found["kafkascope_exchange_seconds_sum"]}
    for end in BUCKETS_S:
        assert found["kafkascope_exchange_seconds_bucket"]["Produce", broker, str(end)] == (latency <= end).sum()
    assert found["kafkascope_exchange_seconds_count"]["Produce", broker] == len(latency)
    assert found["kafkascope_exchange_seconds_sum"]["Produce", broker] == pytest.approx(latency.sum())


def test_rebalances_count_by_what_set_them_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listening, "now", lambda self: 0)  # time goes by packets
    storm = PCAPS / "rebalance-storm" / "capture.pcap"
    metrics = Metrics(clock=count().__next__)  # as if analyses took no time beside what lies between batches
    source = Replayed(str(storm), 20_000)
    for _ in Listening(source, with_needed(LEAST), watcher=metrics).batches():  # type: ignore[arg-type]
        pass
    found = told(text_of(metrics))
    rebalances = kafkascope.read(storm).rebalances
    settled = sum(found["kafkascope_rebalances_total"].values())
    assert len(rebalances) - 3 <= settled <= len(rebalances)  # the last ones are not settled yet
    assert {trigger for _, trigger in found["kafkascope_rebalances_total"]} <= set(rebalances.trigger)
    assert sum(found["kafkascope_rebalance_seconds_total"].values()) <= rebalances.duration_ms.sum() / 1000 + 0.001


def test_beside_what_is_shown_it_is_counted_while_it_goes_on_and_told_at_the_end() -> None:
    seconds, options = count(0, 6), incident_watch.with_needed(with_needed(LEAST))
    beside, metrics = incident_watch.Looks(options, lambda: next(seconds), forgets=True), Metrics()
    going_on: list[str] = []
    with Listening(Replayed(KILLED, 200_000), options, watcher=metrics, looks=beside) as listening:  # type: ignore[arg-type]
        for _ in listening.batches():
            assert listening.incidents is not None
            going_on += [one.kind.value for one in listening.incidents]
        remarks = list(listening.remarks())
    assert set(going_on) == {"broker_down"}
    assert "1 incident: broker_down 1; 1 not over" in remarks
    found = told(text_of(metrics))
    of_kind = ("broker_down", of_file(KILLED)[0].severity.value)
    assert found["kafkascope_incidents_total"] == found["kafkascope_incidents_going_on"] == {of_kind: 1}
    metrics.tell([], [])
    assert told(text_of(metrics))["kafkascope_incidents_going_on"] == {of_kind: 0}


def test_label_sets_are_bounded_and_positions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lags, "MOST_POSITIONS", 0)
    metrics, remarks = counted_with(LAGGING, Limits(label_sets=3))
    found = told(text_of(metrics))
    assert any("(--limit label_sets=3)" in remark for remark in remarks)
    whole = kafkascope.read(LAGGING).exchanges
    assert len(found["kafkascope_exchanges_total"]) == 4
    assert found["kafkascope_exchanges_total"][(OTHERS,) * 3] > 0
    assert sum(found["kafkascope_exchanges_total"].values()) == len(whole)
    assert sum(found["kafkascope_exchange_seconds_count"].values()) == whole.latency_ms.notna().sum()
    assert "kafkascope_group_lag_records" not in found


def test_what_is_lost_counts() -> None:
    metrics = Metrics()
    for _ in Listening(Dropping(), with_needed(LEAST), watcher=metrics).batches():
        pass
    assert told(text_of(metrics))["kafkascope_lost_total"] == {("kernel_drops",): 7}


def test_metrics_are_answered_while_a_pipe_is_open_and_end_with_it() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkascope", "sniff", "-r", "-", "--metrics", "127.0.0.1:0", "--json"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    url = re.search(rb"metrics on (http://127\.0\.0\.1:\d+/metrics)", process.stderr.readline())
    assert url
    process.stdin.write(beginning("net_vlan/capture.pcap", 60))
    process.stdin.flush()
    process.stdout.readline()  # so exchanges have been counted
    with urlopen(url[1].decode()) as answer:
        found = told(answer.read().decode())
    assert found["kafkascope_exchanges_total"]
    assert found["kafkascope"] == {(kafkascope.__version__,): 1}
    _, errors = process.communicate()
    assert process.returncode == 0, errors


@pytest.mark.parametrize("place", ["9464x", "host", ":70000", "[::1]:"])
def test_a_place_that_is_none_is_refused(command: Command, place: str) -> None:
    refused = command("sniff", "-r", "-", "--metrics", place)
    assert refused.returncode == 2
    assert "no place such as" in refused.stderr


def test_places() -> None:
    assert Place.of(":9464") == Place("", 9464)
    assert Place.of("[::1]:9464") == Place("::1", 9464)
    assert str(Place.of("[::1]:9464")) == "[::1]:9464"


def test_a_place_that_is_taken_and_a_file_are_refused(command: Command) -> None:
    with served(Metrics(), Place("127.0.0.1", 0)) as url:
        taken = command("sniff", "-r", "-", "--metrics", url.removeprefix("http://").removesuffix("/metrics"))
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "nobody can ask at 127.0.0.1" in taken.stderr
    assert command("sniff", "-r", str(LAGGING), "--metrics", ":0").returncode == 2
    assert "do not go together" in command("sniff", "-r", "-", "--records", "--metrics", ":0").stderr


def test_the_dashboard_asks_for_what_there_is_and_shows_all_of_it() -> None:
    board = json.loads((ROOT / "tools" / "grafana.json").read_text())
    labels = {f"{metric.name}_total" if metric in COUNTERS else metric.name: set(metric.labels) for metric in ALL}
    asked = set()
    for target in (target for panel in board["panels"] for target in panel["targets"]):
        (name,) = re.findall(r"kafkascope_\w+", target["expr"])
        name = name.removesuffix("_bucket")
        asked.add(name)
        by = {label.strip() for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(",")}
        by |= set(re.findall(r"\{(\w+)=", target["expr"])) | set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert by <= labels[name] | {"le"}, target
    assert asked == set(labels)
    assert LAG.name in asked
