"""From captures to a directory of tables: what is done in which order, wherever it is done.

Whoever decodes leaves parts: files of tables, and of rows of views. The steps after that are few and the same on Spark
and in one process, so that both make the same of the same.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.engine import EngineOptions
from kafkascope.filters.no_match import NoMatch
from kafkascope.filters.sieve import MOST_OF_TASK, Filter, without
from kafkascope.out import hours
from kafkascope.out.errors import WriteError
from kafkascope.out.output import Layout, Output
from kafkascope.out.parquet import WITH_SECRETS
from kafkascope.out.parts import (
    Part,
    PartWriter,
    datasets_of,
    move_to_null,
    resolve_part,
    rewrite_part,
    stored,
    write_bin,
)
from kafkascope.out.stored import stored as stored_out
from kafkascope.reports.answers.answers import Answers, answers
from kafkascope.reports.columns.remarks import (
    fault_remark,
    filter_text,
    no_kafka,
    not_taken_remark,
    unreadable_remark,
    window_text,
)
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.findings.alike import together
from kafkascope.reports.incidents.rules import conclusions
from kafkascope.reports.measures.progress.rereads import attach_rereads, readers_of
from kafkascope.reports.measures.summary import Summary
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.show.page.page import page
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.reports.vocabulary.tables import (
    ALL_SCHEMAS,
    CONCLUSIONS,
    OF_EXCHANGES,
    REREADS,
    UNDECIDED,
    of_whole,
)
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.sources.places import told

_CHOSEN = frozenset({*OF_EXCHANGES, UNDECIDED})

Progress = Callable[[str, int, int], None]
Piece = TypeVar("Piece")
Rewriting = Callable[[Iterable[Piece]], Iterator[Part]]


class AnalysisError(Exception):
    """Spark failed, or a file that is needed; the message says what was wrong, or what Spark said last."""


class StoppedError(Exception):
    """The caller asked to stop."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What an analysis wrote, and the summary of it."""

    out: str  # as it may be told
    rows: Mapping[str, int]  # of each table
    summary: Summary
    topic_names: Mapping[str, str]  # by id as written
    other: Mapping[str, int]  # packets without TCP, by kind
    unreadable: tuple[str, ...] = ()  # what is wrong with files that were given and could not be read
    answers: Answers | None = None  # what the report says; None: it was not asked for, or could not be made
    report_failure: str | None = None
    runs: int = 1  # in the directory now
    no_match: str | None = None  # why a filter let nothing through; None: something passed, or there was nothing
    not_by_hour: tuple[str, ...] = ()  # tables that were to be, but have times in too many hours

    def remarks(self) -> Iterator[str]:
        """What the reader of the results should know about how they were come by."""
        result = self.summary.result()
        if faults := result["issues"].get(INTERNAL_ERROR):
            yield fault_remark(faults)
        if others := result["not_taken_for_kafka"]:
            yield not_taken_remark(others)
        if window := result.get("window"):
            yield window_text(**window)
        if self.no_match is not None:
            yield self.no_match
        elif chosen := result.get("filter"):
            yield filter_text(**chosen)
        if not self.summary.packets:
            yield f"{', '.join(self.summary.captures)}: no packets{' in the window' if self.summary.left_out else ''}"
        elif not result["exchanges"]:
            yield no_kafka(self.summary.packets, result["connections"], self.other, self.summary.ports)
        yield from map(unreadable_remark, self.unreadable)
        if self.not_by_hour:
            yield (
                f"{', '.join(self.not_by_hour)}: all rows are in {hours.directory_of(None)}, as their times are in "
                f"more than {hours.MOST_HOURS:,} hours, or in no order; clocks of the capture may be wrong"
            )


@dataclass(slots=True)
class Written:
    """What decoding made. Its size is bounded by the number of topics, APIs and tables, not by that of packets."""

    parts: list[Part] = field(default_factory=list)
    topic_names: dict[str, str] = field(default_factory=dict)
    summary: Summary = field(default_factory=Summary)
    other: Counter[str] = field(default_factory=Counter)
    issues: IssueLog = field(default_factory=IssueLog)  # of no connection: tasks may have the same kind
    no_match: NoMatch | None = None  # of the filter, if there is one


def check(stop: threading.Event) -> None:
    """Raise StoppedError if it is set."""
    if stop.is_set():
        raise StoppedError("stopped")


class Pipeline(ABC):
    """The steps of one analysis, over the parts under staging."""

    def __init__(self, staging: str, options: EngineOptions, stop: threading.Event, layout: Layout) -> None:
        self.staging = staging
        self.layout = layout
        self._not_by_hour: list[str] = []  # tables whose times do not allow it
        self.options = options
        self.stop = stop
        self.parts: list[Part] = []  # of tables

    @abstractmethod
    def decode(self, summary: Summary) -> Iterator[Written]:
        """Write the tables and the rows of views; the summary is told what is known of the files."""

    @abstractmethod
    def late_issues(self) -> Iterable[Issue]:
        """What is to be said of the files when all is decoded."""

    @abstractmethod
    def unreadable(self) -> Iterable[str]:
        """What is wrong with files that could not be read; once all is decoded."""

    @abstractmethod
    def understand(self, rows: Sequence[Part], names: Mapping[str, str]) -> Iterator[tuple[list[Part], Summary]]:
        """Write the tables that views make of their rows, which have been brought together by key."""

    @abstractmethod
    def rewrite(self, what: str, pieces: Sequence[Piece], work: Rewriting[Piece]) -> list[Part]:
        """The parts that work writes anew, of parts or of what is to become one."""

    def run(self, out: str) -> Analysis:
        """All steps; what they made is in `parts`."""
        staging = self.staging
        summary = Summary()
        summary.ports = self.options.session.ports
        summary.window = str(self.options.window) or None
        names = TopicNames()
        other: Counter[str] = Counter()
        log = IssueLog()
        chosen = self.options.filter
        no_match = None if chosen is None else NoMatch(chosen.expression, most=MOST_OF_TASK)
        rows_of_views: list[Part] = []
        for written in self.decode(summary):
            for part in written.parts:
                (rows_of_views if part.table in self.options.views else self.parts).append(part)
            names.merge(written.topic_names)
            summary.merge(written.summary)
            other.update(written.other)
            if no_match is not None and written.no_match is not None:
                no_match.merge(written.no_match)
            for issue in written.issues:
                log.add(issue)
        for issue in self.late_issues():
            log.add(issue)
        if len(log) and "issues" in self.options.tables:
            self._write(summary, {"issues": issue_table(log, self.options.origins)})
        known = names.learned()
        summary.rename_topics(known)
        self._choose(known)
        self._resolve(known)
        if rows_of_views:
            for parts, of_results in self.understand(rows_of_views, known):
                self.parts += parts
                summary.merge(of_results)
        self._attach()
        if CONCLUSIONS.keys() <= {*self.options.results}:  # few rows of each table, so that it is done here
            self._write(summary, conclusions(of_whole(datasets_of(self.staging, self.parts)), summary.result()))
        self.parts = [part for part in self.parts if part.table in ALL_SCHEMAS]
        self._bring_together(summary.result()["issues"])
        sorted_parts = self._sort_by_hour() if self.layout.by_hour else []
        if self.layout.microseconds:
            self.parts = self.rewrite("cut times", self.parts, lambda parts: cut_times(parts, staging))
        self.parts += sorted_parts
        rows = dict.fromkeys([*sorted(self.options.tables), *self.options.results], 0)
        for part in self.parts:
            rows[part.table] += part.rows
        said: str | None = None
        if chosen is not None and no_match is not None:
            summary.filter, summary.passed = chosen.text, rows["exchanges"]
            said = None if summary.passed else no_match.remark(known)
        unreadable, not_by_hour = tuple(self.unreadable()), tuple(self._not_by_hour)
        return Analysis(
            told(out), rows, summary, known, dict(other), unreadable, not_by_hour=not_by_hour, no_match=said
        )

    def _write(self, summary: Summary, tables: Mapping[str, pa.Table]) -> None:
        """A part of few rows."""
        writer = PartWriter(self.staging, 0)
        writer.write(tables)
        self.parts += writer.finish()
        summary.merge(writer.summary)

    def _choose(self, names: Mapping[str, str]) -> None:
        """Take out the rows of exchanges that do not pass, of which tasks could not know it for want of names."""
        chosen, staging = self.options.filter, self.staging
        undecided = {part.file: part for part in self.parts if part.table == UNDECIDED}
        if chosen is None or not undecided:
            return
        tables: dict[str, list[Part]] = {file: [] for file in undecided}  # of one task, by its file's name
        for part in self.parts:
            if part.table in OF_EXCHANGES and part.file in undecided:
                tables[part.file].append(part)
        of_tasks = [(undecided[file], parts) for file, parts in tables.items()]
        private = WITH_SECRETS if self.options.reveal_secrets else frozenset[str]()
        self.parts = [part for part in self.parts if part.file not in undecided or part.table not in _CHOSEN]
        self.parts += self.rewrite(
            "choose exchanges", of_tasks, lambda some: choose(some, staging, chosen, names, private)
        )

    def _resolve(self, names: Mapping[str, str]) -> None:
        """Write those parts anew that have topics by id whose name was learned elsewhere."""
        staging, known = self.staging, dict(names)
        open_parts = [part for part in self.parts if not part.unresolved.isdisjoint(known)]
        if open_parts:
            done = [part for part in self.parts if part.unresolved.isdisjoint(known)]
            self.parts = done + self.rewrite("name topics", open_parts, lambda parts: resolve(parts, staging, known))

    def _attach(self) -> None:
        """Write the rebalances anew with what was read again after each, which is known of topics, not of groups."""
        found = [part for part in self.parts if part.table == "rebalances"]
        if not found or "lag" not in self.options.results:
            return
        staging = self.staging
        rereads = [part for part in self.parts if part.table == "rereads"]
        lags = [part for part in self.parts if part.table == "lag"]
        self.parts = [part for part in self.parts if part.table != "rebalances"]
        self.parts += self.rewrite("count rereads", found, lambda parts: attach(parts, staging, rereads, lags))

    def _sort_by_hour(self) -> list[Part]:
        """Take the parts of large tables out, and write their rows anew, by hour; returns the parts that come of it."""
        found: list[hours.Bin] = []
        for table in sorted({part.table for part in self.parts} & hours.TABLES.keys()):
            of_table = [(part.file, part.row_groups) for part in self.parts if part.table == table]
            made = hours.bins(table, of_table, len(found))
            if made is not None:
                found += made
                self.parts = [part for part in self.parts if part.table != table]
                continue
            self._not_by_hour.append(table)
            self.parts = [move_to_null(self.staging, part) if part.table == table else part for part in self.parts]
        staging, microseconds = self.staging, self.layout.microseconds
        return self.rewrite("sort by hour", found, lambda bins: sort_by_hour(bins, staging, microseconds))

    def _bring_together(self, issues: Collection[str]) -> None:
        """Write the findings anew with those alike as one; the incidents have been told by those of each client.

        Without those that issues of the capture, whose kinds are given, leave open.
        """
        found = [part for part in self.parts if part.table == "findings"]
        if not found:
            return
        findings = datasets_of(self.staging, found)["findings"].to_table()
        one = together(findings, issues)
        if one.parts or one.findings.num_rows < findings.num_rows:
            self.parts = [part for part in self.parts if part.table != "findings"]
            self._write(Summary(), {"findings": one.findings})


def choose(
    of_tasks: Iterable[tuple[Part, Sequence[Part]]],
    staging: str,
    chosen: Filter,
    names: Mapping[str, str],
    private: frozenset[str],
) -> Iterator[Part]:
    """Parts of tables written anew without the exchanges that a task left undecided and that do not pass."""
    for undecided, parts in of_tasks:
        refused = chosen.refused(pa.concat_tables(stored(staging, undecided)), names)
        with PartWriter(staging, 0, private) as writer:
            for part in parts:
                for rows in stored(staging, part):
                    writer.write({part.table: without(rows, refused)})
            made = writer.finish()
        yield from made


def resolve(parts: Iterable[Part], staging: str, names: Mapping[str, str]) -> Iterator[Part]:
    """Parts written anew with the names of topics that were learned elsewhere."""
    for part in parts:
        yield resolve_part(staging, part, {topic: names[topic] for topic in part.unresolved if topic in names})


def cut_times(parts: Iterable[Part], staging: str) -> Iterator[Part]:
    """Parts written anew with times in microseconds."""
    for part in parts:
        yield rewrite_part(staging, part, stored(staging, part), microseconds=True)


def sort_by_hour(bins: Iterable[hours.Bin], staging: str, microseconds: bool) -> Iterator[Part]:
    """The files of hours."""
    for one in bins:
        yield from write_bin(staging, one, microseconds)


def attach(parts: Iterable[Part], staging: str, rereads: Sequence[Part], lags: Sequence[Part]) -> Iterator[Part]:
    """Parts of the table of rebalances, which have all rows of their groups, written anew with what was read again."""
    for part in parts:
        whole = pa.concat_tables(stored(staging, part))
        groups = pc.unique(whole["group_id"])

        def of_groups(others: Sequence[Part], groups: pa.Array = groups) -> Iterator[pa.Table]:
            for other in others:
                for rows in stored(staging, other):
                    yield rows.filter(pc.is_in(rows["group_id"], groups))

        again = pa.concat_tables([REREADS.empty_table(), *of_groups(rereads)])
        readers = pa.chunked_array([readers_of(rows) for rows in of_groups(lags)], pa.string()).unique()
        yield rewrite_part(staging, part, [attach_rereads(whole, again, readers)])


def fill(
    output: Output,
    options: EngineOptions,
    produce: Callable[[str], tuple[Analysis, Sequence[Part]]],
    *,
    report: bool,
    stop: threading.Event,
) -> Analysis:
    """Fill a directory with what is produced under the place that produce is given, and with the report if wanted.

    Raises what produce raises, OutputError, AnalysisError if the directory cannot be written to the end, StoppedError
    if stop was set; then the directory is as it was before.
    """
    tables = options.tables | {*options.results}
    try:
        analysis, parts = produce(output.begin(tables | options.beside))
        summary = analysis.summary.result() | {"run": output.run}
        reporting = Reporting(
            summary,
            stop,
            wanted=report,
            out=output.place,
            earlier=output.earlier,
            limits=options.session.limits,
        )
        output.commit(parts, tables, summary, reporting.page)
    except BaseException as error:
        output.abort()
        if stop.is_set() and isinstance(error, Exception):
            raise StoppedError("stopped") from None
        if isinstance(error, WriteError):
            raise AnalysisError(str(error)) from error
        raise
    return replace(
        analysis,
        answers=reporting.answers,
        report_failure=reporting.failure,
        runs=len(output.earlier) + 1,
    )


class Reporting:
    """Makes the report of the tables that were written, and keeps what it says."""

    def __init__(
        self,
        summary: Mapping[str, Any],
        stop: threading.Event,
        wanted: bool,
        out: str = "",
        earlier: Sequence[Mapping[str, Any]] = (),
        limits: Limits = DEFAULT,
    ) -> None:
        """out: the directory with the runs before this one that stay, of which earlier are the summaries."""
        self._out = out
        self._limits = limits
        self._earlier = {run["run"] for run in earlier}
        self._summary = summary
        self._stop = stop
        self._wanted = wanted
        self.answers: Answers | None = None
        self.failure: str | None = None

    def page(self, tables: Mapping[str, ds.Dataset]) -> str | None:
        """The page, or None if it cannot be made: that is no reason to lose the tables. Raises StoppedError."""
        text: str | None = None
        try:
            if self._wanted:
                self.answers = answers(tables, self._summary, self._limits)
                runs = stored_out(self._out).runs() if self._earlier else ()
                earlier = [run for run in runs if run.summary["run"] in self._earlier]
                left_out = max(0, len(earlier) + 1 - self._limits.page_runs)
                of_earlier = [answers(run.tables, run.summary, self._limits) for run in earlier[left_out:]]
                text = page(self.answers, earlier=of_earlier, left_out=left_out)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
        check(self._stop)
        return text
