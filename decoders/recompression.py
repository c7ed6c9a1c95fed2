"""Payloads of batches compressed to a size that is given, so that they fit where others were.

What is left of the size is filled by what each format has for it: a comment in the header of gzip (RFC 1952, 2.3.1),
a skippable frame behind those of zstd (RFC 8878, 3.1.2) and lz4 (lz4_Frame_format.md), longer elements of snappy that
say the same (format_description.txt).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import lz4.frame
import snappy
import zstandard

from kafkascope.decoders.compression import XERIAL_HEADER_BYTES, XERIAL_MAGIC

_GZIP_COMMENT = 0x10
_SKIPPABLE = struct.Struct("<II")  # magic number, bytes that follow
_SKIPPABLE_MAGIC = 0x184D2A50
_EMPTY_BLOCK = bytes(3)  # of zstd: not the last one, raw, of no bytes
_COPY_1, _COPY_2, _COPY_4 = 1, 2, 3  # kinds of elements of snappy by the bits below their length; 0 is a literal
_COPY_BYTES = (0, 2, 3, 5)
_LARGEST_COPY_2 = 0xFFFF  # how far back
_WORD_BYTES = 4  # that readers take at once for a length behind the tag
_LITERAL_IN_TAG = 60  # lengths up to this stand in the tag, others behind it


def compress_to(codec: int, clear: bytes, size: int, before: bytes) -> bytes | None:
    """Bytes of just this size that `decompress` makes the same of; None if they would be more, or cannot be so many.

    ``codec`` is the number from the attributes, ``before`` the payload that stood in their place: some codecs have
    several framings, of which it shows the one.
    """
    compress = _COMPRESSORS.get(codec)
    return None if compress is None else compress(clear, size, before)


def _gzip(clear: bytes, size: int, before: bytes) -> bytes | None:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    body = deflate.compress(clear) + deflate.flush()
    trailer = struct.pack("<II", zlib.crc32(clear), len(clear) & 0xFFFFFFFF)
    room = size - 10 - len(body) - len(trailer)
    if room < 0:
        return None
    comment = b"x" * (room - 1) + b"\0" if room else b""
    return struct.pack("<2sBBIBB", b"\x1f\x8b", 8, _GZIP_COMMENT if room else 0, 0, 0, 255) + comment + body + trailer


def _with_skippable(frames: Iterator[bytes], size: int) -> bytes | None:
    """The first of the frames that has this size, or has it with a skippable frame behind."""
    for frame in frames:
        room = size - len(frame)
        if room == 0:
            return frame
        if room >= _SKIPPABLE.size:
            return frame + _SKIPPABLE.pack(_SKIPPABLE_MAGIC, room - _SKIPPABLE.size) + bytes(room - _SKIPPABLE.size)
    return None


def _zstd(clear: bytes, size: int, before: bytes) -> bytes | None:
    def frames() -> Iterator[bytes]:
        for level in (3, 9, 1):
            for checksum in (False, True):
                for content_size in (True, False):
                    frame = zstandard.ZstdCompressor(
                        level=level, write_checksum=checksum, write_content_size=content_size
                    ).compress(clear)
                    header_bytes = zstandard.frame_header_size(frame)
                    for blocks in range(_SKIPPABLE.size // len(_EMPTY_BLOCK) + 1):
                        yield frame[:header_bytes] + blocks * _EMPTY_BLOCK + frame[header_bytes:]

    return _with_skippable(frames(), size)


def _lz4(clear: bytes, size: int, before: bytes) -> bytes | None:
    def frames() -> Iterator[bytes]:
        for level in (0, 9):
            for content_checksum in (False, True):
                for block_checksum in (False, True):
                    # Kafka's own reader takes independent blocks alone.
                    yield lz4.frame.compress(
                        clear,
                        compression_level=level,
                        block_linked=False,
                        content_checksum=content_checksum,
                        block_checksum=block_checksum,
                        store_size=False,
                    )

    return _with_skippable(frames(), size)


def _snappy(clear: bytes, size: int, before: bytes) -> bytes | None:
    if before[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _stretched(snappy.compress(clear), size)
    room = size - XERIAL_HEADER_BYTES - 4
    block = _stretched(snappy.compress(clear), room)
    return None if block is None else before[:XERIAL_HEADER_BYTES] + room.to_bytes(4, "big") + block


def _stretched(block: bytes, size: int) -> bytes | None:
    """A block of snappy, made longer: copies of one byte each in the place of long ones, lengths in more bytes."""
    room = size - len(block)
    if room < 0:
        return None
    position = 0
    while block[position] >= 0x80:  # how much it holds
        position += 1
    position += 1
    pieces = [block[:position]]
    literals = []  # places among the pieces
    while position < len(block):
        kind = block[position] & 3
        if kind:
            end = position + _COPY_BYTES[kind]
            piece = block[position:end] if room == 0 else _stretched_copy(block[position:end], room)
        else:
            extra = max((block[position] >> 2) + 1 - _LITERAL_IN_TAG, 0)
            head = position + 1 + extra
            length = 1 + (int.from_bytes(block[position + 1 : head], "little") if extra else block[position] >> 2)
            end = head + length
            piece = block[position:end]
            literals.append((len(pieces), length, 1 + extra))
        room -= len(piece) - (end - position)
        pieces.append(piece)
        position = end
    for place, length, head_bytes in literals:
        more = min(room, 5 - head_bytes)
        behind_tag = length + sum(map(len, pieces[place + 1 : place + 1 + _WORD_BYTES]))
        if more and behind_tag >= _WORD_BYTES:
            extra = head_bytes + more - 1
            tag = bytes([(_LITERAL_IN_TAG - 1 + extra) << 2]) + (length - 1).to_bytes(extra, "little")
            pieces[place] = tag + pieces[place][head_bytes:]
            room -= more
    return b"".join(pieces) if room == 0 else None


def _stretched_copy(copy: bytes, room: int) -> bytes:
    """A copy as copies of one byte, and one of what is left, in up to so many bytes more."""
    if copy[0] & 3 == _COPY_1:
        length, back = 4 + (copy[0] >> 2 & 7), (copy[0] >> 5) << 8 | copy[1]
    else:
        length, back = 1 + (copy[0] >> 2), int.from_bytes(copy[1:], "little")
    last_kind = _COPY_2 if back <= _LARGEST_COPY_2 else _COPY_4
    last_bytes = _COPY_BYTES[last_kind]
    ones = min((room + len(copy) - last_bytes) // _COPY_BYTES[_COPY_4], length - 1)
    if last_bytes + ones * _COPY_BYTES[_COPY_4] < len(copy) or ones < 0:
        return copy
    last = bytes([(length - ones - 1) << 2 | last_kind]) + back.to_bytes(last_bytes - 1, "little")
    return (bytes([_COPY_4]) + back.to_bytes(4, "little")) * ones + last


_COMPRESSORS: dict[int, Callable[[bytes, int, bytes], bytes | None]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
