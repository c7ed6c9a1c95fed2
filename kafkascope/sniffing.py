"""``sniff``: exchanges on the terminal, out of files or live, as lines, trees, JSON or columns.

What groups, incidents and listening need is imported where it is used: the first line of a file comes without them.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.characters import safe_text
from kafkascope.decoders.schema import apis
from kafkascope.engine import EngineOptions
from kafkascope.losses import lines_left_out
from kafkascope.outlet import Writable
from kafkascope.reading import Batch, BatchSource, Listening, Reading, Watcher
from kafkascope.reports.columns.faults import isolated
from kafkascope.reports.columns.parties import ExchangePlaces
from kafkascope.reports.columns.shown import shown_names
from kafkascope.reports.columns.text import address, counted, json_members
from kafkascope.reports.columns.topics import ID_PREFIX
from kafkascope.reports.show.json_lines import glued, joined, json_lines
from kafkascope.reports.show.lines import fields as field_lines
from kafkascope.reports.show.lines import lines
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.reports.vocabulary.tables import EXCHANGES, RECORDS
from kafkascope.seen import COLUMNS as SEEN_COLUMNS
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.session import Endpoint, SessionOptions
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import is_stream
from kafkascope.sniffer.sources.live_options import LiveOptions

if TYPE_CHECKING:
    from kafkascope.alerts import Alerts
    from kafkascope.metrics import Place
    from kafkascope.no_match import NoMatch

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms

Remark = Callable[[str], None]
LINES, VERBOSE, TREE, JSON, FIELDS = "lines", "verbose", "tree", "json", "fields"

# Columns that a line shows; the bodies as JSON are far more work than all of them.
_BODIES = frozenset({"request", "response"})
_LINE_COLUMNS = frozenset(EXCHANGES.names) - _BODIES
# Columns that are more than a column of the exchanges table, for --fields and --json.
_MORE_COLUMNS = ("client", "broker", "topics")

INCOMPLETE, WRONG_USE, INTERFACE_GONE = 1, 2, 3
"""Exit statuses: not all was read or written; what was asked for makes no sense; an interface has gone away."""

_NAMELESS = (
    "there are exchanges that name topics by ids alone, whose names have not been told: --topic passes over them. "
    "--names FILE or --ask BROKER tells names"
)

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

RECORDS_SHOWN = 500_000
"""Of one exchange: they are lines, or a list in a line, that are put together before they are written."""


class WrongUse(Exception):  # noqa: N818 (it is said to a person, not raised at a caller)
    """What was asked for makes no sense."""


@dataclass(frozen=True, slots=True)
class Display:
    """How exchanges are shown."""

    style: str = LINES
    fields: tuple[str, ...] = ()
    records: bool = False
    payload: bool = True
    colour: bool = False
    limit: int | None = None
    groups: bool = False  # what happens to groups, instead of exchanges
    incidents: bool = False  # what broke, instead of exchanges
    alerts: tuple[str, ...] = ()  # where incidents are told as well: URLs, commands
    stats_s: float | None = None  # what goes on in spans of so many seconds, instead of exchanges
    top: bool = False  # a screen of what goes on, instead of exchanges


@dataclass(frozen=True, slots=True)
class Filters:
    """Which exchanges are shown: those that pass every filter that is set."""

    apis: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    client_ids: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    errors: bool = False
    slower_than_ms: float | None = None

    def columns(self) -> frozenset[str]:
        """Columns of the exchanges table that the filters look at."""
        needed = {"api"} if self.apis else set()
        needed |= {"group_id"} if self.groups else set()
        needed |= {"client_id"} if self.client_ids else set()
        needed |= {"error_code", "issue"} if self.errors else set()
        needed |= {"latency_ms"} if self.slower_than_ms is not None else set()
        needed |= {"topics"} if self.topics else set()
        return frozenset(needed)

    def with_pseudonyms(self, pseudonyms: Pseudonyms) -> Filters:
        """Filters for what has pseudonyms, where these name what has not."""

        def of(names: frozenset[str]) -> frozenset[str]:
            return frozenset(map(pseudonyms.name, names))

        return replace(
            self,
            topics=of(self.topics),
            groups=of(self.groups),
            client_ids=of(self.client_ids),
            hosts=of(self.hosts),
        )

    def names(self) -> dict[str, frozenset[str]]:
        """What is asked for by name, by option."""
        return {
            "--api": self.apis,
            "--topic": self.topics,
            "--group": self.groups,
            "--client-id": self.client_ids,
            "--host": self.hosts,
        }

    def choose(self, exchanges: pa.Table) -> pa.Table:
        """Those that pass."""
        masks = []
        if self.apis:
            masks.append(_among(pc.utf8_lower(exchanges["api"]), {api.lower() for api in self.apis}))
        for column, values in (("group_id", self.groups), ("client_id", self.client_ids)):
            if values:
                masks.append(_among(exchanges[column], values))
        if self.hosts:
            hosts = [pc.replace_substring_regex(exchanges[side], r":\d+$", "") for side in ("client", "broker")]
            masks.append(pc.or_(*(_among(host, self.hosts) for host in hosts)))
        if self.topics:
            wanted = pa.array(sorted(self.topics))
            named = exchanges["topics"].combine_chunks()
            hits = pc.is_in(named.flatten(), wanted).to_numpy(zero_copy_only=False)
            rows = pc.list_parent_indices(named).to_numpy()
            masks.append(pa.array(np.bincount(rows[hits], minlength=len(exchanges)) > 0))
        if self.errors:
            code = pc.not_equal(pc.fill_null(exchanges["error_code"], 0), 0)
            masks.append(pc.or_(code, pc.is_valid(exchanges["issue"])))
        if self.slower_than_ms is not None:
            masks.append(pc.fill_null(pc.greater(exchanges["latency_ms"], self.slower_than_ms), False))
        for mask in masks:
            if len(masks) > 1:
                masks[0] = pc.and_(masks[0], mask)
        return exchanges.filter(masks[0]) if masks else exchanges


@dataclass(frozen=True, slots=True)
class SniffOptions:
    """What is to be sniffed, and how it is shown."""

    files: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()  # to listen on, instead of files
    live: LiveOptions = field(default_factory=LiveOptions)  # how; of ports it has those below
    user: str | None = None  # whom to become when the interfaces are open
    display: Display = Display()
    filters: Filters = Filters()
    ports: frozenset[int] = frozenset()
    decode_as: frozenset[int] = frozenset()
    key_logs: tuple[str, ...] = ()  # with secrets of TLS sessions
    show_secrets: bool = False
    secret_names: tuple[str, ...] = ()
    topic_names: Mapping[str, str] = field(default_factory=dict)  # see EngineOptions
    metrics: Place | None = None  # where Prometheus may ask for them
    pseudonyms: Pseudonyms | None = None


def style_of(*, as_json: bool, fields: str | None, tree: bool, verbose: bool) -> str:
    """The one style that the flags ask for."""
    return JSON if as_json else FIELDS if fields else TREE if tree else VERBOSE if verbose else LINES


def run(options: SniffOptions, remark: Remark) -> int:
    """Show the exchanges of files or interfaces on stdout; returns the exit status."""
    if options.pseudonyms is not None:
        options = replace(options, filters=options.filters.with_pseudonyms(options.pseudonyms))
    try:
        of_engine = engine_options(options)
    except WrongUse as error:
        remark(str(error))
        return WRONG_USE
    # A stream of our own: with PYTHONUNBUFFERED Python's has no buffer, and a signal would end a write halfway.
    sys.stdout.flush()
    out = open(sys.stdout.fileno(), "wb", closefd=False)  # noqa: SIM115 (it stays open, as stdout does)
    try:
        with _metrics(options, remark) as watcher:
            return _sniff(options, of_engine, watcher, out, remark)
    except WrongUse as error:
        remark(str(error))
        return WRONG_USE
    except SourceError as error:
        out.flush()
        remark(str(error))
        return INCOMPLETE
    except BrokenPipeError:
        # The reader has gone (`| head`): let nothing be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _sniff(
    options: SniffOptions, of_engine: EngineOptions, watcher: Watcher | None, out: Writable, remark: Remark
) -> int:
    if options.interfaces:
        return _listen(options, of_engine, watcher, remark)
    if options.display.top:
        return _watch_standard_input(options, of_engine, watcher, remark)
    # Lines that pass by on the terminal are progress enough.
    incidents = options.display.incidents
    progress_bar = options.display.groups or incidents or not sys.stdout.isatty()
    with Reading(
        options.files, of_engine, names_ahead=True, progress_bar=progress_bar, in_step=incidents, watcher=watcher
    ) as reading:
        return show(reading, options, out, remark)


def _watch_standard_input(
    options: SniffOptions, of_engine: EngineOptions, watcher: Watcher | None, remark: Remark
) -> int:
    from kafkascope.top import terminal

    with (
        terminal.keys() as packets,
        _ended_by_signals(packets.stop),
        Reading(options.files, of_engine, progress_bar=False, watcher=watcher) as reading,
    ):
        return _watch(reading, options, "standard input", packets.stop, lambda: not packets.is_stopped, remark)


def _watch(
    source: BatchSource,
    options: SniffOptions,
    title: str,
    stop: Callable[[], None],
    stays: Callable[[], bool],
    remark: Remark,
) -> int:
    """Show the screen, then the remarks; returns the exit status."""
    from kafkascope.top.watching import watch

    went_well = watch(source, title, stop, stays)
    for line in source.remarks():
        remark(line)
    return _status(source, options) if went_well else INCOMPLETE


@contextmanager
def _metrics(options: SniffOptions, remark: Remark) -> Iterator[Watcher | None]:
    """Who counts for Prometheus, and answers it as long as this lasts."""
    if options.metrics is None:
        yield None
        return
    from kafkascope.metrics import Metrics, served

    metrics = Metrics()
    with ExitStack() as held:
        try:
            url = held.enter_context(served(metrics, options.metrics))
        except OSError as error:
            raise WrongUse(f"--metrics: nobody can ask at {options.metrics}: {error.strerror}") from error
        remark(f"metrics on {url}")
        yield metrics


def _listen(options: SniffOptions, of_engine: EngineOptions, watcher: Watcher | None, remark: Remark) -> int:
    from kafkascope import privileges
    from kafkascope.outlet import Outlet
    from kafkascope.sniffer.sources.live import LiveSource

    live = replace(options.live, ports=tuple(sorted(options.ports)))
    try:
        with LiveSource(options.interfaces, live):
            pass  # it can be captured: worth the time that kernels may take
    except ValueError as error:
        remark(str(error))
        return WRONG_USE
    with _ended_at_once():
        rehearse(options)
    as_json = options.display.style == JSON

    def left_out(count: int, in_all: int) -> bytes:
        return lines_left_out(time.time_ns(), count, in_all).line(as_json)

    with (
        Listening(LiveSource(options.interfaces, live), of_engine, watcher=watcher) as listening,
        _ended_by_signals(listening.stop),
    ):
        if options.user is not None:
            try:
                privileges.become(options.user)
            except (KeyError, OSError) as error:
                remark(f"--user {options.user}: cannot become this user ({error})")
                return WRONG_USE
        if options.display.top:
            status = _watch(listening, options, ", ".join(options.interfaces), listening.stop, lambda: False, remark)
            return status or (INCOMPLETE if listening.unwritten else 0)
        outlet = Outlet(sys.stdout.fileno(), left_out)  # whose thread has no more rights either
        remark(f"listening on {', '.join(options.interfaces)}; Ctrl-C ends it")
        status = show(listening, options, outlet, remark)
        outlet.close()
    if outlet.lost:
        remark(f"{counted(outlet.lost, 'line')} left out: the output was read too slowly")
    return status or (INCOMPLETE if listening.unwritten else 0)


def rehearse(options: SniffOptions) -> None:
    """Do once, with a few packets and for nobody to see, all that will be done with those of an interface."""
    from kafkascope.rehearsal import Rehearsal

    watcher: Watcher | None = None
    if options.metrics is not None:
        from kafkascope.metrics import Metrics

        watcher = Metrics()
    listening = Listening(Rehearsal(), replace(engine_options(options), session=SessionOptions()), watcher=watcher)
    if options.display.top:
        from kafkascope.top.counts import Counts, follow

        follow(listening, Counts())
        return
    everything = replace(options, display=replace(options.display, limit=None, alerts=()), filters=Filters())
    show(listening, everything, io.BytesIO(), lambda _: None)


def show(source: BatchSource, options: SniffOptions, out: Writable, remark: Remark) -> int:
    """Write what comes of a source as it comes, then the remarks; returns the exit status."""
    if not options.display.alerts:
        return _show(source, options, out, remark, None)
    from kafkascope.alerts import alerts

    with alerts(options.display.alerts, remark) as alerting:
        return _show(source, options, out, remark, alerting)


def _show(source: BatchSource, options: SniffOptions, out: Writable, remark: Remark, alerting: Alerts | None) -> int:
    display = options.display
    left = sys.maxsize if display.limit is None else display.limit
    nameless = False
    no_match = _no_match(options)
    for part in _parts(source, options, remark):
        if display.groups:
            from kafkascope import watching

            texts = watching.lines(part, display.style == JSON, display.colour)[:left]
            out.write(b"".join(texts))
            left -= len(texts)
        elif display.incidents:
            from kafkascope import incident_watch

            if alerting is not None:
                alerting.tell(incident_watch.lines(incident_watch.alarming(part), as_json=True, colour=False))
            out.write(b"".join(incident_watch.lines(part[:left], display.style == JSON, display.colour)))
            left -= len(part[:left])
        elif display.stats_s is not None:
            out.write(b"".join(interval.lines(display.style == JSON) for interval in part[:left]))
            left -= len(part[:left])
        else:
            if not nameless and options.filters.topics and (nameless := _are_nameless(part)):
                remark(_NAMELESS)
            count, faults = _write_exchanges(part, options, out, left)
            source.note(faults)
            left -= count
            if no_match is not None:
                no_match.observe(part, count)
        for loss in source.losses():
            out.write(loss.line(display.style == JSON))
            if not _is_seen_twice():
                remark(loss.text)
        out.flush()
        if not left:
            break
        if source.is_stream and _output_is_closed():
            return 0
    for loss in source.losses(at_end=True):
        out.write(loss.line(display.style == JSON))
    out.flush()
    if no_match is not None and (said := no_match.remark()) is not None:
        remark(said)
    for line in source.remarks():
        remark(line)
    return _status(source, options)


def _status(source: BatchSource, options: SniffOptions) -> int:
    return 0 if not source.is_partial else INTERFACE_GONE if options.interfaces else INCOMPLETE


def _no_match(options: SniffOptions) -> NoMatch | None:
    """Who says at the end that filters let no exchange through, and what they may have been meant for."""
    if options.filters == Filters():
        return None
    from kafkascope.no_match import NoMatch

    return NoMatch(options.filters.names())


def _parts(source: BatchSource, options: SniffOptions, remark: Remark) -> Iterable[Any]:
    """What is written one after the other: what happened to groups, what broke, or batches of exchanges."""
    if options.display.groups:
        from kafkascope import watching

        return watching.histories(source, options.filters.groups)
    if options.display.incidents:
        from kafkascope import incident_watch

        return incident_watch.looks(source, engine_options(options), remark)
    if options.display.stats_s is not None:
        from kafkascope import interval_watch

        return interval_watch.intervals(source, options.display.stats_s, lambda batch: _chosen(batch, options))
    return with_records(source.batches(), remark) if options.display.records else source.batches()


def with_records(batches: Iterable[Batch], remark: Remark, most: int = RECORDS_SHOWN) -> Iterator[Batch]:
    """Exchanges together with their records, which come behind them in parts; at most so many records of one exchange.

    What is held are the records of one exchange, and a part.
    """
    exchanges: pa.Table | None = None  # whose records are still coming
    endpoints: Mapping[int, Endpoint] = {}
    held: list[pa.Table] = []  # of the first of them
    left_out = 0
    for batch in batches:
        records = batch.tables.get("records")
        if records is None:
            if exchanges is not None:
                yield Batch({"exchanges": exchanges, "records": _joined(held)}, endpoints)
            exchanges, endpoints, held = batch.tables.get("exchanges"), batch.endpoints, []
            continue
        assert exchanges is not None
        place = ExchangePlaces(exchanges).of(records)  # ascending; what is held is of the exchange at place 0
        rank = np.arange(len(place)) - np.searchsorted(place, place) + np.where(place == 0, sum(map(len, held)), 0)
        shown = rank < most
        left_out += int(np.count_nonzero(~shown))
        if not shown.all():
            records, place = records.filter(pa.array(shown)), place[shown]
        last = int(place[-1]) if len(place) else 0
        if last > 0:
            first = int(np.searchsorted(place, last))
            whole = _joined([*held, records.slice(0, first)])
            yield Batch({"exchanges": exchanges.slice(0, last), "records": whole}, endpoints)
            exchanges, held, records = exchanges.slice(last), [], records.slice(first)
        held.append(records)
    if exchanges is not None:
        yield Batch({"exchanges": exchanges, "records": _joined(held)}, endpoints)
    if left_out:
        remark(f"{left_out:,} records are not shown: of one exchange they are at most {most:,}; analyze has all")


@contextmanager
def _ended_at_once() -> Iterator[None]:
    """Ctrl-C ends the program as the shell expects, without waiting for the compiler to hand control back."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ended_by_signals(stop_listening: Callable[[], None]) -> Iterator[None]:
    """Signals that would end the program end the listening, so that what was captured is shown; a second one ends it.

    SIGHUP that is ignored, as under nohup, stays so; SIGINT does not, as scripts have it ignored by all that they start
    with ``&``.
    """

    def stop(number: int, _: object) -> None:
        signal.signal(number, before[signal.Signals(number)])
        stop_listening()

    ending = [number for number in _ENDING if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_seen_twice() -> bool:
    """Whether what is written and what is remarked comes to the same eyes."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def _output_is_closed() -> bool:
    """Whether stdout is a pipe that nobody reads any more: without traffic no write would tell."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _write_exchanges(batch: Batch, options: SniffOptions, out: Writable, most: int | None) -> tuple[int, list[Issue]]:
    """Write the exchanges of a batch that pass the filters, at most so many; returns how many, and faults of ours.

    For an exchange that cannot be shown because of one there is a line that says so.
    """
    exchanges = _chosen(batch, options)
    if exchanges is None or not len(exchanges):
        return 0, []
    exchanges = exchanges.slice(0, most)
    display = options.display
    records = batch.tables["records"] if display.records else None
    issues: list[Issue] = []

    def as_text(places: Sequence[int]) -> list[Any]:
        return [_texts(exchanges.slice(places[0], len(places)), records, display)]

    def without(places: Sequence[int], said: str) -> list[Any]:
        of = exchanges.slice(places[0], len(places)).select(["connection", "number"]).to_pylist()
        issues.extend(Issue(INTERNAL_ERROR, f"exchange {row['number']}: {said}", row["connection"]) for row in of)
        if display.style == JSON:
            texts = [json.dumps(row | {"issue": said}) for row in of]
        else:
            texts = [f"conn={row['connection']} number={row['number']}: {said}" for row in of]
        return [pa.array(texts, pa.large_string())]

    for part in isolated(range(len(exchanges)), as_text, without):
        _write(out, part)
    return len(exchanges), issues


def _chosen(batch: Batch, options: SniffOptions) -> pa.Table | None:
    """The exchanges of a batch that pass the filters, with both ends of their connections."""
    exchanges = batch.tables.get("exchanges")
    if exchanges is None or not len(exchanges):
        return None
    return options.filters.choose(_with_endpoints(exchanges, batch.endpoints))


def _are_nameless(batch: Batch) -> bool:
    """Whether exchanges name topics by id alone, so that nobody knows whether they are of the topics wanted."""
    exchanges = batch.tables.get("exchanges")
    return exchanges is not None and bool(
        pc.any(pc.starts_with(pc.list_flatten(exchanges["topics"]), ID_PREFIX)).as_py()
    )


def _texts(exchanges: pa.Table, records: pa.Table | None, display: Display) -> Any:
    if display.style == FIELDS:
        return field_lines(exchanges.select(display.fields))
    if display.style == JSON:
        return json_lines(exchanges, records, display.payload)
    texts = lines(exchanges, display.colour, verbose=display.style == VERBOSE)
    if display.style == TREE:
        texts = pa.array(list(_trees(texts, exchanges)), pa.large_string())
    if records is None:
        return texts
    below = joined(records, exchanges, _record_lines(records, display.payload), "")
    return glued(texts, below)


def _record_lines(records: pa.Table, payload: bool) -> Any:
    where = pc.binary_join_element_wise(
        pc.fill_null(shown_names(records["topic"]), "?"), pc.fill_null(records["partition"].cast(pa.string()), "?"), "-"
    )
    offset = pc.fill_null(records["offset"].cast(pa.string()), "?")
    parts = ["\n    ", records["direction"], " ", where, " @ ", offset]
    for name in ("key", "value"):
        if payload:
            parts += [" ", json_members(name, records[name])]
        else:
            parts += [f" {name} ", pc.fill_null(pc.binary_length(records[name]).cast(pa.string()), "null"), " B"]
    return glued(*parts)


def _trees(heads: Any, exchanges: pa.Table) -> Iterator[str]:
    bodies = zip(heads.to_pylist(), *(exchanges[side].to_pylist() for side in ("request", "response")), strict=True)
    for head, *sides in bodies:
        branches = [head]
        for title, text in zip(("request", "response"), sides, strict=True):
            if text is not None:
                branches.append(f"    {title}")
                branches += _branches(json.loads(text), 8)
        yield "\n".join(branches)


def _branches(value: Any, indent: int) -> Iterator[str]:
    items: Iterable[tuple[str, Any]]
    items = value.items() if isinstance(value, dict) else ((f"[{i}]", item) for i, item in enumerate(value))
    for name, item in items:
        lead = " " * indent + safe_text(str(name))
        if isinstance(item, dict | list) and item:
            yield lead
            yield from _branches(item, indent + 4)
        else:
            yield f"{lead}: {safe_text(item) if isinstance(item, str) else json.dumps(item)}"


def engine_options(options: SniffOptions) -> EngineOptions:
    """No more work than what is shown and counted needs; raises WrongUse where options do not go together."""
    for name in sorted(options.filters.apis):
        _check_api(name)
    if options.pseudonyms is not None and options.live.write_to is not None:
        raise WrongUse("-w writes packets as they are on the wire: it does not go with --anonymize")
    if options.metrics is None:
        return _shown(options)
    if not options.interfaces and not any(map(is_stream, options.files)):
        raise WrongUse("--metrics goes with an interface or a pipe: a file is read before anybody asks")
    from kafkascope.metrics import with_needed

    return with_needed(_shown(options))


def _check_api(name: str) -> None:
    known = [api.name for api in apis().values()]
    if name.lower() in map(str.lower, known):
        return
    from kafkascope.no_match import nearest

    near = nearest(name, known)
    raise WrongUse(f"--api {name}: there is no such API{'; near are ' if near else ''}{', '.join(near)}")


def _shown(options: SniffOptions) -> EngineOptions:
    display, filters = options.display, options.filters
    least = EngineOptions(
        tables=frozenset(),
        exchange_columns=frozenset(),
        session=SessionOptions(ports=options.ports, decode_as=options.decode_as, key_logs=options.key_logs),
        reveal_secrets=options.show_secrets,
        secret_names=options.secret_names,
        topic_names=options.topic_names,
        pseudonyms=options.pseudonyms,
        views=frozenset(),
    )
    if display.alerts and not display.incidents:
        raise WrongUse("--alert tells of incidents: it goes with --incidents")
    if options.interfaces:  # what is told of them at the end
        least = replace(least, tables=frozenset({"exchanges"}), exchange_columns=SEEN_COLUMNS)
    if display.top and (display.incidents or display.groups or display.stats_s is not None):
        raise WrongUse("--top is a screen of its own: it does not go with --groups, --incidents or --stats")
    if display.incidents:
        if filters != Filters() or display.style not in (LINES, JSON) or display.records or display.groups:
            raise WrongUse(
                "--incidents shows what broke, not exchanges: of other options only --json and -c go with it"
            )
        whole = EngineOptions()
        return replace(least, tables=whole.tables, exchange_columns=whole.exchange_columns, views=whole.views)
    if display.groups:
        if filters != Filters(groups=filters.groups) or display.style not in (LINES, JSON) or display.records:
            raise WrongUse(
                "--groups shows groups, not exchanges: of other options only --group, --json and -c go with it"
            )
        from kafkascope.watching import ROWS

        return replace(least, views=frozenset({ROWS}))
    if display.stats_s is not None:
        if display.style not in (LINES, JSON) or display.records:
            raise WrongUse("--stats counts exchanges: of options that show them only --json, -c and filters go with it")
        from kafkascope.interval_watch import COLUMNS as STATS_COLUMNS

        columns = STATS_COLUMNS | filters.columns() | SEEN_COLUMNS | {"connection"}
        return replace(least, tables=frozenset({"exchanges"}), exchange_columns=columns)
    if display.top:
        if not options.interfaces and options.files != ("-",):
            raise WrongUse("--top goes with an interface or standard input (-r -); of files `kafkascope analyze` tells")
        if filters != Filters() or display.style != LINES or display.records or display.limit is not None:
            raise WrongUse("--top shows a screen, not exchanges: options that choose or show these do not go with it")
        from kafkascope.top import counts, terminal

        if not terminal.is_there(keys_on_input=bool(options.interfaces)):
            raise WrongUse("--top needs a terminal, for keys and on standard output and error: see --stats for lines")
        return counts.with_needed(least)
    known = (*EXCHANGES.names, *_MORE_COLUMNS)
    unknown = [name for name in display.fields if name not in known]
    if unknown:
        raise WrongUse(f"--fields: there is no column {unknown[0]!r}; columns are {', '.join(known)}")
    if display.style == FIELDS and display.records:
        raise WrongUse(
            "--fields shows columns of the exchanges table; for records use --json --records, or no --fields"
        )
    if display.style == FIELDS:
        columns = frozenset(display.fields)
    elif display.style in (JSON, TREE):
        columns = frozenset(known)
    else:
        columns = _LINE_COLUMNS | {"topics"}
    return replace(
        least,
        tables=frozenset({"exchanges", "records"} if display.records else {"exchanges"}),
        exchange_columns=columns | filters.columns() | {"connection", "number"} | (least.exchange_columns or set()),
    )


def _with_endpoints(exchanges: pa.Table, endpoints: Mapping[int, Endpoint]) -> pa.Table:
    encoded = exchanges["connection"].combine_chunks().dictionary_encode()
    ids = encoded.dictionary.to_pylist()
    sides = {
        "client": [address(endpoints[i].client, endpoints[i].client_port) for i in ids],
        "broker": [address(endpoints[i].broker, endpoints[i].broker_port) for i in ids],
    }
    for name, texts in sides.items():
        exchanges = exchanges.append_column(name, pa.array(texts, pa.string()).take(encoded.indices))
    return exchanges


def _among(values: Any, wanted: Iterable[str]) -> Any:
    return pc.is_in(values, pa.array(sorted(wanted), pa.string()))


def _joined(records: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([RECORDS.empty_table(), *records])


def _write(out: Writable, texts: Any) -> None:
    """All texts, each ended by a line feed."""
    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        ended = glued(chunk, "\n")
        if isinstance(ended, pa.ChunkedArray):
            ended = ended.combine_chunks()
        offsets = np.frombuffer(ended.buffers()[1], np.int64, len(ended) + 1, ended.offset * 8)
        if len(ended):
            out.write(memoryview(ended.buffers()[2])[int(offsets[0]) : int(offsets[-1])])
