"""The jobs of an analysis: index the splits, cut packets into parcels by connection, decode them into tables.

What needs a wider view than one connection is brought together by another key in a last job.
"""

from __future__ import annotations

import errno
import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from kafkascope.engine import ALL_TABLES, EngineOptions
from kafkascope.reports.answers.answers import Answers, answers
from kafkascope.reports.answers.capture_points import clock_issues, clock_row
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.findings.alike import together
from kafkascope.reports.incidents.rules import conclusions
from kafkascope.reports.measures.summary import Summary, capture_name
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.show.page.page import page
from kafkascope.reports.vocabulary.tables import CONCLUSIONS
from kafkascope.sniffer.capture_points import FileClock, Joined
from kafkascope.sniffer.comparison import compare, is_worth_it, joined_samples, most_sampled
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.sources import SourceError
from kafkascope.sniffer.sources.files import STANDARD_INPUT, FileReader, find_files, growth
from kafkascope.sniffer.sources.split import Split, SplitIndex, chain_files, ranges, time_span
from kafkascope.spark import tasks, view_rows
from kafkascope.spark.output import Output, Part, PartWriter, WriteError, datasets_of
from kafkascope.spark.parcels import SPARK_SCHEMA
from kafkascope.spark.sessions import close_session, is_local, is_remote, open_session, own_session, tail
from kafkascope.spark.stored import datasets

SPLIT_BYTES = 64 << 20
_PARTITION_BYTES = 32 << 20  # of capture for a task that decodes: what it holds at once is a fraction of that
_COMPRESSION = 4  # times that a compressed capture is taken to grow
_SMALLEST_PARTITION_BYTES = 1 << 20  # with less, starting a task costs more than it does
_ROWS_READ = 200_000  # of views, that a task reads again

Progress = Callable[[str, int, int], None]


# What tasks raise, as Spark tells it: what they say is a message for people.
_TOLD = tuple(f"{error.__module__}.{error.__name__}: " for error in (SourceError, WriteError))


class AnalysisError(Exception):
    """Spark failed, or a file that it needs; the message says what was wrong, or what Spark said last."""


class StoppedError(Exception):
    """The caller asked to stop."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What an analysis wrote, and the summary of it."""

    out: str
    rows: Mapping[str, int]  # of each table
    summary: Summary
    topic_names: Mapping[str, str]  # by id as written
    other: Mapping[str, int]  # packets without TCP, by kind
    unreadable: tuple[str, ...] = ()  # what is wrong with files that were given and could not be read
    answers: Answers | None = None  # what the report says; None: it was not asked for, or could not be made
    report_failure: str | None = None


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
    split_bytes: int = SPLIT_BYTES,
    partitions: int | None = None,
    progress: Progress | None = None,
    report: bool = True,
    stop: threading.Event | None = None,
) -> Analysis:
    """Decode captures (files, directories, globs) into tables under ``out/tables/NAME/`` on Spark.

    ``out/report.html`` shows what they say, unless report is False.

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
    output = Output(out, overwrite=overwrite)
    files, issues = find_ranges(paths, split_bytes)
    tables = options.tables | {*options.results}
    stop = stop or threading.Event()
    log: Path | None = None
    try:
        staging = output.begin(tables | options.views)
        session = spark
        try:
            if session is None:
                session, log = open_session(master, settings)
            if is_local(session):
                # In this process, which tells that it compiles: not in all workers at once, which nobody listens to.
                tasks.rehearse()
            run = _Run(own_session(session), staging, options, progress, stop)
            analysis = run.analyze(files, issues, out, split_bytes, partitions)
        except Exception as error:
            failure = _failure(error, log)  # now: what Spark's errors say is known to the JVM
            if failure is None:
                raise
            raise failure from None
        finally:  # before its files are removed: what still runs would write others
            if log is not None:
                close_session(session)
        summary = analysis.summary.result()
        reporting = _Reporting(summary, stop, wanted=report)
        output.commit(run.parts, tables, summary, reporting.page)
    except BaseException as error:
        output.abort()
        if stop.is_set() and isinstance(error, Exception):
            raise StoppedError("stopped") from None
        if log is not None and str(log) in str(error):
            log = None  # whoever reads the message will look for it
        if isinstance(error, WriteError):
            raise AnalysisError(str(error)) from error
        raise
    finally:
        if log is not None:
            log.unlink(missing_ok=True)
    return replace(analysis, answers=reporting.answers, report_failure=reporting.failure)


def _failure(error: Exception, log: Path | None) -> AnalysisError | None:
    """What an error of Spark's, or of a task, means; None: it is of another kind."""
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    text = str(error)
    for line in text.splitlines():
        for name in _TOLD:
            if name in line:
                return AnalysisError(line.partition(name)[2])
    if (full := os.strerror(errno.ENOSPC)) in text:
        advice = "make room there, or name another place with --conf spark.local.dir=DIRECTORY"
        return AnalysisError(f"Spark's directory for what it puts aside: {full}; {advice}")
    return AnalysisError("\n".join(filter(None, [f"Spark failed: {error}", tail(log)])))


class _Reporting:
    """Makes the report of the tables that were written, and keeps what it says."""

    def __init__(self, summary: Mapping[str, Any], stop: threading.Event, wanted: bool) -> None:
        self._summary = summary
        self._stop = stop
        self._wanted = wanted
        self.answers: Answers | None = None
        self.failure: str | None = None

    def page(self, system: fs.FileSystem, tables: str) -> str | None:
        """The page, or None if it cannot be made: that is no reason to lose the tables. Raises StoppedError."""
        text: str | None = None
        try:
            if self._wanted:
                self.answers = answers(datasets(system, tables), self._summary)
                text = page(self.answers)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
        _check(self._stop)
        return text


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise StoppedError("stopped")


class _Run:
    """The jobs of one analysis."""

    def __init__(
        self, session: Any, staging: str, options: EngineOptions, progress: Progress | None, stop: threading.Event
    ) -> None:
        self._session = session
        self._stop = stop
        self._staging = staging
        self._options = options
        self._progress = progress
        self.parts: list[Part] = []

    def analyze(
        self,
        files: Sequence[Sequence[tasks.Range]],
        issues: Sequence[Issue],
        out: str,
        split_bytes: int,
        partitions: int | None,
    ) -> Analysis:
        """Run all jobs over the ranges of each file; issues are those of files that cannot be read."""
        splits, clocks = self._index(files, split_bytes)
        issues = [*issues, *clock_issues(clocks)]
        into = partitions or self._partitions(splits)
        summary = Summary()
        summary.captures = sorted(capture_name(ranges[0].path) for ranges in files)
        summary.clocks = [clock_row(clock) for clock in clocks]
        summary.ports = self._options.session.ports
        names = TopicNames()
        other: Counter[str] = Counter()
        log = IssueLog()
        rows_of_views: list[Part] = []
        for written in self._decode(splits, issues, split_bytes, into):
            for part in written.parts:
                (rows_of_views if part.table in self._options.views else self.parts).append(part)
            names.merge(written.topic_names)
            summary.merge(written.summary)
            other.update(written.other)
            for issue in written.issues:
                log.add(issue)
        for issue in _grown(splits):
            log.add(issue)
        if len(log) and "issues" in self._options.tables:
            writer = PartWriter(self._staging, into)
            writer.write({"issues": issue_table(log)})
            self.parts += writer.finish()
            summary.merge(writer.summary)
        known = names.learned()
        summary.rename_topics(known)
        self._resolve(known)
        for parts, of_results in self._understand(rows_of_views, known, partitions):
            self.parts += parts
            summary.merge(of_results)
        self._attach()
        self._conclude(summary)
        self._bring_together()
        rows = dict.fromkeys([*sorted(self._options.tables), *self._options.results], 0)
        for part in self.parts:
            rows[part.table] += part.rows
        unreadable = tuple(issue.detail for issue in issues if issue.kind == "unreadable_file")
        return Analysis(out, rows, summary, known, dict(other), unreadable)

    def _index(
        self, files: Sequence[Sequence[tasks.Range]], split_bytes: int
    ) -> tuple[list[Split], tuple[FileClock, ...]]:
        """Splits of all files, with the packet numbers and times that they begin with; clocks are set."""
        found = self._spread("find packets", [one for file in files for one in file], tasks.index, split_bytes)
        indexes = [list(islice(found, len(file))) for file in files]
        splits = chain_files(indexes)
        joined = self._compare(indexes, splits, split_bytes)
        if joined is None:
            return splits, ()
        splits = chain_files(indexes, joined.points)
        firsts = {split.path: split.first_number for split in reversed(splits)}
        ranks = joined.ranks(sorted(firsts.items(), key=lambda file: file[1]))
        self._options = replace(self._options, session=replace(self._options.session, ranks=ranks))
        return splits, joined.clocks

    def _compare(
        self, files: Sequence[Sequence[SplitIndex]], splits: Sequence[Split], split_bytes: int
    ) -> Joined | None:
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
        samples = self._spread("compare files", work, tasks.sample, split_bytes)
        return compare({path: joined_samples(islice(samples, len(by_path[path]))) for path in paths})

    def _decode(
        self, splits: list[Split], issues: Sequence[Issue], split_bytes: int, into: int
    ) -> Iterator[tasks.Written]:
        staging, options = self._staging, self._options
        groups = grouped(splits, lambda split: split.end - split.begin, split_bytes) or [[]]
        work: list[tuple[list[Split], list[Issue]]] = [(group, []) for group in groups]
        work[0][1].extend(issues)
        read_all = tasks.read_all
        packets = self._over(work, lambda one: read_all(one[0], one[1], into), SPARK_SCHEMA)
        sorted_parcels = packets.repartitionById(into, "partition").sortWithinPartitions("merge_at", "number")
        write_tables = tasks.write_tables

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return tasks.answers(write_tables(batches, staging, options))

        yield from self._collect("decode", sorted_parcels.mapInArrow(run, tasks.SPARK_ANSWER))

    def _resolve(self, names: Mapping[str, str]) -> None:
        """Write those parts anew that have topics by id which another task knows the name of."""
        staging, known = self._staging, dict(names)
        open_parts = [part for part in self.parts if not part.unresolved.isdisjoint(known)]
        done = [part for part in self.parts if part.unresolved.isdisjoint(known)]
        if open_parts:
            done += self._spread("name topics", open_parts, lambda parts: tasks.resolve(parts, staging, known), 1)
        self.parts = done

    def _understand(
        self, rows_of_views: list[Part], names: Mapping[str, str], partitions: int | None
    ) -> Iterator[tuple[list[Part], Summary]]:
        """Bring the rows of views together by their keys, and write the tables that the views make of them."""
        if not rows_of_views:
            return
        staging, known = self._staging, dict(names)
        wanted = self._options.tables | {*self._options.results}
        into = partitions or view_rows.partitions_for(sum(part.rows for part in rows_of_views), self._cores())
        groups = grouped(rows_of_views, lambda part: part.rows, _ROWS_READ)
        read_rows, write_results = view_rows.read_rows, view_rows.write_results

        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return tasks.answers(write_results(batches, staging, known, wanted))

        rows = self._over(groups, lambda group: read_rows(group, staging, known, into), view_rows.SPARK_SCHEMA)
        together = rows.repartitionById(into, "partition").sortWithinPartitions("view")
        yield from self._collect("understand", together.mapInArrow(write, tasks.SPARK_ANSWER))

    def _attach(self) -> None:
        """Write the rebalances anew with what was read again after each, which is known of topics, not of groups."""
        found = [part for part in self.parts if part.table == "rebalances"]
        if not found or "lag" not in self._options.results:
            return
        staging = self._staging
        rereads = [part for part in self.parts if part.table == "rereads"]
        lags = [part for part in self.parts if part.table == "lag"]
        self.parts = [part for part in self.parts if part.table != "rebalances"]
        self.parts += self._spread("count rereads", found, lambda parts: tasks.attach(parts, staging, rereads, lags), 1)

    def _conclude(self, summary: Summary) -> None:
        """Write what is made of all tables together; few rows of each, so that it is done here."""
        if not CONCLUSIONS.keys() <= {*self._options.results}:
            return
        writer = PartWriter(self._staging, 0)
        writer.write(conclusions(datasets_of(self._staging, self.parts), summary.result()))
        self.parts += writer.finish()
        summary.merge(writer.summary)

    def _bring_together(self) -> None:
        """Write the findings anew with those alike as one; the incidents have been told by those of each client."""
        found = [part for part in self.parts if part.table == "findings"]
        if not found:
            return
        findings = datasets_of(self._staging, found)["findings"].to_table()
        one = together(findings)
        if one.parts:
            writer = PartWriter(self._staging, 0)
            writer.write({"findings": one.findings})
            self.parts = [part for part in self.parts if part.table != "findings"] + writer.finish()

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
        _check(self._stop)
        with _reporting(self._session, what, self._progress, self._stop):
            rows = frame.collect()
        _check(self._stop)
        for row in rows:
            yield pickle.loads(row.answer)

    def _partitions(self, splits: Sequence[Split]) -> int:
        size = sum((split.end - split.begin) * (_COMPRESSION if split.is_compressed else 1) for split in splits)
        return max(min(self._cores(), -(-size // _SMALLEST_PARTITION_BYTES)), -(-size // _PARTITION_BYTES), 1)

    def _cores(self) -> int:
        return 1 if is_remote(self._session) else int(self._session.sparkContext.defaultParallelism)


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
    return found, [Issue("unreadable_file", str(error)) for error in errors]


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
                completed, total = _tasks(tracker, group)
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
