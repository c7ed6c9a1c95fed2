"""The codecs of record batches, each with a bound on what it may give out.

The libraries do the work; what is here is what Kafka clients do with the formats. The numbers of the codecs are those
of the attributes of a batch (org.apache.kafka.common.record.CompressionType).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import lz4.frame
import numpy as np
import snappy
import xxhash
import zstandard
from numpy.typing import NDArray

from kafkascope.decoders.kernels import kernel
from kafkascope.decoders.limits import DEFAULT

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "codec 5", "codec 6", "codec 7")
"""Names by number; the last three fit into the attributes and mean nothing yet."""

_NONE, _GZIP, _SNAPPY, _LZ4, _ZSTD = range(5)

OUTPUT_LIMIT = DEFAULT.decompressed_bytes
"""Bytes that one batch may grow to unless the caller says otherwise."""

_FREE_OUTPUT = 16 << 20
_PLAUSIBLE_RATIO = 1024

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = zlib.MAX_WBITS | 16  # as large as any, in the framing of gzip

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = 16  # magic, version, lowest compatible version
_XERIAL = tuple(XERIAL_MAGIC)
_XERIAL_MAGIC_AS_SIZE = int.from_bytes(XERIAL_MAGIC[:4], "big")
_SNAPPY_MOST_RATIO = 32  # a copy of 64 bytes takes 3
_SNAPPY_SIZE_BYTES = 5  # of a number of 32 bits

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE = 0x08
_LZ4_BLOCK_CHECKSUM = 0x10
_LZ4_DICTIONARY = 0x01

_ZSTD_MOST_RATIO = 32768  # a block of 128 KiB that repeats one byte takes 4 bytes
_ZSTD_LEAST_FEED = 64
_ZSTD_BLOCK_BYTES = 128 << 10  # the most that a block gives out
_ZSTD_BLOCKS = 256  # of which the headers are read to know beforehand what a frame may give out

_FEED_BYTES = 4096

# A context costs as much to make as a small batch to decompress, or more. Taking one out of a list and putting it back
# is safe with threads; using one from two threads is not.
_zstd_contexts: list[Any] = []


class CompressionError(ValueError):
    """The bytes are not what the codec says, or they grow beyond the limit (then too_large is set)."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


def output_limit(compressed_bytes: int, limit: int = OUTPUT_LIMIT) -> int:
    """Bytes that a payload of this size may grow to: limit, or less where it would be out of all proportion."""
    return min(limit, _FREE_OUTPUT + _PLAUSIBLE_RATIO * compressed_bytes)


def output_limits(compressed_bytes: NDArray[np.int64], limit: int = OUTPUT_LIMIT) -> NDArray[np.int64]:
    """`output_limit` of many payloads."""
    return np.minimum(np.int64(limit), _FREE_OUTPUT + _PLAUSIBLE_RATIO * compressed_bytes)


def decompress(codec: int, data: bytes | memoryview, limit: int = OUTPUT_LIMIT, *, magic: int = 2) -> bytes:
    """Return the payload of a batch in the clear, of at most ``limit`` bytes.

    ``codec`` is the number from the attributes. ``magic`` is the batch's: clients of magic 0 wrote the header checksum
    of an lz4 frame over the frame's magic number as well (KAFKA-3160), so there it is not checked.

    Raises CompressionError, and nothing else, if the bytes are damaged, cut, or longer than limit in the clear. What a
    payload says about its size is not believed: memory is taken as output comes.
    """
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise CompressionError(f"codec {codec} is none of gzip (1), snappy (2), lz4 (3), zstd (4)")
    try:
        return decoder(memoryview(data), limit, magic)
    except CompressionError:
        raise
    except MemoryError:
        raise CompressionError("no memory left to decompress into", too_large=True) from None
    except Exception as error:  # each library has exceptions of its own, some of them plain RuntimeErrors
        raise CompressionError(f"{CODECS[codec]}: {error}") from error


class Payloads(NamedTuple):
    """Payloads of batches as columns, an i64[n] each: ranges of data, and the other arguments of `decompress`."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    codec: NDArray[np.int64]
    magic: NDArray[np.int64]
    limit: NDArray[np.int64]


def decompress_all(data: NDArray[np.uint8], payloads: Payloads) -> Iterator[bytes | CompressionError]:
    """`decompress` of many payloads, in their order; of each what it returns, or raises.

    Small batches have little to decompress, so what stands around a call of a library counts here: nearly all payloads
    are one member, block or frame, and are read as such; `decompress` does the others, and has the last word on errors.
    """
    blocks = np.empty(len(payloads.start), np.int64)
    _find_snappy_blocks(data, payloads, blocks)
    view = data.data
    context = None
    rows = zip(*(column.tolist() for column in (*payloads, blocks)), strict=True)
    for start, end, codec, magic, limit, block in rows:
        piece: bytes | CompressionError | None = None
        try:
            if block >= 0:
                piece = snappy.uncompress(view[block:end])
            elif codec == _LZ4 and (room := _lz4_room(end - start)) <= limit:
                given = view[start:end] if magic else _with_right_header_checksum(view[start:end])
                unused, context = context or lz4.frame.create_decompression_context(), None
                clear, read, ended = lz4.frame.decompress_chunk(unused, given, max_length=room)
                if ended:
                    context = unused
                    piece = clear if read == end - start else None
            elif codec == _GZIP:
                member = zlib.decompressobj(_GZIP_WINDOW)
                clear = member.decompress(view[start:end], limit + 1)
                piece = clear if member.eof and len(clear) <= limit and not member.unused_data else None
        except Exception:  # as in `decompress`, which tells why
            piece = None
        if piece is None:
            try:
                piece = decompress(codec, view[start:end], limit, magic=magic)
            except CompressionError as error:
                piece = error
        yield piece


@kernel
def _find_snappy_blocks(data: NDArray[np.uint8], payloads: Payloads, blocks: NDArray[np.int64]) -> None:
    """Where the only block of each payload of snappy begins, framed or not; -1 where that is not plain, or too much."""
    for row in range(blocks.shape[0]):
        blocks[row] = -1
        if payloads.codec[row] != _SNAPPY:
            continue
        begin, end = payloads.start[row], payloads.end[row]
        framed = end - begin >= len(_XERIAL)
        for index in range(len(_XERIAL)):
            framed = framed and data[begin + index] == _XERIAL[index]
        if framed:
            begin += XERIAL_HEADER_BYTES + 4
            if begin >= end:
                continue
            size = np.int64(0)
            for index in range(4):
                size = size << 8 | data[begin - 4 + index]
            if size != end - begin:
                continue
        said = np.int64(0)
        for place in range(min(_SNAPPY_SIZE_BYTES, end - begin)):
            byte = np.int64(data[begin + place])
            said |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if said <= payloads.limit[row] and said <= _SNAPPY_MOST_RATIO * (end - begin):
                    blocks[row] = begin
                break


def _too_large(limit: int) -> CompressionError:
    return CompressionError(f"more than {limit} bytes in the clear", too_large=True)


def _stored(data: memoryview, limit: int, magic: int) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    return bytes(data)


def _read_gzip(data: memoryview, limit: int, magic: int) -> bytes:
    """One or more members (RFC 1952). Like Java's GZIPInputStream, ends at bytes that begin no further member."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    pieces = [member.decompress(data, limit + 1)]
    size = len(pieces[0])
    position = len(data) - len(member.unused_data)
    while member.eof and size <= limit and bytes(data[position : position + 2]) == _GZIP_MAGIC:
        # zlib hands back a copy of all that it did not use, so what it is fed must be in proportion to what it uses.
        member = zlib.decompressobj(_GZIP_WINDOW)
        feed = _FEED_BYTES
        while not member.eof and size <= limit and position < len(data):
            given = data[position : position + feed]
            pieces.append(member.decompress(given, limit + 1 - size))
            size += len(pieces[-1])
            position += len(given) - len(member.unused_data) - len(member.unconsumed_tail)
            feed *= 2
    if size > limit:
        raise _too_large(limit)
    if not member.eof:
        raise CompressionError("gzip: the stream is cut off")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _read_snappy(data: memoryview, limit: int, magic: int) -> bytes:
    """Blocks in xerial's framing (snappy-java's SnappyOutputStream: Java, Go and Python clients), or one raw block."""
    blocks = _snappy_blocks(data)
    total = 0
    for block in blocks:  # the library takes as much memory as a block says it needs
        size = _snappy_size(block)
        total += size
        if total > limit:
            raise _too_large(limit)
        if size > _SNAPPY_MOST_RATIO * len(block):
            raise CompressionError(f"snappy: a block of {len(block)} bytes says it holds {size}")
    return b"".join(map(snappy.uncompress, blocks))


def _snappy_blocks(data: memoryview) -> list[memoryview]:
    if data[:8] != XERIAL_MAGIC:
        return [data]
    if len(data) < XERIAL_HEADER_BYTES:
        raise CompressionError("snappy: the header of the framing is cut off")
    position = XERIAL_HEADER_BYTES
    blocks = []
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        if size == _XERIAL_MAGIC_AS_SIZE and data[position : position + 8] == XERIAL_MAGIC:  # one stream behind another
            position += XERIAL_HEADER_BYTES
            continue
        position += 4
        if not 0 < size <= len(data) - position:
            raise CompressionError(f"snappy: a block of {size} bytes where {len(data) - position} are left")
        blocks.append(data[position : position + size])
        position += size
    return blocks


def _snappy_size(block: memoryview) -> int:
    """Bytes that a block says it holds: a little-endian varint at its head (snappy's format_description.txt)."""
    size = 0
    for place in range(min(_SNAPPY_SIZE_BYTES, len(block))):
        byte = block[place]
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size
    raise CompressionError("snappy: a block does not say how much it holds")


def _read_lz4(data: memoryview, limit: int, magic: int) -> bytes:
    """Frames of lz4 (lz4_Frame_format.md). The last one may lack its end mark, as some clients leave it out."""
    pieces: list[bytes] = []
    size = 0
    position = 0
    while position < len(data):
        if bytes(data[position : position + 4]) != _LZ4_MAGIC:
            if position:
                break  # Java's reader stops at the end mark as well
            raise CompressionError("lz4: no frame begins here")
        first = position
        if magic == 0 and position == 0:
            data = _with_right_header_checksum(data)
        context = lz4.frame.create_decompression_context()
        feed = len(data) if not pieces else _FEED_BYTES
        room = _lz4_room(len(data))
        while True:
            room = min(room, limit + 1 - size)
            given = data[position : position + feed]
            piece, read, ended = lz4.frame.decompress_chunk(context, given, max_length=room)
            pieces.append(piece)
            position += read
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            if ended or (len(piece) < room and position == len(data)):
                break
            if not read and not piece:
                raise CompressionError("lz4: the decoder is stuck")
            feed *= 2
            room *= 2
        if not ended:
            _check_lz4_blocks_are_whole(data[first:])
    if not pieces:
        raise CompressionError("lz4: no frame begins here")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _lz4_room(size: int) -> int:
    """Bytes that nearly all payloads of this size fit into."""
    return max(_FREE_OUTPUT >> 8, 8 * size)


def _lz4_header_bytes(flags: int) -> int:
    return 7 + (8 if flags & _LZ4_CONTENT_SIZE else 0) + (4 if flags & _LZ4_DICTIONARY else 0)


def _with_right_header_checksum(data: memoryview) -> memoryview:
    if len(data) < 7 or len(data) < _lz4_header_bytes(data[4]):
        return data
    end = _lz4_header_bytes(data[4]) - 1
    checksum = (xxhash.xxh32_intdigest(bytes(data[4:end])) >> 8) & 0xFF  # lz4_Frame_format.md: header checksum
    if data[end] == checksum:
        return data
    right = bytearray(data)
    right[end] = checksum
    return memoryview(right)


def _check_lz4_blocks_are_whole(data: memoryview) -> None:
    if len(data) < 7 or len(data) < _lz4_header_bytes(data[4]):
        raise CompressionError("lz4: the header of the frame is cut off")
    position = _lz4_header_bytes(data[4])
    checksum_bytes = 4 if data[4] & _LZ4_BLOCK_CHECKSUM else 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "little") & 0x7FFFFFFF
        if position + 4 > len(data) or size == 0 or position + 4 + size + checksum_bytes > len(data):
            raise CompressionError("lz4: the frame is cut off")
        position += 4 + size + checksum_bytes


def _read_zstd(data: memoryview, limit: int, magic: int) -> bytes:
    """One or more frames (RFC 8878), with or without their content's size.

    Not by zstandard's stream_reader, which is bounded too, but does not tell that a frame is cut off.
    """
    context = _zstd_contexts.pop() if _zstd_contexts else zstandard.ZstdDecompressor()
    pieces: list[bytes] = []
    size = 0
    position = 0
    frame = None
    while position < len(data):
        # So little is fed at once that not even the best ratio leads far beyond the limit, or else one whole frame.
        feed = max(_ZSTD_LEAST_FEED, (limit - size) // _ZSTD_MOST_RATIO)
        if frame is None:
            frame = context.decompressobj()
            if len(data) - position > feed:
                frame_bytes, most = _zstd_extent(data[position:])
                if most <= limit - size:
                    feed = frame_bytes
        given = data[position : position + feed]
        pieces.append(frame.decompress(given))
        size += len(pieces[-1])
        position += len(given)
        if size > limit:
            raise _too_large(limit)
        if frame.eof:
            position -= len(frame.unused_data)
            frame = None
    if frame is not None or not len(data):
        raise CompressionError("zstd: the frame is cut off")
    _zstd_contexts.append(context)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _zstd_extent(data: memoryview) -> tuple[int, int]:
    """Size of the first frame, or of its first blocks, and the most bytes it may give out (RFC 8878, section 3.1.1)."""
    descriptor = data[4] if len(data) > 4 else 0
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    position = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
    most = 0
    for _ in range(_ZSTD_BLOCKS):
        header = int.from_bytes(data[position : position + 3], "little")
        kind, size = header >> 1 & 3, header >> 3
        most += _ZSTD_BLOCK_BYTES if kind > 1 else size  # compressed; else raw, or one byte repeated
        position += 3 + (1 if kind == 1 else size)
        if header & 1 or position >= len(data):
            break
    return position + (4 if descriptor & 4 else 0), most


_DECODERS: dict[int, Callable[[memoryview, int, int], bytes]] = {
    _NONE: _stored,
    _GZIP: _read_gzip,
    _SNAPPY: _read_snappy,
    _LZ4: _read_lz4,
    _ZSTD: _read_zstd,
}
