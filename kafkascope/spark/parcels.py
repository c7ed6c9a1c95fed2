"""What travels through Spark's shuffle: parcels of many segments, and their order on the other side.

A parcel holds the segments of one partition out of one batch of packets, as bytes:

    count (int64) | one ``ROW`` per segment | the payloads of all segments, one after the other

Where all tasks run on one machine, parcels stay in files there and only their places go through the shuffle: a byte on
its way through the JVM costs more than all that TCP and framing do with it.

Headers of packets stay behind. Each segment carries the key by which the packets of several files are merged: the
highest time of its file up to its packet, then the packet number. Inside a file that is the file's order.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from kafkascope.decoders.kernels import kernel
from kafkascope.out.errors import writing
from kafkascope.sniffer.columns import I64, NO_TIME, U8, Segments
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.spreading import partition_of
from kafkascope.spark.failures import ROOM_ELSEWHERE

ROW = np.dtype(
    [
        ("merge_at", "<i8"),
        ("number", "<i8"),
        ("at", "<i8"),
        ("source_high", "<u8"),
        ("source_low", "<u8"),
        ("target_high", "<u8"),
        ("target_low", "<u8"),
        ("source_port", "<u2"),
        ("target_port", "<u2"),
        ("seq", "<u4"),
        ("ack", "<u4"),
        ("dsack", "<u4"),
        ("captured", "<i4"),
        ("length", "<i4"),
        ("sacked", "<i4"),
        ("window", "<u2"),
        ("ident", "<u2"),
        ("scale", "i1"),
        ("flags", "u1"),
    ]
)
_COUNT = np.dtype("<i8")

# merge_at and number are the key of the first segment. A row with number 0 holds remarks about packets instead.
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("merge_at", pa.int64()),
        ("number", pa.int64()),
        ("parcel", pa.binary()),  # null: it is in a file
        ("file", pa.string()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
    ]
)
SPARK_SCHEMA = "partition int, merge_at bigint, number bigint, parcel binary, file string, begin bigint, end bigint"
REMARKS_PARTITION = 0
_BATCH_BYTES = 8 << 20  # of parcels that go to the JVM at once


def pack(segments: Segments, merge_at: I64, partitions: int) -> Iterator[pa.RecordBatch]:
    """Parcels of segments by partition, as batches of ``SCHEMA``; merge_at is the merge key's time of each segment."""
    count = len(segments.number)
    if not count:
        return
    partition = partition_of(segments, partitions)
    order = np.argsort(partition, kind="stable")
    rows = np.empty(count, ROW)
    rows["merge_at"] = merge_at[order]
    for name in ROW.names or ():
        if name != "merge_at":
            rows[name] = getattr(segments, name)[order]
    segments_of = np.bincount(partition, minlength=partitions)
    there = np.flatnonzero(segments_of)
    last = np.cumsum(segments_of)[there]
    first = last - segments_of[there]
    payload_before = np.concatenate([[0], np.cumsum(rows["captured"], dtype=np.int64)])
    overhead = _COUNT.itemsize + segments_of[there] * ROW.itemsize
    offsets = np.concatenate([[0], np.cumsum(overhead + payload_before[last] - payload_before[first])])
    out = np.empty(offsets[-1], np.uint8)
    for begin, i, j in zip(offsets[:-1].tolist(), first.tolist(), last.tolist(), strict=True):
        out[begin : begin + _COUNT.itemsize] = np.array([j - i], _COUNT).view(np.uint8)
        begin += _COUNT.itemsize
        out[begin : begin + (j - i) * ROW.itemsize] = rows[i:j].view(np.uint8)
    # A payload lies behind all headers of its own and the earlier parcels, and behind all payloads before it.
    place = payload_before[:-1] + np.repeat(np.cumsum(overhead), segments_of[there])
    _copy(segments.data, segments.start[order], rows["captured"].astype(np.int64), out, place)
    yield from _batches(there, rows["merge_at"][first], rows["number"][first], out, offsets)


def remarks(issues: Iterable[Issue], other: dict[str, int], packets: int) -> pa.RecordBatch:
    """What was noted about packets that are no segments: a row that sorts before all parcels of its partition.

    Rows go through the shuffle, where Spark sees to it that each counts once however often a task is tried.
    """
    content = {"issues": [asdict(issue) for issue in issues], "other": other, "packets": packets}
    return pa.RecordBatch.from_pydict(
        {
            "partition": [REMARKS_PARTITION],
            "merge_at": [NO_TIME],
            "number": [0],
            "parcel": [json.dumps(content).encode()],
            "file": [None],
            "begin": [None],
            "end": [None],
        },
        SCHEMA,
    )


class ParcelFile:
    """The file with the parcels of one task; its name is random, so that several attempts at a task do not meet."""

    def __init__(self, directory: str) -> None:
        self._path = posixpath.join(directory, uuid.uuid4().hex)
        self._bytes = 0

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What `pack` gave, with the places of parcels instead of these. Raises `out.output.WriteError`."""
        _, offsets, data = batch["parcel"].buffers()
        edges = np.frombuffer(offsets, np.int32, batch.num_rows + 1).astype(np.int64) + self._bytes
        with writing(self._path, ROOM_ELSEWHERE), open(self._path, "ab") as file:
            file.write(data)
        self._bytes += data.size
        columns = batch.select(["partition", "merge_at", "number"]).columns
        columns += [pa.nulls(batch.num_rows, pa.binary()), pa.repeat(self._path, batch.num_rows)]
        return pa.RecordBatch.from_arrays([*columns, pa.array(edges[:-1]), pa.array(edges[1:])], schema=SCHEMA)


def opened(batch: pa.RecordBatch) -> Iterator[tuple[int, int, int, pa.Buffer]]:
    """Partition, key and content of each row, wherever it is. Raises OSError."""
    for i in range(batch.num_rows):
        partition, merge_at, number, parcel, path, begin, end = (column[i] for column in batch.columns)
        if parcel.is_valid:
            content = parcel.as_buffer()
        else:
            with pa.OSFile(path.as_py()) as file:
                file.seek(begin.as_py())
                content = file.read_buffer(end.as_py() - begin.as_py())
        yield partition.as_py(), merge_at.as_py(), number.as_py(), content


def read_remarks(parcel: pa.Buffer) -> tuple[list[Issue], dict[str, int], int]:
    """Issues, other packets by kind, and the number of packets, out of a row that `remarks` made."""
    content = json.loads(bytes(parcel))
    return [Issue(**issue) for issue in content["issues"]], content["other"], content["packets"]


def merged(parcels: Iterable[tuple[int, int, pa.Buffer]], batch_bytes: int) -> Iterator[Segments]:
    """Segments in merge order, some batch_bytes at a time, out of parcels sorted by the key of their first segment.

    A segment can be handed on as soon as a parcel begins behind it: no later parcel has one that goes before. So what
    is held is what overlaps in time, at most some parcels of each file.
    """
    pending: list[tuple[Any, U8]] = []
    held, enough = 0, batch_bytes
    for merge_at, number, parcel in parcels:
        if held >= enough:
            segments, pending = _release(pending, (merge_at, number))
            held = sum(rows.nbytes + payload.nbytes for rows, payload in pending)
            enough = held + batch_bytes
            if len(segments.number):
                yield segments
        pending.append(_open(parcel))
        held += parcel.size
    if pending:
        yield _release(pending, None)[0]


def _open(parcel: pa.Buffer) -> tuple[Any, U8]:
    """Rows and payloads of a parcel, as views of it."""
    count = int(np.frombuffer(parcel, _COUNT, 1)[0])
    rows = np.frombuffer(parcel, ROW, count, _COUNT.itemsize)
    return rows, np.frombuffer(parcel, np.uint8, offset=_COUNT.itemsize + rows.nbytes)


def _release(pending: list[tuple[Any, U8]], before: tuple[int, int] | None) -> tuple[Segments, list[tuple[Any, U8]]]:
    """Sorted segments of what is pending and goes before a key (None: all of it), and what stays pending."""
    rows = np.concatenate([rows for rows, _ in pending])
    data = np.concatenate([payload for _, payload in pending])
    captured = rows["captured"].astype(np.int64)
    start = np.cumsum(captured) - captured
    late = rows["merge_at"]
    number = rows["number"]
    in_order = (late[1:] > late[:-1]) | ((late[1:] == late[:-1]) & (number[1:] > number[:-1]))
    if not in_order.all():
        order = np.lexsort((number, late))
        rows, start = rows[order], start[order]
    cut = len(rows)
    if before is not None:
        cut = int(
            ((rows["merge_at"] < before[0]) | ((rows["merge_at"] == before[0]) & (rows["number"] < before[1]))).sum()
        )
    rest: list[tuple[Any, U8]] = []
    if cut < len(rows):
        length = rows["captured"][cut:].astype(np.int64)
        ends = np.cumsum(length)
        payload = np.empty(ends[-1], np.uint8)
        _copy(data, start[cut:], length, payload, ends - length)
        rest.append((rows[cut:], payload))
    columns = {name: np.ascontiguousarray(rows[name][:cut]) for name in ROW.names or () if name != "merge_at"}
    return Segments(data=data, start=start[:cut], **columns), rest


def _batches(partition: I64, merge_at: I64, number: I64, out: U8, offsets: I64) -> Iterator[pa.RecordBatch]:
    """Rows of ``SCHEMA`` over one buffer, cut into batches of a size that the JVM takes easily."""
    edges = np.flatnonzero(np.diff(offsets[:-1] // _BATCH_BYTES)) + 1
    for i, j in zip([0, *edges.tolist()], [*edges.tolist(), len(partition)], strict=True):
        low, high = int(offsets[i]), int(offsets[j])
        parcels = pa.BinaryArray.from_buffers(
            pa.binary(),
            j - i,
            [None, pa.py_buffer((offsets[i : j + 1] - low).astype(np.int32)), pa.py_buffer(out[low:high])],
        )
        keys = [pa.array(partition[i:j].astype(np.int32)), pa.array(merge_at[i:j]), pa.array(number[i:j])]
        places = [pa.nulls(j - i, kind) for kind in (pa.string(), pa.int64(), pa.int64())]
        yield pa.RecordBatch.from_arrays([*keys, parcels, *places], schema=SCHEMA)


@kernel
def _copy(data: U8, start: I64, length: I64, out: U8, place: I64) -> None:
    """Copy ``data[start:start + length]`` to ``out[place:]`` for every element."""
    for i in range(len(start)):
        begin, size, to = start[i], length[i], place[i]
        if begin < 0 or to < 0 or size > len(data) - begin or size > len(out) - to:
            continue  # never so: the numbers come from `dissect` and `pack`
        for j in range(size):
            out[to + j] = data[begin + j]
