"""The notebook's view of a capture: ``kafkascope.read(...)`` and the tables it gives as pandas DataFrames."""

from __future__ import annotations

import html
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypedDict, Unpack, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.again import FilesAgain
from kafkascope.answering import Answering, columns_told, why_not
from kafkascope.dataframes import to_frame
from kafkascope.decoders.limits import Limits
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.decoders.redaction import checked_names
from kafkascope.engine import ALL_TABLES, WITHOUT_RECORDS, EngineOptions
from kafkascope.figures import Answer
from kafkascope.filters.sieve import Filter, without
from kafkascope.one_exchange import DecodedExchange
from kafkascope.out.errors import OutputError
from kafkascope.out.stored import Stored, is_analysis, stored
from kafkascope.reading import Reading
from kafkascope.reports.answers.capture_points import clock_row
from kafkascope.reports.columns.order import ordered
from kafkascope.reports.columns.remarks import fault_remark
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import Known
from kafkascope.reports.findings.alike import together
from kafkascope.reports.incidents.rules import NEEDED, conclusions
from kafkascope.reports.measures.progress.rereads import attach_rereads, readers_of
from kafkascope.reports.measures.summary import Summary, capture_name
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.views.registry import results_of
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR, ISSUE_KINDS
from kafkascope.reports.vocabulary.tables import (
    ALL_SCHEMAS,
    CONCLUSIONS,
    ISSUES,
    OF_EXCHANGES,
    SCHEMAS,
    UNDECIDED,
    WHOLE,
)
from kafkascope.shares import first_share, read_all
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.packet_window import PacketWindow
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.places import told
from kafkascope.sniffer.spreading import Share
from kafkascope.spool import Spool, Spooled
from kafkascope.temporary import TemporaryDirectory
from kafkascope.understanding import processes_for, understood

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkascope.spark.capture import SparkCapture


class Rows(Protocol):
    """Where the rows of tables and views are; a spool is one."""

    def table(self, name: str) -> pa.Table:
        """The rows of one table."""

    def issues(self) -> Iterator[Issue]:
        """An issue for each table that lacks rows."""


@columns_told(ALL_SCHEMAS)
class Capture(Answering):
    """The tables of a capture. Each is a property: ``cap.exchanges``, ``cap.errors``, and so on.

    They are pandas DataFrames, made when first asked for; ``frame(name)`` has all of ``tables``, ``arrow(name)`` gives
    one as it is.
    """

    def __init__(self, summary: dict[str, Any], source: str, again: FilesAgain | None = None) -> None:
        """source: what was read. again: where it can be read once more."""
        super().__init__(summary, source)
        self._tables: dict[str, Answer] = {}
        self._files = again

    @property
    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that are there."""

    def frame(self, name: str) -> Answer:
        """One table as a DataFrame, by its name; KeyError if it is not there."""
        if name not in self._tables:
            self._tables[name] = Answer.of(name, to_frame(ordered(name, self.arrow(name))))
        return self._tables[name]

    @property
    def connections(self) -> Answer:
        """TCP connections."""
        return self.frame("connections")

    @property
    def tcp_health(self) -> Answer:
        """How the packets of connections fared, by sender and span of ten seconds."""
        return self.frame("tcp_health")

    @property
    def exchanges(self) -> Answer:
        """Requests with their responses."""
        return self.frame("exchanges")

    @property
    def errors(self) -> Answer:
        """Every error code that is not 0, wherever it stood."""
        return self.frame("errors")

    @property
    def partitions(self) -> Answer:
        """What fetch and produce said of each partition."""
        return self.frame("partitions")

    @property
    def batches(self) -> Answer:
        """Record batches."""
        return self.frame("batches")

    @property
    def records(self) -> Answer:
        """Records; only with ``read(..., records=True)``."""
        return self.frame("records")

    @property
    def issues(self) -> Answer:
        """Damage and oddities met while reading."""
        return self.frame("issues")

    @property
    def incidents(self) -> Answer:
        """What broke, one row for each cause with all that came of it; what to look at first is first."""
        return self.frame("incidents")

    @property
    def silences(self) -> Answer:
        """When a broker said nothing on any connection though answers were due."""
        return self.frame("silences")

    @property
    def findings(self) -> Answer:
        """Problems with their evidence and what to do, the weightiest first."""
        return self.frame("findings")

    @property
    def group_events(self) -> Answer:
        """What happened to groups and their members."""
        return self.frame("group_events")

    @property
    def rebalances(self) -> Answer:
        """Each generation or epoch of each group: what set it off, what it cost, who was in it."""
        return self.frame("rebalances")

    @property
    def cluster_events(self) -> Answer:
        """What happened to clusters: brokers, leaders, in-sync replicas, controllers, coordinators; who moved when."""
        return self.frame("cluster_events")

    @property
    def rereads(self) -> Answer:
        """Records that travelled to a group more than once."""
        return self.frame("rereads")

    @property
    def forgotten_commits(self) -> Answer:
        """Offsets that a coordinator did not have though the group had committed them."""
        return self.frame("forgotten_commits")

    def exchange(self, n: int) -> DecodedExchange:
        """The exchange in row n of ``cap.exchanges``, with its bodies; IndexError if there is none."""
        rows = ordered("exchanges", self.arrow("exchanges"))
        if not 0 <= n < len(rows):
            raise IndexError(f"exchange {n}: the table has {len(rows)} exchanges, 0 to {len(rows) - 1}")
        return self._decoded(to_frame(rows.slice(n, 1)).iloc[0])

    def filter(self, expression: str) -> Answer:
        """The exchanges that pass an expression, as ``sniff --filter`` has it; their labels are what `exchange` takes.

        Raises ``filters.language.FilterError``, a ValueError, which says what is wrong and where.

        >>> cap.filter('api == "Fetch" and latency_ms > 100 and topic in (orders, payments)')
        """
        from kafkascope.filters.language import parsed

        rows = ordered("exchanges", self.arrow("exchanges"))  # the frame may have been changed by who has it
        passing = self._passing_of(rows, parsed(expression))
        return Answer.of("exchanges", to_frame(rows.filter(pa.array(passing))).set_index(np.flatnonzero(passing)))

    def _again(self) -> FilesAgain | None:
        return self._files

    def _contents_html(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(api['api'])}</td><td>{api['exchanges']}</td><td>{api['errors']}</td>"
            f"<td>{api['latency_ms']['p50']}</td><td>{api['latency_ms']['p99']}</td></tr>"
            for api in self.summary.get("apis", ())
        )
        head = "<tr><th>API</th><th>exchanges</th><th>errors</th><th>p50 ms</th><th>p99 ms</th></tr>"
        return f"<table>{head}{rows}</table>"


class SpooledCapture(Capture):
    """A capture that was read in this process; answers are made when first asked for."""

    def __init__(
        self,
        spool: Rows,
        names: TopicNames,
        summary: Summary,
        options: EngineOptions,
        source: str,
        again: FilesAgain | None = None,
    ) -> None:
        """spool: the rows of the tables, and of the views of which answers are made."""
        super().__init__(summary.result(), source, again)
        self._spool = spool
        self._names = names
        self._views = options.views
        self._processes = options.session.limits.processes
        self._filter = options.filter
        self._wanted = options.tables | {*options.results}
        self._results: dict[str, dict[str, pa.Table]] = {}  # by view
        self._late_issues: list[pa.Table] = []

    def left_out(self) -> Iterator[Issue]:
        """Rows for which there was no room, by table."""
        return self._spool.issues()

    def __deepcopy__(self, _: object) -> SpooledCapture:
        return self  # it does not change

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "the tables of a capture wait in files of this process, so it cannot be pickled: analyze it into a "
            "directory (kafkascope analyze), and read that, or pickle the DataFrames that are wanted"
        )

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that were asked for."""
        return tuple(name for name in ALL_SCHEMAS if name in self._wanted)

    def arrow(self, name: str, where: pc.Expression | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """See `Answering.arrow`; rows are in the order in which they became complete."""
        table = self._arrow(name)
        table = table if where is None else table.filter(where)
        return table if columns is None else table.select(list(columns))

    def _arrow(self, name: str) -> pa.Table:
        if name not in self._wanted:
            raise KeyError(f"{name}: {why_not(name, self.tables)}")
        if name == "issues":
            return pa.concat_tables([self._spool.table(name), issue_table(self._spool.issues()), *self._late_issues])
        if name in OF_EXCHANGES:
            return of_passed(self._spool, name, self._names, self._filter)
        if name in SCHEMAS:
            return self._names.resolve(self._spool.table(name))
        if name in CONCLUSIONS:
            return self._conclusions[name]
        table = self._of_views(name)
        if name == "rebalances" and "lag" in self._wanted:  # known of topics, not of groups
            return attach_rereads(table, self.arrow("rereads"), readers_of(self.arrow("lag")))
        return together(table, self.summary["issues"]).findings if name == "findings" else table

    def of_all(self, *names: str) -> dict[str, ds.Dataset]:
        """See `Answering.of_all`."""
        whole = {} if self._filter is None else {name: WHOLE[name] for name in names if name in WHOLE}
        rows = {name: ds.dataset(self._names.resolve(self._spool.table(of))) for name, of in whole.items()}
        return self.datasets(*(name for name in names if name not in rows)) | rows

    def _of_views(self, name: str) -> pa.Table:
        found = [self._result(view) for view in sorted(self._views) if name in results_of([view])]
        return pa.concat_tables(
            [tables[name] for tables in found if name in tables] or [ALL_SCHEMAS[name].empty_table()]
        )

    @cached_property
    def _conclusions(self) -> dict[str, pa.Table]:
        tables = self.of_all(*NEEDED) | {"findings": ds.dataset(self._of_views("findings"))}  # not together
        made = conclusions(tables, self.summary)
        self._add_issues(made.pop("issues", ISSUES.empty_table()))
        return made

    def _result(self, view: str) -> dict[str, pa.Table]:
        if view not in self._results:
            counts = {name: self._spool.table(name).num_rows for name in self._views}
            if processes_for(counts, self._processes) == 1:
                counts = {view: counts[view]}
            found = understood(self._rows_of_view, counts, Known.of(self._names.learned()), self._processes)
            for name, made in found.items():
                self._add_issues(made.pop("issues", ISSUES.empty_table()))
                self._results[name] = made
        return self._results[view]

    def _rows_of_view(self, name: str) -> Iterator[pa.Table]:
        return (self._names.resolve(pa.table(some)) for some in self._spool.table(name).to_batches())

    def _add_issues(self, issues: pa.Table) -> None:
        """Take in what was met when an answer was asked for, and say so if there are faults of ours."""
        if issues.num_rows:
            self._late_issues.append(issues)
            self._tables.pop("issues", None)
        if faults := pc.sum(issues.filter(pc.equal(issues["kind"], INTERNAL_ERROR))["count"]).as_py():
            warnings.warn(fault_remark(faults), stacklevel=2)

    def _has(self, name: str) -> bool:
        return name in self._wanted

    def _topic_names(self) -> Mapping[str, str]:
        return self._names.learned()


class StoredCapture(Capture):
    """What an analysis left in its directory."""

    def __init__(self, analysis: Stored) -> None:
        """analysis: of one run."""
        super().__init__(dict(analysis.summary), analysis.place)
        self._stored = analysis.tables

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that are there."""
        return tuple(name for name in ALL_SCHEMAS if name in self._stored)

    def arrow(self, name: str, where: pc.Expression | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """See `Answering.arrow`; rows are in the order of the files."""
        return self.dataset(name).to_table(columns=None if columns is None else list(columns), filter=where)

    def dataset(self, name: str) -> ds.Dataset:
        """One table as its files; KeyError as `arrow`."""
        if name not in self._stored:
            raise KeyError(f"{name}: the analysis did not write it; tables are {', '.join(self.tables)}")
        return self._stored[name]

    def _has(self, name: str) -> bool:
        return name in self._stored


def of_passed(spool: Rows, name: str, names: TopicNames, chosen: Filter | None) -> pa.Table:
    """One of the tables of exchanges, without those that do not pass a filter now that names of topics are known."""
    rows = names.resolve(spool.table(name))
    if chosen is None or not (undecided := spool.table(UNDECIDED)).num_rows:
        return rows
    return without(rows, chosen.refused(undecided, names.learned()))


def _opened(place: str, options: EngineOptions) -> StoredCapture:
    if replace(options, tables=WITHOUT_RECORDS) != EngineOptions(tables=WITHOUT_RECORDS):
        raise OutputError(
            f"{told(place)} is decoded already: give options to `kafkascope analyze`, or read the capture"
        )
    analysis = stored(place)
    if len(analysis.runs()) > 1:
        raise OutputError(
            f"{told(place)} has {len(analysis.runs())} runs: analyze each into a directory of its own to read it"
        )
    capture = StoredCapture(analysis)
    if "records" in options.tables and "records" not in capture.tables:
        raise OutputError(
            f"{told(place)} has no records: they are wanted when it is made (kafkascope analyze --records)"
        )
    return capture


def _paths(given: str | Path | Iterable[str | Path]) -> list[str]:
    return [str(given)] if isinstance(given, str | Path) else [str(one) for one in given]


def _ports(name: str, given: Iterable[int]) -> frozenset[int]:
    ports = frozenset(given if isinstance(given, Iterable) else [given])
    if not all(isinstance(port, int) and 0 < port < 1 << 16 for port in ports):
        raise ValueError(f"{name}: {given!r} are no ports; give numbers, as in {name}=[9092]")
    return ports


class _Options(TypedDict, total=False):
    """What else `read` takes, by name."""

    answers: bool
    ports: Iterable[int]
    decode_as: Iterable[int]
    reveal_secrets: bool
    secret_names: Iterable[str]
    tls_keylog: str | Path | Iterable[str | Path]
    anonymize: str | None
    spool_bytes: int | None
    since: str | datetime | None
    until: str | datetime | None
    packets: str | tuple[int, int] | None
    filter: str | None
    limits: Mapping[str, int] | None


@overload
def read(
    path: str | Path | Iterable[str | Path], records: bool = ..., spark: None = ..., **options: Unpack[_Options]
) -> Capture: ...


@overload
def read(
    path: str | Path | Iterable[str | Path], records: bool = ..., *, spark: SparkSession, **options: Unpack[_Options]
) -> SparkCapture: ...


def read(
    path: str | Path | Iterable[str | Path],
    records: bool = False,
    spark: SparkSession | None = None,
    *,
    answers: bool = True,
    ports: Iterable[int] = (),
    decode_as: Iterable[int] = (),
    reveal_secrets: bool = False,
    secret_names: Iterable[str] = (),
    tls_keylog: str | Path | Iterable[str | Path] = (),
    anonymize: str | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    packets: str | tuple[int, int] | None = None,
    filter: str | None = None,
    spool_bytes: int | None = None,
    limits: Mapping[str, int] | None = None,
) -> Capture | SparkCapture:
    """Read captures (files, directories, globs) into tables, or open the directory that ``kafkascope analyze`` wrote.

    In this process by default: a ``Capture`` of pandas DataFrames. With ``spark=session`` a ``SparkCapture`` whose
    tables are Spark DataFrames. Raises ``sniffer.sources.SourceError`` where nothing could be read, and ``OutputError``
    for a directory with several runs, or options that come too late for one.

    Answers (findings, rebalances, latency and so on) are made when they are first asked for, of rows that are taken
    while the tables are made. With ``answers=False`` they are not, which takes about half the time.

    secret_names are regular expressions for names of configurations whose values are hidden too, besides those that
    are known (``decoders.redaction.SECRET_NAMES``); ValueError if one is none. reveal_secrets shows all.

    tls_keylog names files with secrets of TLS sessions (SSLKEYLOGFILE), with which what they carry is read; those in
    pcapng files are used anyway.

    anonymize is a key: names, addresses and contents are replaced by pseudonyms, the same ones for the same key.

    With since, until and packets only these packets are looked at, as if the capture began and ended there: what was
    told before is not known, and a connection may begin in the middle. Times are UTC: ``"2026-11-21T05:57:16.5"``,
    ``"05:57:16"`` of the day on which the capture begins, or ``"+30s"`` from its first packet; until is not included.
    packets are numbers as in Wireshark, ``(100, 200)`` or ``"100-"``; rows keep them. ValueError if they are none.

    With filter, an expression as ``sniff --filter`` has it, the tables exchanges, errors, partitions, batches and
    records have the rows of exchanges that pass alone; connections, tcp_health, issues, and all answers, are of the
    whole capture. ``summary["filter"]`` says how many passed. ``filters.language.FilterError``, a ValueError, says
    what is wrong with it, and where.

    Tables wait on disk (in TMPDIR) until they are looked at, and take spool_bytes there at most, else half of what is
    free. Rows that find no room are left out: a warning says so, and an issue ``spool_full``.

    limits are numbers by name, such as ``{"held_bytes": 2 << 30}``: all of them, with what they mean, are those of
    ``decoders.limits.Limits``. One that is reached is an issue. ValueError for one that is none.

    >>> import kafkascope
    >>> cap = kafkascope.read("pcaps/eager-three-joins/capture.pcap")
    >>> cap.exchanges[cap.exchanges.api == "JoinGroup"][["client_id", "api_version", "latency_ms"]]
    """
    paths = _paths(path)
    pseudonyms = Pseudonyms(anonymize) if anonymize else None
    options = EngineOptions(
        tables=ALL_TABLES if records else WITHOUT_RECORDS,
        session=SessionOptions(
            ports=_ports("ports", ports),
            decode_as=_ports("decode_as", decode_as),
            key_logs=tuple(_paths(tls_keylog)),
            limits=Limits.of(f"{name}={value}" for name, value in (limits or {}).items()),
        ),
        reveal_secrets=reveal_secrets,
        secret_names=checked_names(secret_names),
        pseudonyms=pseudonyms,
        filter=None if filter is None else Filter.of(filter, pseudonyms),
        window=PacketWindow.of(since, until, packets),
    )
    if spark is None and len(paths) == 1 and is_analysis(paths[0]):
        return _opened(paths[0], options)
    if not answers:
        options = replace(options, views=frozenset())
    if spark is not None:
        from kafkascope.spark import read as read_on_spark

        return read_on_spark(paths, spark=spark, options=options)
    capture, reading = read_here(paths, options, spool_bytes)
    for issue in (*reading.unreadable(), *capture.left_out()):
        warnings.warn(f"{issue.detail}; effect: {ISSUE_KINDS[issue.kind].weakens}", RuntimeWarning, stacklevel=2)
    return capture


class _Spooling:
    """Rows to a spool, and a summary of them."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._summary = Summary()

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """Take in rows."""
        self._spool.write(tables)
        self._summary.observe(tables)

    def finish(self) -> tuple[Spool, Summary]:
        """No more rows come."""
        self._spool.finish()
        return self._spool, self._summary


def read_here(
    paths: Sequence[str], options: EngineOptions, spool_bytes: int | None = None
) -> tuple[SpooledCapture, Reading]:
    """Read captures in this process, as `read` does; the reading knows the files that they were."""
    directory = TemporaryDirectory()

    def sinks(share: Share) -> AbstractContextManager[_Spooling]:
        (place := directory.path / str(share.number)).mkdir(exist_ok=True)
        return nullcontext(_Spooling(Spool(spool_bytes, place, share.of)))

    share = first_share(paths, options.session.limits.processes)
    with Reading(paths, options, share=share) as reading:
        made = read_all(reading, sinks)
    spool, summary = Spooled((spool for spool, _ in made), directory=directory), Summary()
    for _, one in made:
        summary.merge(one)
    reading.note(spool.issues())
    summary.observe({"issues": issue_table(spool.issues())})
    summary.packets, summary.copies, summary.ports = reading.packets, reading.copies, options.session.ports
    summary.window, summary.left_out = str(options.window) or None, reading.left_out
    summary.captures = sorted(capture_name(file.path) for file in reading.capture.files)
    summary.files = reading.capture.captured()
    summary.clocks = [clock_row(clock) for clock in reading.joined.clocks] if reading.joined else []
    summary.rename_topics(reading.topic_names.learned())
    if (chosen := options.filter) is not None:
        summary.filter = chosen.text
        summary.passed = of_passed(spool, "exchanges", reading.topic_names, chosen).num_rows
        if not summary.passed and reading.no_match and (said := reading.no_match.remark(reading.topic_names.learned())):
            warnings.warn(said, stacklevel=3)
    again = None if reading.is_stream else FilesAgain(reading.capture.contents, reading.joined, options)
    return SpooledCapture(spool, reading.topic_names, summary, options, ", ".join(map(told, paths)), again), reading
