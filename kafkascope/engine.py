"""The stages from segments to tables as one object: the same in this process, live, and in a Spark task.

Views are imported when they are wanted: `sniff` shows exchanges without any, and starts in half the time.
"""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.remarks import TlsTalk
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import TellsClusters, TellsMembers, View
from kafkascope.reports.rows.builder import AHEAD, TableBuilder
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.rows.records_apart import FIELDS_WITH_RECORDS
from kafkascope.reports.views.guarded import observed
from kafkascope.reports.vocabulary.issue_kinds import BODIES_SKIPPED, LIMITED, OF_FRAMES
from kafkascope.reports.vocabulary.tables import BESIDE, CONCLUSIONS, EXCHANGES, SCHEMAS
from kafkascope.sniffer.columns import ConnectionRow, Exchanges, Segments
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.origins import NO_ORIGINS, Origins
from kafkascope.sniffer.packet_window import EVERYTHING, PacketWindow
from kafkascope.sniffer.session import Endpoint, Session, SessionOptions, SideSpans

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms
    from kafkascope.filters.no_match import NoMatch
    from kafkascope.filters.sieve import Filter, Sieve

Tables = dict[str, pa.Table]
ALL_TABLES = frozenset(SCHEMAS)
WITHOUT_RECORDS = ALL_TABLES - {"records"}
VIEW_BYTES = 8_000_000
"""Of tables that views are best asked about at once: asking costs the same however little is in them."""


def all_views() -> frozenset[str]:
    """The names of all views."""
    from kafkascope.reports.views.registry import VIEWS

    return frozenset(VIEWS)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What to look at, and what to make of it."""

    tables: frozenset[str] = WITHOUT_RECORDS
    exchange_columns: frozenset[str] | None = None  # None: all; without bodies far less work is done
    session: SessionOptions = field(default_factory=SessionOptions)
    window: PacketWindow = EVERYTHING  # of packets; whoever reads them leaves out the others
    reveal_secrets: bool = False
    secret_names: tuple[str, ...] = ()  # more than are known; see decoders.redaction.checked_names
    origins: Origins = NO_ORIGINS  # which file each packet is of; whoever reads the files sets it
    topic_names: Mapping[str, str] = field(default_factory=dict)  # told from elsewhere, by topic as written by id
    records_here: int | None = None  # bytes of which records are read; of others fields are given. None: of all
    pseudonyms: Pseudonyms | None = None  # in the place of names, addresses and contents
    filter: Filter | None = None  # of exchanges; tables have the rows of those that pass, answers look at all
    views: frozenset[str] = field(default_factory=all_views)  # whose rows come out too, under the name of the view
    views_at_once: frozenset[str] = frozenset()  # of these; rows of others come some batches later, in less time

    def with_more(
        self, tables: frozenset[str], columns: frozenset[str], views: frozenset[str] = frozenset()
    ) -> EngineOptions:
        """The same, with these tables, columns of exchanges, and rows of views too."""
        columns_too = None if self.exchange_columns is None else self.exchange_columns | columns
        return replace(self, tables=self.tables | tables, exchange_columns=columns_too, views=self.views | views)

    def with_views_at_once(self, views: frozenset[str]) -> EngineOptions:
        """The same, with the rows of these views too, as soon as there are any."""
        return replace(self, views=self.views | views, views_at_once=self.views_at_once | views)

    @property
    def alone(self) -> EngineOptions:
        """The same, but no other process is to help: whoever has threads at work must not fork."""
        session = replace(self.session, limits=replace(self.session.limits, processes=1))
        return replace(self, session=session)

    @property
    def beside(self) -> frozenset[str]:
        """What comes out besides tables and is not to stay: rows of views, and what answers look at with a filter."""
        return self.views if self.filter is None else self.views | frozenset(BESIDE)

    @property
    def results(self) -> tuple[str, ...]:
        """The tables that can be made of the views' rows, and of all tables when they are there."""
        from kafkascope.reports.incidents.rules import NEEDED
        from kafkascope.reports.views.registry import results_of

        made = results_of(self.views)
        return (*made, *CONCLUSIONS) if self.tables | {*made} >= NEEDED else made


@dataclass(frozen=True, slots=True)
class Completed:
    """What a batch of segments completed, before it is decoded."""

    exchanges: Exchanges
    endpoints: Mapping[int, Endpoint]  # of the connections of the exchanges
    spans: SideSpans
    ended: list[ConnectionRow]
    issues: list[Issue]  # of the connections that ended


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine knows beside the rows that it gave, once it has given all."""

    topic_names: Mapping[str, str]
    exchanges: int
    copies: int
    connections: Counter[tuple[int, str]]
    damage: Counter[str]
    tls_talks: Mapping[int, TlsTalk]
    issues: list[Issue]
    remarkable: list[Issue]
    no_match: NoMatch | None


class Engine:
    """Segments in, tables out. What comes out does not depend on how the segments were cut into batches.

    It is three stages, which may work in a thread each: `take` and `last` reassemble, find messages and pair them,
    `decoded` makes tables, `viewed` asks the views; `feed` and `finish` are all at once.

    The rows come in pieces, so that few are held at once: first those of exchanges (`TableBuilder.observe`), then, once
    for each batch of segments, those of spans that are over and of connections that have ended. All pieces must be
    taken.
    """

    def __init__(self, options: EngineOptions) -> None:
        self._session = Session(options.session)
        self._wanted = options.tables | {FIELDS_WITH_RECORDS}
        at_once = options.views & options.views_at_once
        self._waiting = [_Waiting(at_once, 0), _Waiting(options.views - at_once, VIEW_BYTES)]
        needed = frozenset[str]().union(*(waiting.needed for waiting in self._waiting))
        columns = options.exchange_columns
        if columns is not None and "exchanges" in needed:
            columns |= frozenset(EXCHANGES.names)
        self._sieve: Sieve | None = None
        if options.filter is not None:
            from kafkascope.filters.sieve import Sieve

            self._sieve = Sieve(options.filter)
            needed |= {"exchanges", AHEAD}
            columns = frozenset(EXCHANGES.names) | self._sieve.columns
        self._builder = TableBuilder(
            options.tables | needed,
            exchange_columns=columns,
            reveal_secrets=options.reveal_secrets,
            secret_names=options.secret_names,
            origins=options.origins,
            records_here=options.records_here,
            pseudonyms=options.pseudonyms,
            limits=options.session.limits,
        )
        self._origins = options.origins
        self._pseudonyms = options.pseudonyms

        told = options.topic_names
        if options.pseudonyms is not None:
            told = {identity: options.pseudonyms.name(name) for identity, name in told.items()}
        self.topic_names.merge(told)

        self.endpoints: Mapping[int, Endpoint] = {}  # of the connections in what `feed` or `finish` gave last
        self.exchanges = 0  # so far
        self.connections: Counter[tuple[int, str]] = Counter()  # that have ended, by the broker's port and protocol
        self.damage: Counter[str] = Counter()  # of those of Kafka, by kind of issue: what frames are missing for
        self.tls_talks: dict[int, TlsTalk] = {}  # of those with TLS that were not opened, by the broker's port
        self._others: list[Facts] = []
        self._limited = IssueLog()
        self._faults_of_views = IssueLog()  # rows of issues at the end

    @property
    def issues(self) -> list[Issue]:
        """What was met outside of any connection."""
        of_others = (issue for other in self._others for issue in other.issues)
        return [*self._session.issues.of(None), *self._builder.issues.of(None), *of_others]

    @property
    def remarkable(self) -> list[Issue]:
        """Faults of ours, limits that were reached, damaged records; they are among the rows of issues too."""
        of_views = (replace(issue, connection=None) for issue in self._faults_of_views)
        of_others = (issue for other in self._others for issue in other.remarkable)
        return [*self._builder.remarkable, *self._limited, *of_views, *of_others]

    @property
    def no_match(self) -> NoMatch | None:
        """Why the filter let nothing through, if so; None without one."""
        return None if self._sieve is None else self._sieve.no_match

    @property
    def bodies_skipped(self) -> int:
        """Exchanges so far whose bodies were not read, for want of time."""
        return sum(issue.count for issue in self._builder.issues.of(None) if issue.kind == BODIES_SKIPPED)

    @property
    def copies(self) -> int:
        """Packets so far that count in another file, which has them too."""
        return self._session.copies + sum(other.copies for other in self._others)

    @property
    def topic_names(self) -> TopicNames:
        """The names of topic ids that were seen so far."""
        return self._builder.topic_names

    @property
    def facts(self) -> Facts:
        """What is known beside the rows, for `merge` of another engine."""
        return Facts(
            topic_names=self.topic_names.learned(),
            exchanges=self.exchanges,
            copies=self.copies,
            connections=self.connections,
            damage=self.damage,
            tls_talks=self.tls_talks,
            issues=self.issues,
            remarkable=self.remarkable,
            no_match=self.no_match,
        )

    def merge(self, other: Facts) -> None:
        """Take in what an engine knows that had other connections of the same capture."""
        self._others.append(other)
        self.topic_names.merge(other.topic_names)
        self.exchanges += other.exchanges
        self.connections.update(other.connections)
        self.damage.update(other.damage)
        for port, talk in other.tls_talks.items():
            self.tls_talks.setdefault(port, TlsTalk()).merge(talk)
        if self._sieve is not None and other.no_match is not None:
            self._sieve.no_match.merge(other.no_match)

    def hand_on_records(self, when: Callable[[], bool]) -> None:
        """See `TableBuilder.hand_on_records`."""
        self._builder.hand_on_records(when)

    def feed(self, segments: Segments, *, hurried: bool = False) -> Iterator[Tables]:
        """The rows that became complete with these segments, by table or view; those without rows are absent."""
        return self._tables(self.take(segments), hurried=hurried)

    def finish(self) -> Iterator[Tables]:
        """The rows of all that was still open, those of some connections at a time."""
        for completed in self.last():
            yield from self._tables(completed)
        yield from self.late()

    def take(self, segments: Segments) -> Completed:
        """What these segments completed."""
        if self._pseudonyms is not None:
            from kafkascope.reports.rows.anonymous import anonymous_hosts

            segments = anonymous_hosts(segments, self._pseudonyms)
        return self._completed(self._session.feed(segments))

    def last(self) -> Iterator[Completed]:
        """All that was still open, some connections at a time."""
        return map(self._completed, self._session.finish())

    def decoded(self, completed: Completed, *, hurried: bool = False) -> Iterator[Tables]:
        """All rows of what was completed, for `viewed`; hurried: see `TableBuilder.observe`."""
        self.exchanges += len(completed.exchanges.number)
        yield from self._builder.observe(completed.exchanges, completed.endpoints, hurried=hurried)
        tables = self._builder.end_spans(completed.spans)
        if completed.ended:
            self.connections.update((row.broker_port, row.protocol) for row in completed.ended)
            for row in completed.ended:
                if row.tls_requests:
                    talk = self.tls_talks.setdefault(row.broker_port, TlsTalk())
                    talk.add(row.tls_requests, row.tls_first_request, row.tls_last_answer, row.tls_answer_ms)
            tables |= self._builder.end_connections(completed.ended, completed.issues)
        yield tables

    def viewed(self, tables: Tables, endpoints: Mapping[int, Endpoint]) -> Tables:
        """Those of the tables that are wanted, and the rows that views make of them; endpoints as `Completed` has."""
        found = {name: table for name, table in tables.items() if name in self._wanted}
        if self._sieve is not None:
            found = self._sieve.sift(found, tables.get(AHEAD), endpoints)
        for waiting in self._waiting:
            waiting.add(tables, endpoints)
            if waiting.bytes >= waiting.enough:
                found |= self._rows_of(waiting)
        return found

    def rest_of_views(self) -> Tables:
        """The rows of views that are still to come of all tables so far."""
        return {name: rows for waiting in self._waiting for name, rows in self._rows_of(waiting).items()}

    def late(self) -> Iterator[Tables]:
        """What is known behind all tables: the last rows of views, and their faults."""
        if rows := self.rest_of_views():
            yield rows
        if "issues" in self._wanted and len(self._faults_of_views):
            yield {"issues": issue_table(self._faults_of_views, self._origins)}

    def so_far(self) -> Iterator[Tables]:
        """What `finish` would give now; the engine goes on as if this had not been asked, but knows what views tell."""
        ahead = copy.deepcopy(self)
        rows = ahead.rest_of_views()
        self.topic_names.merge(ahead.topic_names)
        return chain([rows], ahead.finish())

    def _tables(self, completed: Completed, *, hurried: bool = False) -> Iterator[Tables]:
        self.endpoints = completed.endpoints
        for tables in self.decoded(completed, hurried=hurried):
            yield self.viewed(tables, completed.endpoints)

    def _rows_of(self, waiting: _Waiting) -> Tables:
        tables, ends = waiting.take()
        found = {}
        for view in waiting.views if tables else ():
            rows, faults = observed(view, tables, ends)
            for issue in faults:
                self._faults_of_views.add(issue)
            if rows:
                found[view.name] = pa.concat_tables(rows)
            if isinstance(view, TellsClusters):
                view.tell_clusters(self.topic_names.of_clusters)
            if isinstance(view, TellsMembers):
                view.tell_members(self.topic_names.of_members)
        return found

    def _completed(self, exchanges: Exchanges) -> Completed:
        session = self._session
        endpoints = session.endpoints(exchanges.connection)
        spans, ended = session.spans(), session.ended()
        issues = []
        for row in ended:
            of_connection = session.issues.take(row.connection)
            issues += of_connection
            for issue in of_connection:
                if issue.kind in LIMITED:
                    self._limited.add(replace(issue, connection=None))
                elif issue.kind in OF_FRAMES and row.protocol == "kafka":
                    self.damage[issue.kind] += issue.count
        return Completed(exchanges, endpoints, spans, ended, issues)


class _Waiting:
    """Views, the tables that they are still to be asked about, and the ends of the connections in these."""

    def __init__(self, views: frozenset[str], enough: int) -> None:
        """enough: bytes of tables, about which they are asked."""
        self.views = _views(views)
        self.needed = frozenset(name for view in self.views for name in view.needs)
        self.enough = enough
        self.bytes = 0
        self._tables: dict[str, list[pa.Table]] = {}
        self._ends: dict[int, Endpoint] = {}

    def add(self, tables: Tables, ends: Mapping[int, Endpoint]) -> None:
        for name in self.needed & tables.keys():
            self._tables.setdefault(name, []).append(_with_times(tables[name]))
            self.bytes += tables[name].nbytes
        if self._tables:
            self._ends.update(ends)

    def take(self) -> tuple[Tables, Mapping[int, Endpoint]]:
        """All of them, which are here no longer."""
        tables = {}
        while self._tables:
            name, parts = self._tables.popitem()  # so that no more than one of them is there twice
            tables[name] = pa.concat_tables(parts).combine_chunks()
        ends, self._ends, self.bytes = self._ends, {}, 0
        return tables, ends


def _with_times(table: pa.Table) -> pa.Table:
    """Rows of which it is known when they were: packets of pcapng may have no time, and then nothing can be said."""
    times = [table[name] for name in ("requested", "answered", "at") if name in table.column_names]
    if not times or any(column.null_count == 0 for column in times):
        return table
    known = functools.reduce(pc.or_, map(pc.is_valid, times))
    return table if pc.all(known).as_py() else table.filter(known)


def _views(names: frozenset[str]) -> list[View]:
    if not names:
        return []
    from kafkascope.reports.views.registry import VIEWS

    return [VIEWS[name]() for name in sorted(names)]
