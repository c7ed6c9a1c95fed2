"""Values as text, by kernels: times, and bytes that may be text or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.kernels import njit
from kafkascope.decoders.tape import hidden, text_step, write_escape
from kafkascope.sniffer.columns import I64, U8, Bool
from kafkascope.sniffer.units import SECOND_NS

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)

PORTS_SHOWN = 10
"""Of encrypted connections, those with the most."""

PROTOCOL_NAMES = {
    "tls": "TLS",
    "http": "HTTP",
    "length_prefixed": "an unknown protocol whose messages begin with their length",
    "unknown": "an unknown protocol",
    "empty": "no data at all",
}
"""What a person calls protocols whose name in the tables does not tell."""

PACKET_NAMES = {
    "udp": "UDP",
    "icmp": "ICMP",
    "arp": "ARP",
    "other_ip": "another protocol over IP",
    "not_ip": "a protocol other than IP",
}
"""What a person calls packets without TCP."""


def counted(count: int, noun: str) -> str:
    """``1 packet``, ``1,200 packets``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def fault_remark(count: int) -> str:
    """What to say of faults of ours that were met in so many messages, groups or answers."""
    return (
        f"a fault of kafkascope was met {counted(count, 'time')}: something of these messages, groups or answers is "
        "missing. Please report it with what the issues of kind internal_error say"
    )


def tls_remark(connections: Mapping[str, int]) -> str:
    """What to say of encrypted connections, counted by the brokers' ports (at least one)."""
    ports = sorted(connections, key=lambda port: (-connections[port], not port.isdecimal(), len(port), port))
    more = f" and {len(ports) - PORTS_SHOWN:,} more" if len(ports) > PORTS_SHOWN else ""
    count = sum(connections.values())
    are, them = ("is", "it") if count == 1 else ("are", "them")
    return (
        f"{counted(count, 'connection')} {are} encrypted with TLS, to {'port' if len(ports) == 1 else 'ports'} "
        f"{', '.join(ports[:PORTS_SHOWN])}{more}: what is in {them} cannot be read; "
        "capture where it is in the clear, such as a plaintext listener"
    )


def not_taken(connections: Mapping[tuple[int, str], int], asked_for: Container[int]) -> list[dict[str, Any]]:
    """Connections on ports of Kafka that were taken for something else, by port and protocol, the most first.

    connections: how many there are, by the broker's port and protocol. A port is of Kafka if another connection to it
    is Kafka, or if it was asked for. Without data there is nothing to take, and TLS has a remark of its own.
    """
    of_kafka = {port for port, protocol in connections if protocol == "kafka"}
    rows = [
        {"port": port, "protocol": protocol, "connections": count}
        for (port, protocol), count in connections.items()
        if (port in of_kafka or port in asked_for) and protocol not in ("kafka", "tls", "empty")
    ]
    return sorted(rows, key=lambda row: (-row["connections"], row["port"], row["protocol"]))


def not_taken_remark(rows: Sequence[Mapping[str, Any]]) -> str:
    """What to say of the rows of `not_taken` (at least one)."""
    ports: Counter[int] = Counter()
    for row in rows:
        ports[row["port"]] += row["connections"]
    told = [
        f"{count:,} to port {port} ("
        + ", ".join(
            f"{row['connections']:,} of {PROTOCOL_NAMES.get(row['protocol'], row['protocol'])}"
            for row in rows
            if row["port"] == port
        )
        + ")"
        for port, count in ports.most_common(PORTS_SHOWN)
    ]
    numbers = ",".join(str(port) for port, _ in ports.most_common(PORTS_SHOWN))
    count = sum(ports.values())
    more = f" and {len(ports) - PORTS_SHOWN:,} more ports" if len(ports) > PORTS_SHOWN else ""
    return (
        f"{counted(count, 'connection')} to {'a port' if len(ports) == 1 else 'ports'} of Kafka "
        f"{'was' if count == 1 else 'were'} not taken for Kafka: {', '.join(told)}{more}; "
        f"if {'it is' if count == 1 else 'they are'}, --decode-as {numbers} decodes {'it' if count == 1 else 'them'}"
    )


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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
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
