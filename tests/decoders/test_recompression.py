"""Payloads of a given size: they decompress to what went in, with our readers and with those of other libraries."""

from __future__ import annotations

import gzip
import random

import pytest
import snappy
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.decoders.compression import XERIAL_MAGIC, decompress
from kafkascope.decoders.recompression import compress_to

GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)
XERIAL = XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
KINDS = [(GZIP, b""), (SNAPPY, b"\0"), (SNAPPY, XERIAL), (LZ4, b""), (ZSTD, b"")]
SKIPPABLE = 8  # bytes of the smallest frame that says nothing


def runs(seed: int, count: int) -> bytes:
    """Like records that were blanked: some bytes that differ, and runs of zeros between them."""
    luck = random.Random(seed)
    return b"".join(luck.randbytes(luck.randrange(1, 9)) + bytes(luck.randrange(200)) for _ in range(count))


@pytest.mark.parametrize(("codec", "before"), KINDS)
@pytest.mark.parametrize("count", [1, 5, pytest.param(60, marks=pytest.mark.deep)])
def test_every_size_from_some_on_can_be_had(codec: int, before: bytes, count: int) -> None:
    clear = runs(count, count)
    made = {size: compress_to(codec, clear, size, before) for size in range(2 * len(clear) + 200)}
    first = min(size for size, content in made.items() if content is not None)
    for size, content in made.items():
        if content is not None:
            assert len(content) == size
            assert decompress(codec, content) == clear
    most = 5 * len(clear) // 8 if codec == SNAPPY else max(made)
    missing = [size - first for size in range(first, most) if made[size] is None]
    assert all(size < SKIPPABLE for size in missing)
    assert codec not in (GZIP, SNAPPY) or not missing


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(KINDS), st.binary(max_size=3000), st.integers(0, 200))
def test_what_is_made_is_right_or_none(kind: tuple[int, bytes], clear: bytes, more: int) -> None:
    codec, before = kind
    size = len(clear) + more
    made = compress_to(codec, clear, size, before)
    assert made is None or (len(made) == size and decompress(codec, made) == clear)


def test_others_read_it_as_well() -> None:
    clear = runs(3, 50)
    assert gzip.decompress(compress_to(GZIP, clear, 3000, b"") or b"") == clear
    assert snappy.uncompress(compress_to(SNAPPY, clear, 3000, b"\0") or b"") == clear
    framed = compress_to(SNAPPY, clear, 3000, XERIAL) or b""
    assert snappy.uncompress(framed[20:]) == clear


def test_what_is_no_codec_is_not_made() -> None:
    assert compress_to(7, b"clear", 1000, b"") is None
