"""What runs in the tasks: splits to parcels, and parcels to tables.

Tasks run where Spark puts them, some more than once. They read splits and write files with names of their own; all
that comes back to the driver is how many rows of what are in which file, and a summary of bounded size.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kafkascope.engine import ALL_TABLES, Engine, EngineOptions
from kafkascope.out.parquet import WITH_SECRETS
from kafkascope.out.parts import PartWriter
from kafkascope.out.pipeline import Written
from kafkascope.rehearsal import Rehearsal
from kafkascope.reports.rows.records_apart import FIELDS_WITH_RECORDS
from kafkascope.sniffer.comparison import Sample, Sampler
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.packet_window import Bounds
from kafkascope.sniffer.sources.order import running_maximum
from kafkascope.sniffer.sources.split import Split, SplitIndex, SplitReader, index_split
from kafkascope.spark import parcels
from kafkascope.spark.handed_on import HandedOn, Place

# A task's answer as one row, pickled: both ends are this program. The driver collects those of all tasks at once, and
# most of each are histograms, which are empty but for few buckets: compressed they take a fortieth.
ANSWER = pa.schema([("answer", pa.binary())])
SPARK_ANSWER = "answer binary"

_FEED_BYTES = 8 << 20
_SMALLEST_BATCH, _LARGEST_BATCH = 8 << 20, 64 << 20
_PARCEL_BYTES = 64 << 10  # what a parcel should have at least, with many partitions


def answers(values: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Rows of ``ANSWER``."""
    for value in values:
        yield pa.RecordBatch.from_arrays(
            [pa.array([zlib.compress(pickle.dumps(value), 1)], pa.binary())], schema=ANSWER
        )


def answer_of(row: bytes) -> Any:
    """What `answers` made a row of."""
    return pickle.loads(zlib.decompress(row))


@cache
def rehearse() -> None:
    """Compile or load the kernels that tasks need, with a few packets, once in a process."""
    engine = Engine(EngineOptions(tables=ALL_TABLES))
    segments = (dissect(packets).segments for packets in Rehearsal())
    rows = (row for some in segments for batch in parcels.pack(some, some.at, 1) for row in parcels.opened(batch))
    for merged in parcels.merged((row[1:] for row in rows), _FEED_BYTES):
        for _ in engine.feed(merged):
            pass
    for _ in engine.finish():
        pass


# --- index -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a file that one task looks at."""

    path: str
    start: int
    end: int
    of: int  # bytes of the whole file

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


def index(ranges: Iterable[Range]) -> Iterator[SplitIndex]:
    """What chaining the splits of a file needs to know of each."""
    for one in ranges:
        yield index_split(one.path, one.start, one.end, one.of)


@dataclass(frozen=True, slots=True)
class SampleRange:
    """A split whose packets are to be sampled, most so many of its file's."""

    split: Split
    most: int
    packets: int  # of the whole file

    @property
    def size(self) -> int:
        """Bytes."""
        return self.split.end - self.split.begin


def sample(ranges: Iterable[SampleRange]) -> Iterator[Sample]:
    """What comparing files needs to know of each split."""
    for one in ranges:
        sampler = Sampler(one.most, one.packets)
        for packets in SplitReader(one.split):
            sampler.feed(dissect(packets).segments, len(packets.number))
        yield sampler.sample()


# --- splits to parcels -----------------------------------------------------------------------------------------------


def read_all(
    splits: Iterable[Split], issues: Iterable[Issue], partitions: int, directory: str | None, window: Bounds
) -> Iterator[pa.RecordBatch]:
    """Parcels of what splits have of a window, with issues of the files as such, which are carried along.

    Where there is a directory that all tasks see, parcels stay there, and their places are given. Raises
    `out.output.WriteError` if it cannot be written.
    """
    yield parcels.remarks(issues, {}, 0)
    file = None if directory is None else parcels.ParcelFile(directory)
    for split in splits:
        yield from read_parcels(split, partitions, file, window)


def read_parcels(
    split: Split, partitions: int, file: parcels.ParcelFile | None, window: Bounds
) -> Iterator[pa.RecordBatch]:
    """Parcels of what one split has of a window, or their places in a file."""
    batch_bytes = min(max(partitions * _PARCEL_BYTES, _SMALLEST_BATCH), _LARGEST_BATCH)
    issues = IssueLog()
    other: Counter[str] = Counter()
    packets_read = 0
    latest = split.running_maximum
    reader = SplitReader(split, batch_bytes)
    for packets in reader:
        if not len(packets.number):
            continue
        merge_at = running_maximum(packets.at, latest)
        latest = int(merge_at[-1])
        merge_at += split.delay
        inside = window.cut(packets)
        packets_read += len(inside.number)
        found = dissect(inside)
        for issue in found.issues:
            issues.add(issue)
        other.update(found.other)
        # Packets are numbered in order, and each gives one segment at most.
        rows = np.searchsorted(packets.number, found.segments.number)
        packed = parcels.pack(found.segments, merge_at[rows], partitions)
        yield from packed if file is None else map(file.take, packed)
    yield parcels.remarks([*reader.issues, *issues], dict(other), packets_read)


# --- parcels to tables -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a task decoded, and what it left to others."""

    written: Written
    handed_on: list[Place]


def write_tables(batches: Iterable[pa.RecordBatch], staging: str, options: EngineOptions) -> Iterator[Decoded]:
    """Run the engine over one partition's parcels, sorted by key, and write its tables under staging."""
    rows = (row for batch in batches for row in parcels.opened(batch))
    first = next(rows, None)
    if first is None:
        return
    handed_on = HandedOn(staging, first[0])

    def write(tables: dict[str, pa.Table]) -> None:
        if (fields := tables.pop(FIELDS_WITH_RECORDS, None)) is not None:
            handed_on.take(fields)
        writer.write(tables)

    with PartWriter(staging, first[0], WITH_SECRETS if options.reveal_secrets else frozenset()) as writer:
        written = Written(summary=writer.summary)
        engine = Engine(options)
        remaining = _take_remarks(chain([first], rows), written)
        for segments in parcels.merged(remaining, _FEED_BYTES):
            for tables in engine.feed(segments):
                write(tables)
        for tables in engine.finish():
            write(tables)
        for issue in engine.issues:
            written.issues.add(issue)
        written.summary.packets -= engine.copies
        written.summary.copies += engine.copies
        written.no_match = engine.no_match
        written.topic_names = engine.topic_names.learned()
        written.parts = writer.finish()
        handed_on.close()
    yield Decoded(written, handed_on.places)


def _take_remarks(
    rows: Iterator[tuple[int, int, int, pa.Buffer]], written: Written
) -> Iterator[tuple[int, int, pa.Buffer]]:
    """Take the remarks out, which come first; the parcels go on."""
    for _, merge_at, number, parcel in rows:
        if number:
            yield merge_at, number, parcel
            continue
        issues, other, packets = parcels.read_remarks(parcel)
        for issue in issues:
            written.issues.add(issue)
        written.other.update(other)
        written.summary.packets += packets
