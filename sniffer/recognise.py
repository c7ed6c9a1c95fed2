"""Which bytes are Kafka: credible headers, other protocols by their first bytes, and bodies that fit a layout.

Request headers: int16 api key, int16 api version, int32 correlation id, and from header version 1 on a nullable client
id with an int16 length, in header 2 tagged fields behind it (RequestHeader.json, KIP-482).
"""

from __future__ import annotations

import codecs
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from kafkascope.decoders import apis
from kafkascope.decoders.kernels import allocating, borrowing, kernel
from kafkascope.decoders.program import ARRAY as ARRAY_OPERATION
from kafkascope.decoders.program import COMPACT_ARRAY as COMPACT_ARRAY_OPERATION
from kafkascope.decoders.program import END_ARRAY, END_STRUCT, END_TAG, STRUCT, TAG, TAGS, Programs, programs
from kafkascope.decoders.sasl import KERBEROS
from kafkascope.decoders.tape import Status, text_step, try_layouts, unsigned_varint
from kafkascope.sniffer.columns import I32, I64, U8, Bool, Runs

CREDIBLE_KEY = 200  # at the start of a connection: known APIs end at 92
CREDIBLE_VERSION = 200
CORRELATION_ID = 4  # bytes; the smallest response is no more than that
FITS = int(Status.OK)  # kernels know constants, not members of an enum
LONGEST_CLIENT_ID = 1024  # that recognition believes by the header alone, if it is text; of others the body must tell
LARGEST_DOUBTFUL = 1 << 20  # bytes of a frame that are waited for to have its body tell

# Columns of a header as read_request_header writes it.
HEADER_KEY, HEADER_VERSION, HEADER_CORRELATION, HEADER_CLIENT_ID, HEADER_CLIENT_ID_LENGTH, HEADER_BODY = range(6)
HEADER_COLUMNS = 6


@borrowing
def int16(data: U8, position: Any) -> Any:
    """A big-endian int16 as int64; the caller knows that two bytes are there."""
    return np.int64(np.int16((np.uint16(data[position]) << np.uint16(8)) | np.uint16(data[position + 1])))


@kernel
def int32(data: U8, position: int) -> Any:
    """A big-endian int32 as int64; the caller knows that four bytes are there."""
    value = np.int64(0)
    for index in range(4):
        value = (value << np.int64(8)) | np.int64(data[position + index])
    return value - (np.int64(1) << np.int64(32)) if value >= np.int64(1) << np.int64(31) else value


response_layout_version = borrowing(apis.response_layout_version)


@borrowing
def behind_tags(data: U8, position: Any, end: int) -> Any:
    """Position behind a section of tagged fields, or -1 if it is not whole."""
    count, position = unsigned_varint(data, position, end)
    if count < 0 or count > end - position:
        return np.int64(-1)
    for _ in range(count):
        tag, position = unsigned_varint(data, position, end)
        if tag < 0:
            return np.int64(-1)
        size, position = unsigned_varint(data, position, end)
        if size < 0 or size > end - position:
            return np.int64(-1)
        position += size
    return np.int64(position)


@borrowing
def is_valid(key: int, version: int, table: apis.ApiTable) -> Any:
    """Whether the schemas know this version of this API: apis.is_known for kernels."""
    return 0 <= key < table.first_version.size and table.first_version[key] <= version <= table.last_version[key]


@kernel
def response_layout(data: U8, start: int, end: int, key: int, version: int, flexible: I64) -> Any:
    """The version of a response's layout, given the request's; where its body begins, -1 if the header is not whole.

    Flexible: for each API key the first version with header 1.
    """
    body = start + CORRELATION_ID
    if end - body >= 2:
        version = response_layout_version(key, version, int16(data, body))
    if not 0 <= key < flexible.size or version >= flexible[key]:
        body = behind_tags(data, body, end)
    return version, body


@kernel
def read_request_header(data: U8, start: int, end: int, flexible: I64, header: I64) -> Any:
    """Read the header of a request frame, as far as it is there; header takes the HEADER_ columns, positions in data.

    HEADER_BODY is -1 if the header is not whole, HEADER_CLIENT_ID if there is none. Flexible: of each API key the first
    version with header 2. Returns False if fewer than 8 bytes are there or the client id's length cannot be.
    """
    header[HEADER_CLIENT_ID] = -1
    header[HEADER_CLIENT_ID_LENGTH] = 0
    header[HEADER_BODY] = -1
    if end - start < 8:
        return False
    key = int16(data, start)
    version = int16(data, start + 2)
    header[HEADER_KEY] = key
    header[HEADER_VERSION] = version
    header[HEADER_CORRELATION] = int32(data, start + 4)
    position = np.int64(start + 8)
    if key == apis.CONTROLLED_SHUTDOWN and version == 0:  # the only one with header 0
        header[HEADER_BODY] = position
        return True
    if end - position < 2:
        return True
    length = int16(data, position)
    position += 2
    if length < -1:
        return False
    if length >= 0:
        if length > end - position:
            return True
        header[HEADER_CLIENT_ID] = position
        header[HEADER_CLIENT_ID_LENGTH] = length
        position += length
    is_flexible = not 0 <= key < flexible.size or version >= flexible[key]
    header[HEADER_BODY] = behind_tags(data, position, end) if is_flexible else position
    return True


@borrowing
def acks_at(data: U8, body: int, end: int, version: int) -> Any:
    """Position of a Produce request's acks, behind its transactional id (v3+), or -1 if they are not there."""
    position = np.int64(body)
    if version >= 9:
        length, position = unsigned_varint(data, position, end)
        if length < 0:
            return np.int64(-1)
        position += max(length - 1, 0)
    elif version >= 3:
        if end - position < 2:
            return np.int64(-1)
        position += 2 + max(int16(data, position), 0)
    return position if end - position >= 2 else np.int64(-1)


@kernel
def produces(data: U8, body: int, end: int, version: int) -> Any:
    """Whether a Produce request has topics: behind its acks (int16) and timeout (int32) stands an array that has some.

    A response whose correlation id is small reads as Produce, and a short one fits the layout but for that.
    """
    position = acks_at(data, body, end, version)
    if position < 0 or not -1 <= int16(data, position) <= 1:
        return False
    position += 6
    if version >= 9:
        count, _ = unsigned_varint(data, position, end)
        return count > 1
    return end - position >= 4 and int32(data, position) > 0


@kernel
def is_text(data: U8, start: int, end: int) -> Any:
    """Whether bytes are UTF-8 without control characters."""
    position = start
    while position < end:
        byte = data[position]
        if byte < 0x20 or byte == 0x7F:
            return False
        step = text_step(data, position, end) if byte >= 0x80 else 1
        if step < 0:
            return False
        position += step
    return True


class Verdict(IntEnum):
    """What the first bytes of a connection say."""

    MORE = 0
    NO = 1
    REQUEST = 2
    TOKEN = 3  # a SASL token of a client that starts with one (Kafka 0.9, GSSAPI)
    DOUBTFUL = 4  # a request but for its client id, which is none, no text or very long: its body must tell


def begins_with_request(data: bytes, size_limit: int) -> Verdict:
    """Judge the bytes at the start of a client's stream: a size that may be, and a credible request header."""
    if len(data) < 4:
        return Verdict.NO if data[:1] > b"\x7f" else Verdict.MORE
    size = int.from_bytes(data[:4], "big", signed=True)
    if not 8 <= size <= size_limit:
        return Verdict.NO
    if data[4:5] == b"\x60" and size > 20:
        # A GSS-API token (RFC 2743, 3.1): 0x60, its length in DER, and the object identifier of Kerberos 5.
        if len(data) < 19:
            return Verdict.MORE
        return Verdict.TOKEN if KERBEROS in data[5:24] else Verdict.NO
    if len(data) < 8:
        return Verdict.MORE
    key = int.from_bytes(data[4:6], "big", signed=True)
    version = int.from_bytes(data[6:8], "big", signed=True)
    if not (0 <= key <= CREDIBLE_KEY and 0 <= version <= CREDIBLE_VERSION):
        return Verdict.NO
    if key == apis.CONTROLLED_SHUTDOWN and version == 0:
        return Verdict.REQUEST if size < 64 else Verdict.NO
    if size < 10:
        return Verdict.NO
    if len(data) < 14:
        return Verdict.MORE
    length = int.from_bytes(data[12:14], "big", signed=True)
    if length < -1 or length > size - 10:
        return Verdict.NO
    if not 0 < length <= LONGEST_CLIENT_ID:
        return Verdict.DOUBTFUL
    client_id = data[14 : 14 + length]
    if len(client_id) < length:
        return Verdict.MORE
    return Verdict.REQUEST if is_text(np.frombuffer(client_id, np.uint8), 0, len(client_id)) else Verdict.DOUBTFUL


def begins_with_cut_request(data: bytes) -> bool:
    """Whether a header whose client id the capture cuts is one of a known version, with text as far as it is there."""
    if len(data) < 14 or not apis.is_known(*np.frombuffer(data[4:8], ">i2").tolist()):
        return False
    try:
        there = codecs.getincrementaldecoder("utf-8")().decode(data[14:]).encode()  # it may end within a character
    except UnicodeDecodeError:
        return False
    return bool(is_text(np.frombuffer(there, np.uint8), 0, len(there)))


METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"TRACE ", b"PRI * ")


def _is_tls(data: bytes) -> bool:
    return len(data) >= 3 and 0x14 <= data[0] <= 0x17 and data[1] == 3 and data[2] <= 4


def begins_like_tls(runs: Runs) -> I64:
    """Rows that begin a stream with the type of a TLS record (RFC 8446, 5.1): the versions behind it tell more."""
    begins = np.flatnonzero((runs.offset == 0) & (runs.start >= 0))
    first = runs.data[runs.start[begins]]
    return begins[(first >= 0x14) & (first <= 0x17)]


def _is_redis(data: bytes) -> bool:
    # RESP: a type byte, a number, CRLF; or an answer such as +OK or -ERR.
    if data[:1] in (b"*", b"$", b":"):
        number = data[1:16].split(b"\r\n")[0]
        return b"\r\n" in data[:16] and number.lstrip(b"-").isdigit()
    return data[:1] in (b"+", b"-") and data[1:2].isupper() and b"\r\n" in data[:512]


def _is_zookeeper(data: bytes) -> bool:
    # ConnectRequest (size 44 or 45, protocol version 0, last zxid, timeout, session) or its answer; later requests
    # have a size, an xid and a type.
    if len(data) < 12:
        return data[:4] in (b"ruok", b"srvr", b"mntr")
    size = int.from_bytes(data[:4], "big")
    password_length = data[28:32] if size in (44, 45) else data[20:24] if size in (36, 37) else b""
    if data[4:8] == bytes(4) and password_length == b"\x00\x00\x00\x10":
        return True
    ping = bytes.fromhex("00000008fffffffe0000000b")
    return data[:12] == ping


def _is_postgresql(data: bytes) -> bool:
    return data[4:8] in (b"\x00\x03\x00\x00", b"\x04\xd2\x16\x2f") and data[:2] == bytes(2)


SIGNATURES: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    ("tls", _is_tls),
    ("http", lambda data: data.startswith((*METHODS, b"HTTP/1.", b"HTTP/2"))),
    ("ssh", lambda data: data.startswith(b"SSH-")),
    ("postgresql", _is_postgresql),
    ("zookeeper", _is_zookeeper),
    ("redis", _is_redis),
)


def signature(data: bytes) -> str | None:
    """The protocol that the first bytes of a stream show beyond doubt, or None."""
    return next((name for name, matches in SIGNATURES if matches(data)), None) if data else None


def other_protocol(streams: tuple[bytes, bytes]) -> str:
    """The name of what is not Kafka, by the first bytes of both streams; length_prefixed or unknown if it has none."""
    for data in streams:
        name = signature(data)
        if name is not None:
            return name
    for data in streams:
        if len(data) >= 8 and 0 < int.from_bytes(data[:4], "big") <= 1 << 24:
            return "length_prefixed"
    return "unknown" if any(streams) else "empty"


@dataclass(frozen=True, slots=True)
class Readings:
    """All layouts of responses, once each: versions of an API with equal layouts are one, told by the lowest.

    A version with two layouts is one reading too: it fits if one of them does.
    """

    program: I64
    api_key: I64
    api_version: I64
    flexible: Bool  # tagged fields stand between the correlation id and the body
    layout: I64  # of each layout the first row of its program, those of one reading behind each other
    layout_of: I64  # of each layout its reading


def _shape(all_programs: Programs, program: int) -> tuple[tuple[int, ...], ...]:
    """The rows of a program with jumps told from its own first row: equal for versions with one layout."""
    first = int(all_programs.entry[program])
    behind = int(all_programs.entry[program + 1]) if program + 1 < len(all_programs.entry) else len(all_programs.rows)
    absolute = {
        ARRAY_OPERATION: (2,),
        COMPACT_ARRAY_OPERATION: (2,),
        END_ARRAY: (2,),
        STRUCT: (2,),
        END_STRUCT: (2,),
        TAGS: (3,),
        TAG: (3,),
        END_TAG: (2,),
    }
    shape = []
    for row in all_programs.rows[first:behind].tolist():
        for column in absolute.get(row[0], ()):
            row[column] -= first
        shape.append(tuple(row))
    return tuple(shape)


@functools.cache
def readings() -> Readings:
    """The readings of responses, made when first asked for."""
    all_programs = programs()
    known: set[tuple[int, bool, tuple[tuple[int, ...], ...]]] = set()
    found = []
    keys, versions = np.nonzero(all_programs.by_version[1] >= 0)
    for key, version in zip(keys.tolist(), versions.tolist(), strict=True):
        program = int(all_programs.by_version[1, key, version])
        flexible = apis.response_header_version(key, version) == 1
        shape = (key, flexible, _shape(all_programs, program))
        if shape not in known:
            known.add(shape)
            found.append((program, key, version, flexible))
    columns = np.array(found, np.int64).T
    layouts = [(entry, reading) for reading, one in enumerate(found) for entry in _layouts(all_programs, one[0])]
    layout, layout_of = np.array(layouts, np.int64).T
    program, api_key, api_version, flexible = (column.copy() for column in columns)
    return Readings(program, api_key, api_version, flexible.astype(np.bool_), layout.copy(), layout_of.copy())


def _layouts(all_programs: Programs, program: int) -> list[int]:
    """First rows of a program and of those that read the version's other layouts."""
    found = []
    while program >= 0:
        found.append(int(all_programs.entry[program]))
        program = int(all_programs.alternative[program])
    return found


@allocating
def _fits(data: U8, start: int, end: int, program: int, entry: I64, alternative: I32, rows: I32) -> Any:
    """Whether a body is one of a program, or of one of its alternatives, to its last byte."""
    status = np.zeros(1, np.int8)
    first = np.full(1, start, np.int64)
    behind = np.full(1, end, np.int64)
    layout = np.zeros(1, np.int64)
    while program >= 0:
        layout[0] = entry[program]
        try_layouts(data, first, behind, layout, rows, status)
        if status[0] == FITS:
            return True
        program = alternative[program]
    return False


@allocating
def _readings_of(
    data: U8, start: int, end: int, flexible: Bool, layout: I64, layout_of: I64, rows: I32, fitting: Bool
) -> None:
    """Which readings fit a response (from its correlation id) to its last byte."""
    fitting[:] = False
    body = start + CORRELATION_ID
    if end < body:
        return
    tagged = behind_tags(data, body, end)
    count = 0
    tried = np.empty(layout.shape[0], np.int64)
    first = np.empty(layout.shape[0], np.int64)
    for index in range(layout.shape[0]):
        begin = tagged if flexible[layout_of[index]] else body
        if begin >= 0:
            tried[count] = index
            first[count] = begin
            count += 1
    tried = tried[:count]
    status = np.zeros(count, np.int8)
    try_layouts(data, first[:count], np.full(count, end, np.int64), layout[tried], rows, status)
    for index in range(count):
        if status[index] == FITS:
            fitting[layout_of[tried[index]]] = True


@allocating
def _only_readings(
    data: U8,
    start: I64,
    end: I64,
    flexible: Bool,
    layout: I64,
    layout_of: I64,
    rows: I32,
    reading: I64,
    body: I64,
) -> None:
    fitting = np.zeros(flexible.shape[0], np.bool_)
    for frame in range(start.shape[0]):
        _readings_of(data, start[frame], end[frame], flexible, layout, layout_of, rows, fitting)
        reading[frame] = -1
        for index in range(fitting.shape[0]):
            if fitting[index]:
                if reading[frame] >= 0:
                    reading[frame] = -1
                    break
                reading[frame] = index
        body[frame] = start[frame] + CORRELATION_ID
        if reading[frame] < 0:
            body[frame] = -1
        elif flexible[reading[frame]]:
            body[frame] = behind_tags(data, body[frame], end[frame])


def fits(data: U8, start: int, end: int, api_key: int, api_version: int, response: bool) -> bool:
    """Whether a body is exactly, to its last byte, one of this API, version and direction; False for unknown ones."""
    if start < 0 or end < start:
        return False
    using = programs()
    _, keys, versions = using.by_version.shape
    if not (0 <= api_key < keys and 0 <= api_version < versions):
        return False
    program = int(using.by_version[int(response), api_key, api_version])
    return bool(_fits(data, start, end, program, using.entry, using.alternative, using.rows))


def are_responses(data: U8, start: int, end: int, most: int) -> bool:
    """Whether up to so many size-prefixed frames, those that are whole, can each be a response of some API.

    ZooKeeper's frames have a size and a number that rises as well; a path in a request, or the transaction id and error
    of a reply, tell them.
    """
    table = readings()
    position = start
    transactions = []
    for _ in range(most):
        if end - position < 8:
            break
        size = int(int32(data, position))
        if size < CORRELATION_ID:
            return False
        low, high = position + 4, position + 4 + size
        if high > end:
            break
        frame = np.ascontiguousarray(data[low:high])
        if size >= 13 and int(int32(frame, 8)) == size - 13 - (frame[-1] <= 1) and frame[12:13].tobytes() == b"/":
            return False
        if size >= 13 and frame[12] == 0x2F and int(int32(frame, 4)) in range(1, 110):
            return False
        if size >= 16:
            transactions.append((int.from_bytes(frame[4:12].tobytes(), "big", signed=True), int(int32(frame, 12))))
        fitting = np.zeros(table.program.shape[0], np.bool_)
        _readings_of(data, low, high, table.flexible, table.layout, table.layout_of, programs().rows, fitting)
        if not fitting.any():
            return False
        position = high
    replies = [0 < zxid < 1 << 56 and -125 <= error <= 0 for zxid, error in transactions]
    return not (len(replies) >= 2 and all(replies) and transactions == sorted(transactions))


def fitting_readings(data: U8, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """API key, version and body of each reading that fits a response (from its correlation id) to its last byte."""
    table = readings()
    fitting = np.zeros(table.program.shape[0], np.bool_)
    _readings_of(data, start, end, table.flexible, table.layout, table.layout_of, programs().rows, fitting)
    flexible = apis.api_table().first_flexible_response
    for reading in np.flatnonzero(fitting).tolist():
        key, version = int(table.api_key[reading]), int(table.api_version[reading])
        yield key, version, int(response_layout(data, start, end, key, version, flexible)[1])


def only_readings(data: U8, start: I64, end: I64) -> tuple[I64, I64, I64]:
    """API keys, versions and bodies of responses (from their correlation ids); -1 unless one reading alone fits."""
    table = readings()
    reading, body = np.empty(start.shape[0], np.int64), np.empty(start.shape[0], np.int64)
    layouts = (table.flexible, table.layout, table.layout_of, programs().rows)
    _only_readings(data, start, end, *layouts, reading, body)
    return (
        np.where(reading >= 0, table.api_key[reading], -1),
        np.where(reading >= 0, table.api_version[reading], -1),
        body,
    )
