"""Every codec with what clients write, cut anywhere, changed anywhere, and grown beyond its limit."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import lz4.frame
import numpy as np
import pytest
import snappy
import zstandard

from kafkascope.decoders import compression
from kafkascope.decoders.compression import (
    CODECS,
    OUTPUT_LIMIT,
    CompressionError,
    Payloads,
    decompress_all,
    output_limit,
    output_limits,
)

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
TEXT = b"".join(b'{"number":%d,"text":"some words of no weight"}\n' % number for number in range(4000))
SMALL = b"one record, and not much of it"


def xerial(data: bytes, block: int = 32768) -> bytes:
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(data), block):
        piece = snappy.compress(data[at : at + block])
        out += struct.pack(">i", len(piece)) + piece
    return out


def raw_snappy(data: bytes) -> bytes:
    return bytes(snappy.compress(data))


def lz4_frame(data: bytes, **options: object) -> bytes:
    return bytes(lz4.frame.compress(data, **{"store_size": False, **options}))


def lz4_stream(data: bytes, **options: object) -> bytes:
    """In pieces, as a client that does not know the size beforehand: the block size stays what was asked for."""
    with lz4.frame.LZ4FrameCompressor(**options) as stream:
        return bytes(stream.begin() + stream.compress(data) + stream.flush())


def zstd_stream(data: bytes) -> bytes:
    """As Java writes it: without the content's size."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def cut_lz4_end(frame: bytes) -> bytes:
    assert frame[-4:] == bytes(4)
    return frame[:-4]


def historic(frame: bytes, checksum: int) -> bytes:
    """A frame as magic 0 has it: the header checksum was made over the magic number too."""
    header = 14 if frame[4] & 8 else 6
    return frame[:header] + bytes([checksum]) + frame[header + 1 :]


def variants(data: bytes) -> dict[str, tuple[int, bytes]]:
    linked = {"block_linked": True}
    apart = {"block_linked": False}
    megabytes = {"block_size": lz4.frame.BLOCKSIZE_MAX4MB}
    megabyte = {"block_size": lz4.frame.BLOCKSIZE_MAX1MB}
    return {
        "gzip": (GZIP, gzip.compress(data)),
        "gzip of two members": (GZIP, gzip.compress(data[:100]) + gzip.compress(data[100:])),
        "gzip of many members": (GZIP, b"".join(gzip.compress(data[i : i + 997]) for i in range(0, len(data), 997))),
        "gzip with an empty member": (GZIP, gzip.compress(data) + gzip.compress(b"")),
        "snappy raw": (SNAPPY, raw_snappy(data)),
        "snappy xerial": (SNAPPY, xerial(data)),
        "snappy xerial twice": (SNAPPY, xerial(data[:50]) + xerial(data[50:])),
        "lz4 60 40": (LZ4, lz4_frame(data, **apart)),
        "lz4 68 40": (LZ4, lz4_frame(data, store_size=True, **apart)),
        "lz4 70 40": (LZ4, lz4_frame(data, block_checksum=True, **apart)),
        "lz4 64 40": (LZ4, lz4_frame(data, content_checksum=True, **apart)),
        "lz4 64 70": (LZ4, lz4_stream(data, content_checksum=True, **apart, **megabytes)),
        "lz4 linked": (LZ4, lz4_frame(data, **linked)),
        "lz4 all flags": (LZ4, lz4_frame(data, store_size=True, block_checksum=True, content_checksum=True, **linked)),
        "lz4 1 MB blocks": (LZ4, lz4_frame(data, **linked, **megabyte)),
        "lz4 two frames": (LZ4, lz4_frame(data[:100]) + lz4_frame(data[100:])),
        "lz4 without end mark": (LZ4, cut_lz4_end(lz4_frame(data, **apart))),
        "lz4 without end mark, block checksums": (LZ4, cut_lz4_end(lz4_frame(data, block_checksum=True))),
        "zstd": (ZSTD, zstandard.ZstdCompressor().compress(data)),
        "zstd stream": (ZSTD, zstd_stream(data)),
        "zstd with checksum": (ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(data)),
        "zstd two frames": (ZSTD, zstd_stream(data[:100]) + zstandard.ZstdCompressor().compress(data[100:])),
    }


def alone(codec: int, data: bytes | memoryview, limit: int, magic: int) -> bytes | CompressionError:
    try:
        return compression.decompress(codec, data, limit, magic=magic)
    except CompressionError as error:
        return error


def decompress_or_error(
    codec: int, data: bytes | memoryview, limit: int = OUTPUT_LIMIT, magic: int = 2
) -> bytes | CompressionError:
    """Alone and as one of many, which is the same, whatever the others are."""
    expected = alone(codec, data, limit, magic)
    before, behind = lz4_frame(SMALL), gzip.compress(SMALL)
    joined = np.frombuffer(before + data + behind, np.uint8)
    starts = [0, len(before), len(before) + len(data)]
    ends = [*starts[1:], len(joined)]
    columns = [starts, ends, [LZ4, codec, GZIP], [2, magic, 2], [OUTPUT_LIMIT, limit, OUTPUT_LIMIT]]
    first, found, last = decompress_all(joined, Payloads(*map(np.array, columns)))
    assert (first, last) == (SMALL, SMALL)
    if isinstance(found, CompressionError) and isinstance(expected, CompressionError):
        assert (str(found), found.too_large) == (str(expected), expected.too_large)
    else:
        assert found == expected
    return expected


def decompress(codec: int, data: bytes | memoryview, limit: int = OUTPUT_LIMIT, magic: int = 2) -> bytes:
    found = decompress_or_error(codec, data, limit, magic)
    if isinstance(found, CompressionError):
        raise found
    return found


NAMES = sorted(variants(SMALL))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [SMALL, TEXT, b"\x00" * 300_000, b"x"], ids=["small", "text", "zeros", "one byte"])
def test_what_clients_write_is_read(name: str, data: bytes) -> None:
    codec, packed = variants(data)[name]
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(packed), len(data)) == data


@pytest.mark.parametrize("name", NAMES)
def test_one_byte_too_many_is_refused(name: str) -> None:
    codec, packed = variants(TEXT)[name]
    with pytest.raises(CompressionError) as raised:
        decompress(codec, packed, len(TEXT) - 1)
    assert raised.value.too_large


def test_flags_of_the_lz4_variants_are_those_their_names_say() -> None:
    for name, (_, packed) in variants(TEXT).items():
        if name.startswith(("lz4 6", "lz4 7")):
            assert packed[4:6].hex(" ") == name[4:]


@pytest.mark.parametrize("name", NAMES)
def test_cut_at_every_byte_gives_an_error_or_less(name: str) -> None:
    codec, packed = variants(SMALL * 3)[name]
    for length in range(len(packed)):
        got = decompress_or_error(codec, packed[:length])
        if isinstance(got, CompressionError):
            assert not got.too_large
        else:  # only at the end of a member, frame or block may the rest be missing unnoticed
            assert length
            assert (SMALL * 3).startswith(got)


@pytest.mark.parametrize("name", [n for n in NAMES if "two" not in n and "twice" not in n and "many" not in n])
def test_a_stream_without_its_middle_is_an_error(name: str) -> None:
    codec, packed = variants(TEXT)[name]
    with pytest.raises(CompressionError):
        decompress(codec, packed[: len(packed) // 2])


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_give_an_error_or_bytes_within_the_limit(name: str) -> None:
    seed = 20
    print("seed", seed)
    chance = random.Random(seed)
    codec, packed = variants(TEXT[:3000])[name]
    for _ in range(300):
        changed = bytearray(packed)
        for _ in range(chance.choice((1, 1, 2, 8))):
            changed[chance.randrange(min(len(changed), chance.choice((16, 10**6))))] = chance.randrange(256)
        got = decompress_or_error(codec, bytes(changed), 10_000)
        assert isinstance(got, CompressionError) or len(got) <= 10_000


def test_noise_gives_an_error_or_bytes_within_the_limit() -> None:
    seed = 21
    print("seed", seed)
    chance = random.Random(seed)
    starts = {GZIP: b"\x1f\x8b\x08", SNAPPY: b"\x82SNAPPY\x00", LZ4: b"\x04\x22\x4d\x18", ZSTD: b"\x28\xb5\x2f\xfd"}
    for codec in range(-1, 9):
        for start in (b"", starts.get(codec, b"")):
            for _ in range(200):
                data = start + chance.randbytes(chance.randrange(60))
                got = decompress_or_error(codec, data, 1000)
                assert str(got) if isinstance(got, CompressionError) else len(got) <= 1000


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("size", [False, True])
def test_header_checksum_of_lz4(magic: int, size: bool) -> None:
    frame = lz4_frame(TEXT, store_size=size)
    wrong = historic(frame, frame[14 if size else 6] ^ 0x5A)
    assert decompress(LZ4, frame, magic=magic) == TEXT
    if magic == 0:
        assert decompress(LZ4, wrong, magic=0) == TEXT
    else:
        with pytest.raises(CompressionError):
            decompress(LZ4, wrong, magic=magic)


def test_bytes_behind_the_last_member_are_left_alone() -> None:
    assert decompress(GZIP, gzip.compress(SMALL) + b"\x00\x00\x00\x00") == SMALL
    assert decompress(LZ4, lz4_frame(SMALL) + b"\x00\x00\x00\x00") == SMALL


def lying_lz4(data: bytes) -> bytes:
    checksum = bytes(lz4.frame.compress(b"x", store_size=True))[14:15]
    return b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", 1 << 62) + checksum + lz4_frame(data)[7:]


# Codecs, and what makes a bomb of 64 MB of zeros.
BOMBS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, lambda zeros: gzip.compress(zeros)),
    "gzip of members": (GZIP, lambda zeros: gzip.compress(zeros[: 1 << 20]) * 64),
    "zstd": (ZSTD, lambda zeros: zstd_stream(zeros)),
    "zstd with size": (ZSTD, lambda zeros: zstandard.ZstdCompressor().compress(zeros)),
    "zstd of frames": (ZSTD, lambda zeros: zstd_stream(zeros[: 1 << 20]) * 64),
    "lz4": (LZ4, lambda zeros: lz4_frame(zeros)),
    "lz4 linked": (LZ4, lambda zeros: lz4_frame(zeros, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4 says 2^62": (LZ4, lambda zeros: lying_lz4(zeros)),
    "snappy": (SNAPPY, lambda zeros: xerial(zeros)),
    "snappy raw": (SNAPPY, lambda zeros: raw_snappy(zeros)),
    "snappy says 4 GiB": (SNAPPY, lambda zeros: b"\xff\xff\xff\xff\x0f" + b"\xfe\x01\x00" * 1000),
    "snappy says 1 MB": (SNAPPY, lambda zeros: b"\x80\x80\x3d" + b"\xfe\x01\x00" * 10),
}


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_bomb_is_refused_before_it_takes_memory(name: str) -> None:
    codec, make = BOMBS[name]
    packed = make(bytes(64 << 20))
    limit = 2 << 20
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError):
            decompress(codec, packed, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def test_zstd_that_is_longer_than_is_looked_ahead() -> None:
    data = random.Random(22).randbytes(1 << 20) * 40  # 40 MB, no block of it compresses well
    options = zstandard.ZstdCompressionParameters(window_log=17, write_checksum=True, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=options).compressobj()
    packed = stream.compress(data) + stream.flush()
    assert decompress(ZSTD, packed * 2) == data * 2
    with pytest.raises(CompressionError):
        decompress(ZSTD, packed[:-1])


def test_a_gzip_of_very_many_members_takes_time_in_proportion() -> None:
    member = gzip.compress(b"")
    assert decompress(GZIP, member * 20_000) == b""
    assert decompress(LZ4, lz4_frame(b"") * 20_000) == b""
    assert decompress(ZSTD, zstd_stream(b"") * 20_000) == b""


def test_limit_grows_with_the_payload_up_to_a_bound() -> None:
    assert output_limit(1) == (16 << 20) + 1024
    assert output_limit(1 << 30) == OUTPUT_LIMIT
    assert output_limit(1 << 30, 5) == 5
    sizes = [0, 1, 1 << 10, 1 << 30]
    for limit in (5, OUTPUT_LIMIT):
        assert output_limits(np.array(sizes), limit).tolist() == [output_limit(size, limit) for size in sizes]


def test_stored_and_unknown_codecs() -> None:
    assert decompress(0, SMALL) == SMALL
    with pytest.raises(CompressionError, match="more than 3 bytes"):
        decompress(0, SMALL, 3)
    for codec in (5, 6, 7, -1, 99):
        with pytest.raises(CompressionError, match="codec"):
            decompress(codec, SMALL)
    assert len(CODECS) == 8


def test_a_wrong_trailer_of_gzip_is_an_error() -> None:
    packed = bytearray(gzip.compress(SMALL))
    packed[-8] ^= 1
    with pytest.raises(CompressionError, match="gzip"):
        decompress(GZIP, bytes(packed))
    assert zlib.crc32(SMALL)
