"""Files and interfaces through the engine, in this process."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.ahead import ahead
from kafkascope.decoders.machine_code.progress import when_compiling
from kafkascope.engine import Completed, Engine, EngineOptions, Facts, Tables
from kafkascope.filters.fields import both_ends
from kafkascope.losses import Loss, Telling
from kafkascope.progress import ProgressBar
from kafkascope.reports.answers.capture_points import clock_issues
from kafkascope.reports.columns.remarks import (
    no_kafka,
    not_taken,
    not_taken_remark,
    tls_remark,
    tls_talk_remarks,
    tls_talks,
    unreadable_remark,
    window_text,
)
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.topics import ID_PREFIX, TopicNames
from kafkascope.reports.columns.words import day_and_clock
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.rows.topic_mentions import TOPICS, resolve_mentions
from kafkascope.reports.vocabulary.issue_kinds import (
    BODIES_SKIPPED,
    CAPTURE_NOT_WRITTEN,
    INTERFACE_FAILED,
    ISSUE_KINDS,
    KERNEL_DROPS,
    PACKETS_CUT,
)
from kafkascope.seen import Seen
from kafkascope.sniffer.capture_points import Content, Joined
from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.comparison import compare_files
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.session import Endpoint
from kafkascope.sniffer.sources.files import STANDARD_INPUT, Capture, is_stream, open_capture
from kafkascope.sniffer.sources.places import origin_name
from kafkascope.sniffer.sources.window import BATCH_BYTES
from kafkascope.sniffer.spreading import EVERY_CONNECTION, Share

if TYPE_CHECKING:
    from kafkascope.filters.no_match import NoMatch
    from kafkascope.rehearsal import Rehearsal
    from kafkascope.reports.incidents.incident import Incident
    from kafkascope.sniffer.sources.key_log import Secrets
    from kafkascope.sniffer.sources.live import LiveSource

BATCH_BYTES_OF_SHARE = 4_000_000
"""Of a file, times the processes that read it: without threads fewer batches are held at once, and so are smaller ones
of a process that has others beside it."""

_TOO_FAST = (KERNEL_DROPS, PACKETS_CUT, BODIES_SKIPPED)
_WHAT_HELPS = (
    "they come faster than they can be shown. Leave out what is not needed (--port; no --records, -V or --json), or "
    "write a file with `tcpdump -w` and read that"
)

T = TypeVar("T")

# Tables by which topics are shown, and so those that must wait for the names of ids.
_TOPIC_COLUMNS = ("topic", TOPICS.name)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that became complete, by table, and both ends of the connections of their exchanges."""

    tables: Tables
    endpoints: Mapping[int, Endpoint]

    def with_ends(self, rows: pa.Table) -> pa.Table:
        """Rows with a column ``connection``, with the columns client and broker: addresses with ports."""
        return both_ends(rows, self.endpoints)


class BatchSource(Protocol):
    """Batches of rows out of files, a pipe or an interface, and what is to be said of them."""

    @property
    def is_stream(self) -> bool:
        """Whether it goes on while it is read, for all one can know."""

    @property
    def is_partial(self) -> bool:
        """Whether something that was to be read could not be read at all, or not to its end."""

    @property
    def packets(self) -> int:
        """Packets that were taken in so far."""

    @property
    def topic_names(self) -> TopicNames:
        """Names of topic ids, as far as they are known."""

    @property
    def so_far(self) -> Callable[[], Iterator[Tables]] | None:
        """What gives the rows of all that is open, as if it ended now; None where that is not to be had."""

    def batches(self) -> Iterator[Batch]:
        """Rows as they become complete."""

    def now(self) -> int:
        """Time in nanoseconds that passes without packets too; 0 where packets alone tell the time."""

    @property
    def span(self) -> tuple[int, int] | None:
        """Times of the first and the last packet that were read so far; None where this machine's clock tells."""

    def look_ahead(self) -> None:
        """Learn the names of topics that only a later part tells, if that can be read."""

    def note(self, issues: Iterable[Issue]) -> None:
        """Take in faults of ours and limits that were met in what became of the rows, for `remarks`."""

    def tell(self, begun: Sequence[Incident], going_on: Sequence[Incident]) -> None:
        """Take in incidents that are told for the first time, and all those that go on, for remarks and watchers."""

    @property
    def incidents(self) -> Sequence[Incident] | None:
        """Those that go on, as far as is known; None where nobody looks for any."""

    @property
    def damage(self) -> Mapping[str, int]:
        """What frames are missing for in connections that have ended: how often, by kind of issue."""

    @property
    def lost(self) -> Mapping[str, int]:
        """How much was lost so far, by kind of issue."""

    def losses(self, *, at_end: bool = False) -> Iterable[Loss]:
        """What was lost since this was told; not all at once, but for at_end."""

    def remarks(self) -> Iterable[str]:
        """What the reader of results should know about how they were come by."""


class Watcher(Protocol):
    """Who looks at all rows that a source gives, whatever else is made of them."""

    def observe(self, batch: Batch, source: BatchSource) -> None:
        """Take in rows, before others do."""

    def tell(self, begun: Sequence[Incident], going_on: Sequence[Incident]) -> None:
        """Take in incidents: see `BatchSource.tell`."""


class Looks(Protocol):
    """Who looks for incidents now and then, and tells the source of them: see `incident_watch.Looks`."""

    def observe(self, batch: Batch, source: BatchSource) -> object:
        """Take in rows, and look if it is time."""

    def finish(self, source: BatchSource) -> object:
        """Look at all."""


def _compile_beside() -> None:
    from kafkascope import compiling  # which few runs need

    compiling.start()


class Reading:
    """Capture files, read once from begin to end. Raises ``sniffer.sources.SourceError`` if nothing can be read."""

    def __init__(
        self,
        paths: Sequence[str],
        options: EngineOptions,
        names_ahead: bool = False,
        progress_bar: bool = True,
        in_step: bool = False,
        watcher: Watcher | None = None,
        expected: Mapping[str, Content] | None = None,
        joined: Joined | None = None,
        share: Share = EVERY_CONNECTION,
    ) -> None:
        """names_ahead: where a topic is known by id alone, look for its name in what is still to be read (of files).

        progress_bar: show how far it is, on stderr, if that is a terminal, or in a notebook.
        in_step: of a stream the engine is no farther than whoever takes the batches, who may ask for `so_far`.
        expected: what the files have, by path, if they were read before.
        joined: how they belong together, if they were compared before.
        share: the connections that the engine sees, if other processes read the files too: see `take_in`.
        """
        self._paths = list(paths)
        self.is_stream = any(map(is_stream, self._paths))
        self._in_step = in_step and self.is_stream
        self._names_ahead = names_ahead and not self.is_stream
        self._watcher = watcher
        self._progress_bar = progress_bar
        when_compiling(_compile_beside)
        self._share = share
        if joined is None:
            with ProgressBar("compare files", shown=len(self._paths) > 1):
                joined = compare_files(self._paths)
        self.joined = joined
        batch_bytes = BATCH_BYTES if share.of == 1 else BATCH_BYTES_OF_SHARE * share.of
        self.capture: Capture = open_capture(self._paths, batch_bytes, joined=self.joined, expected=expected)
        self._secrets = _secrets(options, self.capture.has_secrets, is_growing=self.is_stream)
        keys = self._secrets.keys if self._secrets else None
        session = replace(options.session, ranks=self.capture.ranks, keys=keys)
        self._as_given = options
        self._options = replace(options, session=session, origins=self.capture.origins)
        self._engine = Engine(self._options)
        self._issues = IssueLog(clock_issues(self.joined.clocks) if self.joined else ())
        self._faults = IssueLog()
        self.other: Counter[str] = Counter()  # packets that were not TCP, by kind
        self.left_out = 0  # packets read so far that are not in the window

    @property
    def topic_names(self) -> TopicNames:
        """Names of topic ids, as far as they are known."""
        return self._engine.topic_names

    @property
    def no_match(self) -> NoMatch | None:
        """See `Engine.no_match`."""
        return self._engine.no_match

    @property
    def so_far(self) -> Callable[[], Iterator[Tables]] | None:
        """The rows of all that is open, as if it ended now; what is to come goes on as if this had not been asked."""
        return self._engine.so_far if self._in_step else None

    def batches(self) -> Iterator[Batch]:
        """Rows as they become complete.

        Reading, finding messages, decoding and the caller's work go on side by side, but for in_step and shares.
        """
        with ProgressBar("read", shown=self._progress_bar) as progress:
            for batch in self._beside(self._batches()):
                progress.update("read", self.capture.bytes_read, self.capture.size)
                if self._watcher is not None:
                    self._watcher.observe(batch, self)
                yield batch

    def _batches(self) -> Iterator[Batch]:
        has_much_to_view = self._options.views and not self._names_ahead
        for tables, endpoints in self._beside(self._decoded()) if has_much_to_view else self._decoded():
            yield Batch(self._with_names(self._engine.viewed(tables, endpoints)), endpoints)
        for tables in self._engine.late():
            yield Batch(self._with_names(tables), {})
        if self._share.of == 1 and (rows := self.last()):
            yield Batch(rows, {})

    def hand_on_records(self, when: Callable[[], bool]) -> None:
        """See `TableBuilder.hand_on_records`."""
        self._engine.hand_on_records(when)

    def last(self) -> Tables:
        """The rows of what was met outside of connections: the last of all, which `batches` gives unless it shares."""
        rows = self.issues() if "issues" in self._options.tables else []
        return {"issues": issue_table(rows, self._options.origins)} if rows else {}

    @property
    def share(self) -> Share:
        """The connections that the engine sees."""
        return self._share

    def again(self, share: Share) -> Reading:
        """The same files read once more, for another share of the connections: what they have must be the same."""
        return Reading(
            self._paths,
            self._as_given,
            progress_bar=False,
            expected=self.capture.contents,
            joined=self.joined,
            share=share,
        )

    def take_in(self, facts: Facts, contents: Mapping[str, Content]) -> None:
        """Take in what another reading of these files knows, and found in them, which had another share.

        Raises SourceError if the files had other contents.
        """
        self.capture.expect(contents)
        self._engine.merge(facts)

    @property
    def facts(self) -> Facts:
        """What is known beside the rows."""
        return self._engine.facts

    def _decoded(self) -> Iterator[tuple[Tables, Mapping[int, Endpoint]]]:
        for completed in self._beside(self._completed()):
            for tables in self._engine.decoded(completed):
                yield tables, completed.endpoints

    def _completed(self) -> Iterator[Completed]:
        read = map(dissect, self._in_window())
        for dissected in ahead(read) if self._share.of == 1 else read:
            self.other.update(dissected.other)
            for issue in dissected.issues:
                self._issues.add(issue)
            if self._secrets is not None:
                self._secrets.take(self.capture.take_secrets())
            yield self._engine.take(self._share.cut(dissected.segments))
        yield from self._engine.last()

    def _beside(self, items: Iterator[T]) -> Iterator[T]:
        """In a thread beside, unless processes share the cores, or the caller wants it step by step."""
        return items if self._in_step or self._share.of > 1 else ahead(items)

    def _in_window(self) -> Iterator[Packets]:
        for packets in self.capture:
            inside = self._options.window.bounds(self.capture.first_time).cut(packets)
            self.left_out += len(packets.number) - len(inside.number)
            yield inside

    def look_ahead(self) -> None:
        """Learn the names of topics that only another part of the files tells; once, and never of a stream.

        Packets outside of the window tell them too.
        """
        if not self._names_ahead:
            return
        self._names_ahead = False
        look = replace(
            self._options, tables=frozenset({"exchanges"}), exchange_columns=frozenset({"topics"}), views=frozenset()
        )
        ahead = Engine(look)
        contents = self.capture.contents
        with open_capture(list(contents), joined=self.joined, expected=contents) as again:
            for packets in again:
                for _ in ahead.feed(dissect(packets).segments):
                    pass
        self.capture.expect(again.contents)
        for _ in ahead.finish():
            pass
        self._engine.topic_names.merge(ahead.topic_names)

    @property
    def packets(self) -> int:
        """Packets read so far that are in the window, each once, also if several files have it."""
        return sum(file.packets for file in self.capture.files) - self.left_out - self.copies

    @property
    def copies(self) -> int:
        """Packets read so far that another file has too, and that are counted there."""
        return self._engine.copies

    @property
    def is_partial(self) -> bool:
        """Whether something that was to be read could not be read at all, or not be kept."""
        return bool(self.capture.unreadable) or any(issue.kind == "spool_full" for issue in self._faults)

    def unreadable(self) -> list[Issue]:
        """Files among several that could not be read."""
        return [issue for issue in self.capture.issues if issue.kind == "unreadable_file"]

    def issues(self) -> list[Issue]:
        """What was met outside of connections, so far."""
        of_keys = self._secrets.keys.issues() if self._secrets else ()
        return list(IssueLog([*self.capture.issues, *of_keys, *self._issues, *self._engine.issues]))

    def note(self, issues: Iterable[Issue]) -> None:
        """Take in faults of ours and limits that were met in what became of the rows, for `remarks`."""
        for issue in issues:
            self._faults.add(replace(issue, connection=None))

    def now(self) -> int:
        """Packets alone tell the time."""
        return 0

    @property
    def span(self) -> tuple[int, int] | None:
        """Times of the first and the last packet that were read so far, and are in the window."""
        bounds = self._options.window.bounds(self.capture.first_time)
        known = [time for file in self.capture.files for time in (file.first_time, file.last_time) if time is not None]
        return (max(min(known), bounds.since), min(max(known), bounds.until)) if known else None

    def tell(self, begun: Sequence[Incident], going_on: Sequence[Incident]) -> None:
        """Take in incidents: see `BatchSource.tell`."""
        if self._watcher is not None:
            self._watcher.tell(begun, going_on)

    @property
    def incidents(self) -> None:
        """Nobody looks for any beside what is shown."""

    @property
    def damage(self) -> Mapping[str, int]:
        """See `BatchSource.damage`."""
        return self._engine.damage

    @property
    def lost(self) -> Mapping[str, int]:
        """Nothing: whoever writes to a pipe waits for whoever reads."""
        return {}

    def losses(self, *, at_end: bool = False) -> Iterable[Loss]:
        """Nothing."""
        return ()

    def remarks(self) -> Iterator[str]:
        """What the reader of results should know about how they were come by."""
        yield from map(unreadable_remark, self.capture.unreadable)
        for issue in IssueLog([*self.issues(), *self._engine.remarkable, *self._faults]):
            if issue.kind != "unreadable_file":
                yield self._place(issue) + self.topic_names.in_text(_issue_text(issue))
        if self.copies:
            yield f"{counted(self.copies, 'packet')} that several files have are counted once"
        yield from _unread(self._engine, self._options)
        if not self._options.window.is_everything:
            yield window_text(self._options.window, self.left_out)
        if not self.packets:
            of_all = ", ".join("standard input" if one == STANDARD_INPUT else one for one in self._paths)
            yield f"{of_all}: no packets{self._outside() if self.left_out else ''}"
        elif not self._engine.exchanges:
            protocols: Counter[str] = Counter()
            for (_, protocol), count in self._engine.connections.items():
                protocols[protocol] += count
            yield no_kafka(self.packets, protocols, self.other, self._options.session.ports)

    def _outside(self) -> str:
        times = [time for file in self.capture.files for time in (file.first_time, file.last_time) if time is not None]
        span = f"; they are of {day_and_clock(min(times))} to {day_and_clock(max(times))}" if times else ""
        return f" in the window{span}"

    def _place(self, issue: Issue) -> str:
        """Where an issue was met: file and number of the packet in it, unless its detail says so."""
        if not issue.packet:
            return ""
        try:
            file, number = self.capture.locate(issue.packet)
        except KeyError:  # it lies behind the last packet that could be read
            return f"packet {issue.packet:,}: "
        if issue.file is not None and issue.file != origin_name(file):
            return ""  # it lies behind the last packet of its file
        return f"packet {number:,}: " if issue.detail.startswith(file) else f"{file}: packet {number:,}: "

    def _with_names(self, tables: Tables) -> Tables:
        if not self._names_ahead or not any(map(_has_ids, tables.values())):
            return tables
        self.look_ahead()
        names = self._engine.topic_names
        return {name: resolve_mentions(names.resolve(table), names) for name, table in tables.items()}

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.capture.close()
        if self._secrets is not None:
            self._secrets.close()


class Listening:
    """Interfaces, listened to until ``stop`` is called."""

    is_stream = True

    def __init__(
        self,
        source: LiveSource | Rehearsal,
        options: EngineOptions,
        clock: Callable[[], float] = time.monotonic,
        watcher: Watcher | None = None,
        looks: Looks | None = None,
    ) -> None:
        """The source is closed at the end; clock tells seconds. looks: for incidents, unless they are what is shown."""
        when_compiling(_compile_beside)
        self._secrets = _secrets(options, False, is_growing=True)
        if self._secrets is not None:
            options = replace(options, session=replace(options.session, keys=self._secrets.keys))
        self._options = replace(options, origins=source.origins).alone
        self._engine = Engine(self._options)
        self._issues = IssueLog()
        self._faults = IssueLog()
        self._source = source
        self._clock = clock
        self._tellings: defaultdict[str, Telling] = defaultdict(Telling)  # of what was lost, by kind
        self._seen = Seen(options.session.limits)
        self._watcher = watcher
        self._looks = looks
        self.incidents: Sequence[Incident] | None = None if looks is None else ()
        self.packets = 0

    @property
    def topic_names(self) -> TopicNames:
        """Names of topic ids, as far as they are known."""
        return self._engine.topic_names

    def batches(self) -> Iterator[Batch]:
        """Rows as they become complete; ends when the source does."""
        for packets in self._source:
            if not len(packets.number) and self._secrets is None:  # nothing but secrets brings anything by itself
                yield self._batch({})
                continue
            self.packets += len(packets.number)
            dissected = dissect(packets)
            for issue in dissected.issues:
                self._issues.add(issue)
            if self._secrets is not None:
                self._secrets.take(())
            for tables in self._engine.feed(dissected.segments, hurried=self._source.is_behind):
                yield self._batch(tables)
        for tables in self._engine.finish():
            yield self._batch(tables)
        if self._looks is not None:
            self._looks.finish(self)

    @property
    def options(self) -> EngineOptions:
        """What is looked at, with where packets come from."""
        return self._options

    def issues(self) -> list[Issue]:
        """What was met outside of connections, so far."""
        of_keys = self._secrets.keys.issues() if self._secrets else ()
        return list(IssueLog([*self._source.issues, *of_keys, *self._issues, *self._engine.issues]))

    @property
    def so_far(self) -> Callable[[], Iterator[Tables]]:
        """The rows of all that is open, as if it ended now; what is to come goes on as if this had not been asked."""
        return self._engine.so_far

    def rest_of_views(self) -> Tables:
        """The rows of views that are still to come of all tables so far; whoever watches is told them too."""
        return self._batch(self._engine.rest_of_views()).tables

    @property
    def is_partial(self) -> bool:
        """Whether an interface has gone for good, so that the capture ended before it was told to."""
        return self._source.is_partial

    @property
    def unwritten(self) -> Issue | None:
        """Packets that are not in the file in which they were to be as well."""
        return next((one for one in self._source.issues if one.kind == CAPTURE_NOT_WRITTEN), None)

    def now(self) -> int:
        """The time of this machine, which is that of the packets."""
        return time.time_ns()

    @property
    def span(self) -> None:
        """The clock tells when it began, and ends."""

    def look_ahead(self) -> None:
        """What is still to come cannot be read."""

    def stop(self) -> None:
        """End ``batches`` once what has been captured is read; for signal handlers and other threads."""
        self._source.stop()

    def note(self, issues: Iterable[Issue]) -> None:
        """Take in faults of ours and limits that were met in what became of the rows, for `remarks`."""
        for issue in issues:
            self._faults.add(replace(issue, connection=None))

    def tell(self, begun: Sequence[Incident], going_on: Sequence[Incident]) -> None:
        """Take in incidents: see `BatchSource.tell`."""
        self._seen.tell(begun, going_on)
        self.incidents = going_on
        if self._watcher is not None:
            self._watcher.tell(begun, going_on)

    @property
    def damage(self) -> Mapping[str, int]:
        """See `BatchSource.damage`."""
        return self._engine.damage

    @property
    def lost(self) -> Mapping[str, int]:
        """See `BatchSource.lost`: packets, bodies, what was to be in a file, interfaces."""
        lost = {
            KERNEL_DROPS: self._source.statistics()[1],
            PACKETS_CUT: self._source.cut,
            BODIES_SKIPPED: self._engine.bodies_skipped,
            CAPTURE_NOT_WRITTEN: self.unwritten.count if self.unwritten else 0,
            INTERFACE_FAILED: sum(one.count for one in self._failures),
        }
        return {kind: count for kind, count in lost.items() if count}

    def losses(self, *, at_end: bool = False) -> Iterator[Loss]:
        """What was lost since this was told: see `Telling`."""
        now_s, at = self._clock(), time.time_ns()
        advice = "" if any(self._tellings[kind].told for kind in _TOO_FAST) else f": {_WHAT_HELPS}"
        for kind, in_all in self.lost.items():
            if count := self._tellings[kind].news(in_all, now_s, at_end=at_end):
                yield Loss(kind, at, count, in_all, self._loss_text(kind, count, in_all, advice))
                advice = "" if kind in _TOO_FAST else advice

    def _loss_text(self, kind: str, count: int, in_all: int, advice: str) -> str:
        if kind == KERNEL_DROPS:
            share = 100 * in_all / self._source.statistics()[0]
            return f"the kernel dropped {counted(count, 'packet')} ({in_all:,} in all, {share:.1f} %){advice}"
        if kind == PACKETS_CUT:
            return f"of {counted(count, 'packet')} only the first bytes were taken ({in_all:,} in all){advice}"
        if kind == BODIES_SKIPPED:
            return f"the bodies of {counted(count, 'exchange')} were skipped ({in_all:,} in all){advice}"
        if kind == INTERFACE_FAILED:
            return "; ".join(one.detail for one in self._failures)
        assert self.unwritten is not None
        return f"{count:,} {self.unwritten.detail} ({in_all:,} in all)"

    @property
    def _failures(self) -> list[Issue]:
        return [one for one in self._source.issues if one.kind == INTERFACE_FAILED]

    def remarks(self) -> Iterator[str]:
        """What was captured, what the kernel dropped, what was in it, and what could not be read."""
        seen, dropped = self._source.statistics()
        yield f"{seen:,} packets captured, {dropped:,} dropped by the kernel"
        yield from self._seen.lines()
        for issue in IssueLog([*self.issues(), *self._engine.remarkable, *self._faults]):
            if issue.kind != KERNEL_DROPS:
                yield self.topic_names.in_text(_issue_text(issue))
        yield from _unread(self._engine, self._options)

    def _batch(self, tables: Tables) -> Batch:
        self._seen.observe(tables)
        batch = Batch(tables, self._engine.endpoints)
        if self._watcher is not None:
            self._watcher.observe(batch, self)
        if self._looks is not None:
            self._looks.observe(batch, self)
        return batch

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        if self._secrets is not None:
            self._secrets.close()


def _secrets(options: EngineOptions, are_embedded: bool, is_growing: bool) -> Secrets | None:
    """Where secrets of TLS sessions come from; None if from nowhere. Raises SourceError if a key log cannot be read."""
    if not options.session.key_logs and not are_embedded:
        return None
    from kafkascope.sniffer.sources.key_log import Secrets

    if is_growing:  # not when the first of its packets has come
        from kafkascope.sniffer.tls import protection, stage  # noqa: F401
    return Secrets(options.session.key_logs, are_embedded, is_growing)


def _issue_text(issue: Issue) -> str:
    times = f" ({counted(issue.count, 'time')})" if issue.count > 1 else ""
    return f"{issue.detail}{times}; effect: {ISSUE_KINDS[issue.kind].weakens}"


def _unread(engine: Engine, options: EngineOptions) -> Iterator[str]:
    """What to say of connections that may be Kafka, and were not read as such."""
    connections = engine.connections
    if tls := {str(port): count for (port, protocol), count in connections.items() if protocol == "tls"}:
        yield tls_remark(tls, has_key_log=bool(options.session.key_logs))
        yield from tls_talk_remarks(tls_talks(engine.tls_talks))
    if others := not_taken(connections, options.session.ports):
        yield not_taken_remark(others)


def _has_ids(table: pa.Table) -> bool:
    for name in _TOPIC_COLUMNS:
        if name in table.column_names:
            column = table[name]
            values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
            if pc.any(pc.starts_with(pc.unique(values), ID_PREFIX)).as_py():
                return True
    return False
