"""A capture on all interfaces of a host that translates the broker's address: it tells what one without that tells."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import kafkascope
from kafkascope.capture import Capture
from tests.kafkascope.joined_captures import Record, records_of, write
from tests.kafkascope.test_parity import same_tables
from tests.paths import PCAPS

STORY = PCAPS / "rebalance-storm" / "capture.pcap"
BROKER, POD = socket.inet_aton("10.77.9.11"), socket.inet_aton("172.18.0.3")
LATER = 20_000  # nanoseconds
_SOURCE, _TARGET = slice(26, 30), slice(30, 34)  # of Ethernet and IPv4
# What hangs on which packets there are.
_ELSEWHERE = {"file", "connection", "packet", "first_packet", "number", "evidence", "connections", "request_packet"}
_ELSEWHERE |= {"response_packet", "failed_packet", "back_connection"}


def translated(record: Record) -> Record:
    at, size, data = record
    bytes_ = bytearray(data)
    for end in (_SOURCE, _TARGET):
        if bytes_[end] == BROKER:
            bytes_[end] = POD
    return at + LATER, size, bytes(bytes_)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    header, records = records_of(STORY)
    both = [one for record in records for one in (record, translated(record))]
    return write(tmp_path_factory.mktemp("translated") / "any.pcap", header, both)


@pytest.fixture(scope="module")
def capture(path: str) -> Capture:
    return kafkascope.read(path)


def rows(capture: Capture, table: str) -> list[Any]:
    return sorted((kept(row) for row in capture.arrow(table).to_pylist()), key=str)


def kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: kept(member) for name, member in value.items() if name not in _ELSEWHERE}
    return [kept(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "table", ["exchanges", "connections", "tcp_health", "partitions", "rebalances", "throughput", "lag", "incidents"]
)
def test_it_tells_what_one_without_copies_tells(capture: Capture, table: str) -> None:
    assert rows(capture, table) == rows(kafkascope.read(STORY), table)


def test_copies_are_counted(capture: Capture) -> None:
    (issue,) = (row for row in capture.arrow("issues").to_pylist() if row["kind"] == "address_translated")
    assert issue["count"] == len(records_of(STORY)[1])
    assert "172.18.0.3" in issue["detail"]


def test_all_ways_give_the_same(path: str, capture: Capture, spark: Any, tmp_path: Path) -> None:
    from kafkascope import in_process
    from kafkascope.spark import analyze

    in_process.analyze([path], str(tmp_path / "here"))
    analyze([path], str(tmp_path / "there"), spark=spark, split_bytes=300_000, partitions=5)
    for out in ("here", "there"):
        same_tables(capture, tmp_path / out)
