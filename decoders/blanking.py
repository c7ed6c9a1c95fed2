"""Record batches without what their records hold: keys, values and headers become zeros where they stand.

What is left are sizes, counts, times, offsets, producers and codecs, in as many bytes as before, with the right CRCs.
Where compressed batches are small, the first of these zeros may be bytes of a fixed sequence instead, which hardly
compress: not every number of bytes can be had otherwise.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import crc32c
import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders.compression import OUTPUT_LIMIT, CompressionError, decompress, output_limit
from kafkascope.decoders.kernels import borrowing, copy_bytes, kernel
from kafkascope.decoders.recompression import compress_to
from kafkascope.decoders.record_columns import read_records, scan
from kafkascope.decoders.records import CODEC_BITS, CONTROL_BIT, LEAST_BYTES, UP_TO_MAGIC_BYTES, magic_and_size

Bytes = NDArray[np.uint8]
Integer: TypeAlias = Any  # in kernels: an int64

_HEADER_BYTES = LEAST_BYTES[2]
_CRC_AT = 17  # magic 2; it covers all from the attributes on
_ATTRIBUTES_AT = 21
_MESSAGE_CRC_AT = 12  # magic 0 and 1
_MESSAGE_ATTRIBUTES_AT = 17
_LONGEST = b"\x7f\xff\xff\xff"
_CONTROL_KEY_BYTES = 4  # version and kind
_MOST_FILLED = 16  # bytes that are not zeros, for compressed sizes that cannot be had otherwise
_FILLER = np.arange(41, 41 + 73 * _MOST_FILLED, 73).astype(np.uint8)


@dataclass(slots=True)
class Blanked:
    """How many batches were blanked, and of how many all records are gone."""

    batches: int = 0
    lost: int = 0  # their records could not be read, or what is left of them does not fit

    def add(self, other: Blanked) -> None:
        """Count others too."""
        self.batches += other.batches
        self.lost += other.lost


Blank = Callable[[bytes, int], bytes]  # of a payload in the clear, and how many bytes are not to be zeros
Replacement = Callable[[bytes], bytes | None]


def blank_records(
    data: bytes, of_values: Replacement | None = None, *, limit: int = OUTPUT_LIMIT
) -> tuple[bytes, Blanked]:
    """A ``records`` field without what its records hold, and what became of its batches.

    A batch whose payload cannot be decompressed, or has no form that fits where it was, keeps its header alone: the
    rest becomes zeros, as does what is no batch, or what follows a batch whose CRC is wrong and has no right one: there
    may be content where a header should be. CRCs that were wrong are wrong again.

    of_values: what to put in the place of a value of a batch of magic 2 that is not compressed, in as many bytes; None:
    zeros. limit: bytes that one batch may hold in the clear.
    """
    made = bytearray(len(data))
    counts = Blanked()
    position = 0
    was_right = True  # the CRC of the batch before: so it ends where it says
    while len(data) - position >= UP_TO_MAGIC_BYTES:
        magic, size = magic_and_size(data, position)
        if not 0 <= magic < len(LEAST_BYTES) or size < LEAST_BYTES[magic]:
            break
        if size > len(data) - position:  # cut off by the broker: of such a batch nobody reads more than that it is one
            made[position + 8 : position + 12] = _LONGEST
            made[position + 16] = magic
            break
        batch = data[position : position + size]
        counts.batches += 1
        is_right = _has_right_crc(batch)
        if not (is_right or was_right):
            counts.lost += 1
            break
        was_right = is_right
        blanked, is_whole = _batch(batch, limit, of_values) if magic == 2 else _message(batch, limit)
        made[position : position + size] = blanked
        counts.lost += not is_whole
        position += size
    return bytes(made), counts


def _has_right_crc(batch: bytes) -> bool:
    at, crc = _crc_of(batch)
    return crc == int.from_bytes(batch[at : at + 4], "big")


def _crc_of(batch: bytes) -> tuple[int, int]:
    """Where the CRC of a batch stands, and what it has to be."""
    if batch[16] == 2:
        return _CRC_AT, int(crc32c.crc32c(batch[_ATTRIBUTES_AT:]))
    return _MESSAGE_CRC_AT, zlib.crc32(batch[_MESSAGE_CRC_AT + 4 :])


def _with_crc(before: bytes, made: bytes) -> bytes:
    """What was made of a batch, with a CRC that is as right or wrong as the one before."""
    at, crc = _crc_of(made)
    if not _has_right_crc(before):
        crc ^= 0xFFFFFFFF
    return made[:at] + crc.to_bytes(4, "big") + made[at + 4 :]


def _batch(batch: bytes, limit: int, of_values: Replacement | None) -> tuple[bytes, bool]:
    """A batch of magic 2; and whether its records are there."""
    header, payload = batch[:_HEADER_BYTES], batch[_HEADER_BYTES:]
    attributes = int.from_bytes(header[_ATTRIBUTES_AT : _ATTRIBUTES_AT + 2], "big")
    codec, is_control = attributes & CODEC_BITS, bool(attributes & CONTROL_BIT)

    def blank(clear: bytes, filled: int) -> bytes:
        out = np.zeros(len(clear), np.uint8)
        _keep_structure(np.frombuffer(clear, np.uint8), out, _CONTROL_KEY_BYTES if is_control else 0, _FILLER[:filled])
        return out.tobytes()

    made = _payload(codec, payload, limit, 2, blank)
    is_whole = made is not None
    made = bytes(len(payload)) if made is None else made
    if of_values is not None and not codec and not is_control:
        made = _with_values(batch, made, of_values)
    return _with_crc(batch, header + made), is_whole


def _with_values(batch: bytes, made: bytes, of_values: Replacement) -> bytes:
    """The payload that was made of a batch, with other values than zeros in it."""
    out = bytearray(made)
    fields = scan(np.frombuffer(batch, np.uint8), np.array([0]), np.array([len(batch)]))
    for chunk in read_records(fields):
        places = zip(chunk.records.value_start.tolist(), chunk.records.value_length.tolist(), strict=True)
        for start, length in places:
            value = of_values(batch[start : start + length]) if length > 0 else None
            if value is not None:
                out[start - _HEADER_BYTES : start - _HEADER_BYTES + length] = value
    return bytes(out)


def _message(message: bytes, limit: int, filled: int = 0) -> tuple[bytes, bool]:
    """A message of magic 0 or 1, a wrapper with what is in it; and whether all of it is there."""
    magic, attributes = message[16], message[_MESSAGE_ATTRIBUTES_AT]
    codec = attributes & CODEC_BITS
    made = bytearray(len(message))
    position = LEAST_BYTES[magic] - 8  # of the length of the key
    made[:position] = message[:position]
    is_whole = True
    for name in ("key", "value"):
        if len(message) - position < 4:
            break
        length = int.from_bytes(message[position : position + 4], "big", signed=True)
        made[position : position + 4] = message[position : position + 4]
        position += 4
        if length > len(message) - position:
            break
        if name == "value" and codec and length > 0:
            value = _payload(codec, message[position : position + length], limit, magic, _messages_of(limit))
            is_whole = value is not None
            made[position : position + length] = value or bytes(length)
        elif length > 0:
            made[position : position + min(filled, length)] = _FILLER[: min(filled, length)].tobytes()
        position += max(length, 0)
    return _with_crc(message, bytes(made)), is_whole


def _messages_of(limit: int) -> Blank:
    """What blanks the messages in a wrapper. One in them that is compressed once more is zeros: nobody reads such."""

    def blank(clear: bytes, filled: int) -> bytes:
        made = bytearray(len(clear))
        position = 0
        while len(clear) - position > UP_TO_MAGIC_BYTES:
            magic, size = magic_and_size(clear, position)
            if magic not in (0, 1) or not LEAST_BYTES[magic] <= size <= len(clear) - position:
                break
            message = clear[position : position + size]
            if not message[_MESSAGE_ATTRIBUTES_AT] & CODEC_BITS:
                made[position : position + size], _ = _message(message, limit, filled)
            position += size
        return bytes(made)

    return blank


def _payload(codec: int, payload: bytes, limit: int, magic: int, blank: Blank) -> bytes | None:
    """A payload after what is in it went through blank, in as many bytes; None if that cannot be."""
    if not codec or not payload:
        return blank(payload, 0)
    try:
        clear = decompress(codec, payload, output_limit(len(payload), limit), magic=magic)
    except CompressionError:
        return None
    for filled in range(_MOST_FILLED + 1):
        made = compress_to(codec, blank(clear, filled), len(payload), payload)
        if made is not None:
            return made
    return None


@borrowing
def _behind_varint(data: Bytes, position: Integer, end: Integer, most: Integer, out: Bytes) -> Integer:
    """Copy a varint of at most so many bytes; the place behind it, -1 if there is none before `end`."""
    for index in range(position, min(position + most, end)):
        if data[index] < 0x80:
            copy_bytes(data, position, index + 1 - position, out, position)
            return np.int64(index + 1)
    return np.int64(-1)


@borrowing
def _varint(data: Bytes, position: Integer, behind: Integer) -> Integer:
    """The zigzag varint of 32 bits in these bytes."""
    value = np.int64(0)
    for index in range(position, behind):
        value |= np.int64(data[index] & 0x7F) << 7 * (index - position)
    value &= 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1)


@borrowing
def _behind_sized(data: Bytes, position: Integer, end: Integer, kept: Integer, filler: Bytes, out: Bytes) -> Integer:
    """Copy the length of some bytes, and the first that are kept; the place behind them, -1 if there is none.

    The first of the others become the filler.
    """
    if position < 0:
        return position
    behind = _behind_varint(data, position, end, 5, out)
    if behind < 0:
        return behind
    length = max(_varint(data, position, behind), 0)
    if length > end - behind:
        return np.int64(-1)
    copy_bytes(data, behind, min(kept, length), out, behind)
    copy_bytes(filler, np.int64(0), min(length - kept, filler.shape[0]), out, behind + kept)
    return behind + length


@borrowing
def _keep_record(data: Bytes, start: Integer, end: Integer, key_bytes: Integer, filler: Bytes, out: Bytes) -> Integer:
    """Copy of a record, behind its length, what tells no content; the place behind it, -1 if it is damaged."""
    out[start] = data[start]  # attributes
    place = _behind_varint(data, start + 1, end, 10, out)  # timestamp
    if place >= 0:
        place = _behind_varint(data, place, end, 5, out)  # offset
    place = _behind_sized(data, place, end, key_bytes, filler, out)
    place = _behind_sized(data, place, end, np.int64(0), filler, out)
    if place < 0:
        return place
    headers_at = place
    place = _behind_varint(data, place, end, 5, out)
    headers = np.int64(0) if place < 0 else _varint(data, headers_at, place)
    while place >= 0 and headers > 0:
        place = _behind_sized(data, place, end, np.int64(0), filler[:0], out)
        place = _behind_sized(data, place, end, np.int64(0), filler[:0], out)
        headers -= 1
    return place


@kernel
def _keep_structure(data: Bytes, out: Bytes, key_bytes: Integer, filler: Bytes) -> None:
    """Copy of records of magic 2 all but keys (beyond so many bytes), values and headers; end at what is no record.

    The first bytes of the first record's key and value become the filler, all others zeros.
    """
    size = np.int64(data.shape[0])
    position = np.int64(0)
    while position < size:
        start = _behind_varint(data, position, size, 5, out)
        if start < 0:
            return
        length = _varint(data, position, start)
        end = start + length
        if length <= 0 or end > size or _keep_record(data, start, end, key_bytes, filler, out) != end:
            out[position : min(max(end, start), size)] = 0  # its sizes may be anything
            return
        filler = filler[:0]
        position = end
