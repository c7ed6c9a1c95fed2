"""Frames, bodies and files that no one should have made: what is said of them, and what is read all the same."""

from __future__ import annotations

import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

import kafkascope
from kafkascope.decoders.apis import HEARTBEAT, METADATA, OFFSET_COMMIT, PRODUCE
from kafkascope.decoders.limits import DEFAULT
from kafkascope.engine import Engine, Tables
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS
from kafkascope.sniffer.sources import SourceError
from tests.decoders import written_batches
from tests.decoders.written_messages import HEARTBEAT_0, request, response
from tests.joined import joined
from tests.kafkascope.conftest import Command
from tests.kafkascope.damaged_captures import FILE_HEADER, OPTIONS, Row, beginning, record_offsets
from tests.paths import PCAPS
from tests.sniffer.sources.written_captures import capture_of
from tests.sniffer.tcp_conversation import Conversation, Packet, segments, talk
from tests.steps import steps


def number(size: int, value: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def told_of(*parts: bytes) -> tuple[list[Row], list[Row]]:
    """Of a connection whose sides send the parts in turn, between two sound exchanges: exchanges 2, and all issues."""
    before, after = ((request(at, HEARTBEAT, 0, HEARTBEAT_0), response(at)) for at in (1, 3))
    engine = Engine(OPTIONS)
    tables = joined([*engine.feed(segments(talk(*before, *parts, *after))), *engine.finish()])
    rows = tables["exchanges"].to_pylist()
    around = [row for row in rows if row["correlation_id"] in (1, 3)]
    assert [(row["outcome"], row["decoded"], row["issue"]) for row in around] == [("answered", "full", None)] * 2
    issues = tables["issues"].to_pylist() if "issues" in tables else []
    assert {issue["kind"] for issue in issues} <= set(ISSUE_KINDS)
    return [row for row in rows if row["correlation_id"] == 2], issues


FLEXIBLE = b"\0"
BAD_BODIES = {
    "array of 2^31 - 1": (request(2, METADATA, 0, number(4, 2**31 - 1) + bytes(30)), "2147483647", "undecodable_body"),
    "array of -2^31": (request(2, METADATA, 0, number(4, -(2**31))), "-2147483648", "undecodable_body"),
    "compact array of 2^32 - 2": (
        request(2, METADATA, 9, b"\xff\xff\xff\xff\x0f" + bytes(30), tags=FLEXIBLE),
        "4294967294",
        "undecodable_body",
    ),
    "endless varint": (request(2, METADATA, 9, b"\xff" * 200, tags=FLEXIBLE), "at most 5 bytes", "undecodable_body"),
    "endless varint in the header": (request(2, METADATA, 9, b"\xff" * 200), "inside the header", "undecodable_header"),
    "string beyond the frame": (request(2, HEARTBEAT, 0, number(2, 32767) + HEARTBEAT_0), "32767", "undecodable_body"),
    "string of -30": (request(2, HEARTBEAT, 0, number(2, -30) + HEARTBEAT_0), "-30", "undecodable_body"),
    "cut body": (request(2, HEARTBEAT, 0, HEARTBEAT_0[:3]), "generationId", "undecodable_body"),
    "bytes left over": (request(2, HEARTBEAT, 0, HEARTBEAT_0 + b"more"), "4 bytes left over", "bytes_left_over"),
    "unknown API": (request(2, 150, 3, b"abc"), "API key 150", "unknown_api"),
    "unknown API far off": (request(2, 31_000, 3, b"abc"), "API key 31000", "unknown_api"),
    "unknown version": (request(2, METADATA, 99, b"abc"), "version 99 of Metadata", "unknown_version"),
    "unknown version far off": (request(2, METADATA, 999, b"abc"), "version 999 of Metadata", "unknown_version"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_body_is_paired_timed_and_told_of(name: str) -> None:
    asked, expected, kind = BAD_BODIES[name]
    (row,), issues = told_of(asked, response(2))
    assert (row["outcome"], row["latency_ms"], row["client_id"]) == ("answered", 1.0, "c")
    assert row["api_key"] == int.from_bytes(asked[4:6], "big")
    assert expected in row["issue"]
    assert kind in {issue["kind"] for issue in issues}
    decoded = {"bytes left over": ("full", "header"), "endless varint in the header": ("none", "header")}
    assert row["decoded"] in decoded.get(name, ("header",))


@pytest.mark.parametrize("size", [2**31 - 1, -5, 0])
@pytest.mark.parametrize("side", [0, 1])
def test_a_size_that_cannot_be_costs_one_frame(size: int, side: int) -> None:
    parts = [request(2, HEARTBEAT, 0, HEARTBEAT_0), response(2)]
    parts[side] = (request(2, HEARTBEAT, 0, HEARTBEAT_0, size=size), response(2, b"\0\0", size=size))[side]
    rows, issues = told_of(*parts)
    assert all(row["outcome"] in ("unanswered", "orphan") for row in rows)
    told = {issue["kind"]: issue for issue in issues}
    assert str(size) in told["implausible_size"]["detail"]
    assert told["bytes_skipped"]["packet"]


def batch(codec: int, content: bytes, records: int = 1) -> bytes:
    return written_batches.batch(b"", records, codec=codec, payload=content)


def produce(records: bytes) -> bytes:
    body = number(2, -1) + number(2, 1) + number(4, 1000) + number(4, 1) + b"\0\1t" + number(4, 1) + number(4, 0)
    return request(2, PRODUCE, 3, body + number(4, len(records)) + records)


def zeros_in_gzip(size: int) -> bytes:
    """The same bytes again and again, as to compress them all takes seconds; RFC 1952 has the frame."""
    zeros, check = bytes(1 << 20), 0
    for _ in range(size >> 20):
        check = zlib.crc32(zeros, check)
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = block * (size >> 20) + packer.flush()
    return b"\x1f\x8b\x08" + bytes(7) + packed + struct.pack("<II", check, size & 0xFFFFFFFF)


def zeros_in_snappy(size: int) -> bytes:
    """A literal byte, then copies of 64 bytes at distance 1: https://github.com/google/snappy, format_description."""
    length, rest = bytearray(), size
    while rest:
        length.append(rest & 127 | (128 if rest > 127 else 0))
        rest >>= 7
    return bytes(length) + b"\0\0" + b"\xfe\x01\x00" * ((size - 1) // 64)


BOMB = 1 << 30
BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: batch(1, zeros_in_gzip(BOMB)),
    "snappy": lambda: batch(2, zeros_in_snappy(BOMB + 1)),
    "snappy that claims 4 GiB": lambda: batch(2, b"\xff\xff\xff\xff\x0f\0\0"),
    "lz4": lambda: batch(3, _lz4_zeros(BOMB)),
    "zstd": lambda: batch(4, _zstd_zeros(BOMB)),
    "2^31 - 1 records": lambda: batch(0, bytes(20), 2**31 - 1),
}


def _lz4_zeros(size: int) -> bytes:
    packer = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    return b"".join([packer.begin(), *(packer.compress(bytes(1 << 22)) for _ in range(size >> 22)), packer.flush()])


def _zstd_zeros(size: int) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join([*(packer.compress(bytes(1 << 22)) for _ in range(size >> 22)), packer.flush()])


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_an_issue_and_no_outage(name: str) -> None:
    asked = produce(BOMBS[name]())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (row,), issues = told_of(asked, response(2, number(4, 0) + number(4, 0)))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert (row["api"], row["outcome"]) == ("Produce", "answered")
    assert {issue["kind"] for issue in issues} & {"compression_bomb", "bad_batch"}, issues
    assert grown < BOMB // 2


def test_a_body_of_very_many_empty_topics_is_read_in_part() -> None:
    head = b"\0\1g" + number(4, 0) + b"\0\1m" + number(8, -1)
    topics = DEFAULT.elements + 100_000
    asked = request(2, OFFSET_COMMIT, 2, head + number(4, topics) + bytes(6) * topics)
    (row,), issues = told_of(asked, response(2, number(4, 0)))
    assert (row["outcome"], row["decoded"], row["group_id"]) == ("answered", "header", "g")
    assert (row["request"], row["response"]) == (None, '{"topics": []}')
    assert row["issue"].startswith(f"request: too large: its first {3 * DEFAULT.elements + 5:,} values are read")
    assert [(issue["kind"], issue["count"]) for issue in issues] == [("body_too_large", 1)]


@pytest.mark.parametrize("size", range(1, 30))
def test_a_first_request_in_two_packets_is_no_other_protocol(size: int) -> None:
    of = Conversation()
    of.open()
    asked = request(2, METADATA, 0, number(4, 1) + b"\0\1t")  # begins as a startup message of PostgreSQL does
    of.send(0, asked[:size])
    of.send(0, asked[size:])
    of.send(1, response(2, number(4, 0) + number(4, 0)))
    engine = Engine(OPTIONS)
    sent = ((at, packet) for at, packet in enumerate(of.packets, 1) if packet.payload or at < 4)
    rows = [tables for at, packet in sent for tables in engine.feed(segments([packet], at))]
    (row,) = joined([*rows, *engine.finish()])["exchanges"].to_pylist()
    assert (row["api"], row["decoded"]) == ("Metadata", "full")


CAPTURE = beginning("net_vlan/capture.pcap", 300)
ENDS = record_offsets(CAPTURE)


def with_word(at: int, value: int) -> bytes:
    return CAPTURE[:at] + struct.pack("<I", value) + CAPTURE[at + 4 :]


TLS = capture_of(talk(bytes.fromhex("1603010200010001fc0303") + bytes(500), bytes.fromhex("160303007a02000076")))
HTTP = capture_of(talk(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"))
NOTHING = {
    "no file": (None, ("no such file", "Check the name")),
    "empty": (b"", ("the file is empty", "Check how it was made")),
    "text": (b"hello world\nthis is not it\n", ("this is text", "'hello world'", "Give a pcap")),
    "noise": (bytes(range(128, 228)), ("not a capture", "offset 0", "Give a pcap")),
    "cut file header": (CAPTURE[:20], ("20 of 24 bytes", "Copy the file again")),
}
DAMAGED = {  # content, kind of issue, packet, what is said; all but a few exchanges are read
    "truncated": (CAPTURE[:-7], "truncated_capture", 300, "7 bytes are missing"),
    "4 GiB record": (with_word(ENDS[99] + 8, 0xFFFFFFFF), "damaged_packet_record", 101, f"offset {ENDS[99]}"),
    "4 GiB record last": (with_word(ENDS[-2] + 8, 0xFFFFFFF0), "damaged_packet_record", 300, f"offset {ENDS[-2]}"),
    "longer than on the wire": (with_word(ENDS[49] + 12, 1), "captured_exceeds_original", 51, "more bytes than"),
}
NO_KAFKA = {
    "header alone": (CAPTURE[:FILE_HEADER], ("no packets",)),
    "unknown link type": (with_word(20, 156), ("packet 1", "link type 156", "300 times", "no Kafka was found")),
    "http": (HTTP, ("no Kafka was found in 8 packets", "1 connection of HTTP")),
    "tls": (TLS, ("no Kafka was found in 8 packets", "1 connection is encrypted with TLS, to port 9092")),
}


@pytest.mark.parametrize("name", NOTHING)
def test_where_nothing_can_be_read_the_message_says_why(command: Command, name: str, tmp_path: Path) -> None:
    content, expected = NOTHING[name]
    path = tmp_path / "the.pcap"
    if content is not None:
        path.write_bytes(content)
    done = command("sniff", "-r", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    with pytest.raises(SourceError) as raised:
        kafkascope.read(path)
    for message in (done.stderr, str(raised.value)):
        assert str(path) in message
        assert all(part in message for part in expected), message
    assert "Traceback" not in done.stderr


def test_a_directory_without_captures(command: Command, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    done = command("sniff", "-r", str(tmp_path))
    assert done.returncode == 1
    assert "no captures" in done.stderr
    with pytest.raises(SourceError, match="no captures"):
        kafkascope.read(tmp_path)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_read_but_for_the_damage(command: Command, name: str, tmp_path: Path) -> None:
    content, kind, packet, expected = DAMAGED[name]
    path = tmp_path / "the.pcap"
    path.write_bytes(content)
    done = command("sniff", "-r", str(path))
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) >= 75
    assert str(path) in done.stderr
    assert f"packet {packet}: " in done.stderr
    assert expected in done.stderr
    issues = kafkascope.read(path).issues
    assert packet in issues[issues.kind == kind].packet.tolist()


@pytest.mark.parametrize("name", NO_KAFKA)
def test_where_no_kafka_is_it_says_what_was_seen(command: Command, name: str, tmp_path: Path) -> None:
    content, expected = NO_KAFKA[name]
    path = tmp_path / "the.pcap"
    path.write_bytes(content)
    done = command("sniff", "-r", str(path))
    assert (done.returncode, done.stdout) == (0, "")
    assert all(part in done.stderr for part in expected), done.stderr
    read = kafkascope.read(path)
    assert read.exchanges.empty
    assert "nothing can be said of incidents" in repr(read)
    for arguments in (
        ["analyze", "--in-process", "-o", str(tmp_path / "out")],
        ["report", "-o", str(tmp_path / "r.html")],
    ):
        again = command("kafkascope", *arguments, str(path))
        assert again.returncode == 0
        told = done.stderr.splitlines()[-1].replace(f"{path}:", f"{tmp_path.name}/the.pcap:")
        assert told in again.stderr.splitlines()


def test_one_bad_file_among_good_ones_is_an_issue(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(CAPTURE)
    (tmp_path / "b.pcap").write_bytes(b"")
    read = kafkascope.read([tmp_path / "a.pcap", tmp_path / "b.pcap"])
    assert len(read.exchanges) == 76
    (issue,) = read.issues[read.issues.kind == "unreadable_file"].detail
    assert "b.pcap" in issue


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gone.pcap", "no such file"), ("gone-*.pcap", "no capture matches"), ("folder", "no captures are in")],
)
def test_what_is_missing_beside_a_good_file_is_told_and_is_an_error(
    command: Command, name: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "good.pcap").write_bytes(CAPTURE)
    (tmp_path / "folder").mkdir()
    good = command("sniff", "-r", str(tmp_path / "good.pcap"))
    done = command("sniff", "-r", *(str(tmp_path / one) for one in ("first.pcap", "good.pcap", name)))
    assert (good.returncode, done.returncode) == (0, 1)
    assert done.stdout == good.stdout
    assert f"{tmp_path / 'first.pcap'}: no such file" in done.stderr
    assert f"{tmp_path / name}: {expected}" in done.stderr


def test_a_missing_file_does_not_keep_others_from_being_compared(tmp_path: Path) -> None:
    same = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path in same:
        path.write_bytes(CAPTURE)
    read, beside = kafkascope.read(same), kafkascope.read([*same, tmp_path / "gone.pcap"])
    assert beside.summary["clocks"]
    assert beside.summary | {"issues": {}} == read.summary | {"issues": {}}


def test_connections_on_a_port_of_kafka_that_are_not_taken_for_it_are_told(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "the.pcap"
    path.write_bytes(HTTP)
    told = "1 connection to a port of Kafka was not taken for Kafka: 1 to port 9092 (1 of HTTP)"
    assert "not taken" not in command("sniff", "-r", str(path)).stderr
    assert told in command("sniff", "-r", str(path), "--port", "9092").stderr
    assert "1 connection on ports of Kafka not taken for Kafka" in repr(kafkascope.read(path, ports=[9092]))
    noise = command("sniff", "-r", str(PCAPS / "net_noise" / "capture.pcap")).stderr
    assert "not taken for Kafka: 14 to port 9092 (4 of HTTP, 4 of an unknown protocol whose messages begin" in noise


def test_connections_of_one_packet_cost_the_same_however_many_there_are() -> None:
    def steps_for(count: int) -> int:
        asked = request(2, HEARTBEAT, 0, HEARTBEAT_0)
        batch = segments([Packet(("10.0.0.2", 20_000 + i), ("10.0.0.1", 9092), 7, asked, at=i) for i in range(count)])
        engine = Engine(OPTIONS)
        found: list[Tables] = []
        taken = steps(lambda: found.extend([*engine.feed(batch), *engine.finish()]))
        tables = joined(found)
        assert len(tables["connections"]) == len(tables["exchanges"]) == len(tables["issues"]) / 2 == count
        return taken

    steps_for(1000)  # makes what is made when it is first asked for
    assert steps_for(1000) < 4.2 * steps_for(250)


def test_of_one_file_beside_missing_ones_every_packet_is_read(tmp_path: Path) -> None:
    good = tmp_path / "good.pcap"
    good.write_bytes(CAPTURE)
    read, beside = kafkascope.read(good), kafkascope.read([tmp_path / "gone.pcap", good])
    assert beside.summary | {"issues": {}} == read.summary | {"issues": {}}
    assert beside.arrow("connections").equals(read.arrow("connections"))
    assert beside.arrow("exchanges").equals(read.arrow("exchanges"))
