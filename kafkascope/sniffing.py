"""``sniff``: exchanges on the terminal, out of files or live, as lines, trees, JSON or columns.

What groups, incidents and listening need is imported where it is used: the first line of a file comes without them.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kafkascope.engine import EngineOptions
from kafkascope.exchange_output import TextWriter, Writer, are_nameless, chosen, with_records
from kafkascope.filters.expressions import HiddenError
from kafkascope.losses import lines_left_out
from kafkascope.outlet import Bulk, Outlet, Writable, with_actions
from kafkascope.program import ENDING, INCOMPLETE, INTERFACE_GONE, WRONG_USE, Remark, heard
from kafkascope.reading import Batch, BatchSource, Listening, Looks, Reading, Watcher
from kafkascope.reports.columns.remarks import damage_remark
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.rows.topic_mentions import TOPICS
from kafkascope.sniff_options import (
    JSON,
    LINES,
    NOTHING,
    TREE,
    VERBOSE,
    Filters,
    SniffOptions,
    WrongUse,
    engine_options,
    looks_beside,
)
from kafkascope.sniffer.comparison import compare_files
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import is_stream
from kafkascope.sniffer.sources.places import is_uri, told

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkascope.alerts import Alerts
    from kafkascope.exchange_trees import Trees
    from kafkascope.filters.no_match import NoMatch

Write = Callable[[int], int]
"""Writes at most so many entries; returns how many there were."""

_LARGE = 48_000_000  # bytes of files: the text of less is written before another process has its kernels

_NAMELESS = (
    "there are exchanges that name topics by ids alone, whose names have not been told: filters by topic pass over "
    "them. --names FILE or --ask BROKER tells names"
)


def run(options: SniffOptions, remark: Remark) -> int:
    """Show the exchanges of files or interfaces on stdout; returns the exit status."""
    try:
        if options.pseudonyms is not None:
            options = replace(options, filters=options.filters.with_pseudonyms(options.pseudonyms))
        if options.packet is not None:
            options = _with_packet(options, options.packet)
        of_engine = engine_options(options)
    except HiddenError as error:
        remark(f"--filter: {error}")
        return WRONG_USE
    except WrongUse as error:
        remark(str(error))
        return WRONG_USE
    except SourceError as error:
        remark(str(error))
        return INCOMPLETE
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


def _with_packet(options: SniffOptions, number: int) -> SniffOptions:
    """Options for the exchanges that a packet is part of."""
    from kafkascope.packets import NoSuchPacketError, find_packet

    if any(map(is_stream, options.files)):
        raise WrongUse("--packet looks for it in files first: write what comes from a pipe to one")
    try:
        found = find_packet(number, options.files, compare_files(options.files), pseudonyms=options.pseudonyms)
    except NoSuchPacketError as error:
        raise WrongUse(f"--packet: {error}") from error
    return replace(options, filters=replace(options.filters, packet=found))


def _sniff(
    options: SniffOptions, of_engine: EngineOptions, watcher: Watcher | None, out: Writable, remark: Remark
) -> int:
    if options.interfaces:
        return _listen(options, of_engine, watcher, remark)
    if options.live.write_to is not None:
        return _write_packets(options.live.write_to, options, of_engine, remark)
    if options.display.tables is not None:
        return _make_tables(options.display.tables, options.files, of_engine, remark)
    if options.display.top:
        return _watch_standard_input(options, of_engine, watcher, remark)
    # Lines that pass by on the terminal are progress enough.
    incidents = options.display.incidents
    progress_bar = options.display.groups or incidents or not sys.stdout.isatty()
    with Reading(
        options.files, of_engine, names_ahead=True, progress_bar=progress_bar, in_step=incidents, watcher=watcher
    ) as reading:
        return show(reading, options, out, remark)


def _write_packets(out: str, options: SniffOptions, of_engine: EngineOptions, remark: Remark) -> int:
    """Write the packets of files that match."""
    from kafkascope.annotating import Wanted, run

    wanted = Wanted("sniff -w", options.filters.expression, options.alone, options.live.rotation)
    return run(options.files, out, of_engine, remark, wanted)


def _make_tables(out: str, files: Sequence[str], of_engine: EngineOptions, remark: Remark) -> int:
    """Put the tables of files into OUT, beside what is there."""
    from kafkascope import in_process
    from kafkascope.interrupts import Interrupted, stoppable
    from kafkascope.out.errors import OutputError
    from kafkascope.out.pipeline import AnalysisError
    from kafkascope.out.renewal import line

    try:
        analysis = stoppable(
            lambda stop: in_process.analyze(files, out, options=of_engine, append=True, stop=stop),
            lambda name: remark(f"{name}: stopping, and leaving {told(out)} as it was; once more ends it at once"),
        )
    except Interrupted as signal:
        return 128 + signal.number
    except (OutputError, AnalysisError) as error:
        remark(str(error))
        return INCOMPLETE
    sys.stdout.write(f"{line(analysis)}\n")
    for text in analysis.remarks():
        remark(text)
    return INCOMPLETE if analysis.unreadable else 0


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

    went_well = watch(source, title, stop, stays, options.limits)
    _say_remarks(source, remark)
    return _status(source, options) if went_well else INCOMPLETE


@contextmanager
def _metrics(options: SniffOptions, remark: Remark) -> Iterator[Watcher | None]:
    """Who counts for Prometheus, and answers it as long as this lasts."""
    if options.metrics is None:
        yield None
        return
    from kafkascope.metrics import Metrics, served

    metrics = Metrics(limits=options.limits)
    with ExitStack() as held:
        try:
            url = held.enter_context(served(metrics, options.metrics))
        except OSError as error:
            raise WrongUse(f"--metrics: nobody can ask at {options.metrics}: {error.strerror}") from error
        remark(f"metrics on {url}")
        yield metrics


def _listen(options: SniffOptions, of_engine: EngineOptions, watcher: Watcher | None, remark: Remark) -> int:
    from kafkascope import privileges
    from kafkascope.sniffer.sources.live import LiveSource

    live = replace(options.live, ports=tuple(sorted(options.ports)), is_prompt=options.display.is_prompt)
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
        line = lines_left_out(time.time_ns(), count, in_all).line(as_json)
        return with_actions(line) if options.display.bulk else line

    with LiveSource(options.interfaces, live) as source:
        try:
            user = privileges.give_up(options.user)
        except privileges.KeptError as error:
            remark(str(error))
            return WRONG_USE
        # All other files, and threads, are opened and started by whom it became.
        source.begin_writing()
        _check_others(options, user, remark)
        looks = _looks(options, of_engine)
        with Listening(source, of_engine, watcher=watcher, looks=looks) as listening, _ended_by_signals(listening.stop):
            if options.display.top:
                title = ", ".join(options.interfaces)
                status = _watch(listening, options, title, listening.stop, lambda: False, remark)
                return status or (INCOMPLETE if listening.unwritten else 0)
            outlet = Outlet(sys.stdout.fileno(), left_out)
            whose = f", as {user}" if user is not None else ""
            remark(f"listening on {', '.join(options.interfaces)}{whose}; Ctrl-C ends it")
            status = show(listening, options, outlet, remark)
            outlet.close()
    if outlet.lost:
        remark(f"{counted(outlet.lost, 'line')} left out: the output was read too slowly")
    return status or (INCOMPLETE if listening.unwritten else 0)


def _looks(options: SniffOptions, of_engine: EngineOptions) -> Looks | None:
    """Who looks for incidents where they are counted beside what is shown."""
    if not looks_beside(options):
        return None
    from kafkascope import incident_watch

    return incident_watch.Looks(of_engine, time.monotonic, forgets=True, share=incident_watch.SHARE_BESIDE)


def _check_others(options: SniffOptions, user: str | None, remark: Remark) -> None:
    """Say now what would fail later for want of rights; raises WrongUse where it is sure."""
    whom = "you" if user is None else f"the user {user}"
    if options.display.alerts:
        from kafkascope.alerts import not_to_be_run

        for command in not_to_be_run(options.display.alerts):
            raise WrongUse(f"--alert: {command}: there is no such command, or {whom} may not run it")
    if options.display.tables is not None:
        _check_tables(options.display.tables, whom)
    for path in options.key_logs if user is not None else ():
        if not os.path.exists(path):
            remark(f"{path} is not there yet; when it is, {user} must be allowed to read it (--user says who)")


def _check_tables(out: str, whom: str) -> None:
    place = os.path.abspath(out)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    if not os.access(place, os.W_OK | os.X_OK):
        raise WrongUse(f"--tables: {whom} may not write to {place}; --user NAME says who is to listen")
    from kafkascope import rolling
    from kafkascope.out.errors import OutputError

    try:
        rolling.check(out)
    except OutputError as error:
        raise WrongUse(f"--tables: {error}") from error


def rehearse(options: SniffOptions) -> None:
    """Do once, with a few packets and for nobody to see, all that will be done with those of an interface."""
    import pyarrow.dataset  # noqa: F401 (without rights, modules that come later may be out of reach)

    from kafkascope.filters import no_match  # noqa: F401
    from kafkascope.rehearsal import Rehearsal

    watcher: Watcher | None = None
    if options.metrics is not None:
        from kafkascope.metrics import Metrics

        watcher = Metrics()
    of_engine = replace(engine_options(options), session=SessionOptions())
    listening = Listening(Rehearsal(), of_engine, watcher=watcher, looks=_looks(options, of_engine))
    if options.display.top:
        from kafkascope.top import watching

        watching.rehearse(listening)
        return
    with TemporaryDirectory() as directory:
        out = None if options.display.tables is None else os.path.join(directory, "out")
        display = replace(options.display, limit=None, alerts=(), tables=out)
        show(listening, replace(options, display=display, filters=Filters()), io.BytesIO(), lambda _: None)


def show(source: BatchSource, options: SniffOptions, out: Writable, remark: Remark) -> int:
    """Write what comes of a source as it comes, then the remarks; returns the exit status."""
    if options.display.bulk:
        out = Bulk(out)
    if not options.display.alerts:
        return _show(source, options, out, remark, None)
    from kafkascope.alerts import alerts

    with alerts(options.display.alerts, remark) as alerting:
        return _show(source, options, out, remark, alerting)


def _show(source: BatchSource, options: SniffOptions, out: Writable, remark: Remark, alerting: Alerts | None) -> int:
    as_json = options.display.style == JSON
    left = min(options.display.limit or sys.maxsize, sys.maxsize)
    for write in _shown(source, options, out, remark, alerting):
        left -= write(left)
        for loss in source.losses():
            out.write(loss.line(as_json))
            if not _is_seen_twice():
                remark(loss.text)
        out.flush()
        if not left:
            break
        if source.is_stream and _output_is_closed():
            return 0
    for loss in source.losses(at_end=True):
        out.write(loss.line(as_json))
    out.flush()
    _say_remarks(source, remark)
    return _status(source, options)


def _say_remarks(source: BatchSource, remark: Remark) -> None:
    for line in source.remarks():
        remark(line)
    if source.damage:
        remark(damage_remark(source.damage))


def _status(source: BatchSource, options: SniffOptions) -> int:
    return 0 if not source.is_partial else INTERFACE_GONE if options.interfaces else INCOMPLETE


def _shown(
    source: BatchSource, options: SniffOptions, out: Writable, remark: Remark, alerting: Alerts | None
) -> Iterator[Write]:
    """What is written one after the other: what happened to groups, what broke, spans of time, or exchanges."""
    display = options.display
    if display.groups:
        return _groups(source, options, out, remark)
    if display.incidents:
        return _incidents(source, options, out, remark, alerting)
    if display.tables is not None:
        return _renewals(source, display.tables, display.every_s, out, remark)
    if display.stats_s is not None:
        return _intervals(source, options, display.stats_s, out, remark)
    return _exchanges(source, options, out, remark)


def _groups(source: BatchSource, options: SniffOptions, out: Writable, remark: Remark) -> Iterator[Write]:
    from kafkascope import watching

    display, told = options.display, 0
    for history in watching.histories(source, options.filters.groups, options.limits):
        entries = watching.lines(history, display.style == JSON, display.colour)
        told += len(entries)
        yield partial(_write_entries, out, entries)
    if options.filters.groups and not told:
        remark(f"nothing is told of --group {', '.join(map(shown_text, sorted(options.filters.groups)))}")


def _incidents(
    source: BatchSource, options: SniffOptions, out: Writable, remark: Remark, alerting: Alerts | None
) -> Iterator[Write]:
    from kafkascope import incident_watch

    display = options.display
    for news in incident_watch.looks(source, engine_options(options), remark):
        if alerting is not None:
            alerting.tell(incident_watch.lines(incident_watch.alarming(news), as_json=True, colour=False))
        entries = [b"".join(incident_watch.lines([one], display.style == JSON, display.colour)) for one in news]
        yield partial(_write_entries, out, entries)


def _renewals(source: BatchSource, tables: str, every_s: float, out: Writable, remark: Remark) -> Iterator[Write]:
    from kafkascope import rolling

    assert isinstance(source, Listening)  # of files it has been done
    for texts in rolling.renewals(source, tables, every_s, remark):
        yield partial(_write_entries, out, [text.encode() for text in texts])


def _intervals(
    source: BatchSource, options: SniffOptions, stats_s: float, out: Writable, remark: Remark
) -> Iterator[Write]:
    from kafkascope import interval_watch

    display = options.display
    by, no_match = interval_watch.BY[display.stats_by], _no_match(options)

    def passing(batch: Batch) -> pa.Table | None:
        found = chosen(batch, options)
        _observe(no_match, batch, 0 if found is None else len(found))
        return found

    for spans in interval_watch.intervals(source, stats_s, passing, by):
        width = get_terminal_size().columns if sys.stdout.isatty() else None
        yield partial(_write_entries, out, [span.lines(display.style == JSON, width) for span in spans])
    _say_no_match(no_match, remark)


def _write_entries(out: Writable, entries: Sequence[bytes], most: int) -> int:
    out.write(b"".join(entries[:most]))
    return len(entries[:most])


def _exchanges(source: BatchSource, options: SniffOptions, out: Writable, remark: Remark) -> Iterator[Write]:
    """Batches of exchanges; at the end it is said if filters let none through, and what they may have meant."""
    no_match = _no_match(options)
    trees: Trees | None = None
    if options.display.style == TREE:
        from kafkascope.exchange_trees import Trees

        trees = Trees(options, source.topic_names)
    nameless = TOPICS.name not in options.filters.columns()  # nobody asked for names

    def write(batch: Batch, most: int) -> int:
        found = chosen(batch, options)
        count = 0 if found is None else min(len(found), most)
        if options.display.style != NOTHING:
            source.note(writer.write(found.slice(0, most) if found is not None and count else None, batch.tables))
        _observe(no_match, batch, count)
        return count

    batches = source.batches()
    writing: AbstractContextManager[Writer]
    if isinstance(source, Reading) and _is_written_beside(source, options):
        from kafkascope.writing_beside import writer_beside

        writing = writer_beside(source, options, out, remark)
    else:
        writing = nullcontext(TextWriter(options.display, out, trees))
        if options.display.records:
            batches = with_records(batches, remark, lambda batch: chosen(batch, options))
    with writing as writer:
        for batch in batches:
            if not nameless and (nameless := are_nameless(batch)):
                remark(_NAMELESS)
            if trees is not None:
                trees.observe(batch)
            yield partial(write, batch)
        source.note(writer.finish())
    _say_no_match(no_match, remark)


def _no_match(options: SniffOptions) -> NoMatch | None:
    """Who finds out why filters let nothing through; None without filters."""
    expression = options.filters.expression
    if expression is None:
        return None
    from kafkascope.filters.no_match import NoMatch

    return NoMatch(expression, options.filters.packet)


def _observe(no_match: NoMatch | None, batch: Batch, matched: int) -> None:
    exchanges = batch.tables.get("exchanges")
    if no_match is not None and exchanges is not None and len(exchanges):
        no_match.observe(batch.with_ends(exchanges), matched)


def _say_no_match(no_match: NoMatch | None, remark: Remark) -> None:
    if no_match is not None and (said := no_match.remark()) is not None:
        remark(said)


def _is_written_beside(reading: Reading, options: SniffOptions) -> bool:
    """Whether another process writes exchanges: of large files, where their text takes long and all is wanted."""
    display = options.display
    takes_long = display.style == JSON or (display.records and display.style in (LINES, VERBOSE))
    if not takes_long or display.limit is not None or (reading.capture.size or 0) < _LARGE:
        return False
    from kafkascope.side_by_side import processes_worth

    # What speaks to object stores survives no fork.
    return not any(map(is_uri, options.files)) and processes_worth(2, options.limits.processes) == 2


@contextmanager
def _ended_at_once() -> Iterator[None]:
    """Ctrl-C ends the program as the shell expects, without waiting for the compiler to hand control back."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ended_by_signals(stop_listening: Callable[[], None]) -> AbstractContextManager[None]:
    """Signals that would end the program end the listening, so that what was captured is shown; a second one ends it.

    SIGHUP that is ignored, as under nohup, stays so; SIGINT does not, as scripts have it ignored by all that they start
    with ``&``.
    """

    ending = [number for number in ENDING if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    return heard(ending, lambda _: stop_listening())


def _is_seen_twice() -> bool:
    """Whether what is written and what is remarked comes to the same eyes."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def _output_is_closed() -> bool:
    """Whether stdout is a pipe that nobody reads any more: without traffic no write would tell."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
