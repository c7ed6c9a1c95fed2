"""A message that we have a fault for, or a group, or an answer, costs itself alone, and is told: whatever the way."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset as ds
from pyspark import cloudpickle
from rich.console import Console

import kafkascope
from kafkascope import exchange_output
from kafkascope.decoders import apis
from kafkascope.engine import Engine, EngineOptions, Tables
from kafkascope.reports.answers import answers
from kafkascope.reports.answers.progress import lag
from kafkascope.reports.columns.faults import RAISE_FAULTS
from kafkascope.reports.columns.views import Known
from kafkascope.reports.groups import by_cluster
from kafkascope.reports.groups.one_group import analyze_group
from kafkascope.reports.rows import bodies_as_text, builder
from kafkascope.reports.show.answers_terminal import show
from kafkascope.reports.views.clients import ClientsView
from kafkascope.reports.views.groups import GroupsView
from kafkascope.reports.views.guarded import results
from kafkascope.reports.views.latency import LatencyView
from kafkascope.reports.views.registry import VIEWS
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, CONCLUSIONS, OF_EXCHANGES, SCHEMAS
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.spark import tasks, view_rows
from tests.decoders.written_messages import HEARTBEAT_0, framed, request, response
from tests.joined import joined
from tests.kafkascope.conftest import Command
from tests.kafkascope.test_parity import comparable
from tests.paths import PCAPS
from tests.sniffer.sources.written_captures import capture_of
from tests.sniffer.tcp_conversation import talk

CAPTURE = PCAPS / "removed-and-timeouts" / "capture.pcap"


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE_FAULTS)


# --- tokens ----------------------------------------------------------------------------------------------------------

DEEP = b'{"sub":' * 900 + b"1" + b"}" * 900
TOKENS = {"surrogate": rb'{"sub":"\ud800"}', "deep": DEEP}


def with_token(claims: bytes, port: int = 40000) -> bytes:
    """A capture: OAUTHBEARER with these claims, answered with an error in the same JSON, then a heartbeat."""
    token = b"n,,\x01auth=Bearer aGk." + base64.urlsafe_b64encode(claims).rstrip(b"=") + b".x\x01\x01"
    name = b"\0\x0bOAUTHBEARER"
    frames = (
        request(0, apis.SASL_HANDSHAKE, 1, name),
        response(0, bytes(2) + b"\0\0\0\1" + name),
        request(1, apis.SASL_AUTHENTICATE, 0, framed(token)),
        response(1, bytes(2) + b"\xff\xff" + framed(claims)),
        request(2, apis.HEARTBEAT, 0, HEARTBEAT_0),
        response(2),
    )
    return capture_of(talk(*frames, port=port))


@pytest.mark.parametrize("claims", TOKENS)
def test_a_token_of_odd_json_is_read_in_every_way(claims: str, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "token.pcap"
    path.write_bytes(with_token(TOKENS[claims]))
    read = kafkascope.read(path)
    assert read.exchanges.api.tolist() == ["SaslHandshake", "SaslAuthenticate", "Heartbeat"]
    assert read.issues.empty
    token = read.exchange(1)
    assert token.request is not None
    assert token.response is not None
    assert token.request["authBytes"]["mechanism"] == "OAUTHBEARER"
    assert token.response["authBytes"]["message"] == "server-error"
    lines = [json.loads(line) for line in command("sniff", "-r", str(path), "--json").stdout.splitlines()]
    assert lines[1]["request"] == token.request
    shown = command("sniff", "-r", str(path), "-V")
    assert (shown.returncode, shown.stdout.count("HeartbeatRequest v"), shown.stderr) == (0, 1, "")
    assert r'sub: "\ud800"' in shown.stdout if claims == "surrogate" else "nested" in shown.stdout
    groups = command("sniff", "-r", str(path), "--groups")
    assert (groups.returncode, groups.stdout.split()[1], groups.stderr) == (0, "g", "")


def test_tokens_of_odd_json_beside_a_healthy_file_on_spark(spark: Any, tmp_path: Path) -> None:
    paths = [str(CAPTURE)]
    for place, claims in enumerate(TOKENS.values()):
        paths.append(str(tmp_path / f"{place}.pcap"))
        Path(paths[-1]).write_bytes(with_token(claims, 40000 + place))
    analysis = kafkascope.spark.analyze(paths, str(tmp_path / "out"), spark=spark)
    assert analysis.rows["exchanges"] == 633 + 2 * 3
    assert analysis.report_failure is None


def test_one_message_alone(command: Command, tmp_path: Path) -> None:
    token = b"n,,\x01auth=Bearer aGk.eyJzdWIiOiJcdWQ4MDAifQ.x\x01\x01"
    path = tmp_path / "body"
    path.write_bytes(framed(token))
    done = command("kafkascope", "decode", "--api", "SaslAuthenticate", "--version", "0", "--json", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["authBytes"]["claims"] == {"sub": r"\ud800"}


# --- faults that we do not have --------------------------------------------------------------------------------------


def raising(real: Callable[..., Any], wrong: Callable[..., bool]) -> Callable[..., Any]:
    """A function that raises where it is told to, and else does what it did."""

    def call(*arguments: Any, **named: Any) -> Any:
        if wrong(*arguments):
            raise RecursionError
        return real(*arguments, **named)

    return call


def has(tables: Mapping[str, pa.Table], number: int) -> bool:
    return "exchanges" in tables and number in tables["exchanges"]["number"].to_pylist()


LOST = 623  # a connection
FAULTS: list[tuple[Any, str, Callable[..., bool]]] = [
    (bodies_as_text, "_read", lambda key, version, response, known, data: (key, response) == (apis.SYNC_GROUP, False)),
    (builder, "error_table", lambda bodies, *_: bool((bodies.exchanges.number == 20).any())),
    (builder, "connection_table", lambda rows, *_: any(row.connection == LOST for row in rows)),
    (LatencyView, "observe", lambda view, tables, ends: has(tables, 30)),
    (GroupsView, "result", lambda view, rows, known: "adm" in rows["group_id"].to_pylist()),
    (ClientsView, "result", lambda view, rows, known: pc.any(pc.starts_with(rows["client"], "adm")).as_py()),
]


@contextmanager
def faults() -> Iterator[None]:
    """Some bodies, exchanges in a batch, and keys of views are raised on; which these are hangs on nothing else."""
    with ExitStack() as stack:
        for owner, name, wrong in FAULTS:
            stack.enter_context(patch.object(owner, name, raising(getattr(owner, name), wrong)))
        yield


def read_all() -> dict[str, pa.Table]:
    """All tables; those of answers first, as faults that these met are known from then on."""
    read = kafkascope.read(CAPTURE)
    return {name: comparable(name, read.arrow(name)) for name in reversed(read.tables)}


@pytest.mark.filterwarnings("ignore:a fault of kafkascope")
def test_a_fault_costs_what_it_was_met_in_and_nothing_else(guarded: None) -> None:
    healthy = read_all()
    with faults():
        hurt = read_all()
    of = [table["exchanges"].to_pandas() for table in (healthy, hurt)]
    synced, twentieth = of[0].api == "SyncGroup", of[0].number == 20
    assert (len(of[1]), synced.sum(), twentieth.sum()) == (633, 23, 10)
    other, only_text = ~synced & ~twentieth, synced & ~twentieth
    headers = ["connection", "number", "api", "api_version", "client_id", "latency_ms", "outcome", "request_packet"]
    columns = set(of[0].columns)
    for rows, same in ((other, columns), (only_text, columns - {"request", "issue"}), (twentieth, set(headers))):
        two = [table["exchanges"].filter(pa.array(rows)).select(sorted(same)) for table in (healthy, hurt)]
        assert two[0].equals(two[1])
    assert of[1][synced].request.isna().all()
    for told in of[1][synced | twentieth].issue:
        assert "a fault of kafkascope" in told
        assert "RecursionError" in told
    for name in ("errors", "partitions", "batches"):
        two = [table[name].filter(pc.not_equal(table[name]["number"], 20)) for table in (healthy, hurt)]
        assert two[0].equals(two[1]), name
    issues = hurt["issues"].filter(pc.equal(hurt["issues"]["kind"], INTERNAL_ERROR)).to_pylist()
    thirtieth = int((of[0].number == 30).sum())
    keys = [issue for issue in issues if issue["detail"].startswith(("group_rows adm", "client_facts adm"))]
    assert len(keys) == 2
    assert sum(issue["count"] for issue in issues) == (synced | twentieth).sum() + thirtieth + 1 + len(keys)
    assert all(issue["packet"] for issue in issues)
    assert {issue["connection"] for issue in issues if issue not in keys} == set(
        of[0][synced | twentieth | (of[0].number == 30)].connection
    ) | {LOST}
    connections = [set(table["connections"]["connection"].to_pylist()) for table in (healthy, hurt)]
    assert connections[0] - connections[1] == {LOST}
    groups = [set(table["rebalances"]["group_id"].to_pylist()) for table in (healthy, hurt)]
    assert groups == [{"adm", "tmo"}, {"tmo"}]


@pytest.mark.filterwarnings("ignore:a fault of kafkascope")
def test_a_filter_lets_the_others_through(guarded: None) -> None:
    with faults():
        hurt, chosen = kafkascope.read(CAPTURE), kafkascope.read(CAPTURE, filter="number >= 10")
    for name in OF_EXCHANGES[:-1]:
        rows = hurt.arrow(name, pc.field("number") >= 10)
        assert comparable(name, chosen.arrow(name)).equals(comparable(name, rows)), name


@pytest.mark.filterwarnings("ignore:a fault of kafkascope")
def test_it_is_the_same_however_the_capture_is_cut(guarded: None) -> None:
    with faults():
        expected = read_all()
        parts: list[Tables] = []
        with open_capture([str(CAPTURE)]) as capture:
            engine = Engine(EngineOptions(origins=capture.origins))
            for packets in capture:
                segments = dissect(packets).segments
                for begin in range(0, len(segments.number), 150):
                    parts += engine.feed(segments.rows(slice(begin, begin + 150)))
        found = joined([*parts, *engine.finish()])
        names = engine.topic_names
        tables = [{name: names.resolve(table) for name, table in found.items() if name in SCHEMAS}]
        for name in VIEWS.keys() & found.keys():
            tables.append(results(VIEWS[name](), names.resolve(found[name]), Known.of(names.learned())))
        cut_up = joined(tables)
    # Incidents are made of tables; to rebalances and lag read() adds what was read again.
    compared = expected.keys() - CONCLUSIONS.keys() - {"rebalances", "lag"}
    assert len(compared) > 5
    for name in compared:
        table = comparable(name, cut_up.get(name, ALL_SCHEMAS[name].empty_table()))
        assert table.equals(expected[name]), name


@pytest.mark.filterwarnings("ignore:a fault of kafkascope")
def test_it_is_the_same_on_spark(guarded: None, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_faults(work: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def run(*arguments: Any) -> Iterator[Any]:
            set_in_worker = os.environ.pop(RAISE_FAULTS)
            try:
                with faults():
                    yield from work(*arguments)
            finally:
                os.environ[RAISE_FAULTS] = set_in_worker

        return run

    monkeypatch.setattr(tasks, "write_tables", with_faults(tasks.write_tables))
    monkeypatch.setattr(view_rows, "write_results", with_faults(view_rows.write_results))
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not know the tests
    try:
        analysis = kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark, partitions=3)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    with faults():
        expected = read_all()
    for name in expected:
        table = pq.read_table(tmp_path / "out" / "tables" / name)
        assert comparable(name, table).equals(expected[name]), name
    counted = pc.sum(expected["issues"].filter(pc.equal(expected["issues"]["kind"], INTERNAL_ERROR))["count"]).as_py()
    assert analysis.summary.result()["issues"][INTERNAL_ERROR] == counted
    assert analysis.answers is not None
    assert [one.count for one in analysis.answers.issues or () if one.kind == INTERNAL_ERROR] == [counted]


def test_sniff_shows_the_others_and_says_so(guarded: None, command: Command) -> None:
    with faults():
        done = command("sniff", "-r", str(CAPTURE), "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, len(rows)) == (0, 633)
    (told,) = done.stderr.splitlines()
    assert "a fault of kafkascope" in told
    assert "(23 times); effect: " in told  # no table of errors is made for it, and no view


@pytest.mark.parametrize(("style", "writer"), [("--json", "json_lines"), ("-v", "lines"), ("-V", "lines")])
def test_an_exchange_that_cannot_be_shown_is_one_line(guarded: None, command: Command, style: str, writer: str) -> None:
    healthy = command("sniff", "-r", str(CAPTURE), style).stdout.splitlines()
    wrong = raising(getattr(exchange_output, writer), lambda exchanges, *_: 70 in exchanges["number"].to_pylist())
    with patch.object(exchange_output, writer, wrong):
        done = command("sniff", "-r", str(CAPTURE), style)
    told = [line for line in done.stdout.splitlines() if "a fault of kafkascope" in line]
    assert len(told) == 1
    others = [line for line in done.stdout.splitlines() if line not in told]
    assert set(others) <= set(healthy)
    if style == "--json":
        assert len(others) == 632
        assert json.loads(told[0])["number"] == 70
    assert "exchange 70: RecursionError" in done.stderr


def test_of_groups_that_are_watched_the_others_are_told(guarded: None, command: Command) -> None:
    healthy = command("sniff", "-r", str(CAPTURE), "--groups").stdout.splitlines()
    with patch.object(by_cluster, "analyze_group", raising(analyze_group, lambda log: log.group_id == "adm")):
        done = command("sniff", "-r", str(CAPTURE), "--groups")
    assert done.stdout.splitlines() == [line for line in healthy if line.split()[1] != "adm"]
    (told,) = done.stderr.splitlines()
    assert "group adm: RecursionError" in told


def test_an_answer_that_cannot_be_made_leaves_the_others(guarded: None) -> None:
    read = kafkascope.read(CAPTURE)
    tables = {name: ds.dataset(read.arrow(name)) for name in read.tables}
    healthy = answers.answers(tables, read.summary)
    with patch.object(answers, "lag", raising(lag, lambda table, end: True)):
        hurt = answers.answers(tables, read.summary)
    assert hurt.lag is None
    assert (hurt.groups, hurt.errors, hurt.findings) == (healthy.groups, healthy.errors, healthy.findings)
    (told,) = [one for one in hurt.issues or () if one.kind == INTERNAL_ERROR]
    assert told.detail.startswith("answer lag: RecursionError")
    shown = StringIO()
    show(hurt, Console(file=shown, width=120))
    assert INTERNAL_ERROR.replace("_", " ") in shown.getvalue() or INTERNAL_ERROR in shown.getvalue()
