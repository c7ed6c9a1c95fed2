"""The notebook's view."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import pickle
import pydoc
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kafkascope
from kafkascope import in_process
from kafkascope.capture import Capture
from kafkascope.out.errors import OutputError
from kafkascope.reports.columns.faults import RAISE_FAULTS
from kafkascope.reports.incidents import rules, table_rows
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, ASKED, SCHEMAS
from kafkascope.sniffer.sources import SourceError
from kafkascope.spool import Spool
from tests.paths import PCAPS

CAPTURE = PCAPS / "killed-silent" / "capture.pcap"


@pytest.fixture(scope="module")
def joins() -> Capture:
    capture = kafkascope.read(PCAPS / "eager-three-joins" / "capture.pcap", records=True)
    assert isinstance(capture, Capture)
    return capture


ASKED_OTHERWISE = {"latency", "throughput", "lag", "error_histogram"}  # by methods, as they are grouped or chosen
PROPERTIES = ALL_SCHEMAS.keys() - ASKED_OTHERWISE


def test_every_table_is_a_property_with_the_columns_of_its_schema(joins: Capture) -> None:
    assert joins.tables == tuple(ALL_SCHEMAS)
    for name, schema in ALL_SCHEMAS.items():
        frame = getattr(joins, name) if name in PROPERTIES else joins.frame(name)
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == schema.names
        assert joins.arrow(name).schema == schema


def test_rows_are_in_order_of_time(joins: Capture) -> None:
    assert joins.exchanges.response_done.is_monotonic_increasing
    assert joins.records["at"].is_monotonic_increasing
    assert str(joins.exchanges.requested.dtype) == "datetime64[ns, UTC]"


def test_numbers_that_can_be_absent_stay_whole(joins: Capture) -> None:
    assert joins.records.offset.dtype == pd.Int64Dtype()
    assert joins.exchanges.error_code.dtype == pd.Int16Dtype()


def test_an_exchange_has_both_bodies_and_its_records(joins: Capture) -> None:
    n = int(joins.exchanges.index[joins.exchanges.api == "Produce"][0])
    exchange = joins.exchange(n)
    assert exchange.request is not None
    assert exchange.response is not None
    assert exchange.records is not None
    assert exchange.row["api"] == "Produce"
    assert exchange.request["topicData"][0]["name"] == "orders"
    assert set(exchange.records.offset) >= {exchange.response["responses"][0]["partitionResponses"][0]["baseOffset"]}
    assert "orders" in exchange._repr_html_()
    with pytest.raises(IndexError, match="0 to 425"):
        joins.exchange(426)


def test_bytes_of_an_exchange_are_read_out_of_the_files(joins: Capture) -> None:
    for n in (0, 200, 425):
        exchange = joins.exchange(n)
        request, response = exchange.messages()
        assert request is not None
        assert response is not None
        of_request = kafkascope.decode_request(request.raw)
        of_response = kafkascope.decode_response(response.raw, request.api, request.version)
        for message, decoded in ((request, of_request), (response, of_response)):
            assert dataclasses.replace(decoded, body=message.body) == message  # records are bytes in the one alone
        assert (request.body, response.body) == (exchange.request, exchange.response)
        sizes = exchange.row["request_bytes"], exchange.row["response_bytes"]
        assert (len(request.hex()) // 2, len(response.hex()) // 2) == sizes


def test_bytes_that_cannot_be_read_again_are_missed(tmp_path: Path) -> None:
    path, out = tmp_path / "capture.pcap", tmp_path / "out"
    content = (PCAPS / "net_vlan" / "capture.pcap").read_bytes()
    path.write_bytes(content)
    capture = kafkascope.read(path, answers=False)
    in_process.analyze([str(path)], str(out), report=False)
    last = capture.exchange(len(capture.exchanges) - 1)
    assert last.messages().request is not None
    path.write_bytes(content[:-1])
    with pytest.raises(SourceError, match="it is shorter than when it was first read"):
        last.messages()
    with pytest.raises(LookupError, match="or is what an analysis left"):
        kafkascope.read(out).exchange(0).messages()
    with pytest.raises(LookupError, match="what anonymize hides: `kafkascope scrub`"):
        kafkascope.read(path, answers=False, anonymize="key").exchange(0).messages()


def test_group_payloads_are_decoded(joins: Capture) -> None:
    n = int(joins.exchanges.index[(joins.exchanges.api == "JoinGroup") & (joins.exchanges.error_code == 0)][0])
    request = joins.exchange(n).request
    assert request is not None
    assert request["protocols"][0]["metadata"]["topics"] == ["orders"]


def test_records_are_there_only_if_asked_for() -> None:
    capture = kafkascope.read(str(PCAPS / "net_vlan" / "capture.pcap"))
    assert "records" not in capture.tables
    with pytest.raises(KeyError, match="records=True"):
        _ = capture.records


def test_it_shows_itself(joins: Capture) -> None:
    assert "426 exchanges" in repr(joins)
    assert "\nnothing is wrong in this capture: " in repr(joins)
    assert "<td>JoinGroup</td>" in joins._repr_html_()


def test_help_tells_columns_with_their_meanings() -> None:
    for name in (*PROPERTIES, "clients", "topology", "lag"):
        told = inspect.getdoc(getattr(Capture, name)) or ""
        for column in (ALL_SCHEMAS | ASKED)[name]:
            assert f"\n- {column.name}: " in told
    assert "in milliseconds sum_ms, p50" in pydoc.render_doc(Capture.latency)


def test_what_an_analysis_left_is_opened_and_answers_the_same(tmp_path: Path) -> None:
    source, out = PCAPS / "killed-consumer" / "capture.pcap", str(tmp_path / "out")
    in_process.analyze([str(source)], out, report=False)
    capture, opened = kafkascope.read(source), kafkascope.read(out)
    assert opened.tables == capture.tables
    assert repr(opened).splitlines()[1:] == repr(capture).splitlines()[1:]
    for name in ("topology", "latency", "lag", "errors_histogram"):
        pd.testing.assert_frame_equal(getattr(opened, name)(), getattr(capture, name)())
    pd.testing.assert_frame_equal(opened.clients, capture.clients)
    assert opened.group("pay").explain() == capture.group("pay").explain()
    assert "JoinGroup" in opened._repr_html_()
    with pytest.raises(KeyError, match="records: the analysis did not write it"):
        _ = opened.records
    with pytest.raises(OutputError, match="is decoded already"):
        kafkascope.read(out, ports=[9092])
    in_process.analyze([str(PCAPS / "net_vlan" / "capture.pcap")], out, report=False, append=True)
    with pytest.raises(OutputError, match="has 2 runs"):
        kafkascope.read(out)


def test_arrow_tables_are_given_without_a_copy(joins: Capture) -> None:
    before = pa.total_allocated_bytes()
    tables = [joins.arrow("batches"), joins.dataset("batches").to_table()]
    assert pa.total_allocated_bytes() - before < tables[0].nbytes / 10
    assert tables[0].equals(tables[1])
    fast = joins.dataset("exchanges").to_table(columns=["api"], filter=pc.field("latency_ms") < 1)
    assert fast["api"].to_pylist() == joins.arrow("exchanges", pc.field("latency_ms") < 1)["api"].to_pylist()
    frame = joins.latency()
    of_arrow = pa.table(frame).to_pandas()  # by the interface that polars and DuckDB take too
    pd.testing.assert_frame_equal(of_arrow, pd.DataFrame(frame), check_dtype=False)


def test_incidents_are_told_by_rank_with_all_that_is_known_of_them() -> None:
    capture = kafkascope.read(PCAPS / "killed-consumer" / "capture.pcap")
    assert list(capture.incidents["rank"]) == [1]
    one = capture.incident(1)
    assert one.incident.kind == capture.incidents.kind[0] == "client_died"
    assert one.incident.headline == capture.incidents.headline[0]
    assert repr(one) == one.explain()
    assert one.explain().startswith(f"warning: {one.incident.what}")
    assert one.incident.findings <= {*capture.findings.id}
    assert one.incident.findings
    generations = {(row.group_id, row.to_generation) for row in capture.rebalances.itertuples()}
    assert one.incident.rebalances <= generations
    assert capture.incidents.headline[0].split(";")[0] in capture._repr_html_()
    with pytest.raises(IndexError, match="incident 2: the capture has 1"):
        capture.incident(2)


def test_a_capture_without_incidents_says_what_was_looked_at(joins: Capture) -> None:
    assert joins.incidents.empty
    assert "nothing is wrong in this capture: " in joins._repr_html_()


def test_a_fault_in_a_rule_of_incidents_is_an_issue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE_FAULTS)

    def broken(signs: Signs) -> Iterator[Incident]:
        raise ZeroDivisionError

    monkeypatch.setattr(rules, "RULES", (dataclasses.replace(rules.RULES[0], find=broken), *rules.RULES[1:]))
    capture = kafkascope.read(PCAPS / "killed-consumer" / "capture.pcap")
    with pytest.warns(UserWarning, match="a fault of kafkascope"):
        assert list(capture.incidents.kind) == ["client_died"]
    (told,) = capture.issues[capture.issues.kind == INTERNAL_ERROR].detail
    assert told.startswith("incidents address_taken, broker_down, broker_restarted, broker_stalled: ZeroDivisionError")


def test_rows_that_rules_do_not_look_at_are_an_issue_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "MOST_ROWS", 1)
    capture = kafkascope.read(PCAPS / "killed-consumer" / "capture.pcap")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert capture.incidents.empty
    assert "too_many_rows" in set(capture.issues.kind)


def test_several_files_are_one_capture() -> None:
    folder = PCAPS / "net_vlan"
    both = kafkascope.read([folder / "capture.pcap", folder / "qinq.pcap"])
    once = kafkascope.read(folder / "capture.pcap")
    assert len(both.exchanges) == len(once.exchanges)  # the same packets twice: seen, counted, and not taken twice
    assert both.summary["copies"] > 0


def test_what_can_be_read_only_once_gives_answers_too(tmp_path: Path) -> None:
    source, pipe = PCAPS / "max-poll-exceeded" / "capture.pcap", tmp_path / "pipe.pcap"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(source.read_bytes()))
    writer.start()
    once = kafkascope.read(pipe)
    writer.join()
    assert once.arrow("rebalances").equals(kafkascope.read(source).arrow("rebalances"))
    assert len(once.findings) == 1


def test_answers_do_not_need_the_files_any_more(tmp_path: Path) -> None:
    source, path = PCAPS / "max-poll-exceeded" / "capture.pcap", tmp_path / "capture.pcap"
    path.write_bytes(source.read_bytes())
    cap = kafkascope.read(tmp_path)
    path.unlink()
    assert cap.arrow("rebalances").equals(kafkascope.read(source).arrow("rebalances"))


def test_without_answers_there_are_the_same_tables() -> None:
    path = PCAPS / "max-poll-exceeded" / "capture.pcap"
    whole, tables = kafkascope.read(path), kafkascope.read(path, answers=False)
    assert set(tables.tables) == {name for name in SCHEMAS if name != "records"}
    for name in tables.tables:
        assert tables.arrow(name).equals(whole.arrow(name))
    with pytest.raises(KeyError, match=r"rebalances: read\(..., answers=False\) does not make it"):
        _ = tables.rebalances
    assert "rebalances of groups" not in tables._repr_html_()


def test_tables_that_cannot_be_kept_are_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Spool, "_path", lambda _, name: str(tmp_path / "gone" / name))
    with pytest.raises(OSError, match="No such file or directory; set TMPDIR"):
        kafkascope.read(PCAPS / "eager-three-joins" / "capture.pcap")


def test_frames_that_are_changed_change_no_answer() -> None:
    capture = kafkascope.read(CAPTURE)
    assert isinstance(capture, Capture)
    wanted = capture.filter("api == Heartbeat")
    first = repr(capture.exchange(0))
    capture.exchanges.sort_values("latency_ms", ascending=False, inplace=True)
    assert capture.filter("api == Heartbeat").equals(wanted)
    capture.exchanges.drop(capture.exchanges.index, inplace=True)
    assert capture.filter("api == Heartbeat").equals(wanted)
    assert repr(capture.exchange(0)) == first
    assert all("Heartbeat" in repr(capture.exchange(number)) for number in wanted.index[:3])


def test_a_capture_is_not_copied_and_says_why_it_is_not_pickled() -> None:
    capture = kafkascope.read(CAPTURE)
    assert copy.deepcopy({"it": capture})["it"] is capture
    with pytest.raises(TypeError, match="the tables of a capture wait in files of this process"):
        pickle.dumps(capture)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ports": "9092"}, "ports: '9092' are no ports; give numbers, as in ports=\\[9092\\]"),
        ({"decode_as": [0]}, "decode_as: \\[0\\] are no ports"),
        ({"packets": range(100, 200)}, "packets: 'range\\(100, 200\\)' is no range"),
        ({"packets": (1, 2, 3)}, "packets: '\\(1, 2, 3\\)' is no range"),
        ({"since": 5}, "since: 5 is no time; give 2026-"),
        ({"since": "+30s", "until": "+10s"}, "until: '\\+10s' is not behind '\\+30s'"),
        ({"secret_names": "("}, "'\\(' is no regular expression"),
    ],
)
def test_what_makes_no_sense_is_refused(given: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        kafkascope.read(CAPTURE, **given)


def test_one_port_or_name_of_secrets_need_be_no_list() -> None:
    options: Any = {"ports": 9092, "secret_names": "password"}
    assert (
        len(kafkascope.read(CAPTURE, **options).exchanges) == len(kafkascope.read(CAPTURE, ports=[9092]).exchanges) > 0
    )


def test_a_file_that_cannot_be_read_is_told() -> None:
    with pytest.warns(RuntimeWarning, match="/nowhere.pcap: no such file.*; effect: its packets are missing"):
        kafkascope.read([CAPTURE, "/nowhere.pcap"])
