"""The jobs of an analysis: index the splits, cut packets into parcels by connection, decode them into tables.

What needs a wider view than one connection is brought together by another key in a last job.
"""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkascope.engine import ALL_TABLES, EngineOptions
from kafkascope.out.output import Layout, Output
from kafkascope.out.parts import Part
from kafkascope.out.pipeline import Analysis, AnalysisError, Piece, Pipeline, Progress, Rewriting, Written, check, fill
from kafkascope.reports.answers.capture_points import clock_issues, clock_row
from kafkascope.reports.measures.summary import Summary, capture_name
from kafkascope.sniffer.capture_points import FileClock, Joined
from kafkascope.sniffer.comparison import compare, is_worth_it, joined_samples, most_sampled
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.origins import CapturedFile, Origins
from kafkascope.sniffer.packet_window import EVERYTHING
from kafkascope.sniffer.sources import SourceError
from kafkascope.sniffer.sources.files import STANDARD_INPUT, FileReader, captured_file, find_files, growth
from kafkascope.sniffer.sources.key_log import read_key_logs
from kafkascope.sniffer.sources.places import is_uri, origin_name
from kafkascope.sniffer.sources.split import Split, SplitIndex, chain_files, first_time, ranges, secrets, time_span
from kafkascope.sniffer.tls.keys import KEY_LOG, Keys
from kafkascope.spark import handed_on, tasks, view_rows
from kafkascope.spark.failures import is_of_spark, meaning, told
from kafkascope.spark.handed_on import Place
from kafkascope.spark.indexing import Indexing
from kafkascope.spark.parcels import SPARK_SCHEMA
from kafkascope.spark.prepared import prepared
from kafkascope.spark.sessions import (
    Scratch,
    SparkUnavailableError,
    close_session,
    end_of_jvm,
    is_local,
    is_remote,
    open_session,
    own_session,
    stays_here,
)
from kafkascope.temporary import TemporaryDirectory

_SPLIT_BYTES = 64 << 20
_PARTITION_BYTES = 64 << 20  # of capture for a task that decodes: what it holds at once is a fraction of that
_MOST_TASKS = 4_000  # each of one job leaves a block for each of the next: of more these are too small to be fetched
_COMPRESSION = 4  # times that a compressed capture is taken to grow
_SMALLEST_PARTITION_BYTES = 1 << 20  # with less, starting a task costs more than it does
_INDEXED_HERE_BYTES = 64 << 20  # of files on this machine: a job of their own would take longer
_ROWS_READ = 200_000  # of views, that a task reads again


def analyze(
    paths: Sequence[str],
    out: str,
    *,
    spark: Any = None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    records: bool = False,
    options: EngineOptions | None = None,
    overwrite: bool = False,
    append: bool = False,
    force: bool = False,
    split_bytes: int | None = None,
    partitions: int | None = None,
    progress: Progress | None = None,
    report: bool = True,
    microseconds: bool = False,
    by_hour: bool = False,
    stop: threading.Event | None = None,
) -> Analysis:
    """Decode captures (files, directories, globs) into tables under ``out/tables/NAME/`` on Spark.

    ``out/report.html`` shows what they say, unless report is False. With microseconds, times in the tables are of that
    unit, which Spark reads as they are, instead of nanoseconds. With by_hour, the large tables are in directories by
    hour (``out.hours``). With append, out keeps what it has, and the rows come beside, as a run of their own, but
    for captures that are there already, which raise OutputError unless force.

    Runs on the session given, else the active one, else a new one on master with these settings, which is stopped at
    the end. What is decoded is said by options, or by records alone. The result does not depend on split_bytes (bytes
    of a file that one task reads), partitions (number of tasks that decode) or where the tasks run. progress is
    called with what is being done, and how many tasks of how many are through. Another thread may set stop, to end it
    with StoppedError.

    A file that grows meanwhile is read up to where it ended at first; one that changes otherwise is an error.

    Raises ``sniffer.sources.SourceError`` if nothing could be read, OutputError if out may not be written, or another
    analysis is at work there, SparkUnavailableError, AnalysisError. Whatever it raises, out is as it was before.
    """
    options = options or EngineOptions()
    if records:
        options = replace(options, tables=ALL_TABLES)
    output = Output(out, overwrite=overwrite, append=append, layout=Layout(microseconds, by_hour))
    split_bytes = split_bytes or _SPLIT_BYTES
    files, issues = find_ranges(paths, split_bytes)
    stop = stop or threading.Event()

    def produce(staging: str) -> tuple[Analysis, Sequence[Part]]:
        if output.earlier and not force:
            output.refuse_again(captured_file(pieces[0].path, 0, 0, pieces[0].of) for pieces in files)
        given = dict(settings or {})
        is_elsewhere = any(map(is_uri, [*paths, out]))  # what speaks to object stores survives no fork
        is_here = spark is None and stays_here(master, given) and not is_elsewhere
        ahead: AbstractContextManager[dict[str, str]] = prepared(tasks.rehearse) if is_here else nullcontext({})
        with ahead as ready, Indexing([one for file in files for one in file] if is_here else []) as indexed:
            work = _Work(files, issues, split_bytes, partitions, indexed)
            try:
                session, scratch = (spark, None) if spark is not None else open_session(master, given | ready)
            except SparkUnavailableError as error:
                if stop.is_set() and error.log is not None:
                    error.log.unlink(missing_ok=True)  # its JVM got the signal too
                raise
            try:
                if is_local(session) and not ready:
                    tasks.rehearse()  # here, where one hears that it compiles: not in all workers at once
                run = _Run(own_session(session), staging, options, stop, output.layout, work, progress)
                return run.run(out), run.parts
            except Exception as error:
                if stop.is_set() or (message := _message(error, scratch)) is None:
                    raise
                raise AnalysisError(message) from None
            finally:  # before the output is removed: what still runs would write more
                if scratch is not None:
                    close_session(session)
                    scratch.remove()

    return fill(output, options, produce, report=report, stop=stop)


def _message(error: Exception, scratch: Scratch | None) -> str | None:
    """What to say of an error of Spark's, of a JVM that has these files; None if it is none of Spark's."""
    text = None if scratch is None else end_of_jvm(error)
    if text is None:
        if not is_of_spark(error):
            return None
        if (text := told(error)) is not None:
            return text
        text = meaning(error)
    return text + ("" if scratch is None else f"\n(all of it: {scratch.kept_log()})")


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be read, and in which pieces."""

    files: Sequence[Sequence[tasks.Range]]  # ranges of each
    issues: Sequence[Issue]  # of files that cannot be read
    split_bytes: int
    partitions: int | None
    indexed: Indexing  # what was while Spark started


class _Run(Pipeline):
    """The jobs of one analysis."""

    def __init__(
        self,
        session: Any,
        staging: str,
        options: EngineOptions,
        stop: threading.Event,
        layout: Layout,
        work: _Work,
        progress: Progress | None,
    ) -> None:
        super().__init__(staging, options, stop, layout)
        self._session = session
        self._work = work
        self._progress = progress
        self._splits: list[Split] = []
        self._window = EVERYTHING.bounds(None)

    def decode(self, summary: Summary) -> Iterator[Written]:
        """Index the files, and decode their packets by connection."""
        self._splits, clocks = self._index()
        issues = self._read_keys()
        summary.captures = sorted(capture_name(ranges[0].path) for ranges in self._work.files)
        summary.files = captured(self._splits)
        summary.clocks = [clock_row(clock) for clock in clocks]
        issues = [*self._work.issues, *clock_issues(clocks), *issues]
        # What is handed on is as it was on the wire, and all of it: pseudonyms and filters work where exchanges are.
        apart = self.options.pseudonyms is None and self.options.filter is None
        here = handed_on.RECORDS_HERE_BYTES if apart else None
        decoded = list(self._decode(issues, here))
        records = self._read_records([place for one in decoded for place in one.handed_on])
        if any(len(one.issues) for one in records):  # they belong in tables that are written already
            decoded, records = list(self._decode(issues, None)), []
        taken = sum(one.written.summary.packets + one.written.summary.copies for one in decoded)
        summary.left_out = sum(split.packets for split in self._splits) - taken
        yield from (one.written for one in decoded)
        yield from records

    def late_issues(self) -> Iterable[Issue]:
        """That files have grown."""
        return _grown(self._splits)

    def unreadable(self) -> Iterable[str]:
        """What is wrong with files that are no captures."""
        return (issue.detail for issue in self._work.issues if issue.kind == "unreadable_file")

    def _index(self) -> tuple[list[Split], tuple[FileClock, ...]]:
        """Splits of all files, with the packet numbers and times that they begin with; clocks are set."""
        known = self._work.indexed.found(lambda: check(self.stop))
        pieces = [one for file in self._work.files for one in file][len(known) :]
        if not pieces or (is_local(self._session) and sum(piece.size for piece in pieces) <= _INDEXED_HERE_BYTES):
            others = self._checked(tasks.index(pieces))
        else:
            others = self._spread("find packets", pieces, tasks.index, self._work.split_bytes)
        found = chain(known, others)
        indexes = [list(islice(found, len(file))) for file in self._work.files]
        splits = chain_files(indexes)
        joined = self._compare(indexes, splits)
        points = None if joined is None else joined.points
        if points is not None:
            splits = chain_files(indexes, points)
        self._window = self.options.window.bounds(first_time(indexes, points))
        firsts = {split.path: split.first_number for split in reversed(splits)}
        files = list(reversed(firsts.items()))
        session = self.options.session
        if joined is not None:
            session = replace(session, ranks=joined.ranks(files))
        origins = Origins((origin_name(path) for path, _ in files), (first for _, first in files))
        self.options = replace(self.options, session=session, origins=origins)
        return splits, () if joined is None else joined.clocks

    def _checked(self, found: Iterable[SplitIndex]) -> Iterator[SplitIndex]:
        for one in found:
            check(self.stop)
            yield one

    def _read_keys(self) -> list[Issue]:
        """Let tasks have the secrets of TLS sessions; what of them could not be taken in."""
        keys = Keys()
        read_key_logs(self.options.session.key_logs, keys)
        for secret in secrets(self._splits):
            if secret.kind == KEY_LOG:
                keys.add(secret.data, secret.packet)
                keys.may_grow |= secret.packet > 0
        if keys.since is not None:
            self.options = replace(self.options, session=replace(self.options.session, keys=keys))
        return keys.issues()

    def _compare(self, files: Sequence[Sequence[SplitIndex]], splits: Sequence[Split]) -> Joined | None:
        """As ``sniffer.comparison.compare_files`` does it in one process."""
        paths = [file[0].path for file in files]
        if len(paths) < 2 or not is_worth_it(sum(file[-1].end for file in files), lambda: list(map(time_span, files))):
            return None
        by_path: dict[str, list[Split]] = {path: [] for path in paths}
        for split in splits:
            by_path[split.path].append(split)
        most = most_sampled(len(paths))
        work = [
            tasks.SampleRange(split, most, sum(one.packets for one in by_path[path]))
            for path in paths
            for split in by_path[path]
        ]
        samples = self._spread("compare files", work, tasks.sample, self._work.split_bytes)
        return compare({path: joined_samples(islice(samples, len(by_path[path]))) for path in paths})

    def _read_records(self, places: Sequence[Place]) -> list[Written]:
        """The records that tasks handed on."""
        if not places:
            return []
        staging, options, write_records = self.staging, self.options, handed_on.write_records

        def work(some: Iterable[Place]) -> Iterator[Written]:
            return write_records(some, staging, options)

        return list(self._spread("read records", places, work, handed_on.ENOUGH_BYTES))

    def _decode(self, issues: Sequence[Issue], records_here: int | None) -> Iterator[tasks.Decoded]:
        """Cut packets into parcels by connection, and decode them; of more bytes than that tasks hand records on."""
        staging, into = self.staging, self._work.partitions or self._enough_partitions()
        options = replace(self.options, records_here=records_here)
        window = self._window
        splits = [split for split in self._splits if split.is_worth_reading(window)]
        enough = max(self._work.split_bytes, -(-sum(map(_bytes, splits)) // _MOST_TASKS))
        groups = grouped(splits, _bytes, enough) or [[]]
        work: list[tuple[list[Split], list[Issue]]] = [(group, []) for group in groups]
        work[0][1].extend(issues)
        read_all, write_tables = tasks.read_all, tasks.write_tables

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return tasks.answers(write_tables(batches, staging, options))

        with place_for_parcels(self._session) as directory:
            packets = self._over(work, lambda one: read_all(one[0], one[1], into, directory, window), SPARK_SCHEMA)
            sorted_parcels = packets.repartitionById(into, "partition").sortWithinPartitions("merge_at", "number")
            yield from self._collect("decode", sorted_parcels.mapInArrow(run, tasks.SPARK_ANSWER))

    def rewrite(self, what: str, pieces: Sequence[Piece], work: Rewriting[Piece]) -> list[Part]:
        """The parts that work writes anew, in tasks."""
        return list(self._spread(what, pieces, work, 1))

    def understand(self, rows: Sequence[Part], names: Mapping[str, str]) -> Iterator[tuple[list[Part], Summary]]:
        """Bring the rows of views together by their keys, and write the tables that the views make of them."""
        staging, known = self.staging, dict(names)
        wanted = self.options.tables | {*self.options.results}
        counts: Counter[str] = Counter()
        for part in rows:
            counts[part.table] += part.rows
        places = view_rows.places_for(counts, self._cores(), self._work.partitions)
        into = max(place.stop for place in places.values())
        groups = grouped(rows, lambda part: part.rows, _ROWS_READ)
        read_rows, write_results = view_rows.read_rows, view_rows.write_results

        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return tasks.answers(write_results(batches, staging, known, wanted))

        parcels = self._over(groups, lambda group: read_rows(group, staging, known, places), view_rows.SPARK_SCHEMA)
        together = parcels.repartitionById(into, "partition").sortWithinPartitions("view")
        yield from self._collect("understand", together.mapInArrow(write, tasks.SPARK_ANSWER))

    def _spread(
        self, what: str, items: Sequence[Any], work: Callable[[Iterable[Any]], Iterator[Any]], task_bytes: int
    ) -> Iterator[Any]:
        """Do work on items in tasks of their own (small ones together), results in the order of the items."""
        groups = grouped(items, lambda item: getattr(item, "size", 1), task_bytes)

        def run(numbered: tuple[int, Sequence[Any]]) -> Iterator[pa.RecordBatch]:
            number, group = numbered
            return tasks.answers((number, result) for result in work(group))

        results = list(self._collect(what, self._over(list(enumerate(groups)), run, tasks.SPARK_ANSWER)))
        return (result for _, result in sorted(results, key=lambda numbered: numbered[0]))

    def _over(self, pieces: Sequence[Any], work: Callable[[Any], Iterator[pa.RecordBatch]], schema: str) -> Any:
        """A DataFrame of what work makes of each piece, in a task of its own."""
        pickled = [pickle.dumps(piece) for piece in pieces]

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from work(pickle.loads(pickled[number]))

        return self._session.range(0, len(pickled), 1, max(1, len(pickled))).mapInArrow(run, schema)

    def _collect(self, what: str, frame: Any) -> Iterator[Any]:
        check(self.stop)
        with _reporting(self._session, what, self._progress, self.stop):
            rows = frame.collect()
        check(self.stop)
        for row in rows:
            yield tasks.answer_of(row.answer)

    def _enough_partitions(self) -> int:
        size = sum(_bytes(split) * (_COMPRESSION if split.is_compressed else 1) for split in self._splits)
        cores = self._cores()
        if size <= cores * _PARTITION_BYTES:
            return max(min(cores, -(-size // _SMALLEST_PARTITION_BYTES)), 1)
        rounds = -(-size // (cores * _PARTITION_BYTES))  # in each of which all cores have a task
        return min(rounds * cores, _MOST_TASKS)

    def _cores(self) -> int:
        return 1 if is_remote(self._session) else int(self._session.sparkContext.defaultParallelism)


@contextmanager
def place_for_parcels(session: Any) -> Iterator[str | None]:
    """A directory that all tasks see, where Spark puts aside what it shuffles; None if they may be elsewhere."""
    if not is_local(session):
        yield None
        return
    place, _, _ = session.sparkContext.getConf().get("spark.local.dir", "").partition(",")
    with TemporaryDirectory(place if place and Path(place).is_dir() else None) as path:
        yield str(path)


def find_ranges(paths: Sequence[str], split_bytes: int) -> tuple[list[list[tasks.Range]], list[Issue]]:
    """Ranges of each file that the paths mean, and an issue for each file that is no capture.

    Raises SourceError if none can be read.
    """
    found: list[list[tasks.Range]] = []
    errors: list[SourceError] = []
    for path in find_files(paths):
        if path == STANDARD_INPUT:
            message = "tasks of Spark cannot read standard input"
            raise SourceError(path, None, message, "Write it to a file first, or read it with sniff")
        try:
            found.append([tasks.Range(path, *piece) for piece in ranges(path, split_bytes)])
        except SourceError as error:
            errors.append(error)
    if errors and not found:
        raise errors[0]
    return found, [Issue("unreadable_file", str(error), file=origin_name(error.file)) for error in errors]


def captured(splits: Sequence[Split]) -> list[CapturedFile]:
    """The files that the splits are of, in their order."""
    of_files = [list(of_file) for _, of_file in groupby(splits, attrgetter("path"))]
    return [
        captured_file(one[0].path, one[0].first_number, sum(split.packets for split in one), one[0].content.size)
        for one in of_files
    ]


def _bytes(split: Split) -> int:
    return split.end - split.begin


def _grown(splits: Sequence[Split]) -> Iterator[Issue]:
    """What is to be said of files that are larger now than when they were indexed."""
    for path, size in {split.path: split.content.size for split in splits if not split.is_compressed}.items():
        with suppress(SourceError), closing(FileReader(path)) as now:
            yield from growth(path, size, now.size or 0)


def grouped(items: Sequence[Any], size: Callable[[Any], int], enough: int) -> list[list[Any]]:
    """Neighbours put together until they have enough bytes: many small files make no task each."""
    groups: list[list[Any]] = []
    held = 0
    for item in items:
        if not groups or held + size(item) > enough:
            groups.append([])
            held = 0
        groups[-1].append(item)
        held += size(item)
    return groups


@contextmanager
def _reporting(session: Any, what: str, progress: Progress | None, stop: threading.Event) -> Iterator[None]:
    """Tell how many tasks are through, while jobs run; cancels them if the caller is interrupted, or asks to stop."""
    context = None if is_remote(session) else session.sparkContext  # Spark Connect does not tell of tasks
    group = f"kafkascope-{id(session)}-{what}"
    if context is not None:
        context.setJobGroup(group, f"kafkascope: {what}", interruptOnCancel=False)
    cancel_jobs = session.interruptAll if context is None else partial(context.cancelJobGroup, group)

    def cancel() -> None:
        with suppress(Exception):  # a JVM that got the signal too has no jobs any more
            cancel_jobs()

    tracker = None if context is None or progress is None else context.statusTracker()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.25):
            if stop.is_set():
                cancel()
            elif tracker is not None and progress is not None:
                try:
                    completed, total = _tasks(tracker, group)
                except Exception:  # the JVM has died: the job fails, and tells of it
                    continue
                if total:
                    progress(what, completed, total)

    watcher = threading.Thread(target=watch, daemon=True)
    try:
        watcher.start()
        yield
    except BaseException:
        cancel()
        raise
    finally:
        done.set()
        watcher.join()
        if context is not None:
            with suppress(Exception):  # what a JVM that has died raises here would hide what the job raised
                context.setLocalProperty("spark.jobGroup.id", None)


def _tasks(tracker: Any, group: str) -> tuple[int, int]:
    """Tasks of a group of jobs that are through, and all of them."""
    completed = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            if (state := tracker.getStageInfo(stage)) is not None:
                completed += state.numCompletedTasks
                total += state.numTasks
    return completed, total
