"""Values as text, by kernels: times, and bytes that may be text or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.kernels import kernel
from kafkascope.decoders.tape import hidden, text_step, write_escape
from kafkascope.sniffer.columns import I64, U8, Bool
from kafkascope.sniffer.units import SECOND_NS

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def counted(count: int, noun: str) -> str:
    """``1 packet``, ``1,200 packets``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def address(host: str | None, port: int | None) -> str:
    """``10.0.0.1:9092``, ``[fd77::1]:9092``."""
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def iso_times(times: Any) -> Any:
    """UTC times as ``2026-11-21T07:02:00.123456789Z``; null stays null."""
    text = times.cast(pa.timestamp("ns")).cast(pa.string())
    return pc.binary_join_element_wise(pc.utf8_replace_slice(text, 10, 11, "T"), "Z", "")


def epoch_times(times: Any) -> Any:
    """Times as seconds since 1970 with nine decimals, ``1795244520.123456789``; null stays null."""
    nanoseconds = times.cast(pa.int64())
    whole = pc.divide(nanoseconds, SECOND_NS)
    rest = pc.subtract(nanoseconds, pc.multiply(whole, SECOND_NS))
    return pc.binary_join_element_wise(whole.cast(pa.string()), pc.utf8_lpad(rest.cast(pa.string()), 9, "0"), ".")


def clock_times(times: Any) -> Any:
    """The time of day of UTC times, ``07:02:00.123456``; null stays null."""
    return pc.utf8_slice_codeunits(times.cast(pa.timestamp("us"), safe=False).cast(pa.string()), 11, 26)


def json_members(name: str, values: Any) -> pa.Array:
    """``"name":"text"`` where the bytes are UTF-8, else ``"name_hex":"00ff"``; ``"name":null`` for null.

    Characters that hide are written by their number, as `decoders.characters.safe_json` does.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    values = values.cast(pa.large_binary())
    valid = np.asarray(values.is_valid())
    buffers = values.buffers()
    offsets = np.frombuffer(buffers[1], np.int64, len(values) + 1, values.offset * 8)
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.zeros(0, np.uint8)
    label = np.frombuffer(name.encode(), np.uint8)
    is_text = np.zeros(len(values), np.bool_)
    places = np.zeros(len(values) + 1, np.int64)
    _measure(data, offsets, valid, len(label), is_text, places)
    out = np.empty(int(places[-1]), np.uint8)
    _write(data, offsets, valid, label, is_text, places, out)
    return pa.LargeStringArray.from_buffers(len(values), pa.py_buffer(places), pa.py_buffer(out))


@kernel
def _measure(data: U8, offsets: I64, valid: Bool, label: int, is_text: Bool, places: I64) -> None:
    """Whether each value is text, and where its member ends."""
    for row in range(valid.shape[0]):
        if not valid[row]:
            places[row + 1] = places[row] + label + 7  # "label":null
            continue
        at = offsets[row]
        end = offsets[row + 1]
        size = np.int64(0)
        text = True
        while at < end:
            byte = data[at]
            if byte >= 0x80:
                length = text_step(data, at, end)
                if length < 0:
                    text = False
                    break
                size += 6 if hidden(data, at, length) >= 0 else length
                at += length
                continue
            if byte < 0x20 or byte == 0x7F:
                size += 6
            elif byte == 0x22 or byte == 0x5C:
                size += 2
            else:
                size += 1
            at += 1
        is_text[row] = text
        if text:
            places[row + 1] = places[row] + label + 3 + 2 + size
        else:
            places[row + 1] = places[row] + label + 7 + 2 + 2 * (end - offsets[row])


@kernel
def _write(data: U8, offsets: I64, valid: Bool, label: U8, is_text: Bool, places: I64, out: U8) -> None:
    for row in range(valid.shape[0]):
        to = places[row]
        out[to] = 0x22
        to += 1
        for i in range(label.shape[0]):
            out[to] = label[i]
            to += 1
        if valid[row] and not is_text[row]:
            for byte in (0x5F, 0x68, 0x65, 0x78):  # _hex
                out[to] = byte
                to += 1
        out[to] = 0x22
        out[to + 1] = 0x3A
        to += 2
        if not valid[row]:
            for byte in (0x6E, 0x75, 0x6C, 0x6C):  # null
                out[to] = byte
                to += 1
            continue
        out[to] = 0x22
        to += 1
        at = offsets[row]
        end = offsets[row + 1]
        if not is_text[row]:
            while at < end:
                out[to] = _DIGITS[data[at] >> 4]
                out[to + 1] = _DIGITS[data[at] & 15]
                to += 2
                at += 1
        while at < end:
            byte = data[at]
            if byte >= 0x80:
                length = text_step(data, at, end)
                number = hidden(data, at, length)
                if number >= 0:
                    to = write_escape(number, out, to)
                    at += length
                else:
                    for _ in range(length):
                        out[to] = data[at]
                        to += 1
                        at += 1
                continue
            if byte < 0x20 or byte == 0x7F:
                to = write_escape(byte, out, to)
            elif byte == 0x22 or byte == 0x5C:
                out[to] = 0x5C
                out[to + 1] = byte
                to += 2
            else:
                out[to] = byte
                to += 1
            at += 1
        out[to] = 0x22
