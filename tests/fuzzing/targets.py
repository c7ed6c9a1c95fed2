"""What untrusted bytes reach, as functions of bytes, each with seeds out of recordings and of samples by Kafka.

A target raises nothing: exceptions that a stage declares are caught here, and compiled code is held against its plain
reference where there is one. Kernels show the fuzzer no branches, so a target gives words and numbers, few of each,
that say what came of the bytes: an outcome that is new is of interest, as a branch is.
"""

from __future__ import annotations

import gzip
import os
import struct
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from kafkascope import in_process
from kafkascope.decoders import DecodeError, decode_request, decode_response, payloads, plain, to_json
from kafkascope.decoders.blanking import blank_records
from kafkascope.decoders.compression import CODECS, CompressionError, decompress, output_limit
from kafkascope.decoders.nested import decode_nested, decode_nested_record
from kafkascope.decoders.parts import dissect_body
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.decoders.sasl import SCRAM, decode_token
from kafkascope.decoders.tape import Status
from kafkascope.engine import ALL_TABLES, Engine, EngineOptions
from kafkascope.out.pipeline import AnalysisError
from kafkascope.reports.show.message_lines import MessageStyle, body_lines
from kafkascope.scrubbing import scrub
from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources import SourceError
from kafkascope.sniffer.sources.files import FileReader, open_capture
from kafkascope.sniffer.tls.keys import Keys
from tests.decoders import batches_of_bodies, oracle, test_json_text, test_record_columns, test_tape, written_batches
from tests.decoders.test_group_protocols import DECODERS
from tests.decoders.test_payloads import TOPICS
from tests.joined import joined
from tests.kafkascope.damaged_captures import beginning, pieces_of
from tests.paths import DATA, PCAPS
from tests.sniffer.tcp_conversation import BROKER, CLIENT, MILLISECOND, Packet, run, segments
from tests.sniffer.test_link import LINKS

Outcome = Iterable[Hashable]

TLS = PCAPS / "clients_tls"

LONGEST = 16_384
"""Bytes of an input."""

MEMORY_BYTES, MEMORY_TIMES = 256 << 20, 4_096
"""What an input may take at most: so many bytes, and so many times its own."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function of untrusted bytes; of a million inputs it gets so many as its share."""

    run: Callable[[bytes], Outcome]
    seeds: Callable[[], Iterable[bytes]]
    share: int


# ---------------------------------------------------------------------------------------------- packets and captures

_LINK_TYPES = (1, 0, 12, 14, 101, 108, 113, 228, 229, 276, 105, 147)  # https://www.tcpdump.org/linktypes.html
_CAPTURES = (
    ("net_vlan/capture.pcap", 60),
    ("clients_sasl/capture.pcap", 60),
    ("clients_old_formats/capture.pcap", 60),
    ("eager-three-joins/capture.pcap", 60),
    ("transactions/capture.pcap", 60),
)


def _links(data: bytes) -> Outcome:
    """A packet for each length (two bytes) and so many bytes; the first byte is the type of the link."""
    link = _LINK_TYPES[data[0] % len(_LINK_TYPES)] if data else 1
    start: list[int] = []
    captured: list[int] = []
    original: list[int] = []
    at = 1
    while at + 2 <= len(data) and len(start) < 64:
        size = int.from_bytes(data[at : at + 2], "big")
        start.append(at + 2)
        captured.append(min(size, len(data) - at - 2))
        original.append(size)
        at += 2 + size
    rows = len(start)
    found = dissect(
        Packets(
            np.frombuffer(data, np.uint8),
            np.arange(1, rows + 1),
            np.full(rows, 1_700_000_000_000_000_000),
            np.array(start, np.int64),
            np.array(captured, np.int32),
            np.array(original, np.int32),
            np.full(rows, link, np.int32),
        )
    )
    rows_of = found.segments
    assert np.all(rows_of.start >= 0)
    assert np.all(rows_of.start + rows_of.captured <= len(rows_of.data))
    assert np.all((rows_of.captured >= 0) & (rows_of.length >= rows_of.captured))
    return {*found.other, *(issue.kind for issue in found.issues), min(len(rows_of.start), 4), *rows_of.flags.tolist()}


def _link_seeds() -> Iterator[bytes]:
    for name in ("net_vlan", "net_ipv6", "net_formats"):
        for path in sorted((PCAPS / name).glob("*.pcap*")):
            for packets in FileReader(str(path)):
                for row in range(min(len(packets.start), 3)):
                    start, size = int(packets.start[row]), min(int(packets.captured[row]), 400)
                    link = int(packets.link_type[row])
                    if link in _LINK_TYPES:
                        body = packets.data[start : start + size].tobytes()
                        yield bytes([_LINK_TYPES.index(link)]) + size.to_bytes(2, "big") + body
                break
    for link, frame in LINKS.values():  # of tunnels, too
        if link in _LINK_TYPES:
            yield bytes([_LINK_TYPES.index(link)]) + len(bytes(frame)).to_bytes(2, "big") + bytes(frame)


def _files(data: bytes) -> Outcome:
    """A capture file: pcap, pcapng or what snoop and others write, compressed or not."""
    path = _written(data)
    try:
        reader = FileReader(str(path))
        packets = 0
        for batch in reader:
            packets += len(batch.number)
            assert np.all((batch.start >= 0) & (batch.captured >= 0))
            assert np.all(batch.start + batch.captured <= len(batch.data))
    except SourceError as error:
        return {str(error).split(":")[-1][:24]}
    return {min(packets, 20), *(issue.kind for issue in reader.issues)}


def _file_seeds() -> Iterator[bytes]:
    for path in sorted((PCAPS / "net_formats").glob("*.*")):
        if path.suffix not in (".md", ".json"):
            yield path.read_bytes()[:2_000]
    small = beginning("net_vlan/capture.pcap", 6)
    yield small
    yield gzip.compress(small)


def _written(data: bytes) -> Path:
    """A file of these bytes in memory, the same one each time."""
    place = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    path = place / f"kafkascope-fuzz-{os.getpid()}.pcap"
    path.write_bytes(data)
    return path


# ------------------------------------------------------------------------------------------------- TCP and exchanges

_SEGMENT = struct.Struct(">BbHHHBB")  # side and whether cut, acknowledged ahead, flags, offset, ms, length, shift
_ISN = 0xFFFFFF00  # so that numbers soon begin anew


def _tcp(data: bytes) -> Outcome:
    """Segments of one connection in any order; in one batch and packet by packet streams are the same."""
    packets: list[Packet] = []
    at = 0
    for side, ahead, flags, offset, after, length, changed in _SEGMENT.iter_unpack(
        data[: len(data) // _SEGMENT.size * _SEGMENT.size][: 200 * _SEGMENT.size]
    ):
        at += after * (MILLISECOND if after < 60_000 else 100 * MILLISECOND)
        source, target = (CLIENT, BROKER) if side & 1 else (BROKER, CLIENT)
        payload = bytes((offset + n + (changed & 1)) & 255 for n in range(length))
        captured = length // 2 if side & 2 else None
        packets.append(
            Packet(source, target, _ISN + offset, payload, flags & 31, _ISN + offset + ahead * 16, at, captured)
        )
    whole, single = (run(packets, cuts) for cuts in ((), range(1, len(packets))))
    assert whole.streams == single.streams
    assert whole.issues == single.issues
    assert sorted(map(str, whole.ended)) == sorted(map(str, single.ended))
    return {*whole.counts(), len(whole.ended), *(len(pieces) for pieces in whole.streams.values())}


def _tcp_seeds() -> Iterator[bytes]:
    handshake = [(1, 0, 2, 0, 0, 0, 0), (0, 0, 18, 0, 1, 0, 0), (1, 0, 16, 1, 1, 0, 0)]
    sent = [(1, 0, 24, 1, 1, 100, 0), (0, 6, 16, 1, 1, 0, 0), (0, 6, 24, 1, 1, 90, 0), (1, 6, 16, 101, 1, 0, 0)]
    again = [(1, 0, 24, 1, 200, 100, 0), (1, 0, 24, 51, 200, 100, 1), (1, 0, 24, 301, 9, 50, 0), (0, 0, 4, 9, 9, 0, 0)]
    for rows in (handshake + sent, handshake + sent + again, sent[::-1] + again, [*handshake, (1, 0, 17, 1, 1, 0, 0)]):
        yield b"".join(_SEGMENT.pack(*row) for row in rows)


_PLAIN = EngineOptions(tables=ALL_TABLES, views=frozenset())


def _exchanges(data: bytes) -> Outcome:
    """What two sides send in turn, see `_conversation`."""
    return _conversation(data, _PLAIN)


def _tls(data: bytes) -> Outcome:
    """As that, with the secrets of sessions, and the same bytes as more lines of a key log."""
    keys = Keys()
    keys.add((TLS / "tls.keylog").read_bytes())
    keys.add(data)
    options = replace(_PLAIN, session=SessionOptions(keys=keys))
    return {*_conversation(data, options), ("refused", keys.refused.bit_length())}


def _conversation(data: bytes, options: EngineOptions) -> Outcome:
    """What two sides send in turn: of each piece its length and, in its highest bit, whether the client sent it.

    A length whose second highest bit is set is that of a gap. Cut in the middle the same rows come.
    """
    packets: list[Packet] = []
    sent, at = {True: 1, False: 1}, 0
    while at + 2 <= len(data) and len(packets) < 64:
        size = int.from_bytes(data[at : at + 2], "big")
        of_client, is_lost, size = bool(size & 0x8000), bool(size & 0x4000), size & 0x3FFF
        payload = b"" if is_lost else data[at + 2 : at + 2 + size]
        source, target = (CLIENT, BROKER) if of_client else (BROKER, CLIENT)
        if payload:
            packets.append(
                Packet(source, target, sent[of_client], payload, 24, sent[not of_client], len(packets) * MILLISECOND)
            )
        sent[of_client] += size if is_lost else len(payload)
        at += 2 + len(payload)
    if not packets:
        return ()
    whole = segments(packets)
    engine, halves = Engine(options), Engine(options)
    tables = joined([*engine.feed(whole), *engine.finish()])
    half = len(packets) // 2
    parts = [whole.rows(slice(None, half)), whole.rows(slice(half, None))]
    again = joined([*(rows for part in parts for rows in halves.feed(part)), *halves.finish()])
    assert {name: table.num_rows for name, table in tables.items()} == {
        name: table.num_rows for name, table in again.items()
    }
    for table in tables.values():
        table.validate(full=True)
    told: set[Hashable] = {(name, min(table.num_rows, 8)) for name, table in tables.items()}
    if (connections := tables.get("connections")) is not None:
        told |= {("protocol", value) for value in connections["protocol"].to_pylist()}
    if (rows := tables.get("exchanges")) is not None:
        for name in ("api", "outcome", "decoded", "issue"):
            told |= {(name, value) for value in rows[name].unique().to_pylist()}
    return told


def _exchange_seeds() -> Iterator[bytes]:
    for name, packets in _CAPTURES:
        yield from _conversations(name, packets)


def _tls_seeds() -> Iterator[bytes]:
    return _conversations("clients_tls/capture.pcap", 120)


def _conversations(name: str, packets: int) -> Iterator[bytes]:
    """What the connections of a capture send at first, as `_conversation` reads it."""
    by_connection: dict[tuple[object, ...], list[bytes]] = {}
    for piece in pieces_of(name, packets):
        if piece.payload:
            of_client = 0x8000 if piece["source_port"] > piece["target_port"] else 0
            payload = piece.payload[:0x3FFF]
            by_connection.setdefault(piece.connection, []).append(
                (of_client | len(payload)).to_bytes(2, "big") + payload
            )
    for parts in by_connection.values():
        yield b"".join(parts[:12])


# ------------------------------------------------------------------------------------------------------------ bodies


@cache
def _layouts() -> tuple[tuple[int, int, bool], ...]:
    return tuple(sorted({body[:3] for body in map(batches_of_bodies.body_of, batches_of_bodies.EXCHANGES)}))


def _bodies(data: bytes) -> Outcome:
    """A body of an API, version and direction: the tape and its text say what the reference says."""
    layouts = _layouts()
    key, version, response = layouts[int.from_bytes(data[:2], "big") % len(layouts)]
    bodies = [(key, version, response, data[2:])]
    test_tape.compare_with_reference(bodies)
    test_json_text.compare_with_reference(bodies)
    tape = batches_of_bodies.tape_of(bodies)
    return (key, response, Status(tape.status[0]).name), ("rows", len(tape.field).bit_length())


def _body_seeds() -> Iterator[bytes]:
    places = {layout: number for number, layout in enumerate(_layouts())}
    for body in batches_of_bodies.small_bodies(600):
        yield places[body[:3]].to_bytes(2, "big") + body[3]


def _nested(data: bytes) -> Outcome:
    """What bodies hold that is no field of theirs: subscriptions, assignments, tokens, forwarded requests."""
    layouts = _layouts()
    key, version, response = layouts[int.from_bytes(data[:2], "big") % len(layouts)]
    try:
        body = (decode_response if response else decode_request)(key, version, data[2:])
    except DecodeError as error:
        body = error.partial if isinstance(error.partial, dict) else {}
    shown = decode_nested(key, body, response=response)
    assert shown.keys() == body.keys()
    to_json(shown).encode()
    return {key, len(shown)}


def _parts(data: bytes) -> Outcome:
    """A body field by field: the parts are its bytes, each once, and lines can be made of them."""
    layouts = _layouts()
    key, version, response = layouts[int.from_bytes(data[:2], "big") % len(layouts)]
    body, wrong = data[2:], None
    try:
        read = (decode_response if response else decode_request)(key, version, body)
    except DecodeError as error:
        read, wrong = error.partial if isinstance(error.partial, dict) else {}, error
    part, trouble = dissect_body(key, version, body, response=response)
    assert part is not None
    assert (trouble is None) == (wrong is None)
    shown = plain(decode_nested(key, read, response=response))
    lines = list(body_lines(key, part, trouble, body, shown, MessageStyle(as_hex=True)))
    assert sum(one.head for one in part.walk()) == part.end <= len(body)
    return {(key, response, trouble is None), len(lines).bit_length()}


def _payloads(data: bytes) -> Outcome:
    """Records that brokers keep, what members tell each other, and tokens."""
    what, rest = data[0] if data else 0, data[1:]
    size = rest[0] if rest else 0
    key, value = rest[1 : 1 + size], rest[1 + size :]
    mechanisms = ("PLAIN", *sorted(SCRAM), "OAUTHBEARER", "GSSAPI", None)
    told: set[Hashable] = {what % 8}
    for attempt in (
        lambda: payloads.decode_stored_record(TOPICS[what % len(TOPICS)], key, value),
        lambda: decode_nested_record(TOPICS[what % len(TOPICS)], key, value),
        lambda: DECODERS[what % len(DECODERS)](value),
        lambda: payloads.decode_principal(value),
        lambda: decode_token(mechanisms[what % len(mechanisms)], value, from_client=bool(what & 128)),
    ):
        try:
            found = attempt()
        except DecodeError as error:
            told.add(str(error)[-12:])
        else:
            fields = found if isinstance(found, dict) or found is None else found.as_dict()
            to_json(fields).encode()
            told.add(len(fields or ()))
    return told


def _payload_seeds() -> Iterator[bytes]:
    for number, sample in enumerate(oracle.samples(DATA / "oracle.ndjson.gz")):
        if "kind" in sample and number % 5 == 0:
            wire = bytes.fromhex(sample["frame_hex"])
            if len(wire) < 400:
                yield bytes([number % 256, 0]) + wire
    yield b"\0\0\0user\0password"
    yield b"\1\0n,,n=user,r=fyko"


# ----------------------------------------------------------------------------------------------------------- records


def _records(data: bytes) -> Outcome:
    """A field of records: columns say what the reference says."""
    fields = test_record_columns.assert_equal_to_reference([data], limit=1 << 20)
    made, counts = blank_records(data, limit=1 << 20)
    assert len(made) == len(data)
    return {int(fields.trailing_bytes[0]).bit_length(), int(fields.unread_bytes[0]).bit_length(), -counts.lost}


def _record_seeds() -> Iterator[bytes]:
    yield from (data for _, data in written_batches.bits_of_every_kind())
    yield from (data for data, _ in written_batches.samples() if len(data) < 2_000)


def _codecs(data: bytes) -> Outcome:
    """The payload of a batch, of any codec and magic."""
    codec, magic = (data[0] % 5, data[0] // 5 % 3) if data else (0, 2)
    try:
        clear = decompress(codec, data[1:], output_limit(len(data), 1 << 20), magic=magic)
    except CompressionError as error:
        return {(CODECS[codec], str(error)[:24])}
    assert len(clear) <= output_limit(len(data), 1 << 20)
    return {(CODECS[codec], len(clear).bit_length())}


def _codec_seeds() -> Iterator[bytes]:
    for codec in range(1, 5):
        for clear in (b"", b"abc", b"kafkascope " * 40, bytes(2_000)):
            yield bytes([codec + 10]) + written_batches.compress(codec, clear)


# ----------------------------------------------------------------------------------------------------------- answers


def _answers(data: bytes) -> Outcome:
    """A capture file, all the way to the tables and the report on disk."""
    path = _written(data)
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        try:
            analysis = in_process.analyze([str(path)], f"{directory}/out")
        except (SourceError, AnalysisError) as error:
            return {str(error).split(":")[-1][:24]}
    assert analysis.report_failure is None
    return {(name, rows.bit_length()) for name, rows in analysis.rows.items()}


def _scrubbed(data: bytes) -> Outcome:
    """A capture file to one that can be handed to others, packet by packet as long."""
    path = _written(data)
    out = path.with_suffix(".pcapng")
    try:
        done = scrub([str(path)], str(out), Pseudonyms("key"))
        with open_capture(str(out)) as capture:
            assert sum(len(packets.number) for packets in capture) == done.packets
    except SourceError as error:
        return {str(error).split(":")[-1][:24]}
    finally:
        out.unlink(missing_ok=True)
    return {done.frames.bit_length(), (done.batches.batches.bit_length(), done.batches.lost), *done.protocols}


def _answer_seeds() -> Iterator[bytes]:
    for name, packets in _CAPTURES:
        yield beginning(name, packets)[:LONGEST]


TARGETS = {
    "answers": Target(_answers, _answer_seeds, 2_500),
    "bodies": Target(_bodies, _body_seeds, 200_000),
    "codecs": Target(_codecs, _codec_seeds, 195_000),
    "exchanges": Target(_exchanges, _exchange_seeds, 10_000),
    "files": Target(_files, _file_seeds, 55_000),
    "links": Target(_links, _link_seeds, 150_000),
    "nested": Target(_nested, _body_seeds, 100_000),
    "parts": Target(_parts, _body_seeds, 50_000),
    "payloads": Target(_payloads, _payload_seeds, 125_000),
    "records": Target(_records, _record_seeds, 75_000),
    "scrubbed": Target(_scrubbed, _answer_seeds, 5_000),
    "tcp": Target(_tcp, _tcp_seeds, 25_000),
    "tls": Target(_tls, _tls_seeds, 7_500),
}
