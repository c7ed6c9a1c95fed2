"""Connections that show too little to be recognised, taken for Kafka because the user says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafkascope
from kafkascope.decoders.apis import HEARTBEAT
from tests.decoders.written_messages import HEARTBEAT_0, request, response
from tests.kafkascope.conftest import Command
from tests.sniffer.sources.written_captures import capture_of
from tests.sniffer.tcp_conversation import Conversation, Packet, talk

PORT = 9092


def from_the_middle(*parts: tuple[int, bytes]) -> list[Packet]:
    """A connection whose opening and closing are not in the capture."""
    of = Conversation()
    for side, part in parts:
        of.send(side, part)
    return of.packets


NEW = 99  # a version that no release knows
CAPTURES = {  # packets; outcome, API and decoded of the exchanges there are if the port is said to be Kafka's
    "one answer": (from_the_middle((1, response(5))), [("orphan", None, "none")]),
    "one request that nobody knows": (
        from_the_middle((0, request(5, HEARTBEAT, NEW, HEARTBEAT_0))),
        [("unanswered", "Heartbeat", "header")],
    ),
    "a request that nobody knows, and its answer": (
        from_the_middle((0, request(5, HEARTBEAT, NEW, HEARTBEAT_0)), (1, response(5))),
        [("answered", "Heartbeat", "header")],
    ),
    "answers without requests": (talk(b"", response(5)), [("orphan", None, "none")]),
    "two requests that nobody knows in a packet, behind half a one": (
        from_the_middle(
            (0, request(4, HEARTBEAT, NEW, HEARTBEAT_0)[9:]),
            (0, request(5, HEARTBEAT, NEW, HEARTBEAT_0) + request(6, HEARTBEAT, NEW, HEARTBEAT_0)),
            (1, response(5)),
        ),
        [("answered", "Heartbeat", "header"), ("unanswered", "Heartbeat", "header")],
    ),
}
Found = list[tuple[Any, ...]]


def plain(rows: list[dict[str, Any]]) -> Found:
    rows = sorted(rows, key=lambda row: row["number"])
    return [(row["outcome"], row["api"], row["decoded"]) for row in rows]


@pytest.mark.parametrize("name", CAPTURES)
def test_it_is_kafka_only_where_that_is_said(name: str, command: Command, tmp_path: Path) -> None:
    packets, expected = CAPTURES[name]
    path = tmp_path / "capture.pcap"
    path.write_bytes(capture_of(packets))
    for said, found in (([], []), ([PORT + 1], []), ([PORT], expected)):
        tables = kafkascope.read(path, decode_as=said)
        assert plain(tables.arrow("exchanges").to_pylist()) == found
        assert (tables.connections.protocol == "kafka").tolist() == [bool(found)]
        flags = [word for port in said for word in ("--decode-as", str(port))]
        done = command("sniff", "-r", str(path), "--fields", "number,outcome,api,decoded", *flags)
        shown = [line.split("\t")[1:] for line in done.stdout.splitlines()]
        assert shown == [[outcome, api or "", decoded] for outcome, api, decoded in found]
        assert ("no Kafka was found" in done.stderr) == (not found)


def test_bytes_that_are_no_frames_are_told_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(capture_of(from_the_middle((0, b"hello"), (1, b"world, this is no frame"))))
    tables = kafkascope.read(path, decode_as=[PORT])
    assert tables.exchanges.empty
    assert tables.issues.kind.tolist() == ["bytes_skipped"]
    assert tables.issues["count"].tolist() == [2]
