"""What streams are to say in the place of what they said: frames on disk, and payloads of packets out of them.

A frame stands at an offset of its stream, so every packet that carries bytes of it can have them: also those that come
again, or out of order. Bytes of streams that are in no frame stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np

from kafkascope.decoders.kernels import copy_bytes, kernel
from kafkascope.sniffer.columns import I32, I64, SYN, U8, U32, U64, Bool, ConnectionRow, Segments

# Columns of a frame, of which those of a stream are one behind the other.
_OFFSET, _LENGTH, _PLACE, _FRAME_COLUMNS = range(4)
# Columns of a stream.
_BASE, _FIRST, _BEHIND, _NEAR, _STREAM_COLUMNS = range(5)  # sequence number of offset 0, rows of frames, latest offset

Flow = tuple[int, ...]  # high and low half of the address, and port, of both endpoints; first the smaller one
int64: Any = np.int64


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames with their size prefixes, as much of them as was captured, one behind the other in data."""

    data: U8
    connection: I64
    is_response: Bool
    offset: I64  # in the stream
    length: I64  # in data


class StreamContent:
    """Frames of streams by connection: written once, then read for packets in the order of the capture.

    In memory are 40 bytes for each frame, and what finds the streams of connections that have frames.
    """

    def __init__(self, directory: Path) -> None:
        """The bytes of frames go to a file in this directory. Raises OSError, as `add` does."""
        self._path = directory / "frames"
        self._file = open(self._path, "wb", buffering=0)  # noqa: SIM115 (closed by `finish`)
        self._written = 0
        self._parts: list[I64] = [np.empty((0, 2 + _FRAME_COLUMNS), np.int64)]
        self._rows: list[ConnectionRow] = []
        self._flows: dict[Flow, _Flow] = {}
        self._streams: I64 = np.empty((0, _STREAM_COLUMNS), np.int64)
        self._frames: I64 = np.empty((0, _FRAME_COLUMNS), np.int64)
        self._content: U8 = np.empty(0, np.uint8)

    def add(self, frames: Frames) -> None:
        """Take frames of connections that have not ended."""
        if not len(frames.offset):
            return
        places = self._written + np.cumsum(frames.length) - frames.length
        columns = (frames.connection, frames.is_response, frames.offset, frames.length, places)
        self._parts.append(np.stack(columns, axis=1).astype(np.int64))
        left: Any = memoryview(frames.data)  # type: ignore[arg-type]
        self._written += len(left)
        while left:
            left = left[self._file.write(left) :]

    def end(self, connections: Iterable[ConnectionRow]) -> None:
        """Take connections that have ended."""
        self._rows += (row for row in connections if row.exchanges)

    def finish(self) -> None:
        """All is there: from now on it can be read."""
        self._file.close()
        frames = np.concatenate(self._parts)
        self._parts.clear()
        frames = frames[np.lexsort((frames[:, 2], frames[:, 1], frames[:, 0]))]
        begins = np.flatnonzero(np.any(np.diff(frames[:, :2], axis=0, prepend=-1) != 0, axis=1))
        behind = np.append(begins[1:], len(frames))
        self._streams = np.zeros((len(begins), _STREAM_COLUMNS), np.int64)
        self._streams[:, _FIRST], self._streams[:, _BEHIND] = begins, behind
        rows = {row.connection: row for row in self._rows}
        self._rows.clear()
        for stream, (connection, is_response) in enumerate(frames[begins, :2].tolist()):
            row = rows[connection]
            self._streams[stream, _BASE] = row.broker_base if is_response else row.client_base
            flow, from_smaller = _flow_of(row)  # requests
            streams = self._flows.setdefault(flow, _Flow()).connections.setdefault(connection, [-1, -1])
            streams[from_smaller != bool(is_response)] = stream
        self._frames = np.ascontiguousarray(frames[:, 2:])
        if self._written:
            self._content = np.asarray(np.memmap(self._path, np.uint8, "r+"))

    def write(self, segments: Segments, data: U8) -> I64:
        """Put what streams say where the payloads of segments are in data; how many bytes of each that were."""
        written = np.zeros(len(segments.number), np.int64)
        streams = self._streams_of(segments)
        _write(
            data,
            np.ascontiguousarray(segments.start),
            np.ascontiguousarray(segments.captured),
            np.ascontiguousarray(segments.seq),
            np.ascontiguousarray(segments.flags),
            streams,
            self._streams,
            self._frames,
            self._content,
            written,
        )
        return written

    def _streams_of(self, segments: Segments) -> I64:
        """The stream of each segment, -1 if it has no frames."""
        streams = np.full(len(segments.number), -1, np.int64)
        sides = [
            np.stack(
                [getattr(segments, f"{side}_{part}").astype(np.uint64) for part in ("high", "low", "port")], axis=1
            )
            for side in ("source", "target")
        ]
        is_smaller = _are_smaller(*sides)
        flows = np.where(is_smaller[:, None], np.hstack(sides), np.hstack(sides[::-1]))
        unique, which = np.unique(flows, axis=0, return_inverse=True)
        rows = np.argsort(which.reshape(-1), kind="stable")
        parts = np.split(rows, np.cumsum(np.bincount(which.reshape(-1)))[:-1]) if len(rows) else []
        for flow, of_flow in zip(map(tuple, unique.tolist()), parts, strict=True):
            found = self._flows.get(flow)
            if found is not None:
                streams[of_flow] = found.streams(segments.number[of_flow], is_smaller[of_flow])
        return streams


@dataclass(slots=True)
class _Flow:
    """The connections of a flow, one after the other: each begins with the packet whose number it has."""

    connections: dict[int, list[int]] = field(default_factory=dict)  # streams from the larger and the smaller endpoint
    now: list[int] = field(default_factory=lambda: [-1, -1])

    def streams(self, numbers: I64, from_smaller: Bool) -> I64:
        """The streams of packets that follow those asked for before."""
        begins = np.isin(numbers, list(self.connections))
        streams = np.array([self.now, *(self.connections[number] for number in numbers[begins].tolist())], np.int64)
        self.now = streams[-1].tolist()
        return streams[np.cumsum(begins), from_smaller.astype(np.int64)]


def _are_smaller(one: U64, other: U64) -> Bool:
    """Whether rows are smaller than others, or equal, by their first column that differs."""
    smaller = np.ones(len(one), np.bool_)
    for column in reversed(range(one.shape[1])):
        smaller = np.where(one[:, column] == other[:, column], smaller, one[:, column] < other[:, column])
    return smaller


def _flow_of(row: ConnectionRow) -> tuple[Flow, bool]:
    """The flow of a connection, and whether the client is its smaller endpoint."""
    client, broker = (*_halves(row.client), row.client_port), (*_halves(row.broker), row.broker_port)
    return (*min(client, broker), *max(client, broker)), client <= broker


def _halves(text: str) -> tuple[int, int]:
    address = ip_address(text)
    value = int(address) if address.version == 6 else 0xFFFF << 32 | int(address)
    return value >> 64, value & (1 << 64) - 1


@kernel
def _write(
    data: U8,
    start: I64,
    captured: I32,
    seq: U32,
    flags: U8,
    stream_of: I64,
    streams: I64,
    frames: I64,
    content: U8,
    written: I64,
) -> None:
    for row in range(start.shape[0]):
        if stream_of[row] < 0 or captured[row] <= 0:
            continue
        stream = streams[stream_of[row]]
        position = int64(seq[row]) + (1 if flags[row] & SYN else 0)
        distance = (position - stream[_BASE] - stream[_NEAR]) & 0xFFFFFFFF
        if distance >= 0x80000000:
            distance -= 0x100000000
        begin = stream[_NEAR] + distance
        end = begin + int64(captured[row])
        # The first frame that ends behind the segment's first byte.
        low, high = stream[_FIRST], stream[_BEHIND]
        while low < high:
            middle = (low + high) // 2
            if frames[middle, _OFFSET] + frames[middle, _LENGTH] <= begin:
                low = middle + 1
            else:
                high = middle
        while low < stream[_BEHIND] and frames[low, _OFFSET] < end:
            first = max(begin, frames[low, _OFFSET])
            behind = min(end, frames[low, _OFFSET] + frames[low, _LENGTH])
            copy_bytes(
                content,
                frames[low, _PLACE] + first - frames[low, _OFFSET],
                behind - first,
                data,
                start[row] + first - begin,
            )
            written[row] += behind - first
            stream[_NEAR] = begin
            low += 1
