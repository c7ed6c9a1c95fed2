"""Filters of tables: those of exchanges have what passes alone, all else is told of the whole capture."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkascope
from kafkascope import in_process
from kafkascope.comparing import compare
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.engine import ALL_TABLES, EngineOptions
from kafkascope.filters.language import FilterError, parsed
from kafkascope.filters.sieve import Filter
from kafkascope.packets import NoSuchPacketError
from kafkascope.reports.columns.parties import ExchangePlaces
from kafkascope.reports.vocabulary.tables import BESIDE, OF_EXCHANGES
from tests.kafkascope.conftest import Command
from tests.kafkascope.test_parity import comparable, same_tables, summary_of
from tests.paths import PCAPS

EAGER = str(PCAPS / "eager-three-joins" / "capture.pcap")
IDS = str(PCAPS / "kip848" / "capture.pcap")  # where many exchanges name topics by ids alone
CODECS = str(PCAPS / "clients_codecs" / "capture.pcap")
CASES = [
    (EAGER, "api == JoinGroup or error"),
    (EAGER, 'topic == orders and request.memberId contains "orders-1"'),
    (IDS, "topic == orders-eu or error"),
    (CODECS, "not topic matches lz4 and response_bytes > 0 and host == 10.77.50.12"),
    (str(PCAPS / "broker-paused" / "capture.pcap.gz"), "topic == orders and api == Fetch"),  # names come later
    (str(PCAPS / "too-few-replicas" / "capture.pcap.gz"), "connection < 0"),
    (str(PCAPS / "transactions" / "capture.pcap"), "api == Heartbeat"),
]


def read(path: str, expression: str | None = None, **options: Any) -> kafkascope.Capture:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "0 of .* matched")
        capture: kafkascope.Capture = kafkascope.read(path, records=True, filter=expression, **options)
    return capture


def options_of(expression: str) -> EngineOptions:
    return EngineOptions(tables=ALL_TABLES, filter=Filter.of(expression))


@pytest.mark.parametrize(("path", "expression"), CASES)
def test_tables_have_what_passes_and_answers_are_of_all(path: str, expression: str) -> None:
    whole, some = read(path), read(path, expression)
    exchanges = whole.chosen(parsed(expression), ["connection", "number"])
    wanted = ExchangePlaces(exchanges)
    for name in whole.tables:
        rows = whole.arrow(name)
        if name in OF_EXCHANGES:
            rows = rows.filter(pa.array(wanted.of(rows) >= 0))
        assert comparable(name, some.arrow(name)).equals(comparable(name, rows)), name
    of = whole.arrow("exchanges").num_rows
    chosen = {"expression": expression, "passed": exchanges.num_rows, "of": of}
    assert some.summary == whole.summary | {"filter": chosen}
    assert some.clients.equals(whole.clients)
    assert some.topology().equals(whole.topology())


@pytest.mark.parametrize(("path", "expression"), [CASES[2], pytest.param(*CASES[3], marks=pytest.mark.deep)])
def test_spark_and_one_process_leave_the_same(path: str, expression: str, spark: Any, tmp_path: Path) -> None:
    """Also where tasks do not know the names of topics, which others were told."""
    from kafkascope.spark import analyze

    here = read(path, expression)
    assert 0 < here.summary["filter"]["passed"] < here.summary["filter"]["of"]
    by_hour = path == IDS
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    in_process.analyze([path], str(mine), options=options_of(expression), by_hour=by_hour)
    analyze(
        [path],
        str(theirs),
        spark=spark,
        options=options_of(expression),
        by_hour=by_hour,
        split_bytes=65536,
        partitions=7,
    )
    same_tables(here, mine)
    same_tables(here, theirs)
    assert summary_of(mine) == summary_of(theirs)
    assert (mine / "report.html").read_text() == (theirs / "report.html").read_text()
    assert not {*BESIDE} & {place.name for place in (theirs / "tables").iterdir()}


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an analysis leaves of which a part passed."""
    out = tmp_path_factory.mktemp("filtered") / "out"
    in_process.analyze([EAGER], str(out), options=options_of("api == JoinGroup"))
    return out


def test_what_an_analysis_left_tells_answers_of_all_or_that_it_cannot(filtered: Path) -> None:
    whole, some = read(EAGER), kafkascope.read(filtered)
    said = "11 of 426 exchanges passed the filter api == JoinGroup: tables of single exchanges have these alone"
    assert said in repr(some)
    assert some.group("orders-group").explain(2) == whole.group("orders-group").explain(2)
    assert some.latency().equals(whole.latency())
    assert len(some.filter("latency_ms > 100")) == len(whole.filter("api == JoinGroup and latency_ms > 100")) == 3
    assert "JoinGroup" in repr(some.exchange(0))
    with pytest.raises(LookupError, match=said):
        _ = some.clients
    with pytest.raises(LookupError, match=said):
        some.topology()
    told = compare(some, whole)
    assert said in told.written("md")
    assert "before: exchanges that did not pass the filter are not in the tables, so settings" in told.written("md")
    assert {*told.changes.section} == {"latency", "rebalances"}


def test_an_exchange_that_did_not_pass_is_not_told_to_be_none() -> None:
    some = read(EAGER, "api == JoinGroup")
    fetch = read(EAGER).filter("api == Fetch").iloc[0]
    with pytest.raises(NoSuchPacketError, match="is part of no exchange in the tables; 11 of 426 exchanges passed"):
        some.packet(int(fetch.request_packet))
    [join] = some.packet(int(some.exchanges.iloc[0].request_packet))
    assert "JoinGroup" in repr(join)


def test_names_that_have_pseudonyms_are_found_and_not_told(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for expression in ("topic == orders", "group == orders-group"):
        some = read(EAGER, expression, anonymize="key")
        assert some.summary["filter"] == read(EAGER, expression).summary["filter"] | {"expression": None}
        assert some.summary["filter"]["passed"]
    pseudonyms = Pseudonyms("key")
    of = EngineOptions(filter=Filter.of("topic == orders", pseudonyms), pseudonyms=pseudonyms)
    in_process.analyze([EAGER], str(out), options=of)
    assert b"orders" not in (out / "summary.json").read_bytes() + (out / "report.html").read_bytes()


def test_what_is_wrong_is_told_by_its_place(command: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    ended = command("kafkascope", "analyze", EAGER, "-o", out, "--in-process", "--filter", "api == Fetc")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert (
        "--filter: there is no api Fetc; near are Fetch, FetchSnapshot, OffsetFetch\n  api == Fetc\n         ^"
        in ended.stderr
    )
    assert not Path(out).exists()
    with pytest.raises(FilterError, match="there is no column latency; near is latency_ms"):
        read(EAGER, "latency > 5")


def test_an_analysis_says_what_passed_of_each_run(command: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    ended = command("kafkascope", "analyze", EAGER, "-o", out, "--in-process", "-Y", "group == order-group")
    assert ended.returncode == 0
    assert "0 of 426 exchanges matched; group == order-group: not there; near is orders-group" in ended.stderr
    command("kafkascope", "analyze", CODECS, "-o", out, "--in-process", "--append", "-Y", "api == Fetch")
    command("kafkascope", "analyze", EAGER, "-o", out, "--in-process", "--append", "--force")
    runs = json.loads((tmp_path / "out" / "summary.json").read_text())["runs"]
    assert [run.get("filter", {}).get("passed") for run in runs] == [0, 3, None]
    told = command("kafkascope", "report", out, "--format", "md").stdout
    assert told.count("exchanges passed the filter") == 2
    assert len(pq.read_table(tmp_path / "out" / "tables" / "exchanges")) == 3 + 426
