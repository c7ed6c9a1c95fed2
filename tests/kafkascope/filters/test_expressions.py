"""Filters let pass what a plain reading of each exchange does: lines of `sniff`, notebooks, and tasks of Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import kafkascope
from kafkascope.filters.expressions import HiddenError
from kafkascope.filters.expressions import passing as passes
from kafkascope.filters.language import parsed
from kafkascope.reports.vocabulary.tables import EXCHANGES
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

JOINS = str(PCAPS / "eager-three-joins" / "capture.pcap")
Row = dict[str, Any]


def at(row: Row, path: str) -> list[Any]:
    """What stands at a path in a body, in all elements of arrays."""
    found: list[Any] = [row]
    for name in path.split("."):
        items = [one for value in found for one in (value if isinstance(value, list) else [value])]
        found = [one[name] for one in items if isinstance(one, dict) and name in one]
    flat = [one for value in found for one in (value if isinstance(value, list) else [value])]
    return [value for value in flat if value is not None]


def is_wrong(row: Row) -> bool:
    return row["error"] not in (None, "NONE")


def late(row: Row, most: float) -> bool:
    return row["latency_ms"] is not None and row["latency_ms"] > most


CASES: dict[str, Callable[[Row], bool]] = {
    'api == "Fetch" and latency_ms > 100 and topic in ("orders")': lambda row: (
        row["api"] == "Fetch" and late(row, 100) and "orders" in row["topics"]
    ),
    "not latency_ms > 100": lambda row: not late(row, 100),
    "error": is_wrong,
    "error or issue": lambda row: is_wrong(row) or row["issue"] is not None,
    "error == member_id_required": lambda row: row["error"] == "MEMBER_ID_REQUIRED",
    "error != MEMBER_ID_REQUIRED": lambda row: row["error"] not in (None, "MEMBER_ID_REQUIRED"),
    "group == null": lambda row: row["group_id"] is None,
    "topic != payments": lambda row: bool(row["topics"]) and "payments" not in row["topics"],
    "not topic == orders": lambda row: "orders" not in row["topics"],
    "response.throttleTimeMs != 1": lambda row: bool(at(row, "response.throttleTimeMs")),
    "host == 10.77.1.13": lambda row: row["client"].startswith("10.77.1.13:"),
    "client == 10.77.1.13:35154": lambda row: row["client"] == "10.77.1.13:35154",
    'request.groupId contains "order"': lambda row: any("order" in value for value in at(row, "request.groupId")),
    'client_id matches "^orders-[12]$"': lambda row: re.search("^orders-[12]$", row["client_id"] or "") is not None,
    "response.responses.partitions.highWatermark > 20": lambda row: any(
        value > 20 for value in at(row, "response.responses.partitions.highWatermark")
    ),
    "request.protocols.metadata.topics == orders": lambda row: "orders" in at(row, "request.protocols.metadata.topics"),
    "response.skipAssignment == false": lambda row: False in at(row, "response.skipAssignment"),
    "exists response.brokers": lambda row: bool(at(row, "response.brokers")),
    "requested >= 2026-11-21T05:55:50Z and requested < 2026-11-21T05:55:51Z": lambda row: (
        row["requested"][:19] == "2026-11-21T05:55:50"
    ),
    "request_bytes > 300b and not (api == fetch or api == produce)": lambda row: (
        row["request_bytes"] > 300 and row["api"] not in ("Fetch", "Produce")
    ),
    "latency_ms < 9007199254740993": lambda row: row["latency_ms"] is not None,
    "correlation_id < 2.5": lambda row: row["correlation_id"] is not None and row["correlation_id"] < 2.5,
    "outcome in (unanswered, one_way, orphan)": lambda row: row["outcome"] != "answered",
}


@pytest.fixture(scope="module")
def capture() -> kafkascope.Capture:
    found: kafkascope.Capture = kafkascope.read(JOINS, answers=False)
    return found


def passing(rows: list[Row], holds: Callable[[Row], bool]) -> list[tuple[int, int]]:
    return sorted((row["connection"], row["number"]) for row in rows if holds(row))


def exchanges(command: Command, *arguments: str) -> list[Row]:
    return [json.loads(line) for line in command("sniff", "-r", JOINS, "--json", *arguments).stdout.splitlines()]


@pytest.mark.parametrize("expression", CASES)
def test_what_passes(command: Command, capture: kafkascope.Capture, expression: str) -> None:
    holds = CASES[expression]
    expected = passing(exchanges(command), holds)
    assert expected or "orphan" in expression
    assert passing(exchanges(command, "-Y", expression), lambda _: True) == expected
    of_frame = capture.filter(expression)
    assert sorted(zip(of_frame.connection, of_frame.number, strict=True)) == expected
    if expected:  # labels are those of exchanges
        assert capture.exchange(of_frame.index[0]).row["connection"] == of_frame.connection.iloc[0]


def test_tasks_of_spark_choose_alike(spark: Any, capture: kafkascope.Capture) -> None:
    there = kafkascope.read(JOINS, spark=spark, answers=False)
    expression = "topic == orders and host == 10.77.1.13 and not request.groupId and requested < 2026-11-21T05:56"
    rows = there.filter(expression).select("connection", "number").collect()
    here = capture.filter(expression)
    assert len(rows) > 20
    assert sorted(map(tuple, rows)) == sorted(zip(here.connection, here.number, strict=True))


PAIRS = [
    (["--api", "fetch", "--api", "JoinGroup"], "api in (Fetch, joingroup)"),
    (["--errors", "--client-id", "orders-1"], "(error or issue) and client_id == orders-1"),
    (["--slower-than", "300", "--host", "10.77.1.14"], "latency_ms > 300 and host == 10.77.1.14"),
    (["--topic", "orders", "--group", "orders-group"], "topic == orders and group == orders-group"),
]


@pytest.mark.parametrize(("options", "expression"), PAIRS)
def test_options_are_expressions(command: Command, options: list[str], expression: str) -> None:
    by_option = command("sniff", "-r", JOINS, *options).stdout
    assert by_option
    assert command("sniff", "-r", JOINS, "-Y", expression).stdout == by_option
    assert command("sniff", "-r", JOINS, *options, "--filter", f"not ({expression})").stdout == ""


def test_a_host_of_ipv6_is_written_without_brackets(command: Command) -> None:
    capture = str(PCAPS / "net_ipv6" / "capture.pcap")
    of_host = command("sniff", "-r", capture, "--host", "fd77:64::13").stdout
    assert of_host
    assert of_host == command("sniff", "-r", capture, "-Y", 'host == "fd77:64::13"').stdout
    ends = {word for line in of_host.splitlines() for word in line.split() if word.startswith("[fd77:64::13]:")}
    end = min(ends)
    hidden = ("-r", capture, "--anonymize", "k", "--connection", end)
    assert (
        command("sniff", *hidden).stdout.count("\n")
        == command("sniff", "-r", capture, "--connection", end).stdout.count("\n")
        > 0
    )


def test_an_expression_that_makes_no_sense_ends_before_anything_is_read(command: Command) -> None:
    ended = command("sniff", "-r", "nosuch.pcap", "-Y", "error and \x1b[2Jx == 3")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "\x1b" not in ended.stderr
    assert ended.stderr.splitlines()[-1] == "  " + " " * 10 + "^"


def test_names_that_are_not_there_are_told(command: Command) -> None:
    ended = command("sniff", "-r", JOINS, "-Y", "request.groupId == order-group and not topic == nosuch")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "0 of 426 exchanges matched; request.groupId == order-group: not there; near is orders-group" in ended.stderr
    assert "nosuch" not in ended.stderr


def test_whole_names_are_known_behind_pseudonyms(command: Command) -> None:
    ended = command("sniff", "-r", JOINS, "--anonymize", "key", "-Y", "topic == orders and client_id == orders-1")
    assert len(ended.stdout.splitlines()) > 100
    assert "orders" not in ended.stdout


@pytest.mark.parametrize(
    "expression",
    [
        'client == "10.77.1.12:50346"',
        'endpoint == "10.77.1.12:50346" or broker == "10.77.1.12:9092"',
        "member != nobody",
        "group == orders-group and not client_id == orders-1",
        "request.protocolType == consumer and request.protocols.name contains ran",
        "response.members.memberId",
        "latency_ms > 10 and error contains MEMBER",
    ],
)
def test_behind_pseudonyms_the_same_pass(expression: str, command: Command) -> None:
    shown = [
        command("sniff", "-r", JOINS, *hidden, "--fields", "connection,number", "-Y", expression).stdout
        for hidden in ((), ("--anonymize", "key"))
    ]
    assert shown[0] == shown[1] != ""


@pytest.mark.parametrize(
    "asked",
    [
        "topic contains",
        "client_id matches",
        "client contains",
        "member contains",
        "request contains",
        "request.topics.name ==",
        "request.protocols.metadata.topics ==",
        "response.errorMessage contains",
    ],
)
def test_what_pseudonyms_hide_is_refused(asked: str, command: Command) -> None:
    ended = command("sniff", "-r", JOINS, "--anonymize", "key", "-Y", f"api == Fetch or not {asked} orders")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"kafkascope: --filter: {asked}: behind pseudonyms only whole names are found")
    with pytest.raises(HiddenError, match="only whole names"):
        kafkascope.read(JOINS, filter=f"{asked} orders", anonymize="key")


def test_names_that_stay_are_asked_for_as_they_are(command: Command) -> None:
    """Topics of Kafka's own, those known by their id alone, and connections by number."""
    for topic in ("__consumer_offsets", "id:AAAAAAAAAAAAAAAAAAAAAQ"):
        ended = command("sniff", "-r", JOINS, "--anonymize", "key", "-Y", f'topic == "{topic}"')
        assert f"topic == {topic}: not there" in ended.stderr
    asked = ("sniff", "-r", JOINS, "--connection", "1", "--fields", "number")
    assert command(*asked, "--anonymize", "key").stdout == command(*asked).stdout != ""


def test_numbers_in_bodies_are_compared_whatever_they_are() -> None:
    """What a peer writes into a token: whole numbers that no floating one is, and floating ones."""
    expires: list[Any] = [1795244392.5, 2**60 + 1, 17]
    rows: list[Row] = [
        {f.name: None for f in EXCHANGES}
        | {"connection": 1, "number": n, "api": "SaslAuthenticate", "outcome": "answered", "decoded": "full"}
        | {"request": json.dumps({"authBytes": {"claims": {"exp": value}}})}
        for n, value in enumerate(expires)
    ]
    for some in (rows, rows[1:]):
        table = pa.Table.from_pylist(some, schema=EXCHANGES)
        for asked in (100, 100.5, 9007199254740993):
            hits = passes(parsed(f"request.authBytes.claims.exp > {asked}"), table)
            assert hits.tolist() == [expires[row["number"]] > asked for row in some]
