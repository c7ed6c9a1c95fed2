"""What is asked of `sniff`, and what an engine has to give for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.engine import ALL_TABLES, WITHOUT_RECORDS, EngineOptions, all_views
from kafkascope.filters.expressions import EXISTS, All, Condition, Either, Expression, columns, passing, renamed
from kafkascope.filters.fields import COLUMNS, Kind
from kafkascope.reports.rows.frames import FRAMES
from kafkascope.reports.show.lines import SHOWN, SHOWN_BEHIND
from kafkascope.reports.vocabulary.tables import EXCHANGES
from kafkascope.seen import COLUMNS as SEEN_COLUMNS
from kafkascope.sniffer.packet_window import EVERYTHING, PacketWindow
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.files import is_stream
from kafkascope.sniffer.sources.live_options import LiveOptions
from kafkascope.sniffer.sources.places import is_uri, told

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms
    from kafkascope.metrics import Place
    from kafkascope.packets import OnePacket

EVERY_S = 600.0
"""Tables of an interface are renewed so often, unless somebody says otherwise."""

LINES, VERBOSE, TREE, JSON, FIELDS, NOTHING = "lines", "verbose", "tree", "json", "fields", "nothing"

# The last three are more than a column of the exchanges table.
KNOWN_COLUMNS = (*EXCHANGES.names, "client", "broker", "topics")


class WrongUse(Exception):  # noqa: N818 (it is said to a person, not raised at a caller)
    """What was asked for makes no sense."""


@dataclass(frozen=True, slots=True)
class Display:
    """How exchanges are shown."""

    style: str = LINES
    bulk: bool = False  # of JSON: for Elasticsearch
    as_hex: bool = False  # of TREE: the bytes beside the fields
    fields: tuple[str, ...] = ()
    records: bool = False
    payload: bool = True
    colour: bool = False
    limit: int | None = None
    groups: bool = False  # what happens to groups, instead of exchanges
    incidents: bool = False  # what broke, instead of exchanges
    alerts: tuple[str, ...] = ()  # where incidents are told as well: URLs, commands
    stats_s: float | None = None  # what goes on in spans of so many seconds, instead of exchanges
    stats_by: str = "api"  # what they are told apart by there
    tables: str | None = None  # a directory for tables, instead of exchanges
    every_s: float = EVERY_S  # of an interface: when it is renewed
    top: bool = False  # a screen of what goes on, instead of exchanges

    @property
    def is_prompt(self) -> bool:
        """Whether each exchange is shown as it comes, rather than what they come to, every second or less often."""
        instead = self.groups or self.incidents or self.stats_s or self.tables or self.top
        return self.style != NOTHING and not instead


@dataclass(frozen=True, slots=True)
class Filters:
    """Which exchanges are shown: those that pass every filter that is set."""

    apis: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    client_ids: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    connections: frozenset[str] = frozenset()  # by number, or an end of theirs: address:port
    packet: OnePacket | None = None  # that is part of them
    errors: bool = False
    slower_than_ms: float | None = None
    where: Expression | None = None

    @property
    def expression(self) -> Expression | None:
        """All of them as one; None if none is set."""
        names = {"api": self.apis, "topic": self.topics, "group": self.groups, "client_id": self.client_ids}
        found: list[Expression] = [
            Condition(COLUMNS[name], Kind.TEXT, "==", tuple(sorted(wanted)), f"--{name.replace('_', '-')}")
            for name, wanted in (names | {"host": {*map(_as_told, self.hosts)}}).items()
            if wanted
        ]
        if self.slower_than_ms is not None:
            latency = COLUMNS["latency_ms"]
            found.append(Condition(latency, Kind.NUMBER, ">", (self.slower_than_ms,), "--slower-than"))
        if self.errors:
            wrong = (Condition(COLUMNS[name], Kind.TEXT, EXISTS, (), "--errors") for name in ("error", "issue"))
            found.append(Either(tuple(wrong)))
        if self.connections:
            found.append(Either(tuple(map(_of_connection, sorted(self.connections)))))
        if self.packet is not None:
            found.append(self.packet.exchanges)
        if self.where is not None:
            found.append(self.where)
        return All(tuple(found)) if found else None

    def columns(self) -> frozenset[str]:
        """Columns of the exchanges table that the filters look at."""
        expression = self.expression
        return frozenset() if expression is None else columns(expression)

    def with_pseudonyms(self, pseudonyms: Pseudonyms) -> Filters:
        """Filters for what has pseudonyms, where these name what has not; raises HiddenError."""
        from kafkascope.reports.rows.anonymous import anonymous_client_id, anonymous_end, anonymous_name

        def of(names: frozenset[str], rename: Callable[[str, Pseudonyms], str] = anonymous_name) -> frozenset[str]:
            return frozenset(rename(name, pseudonyms) for name in names)

        return replace(
            self,
            topics=of(self.topics),
            groups=of(self.groups),
            client_ids=of(self.client_ids, anonymous_client_id),
            hosts=of(self.hosts),
            connections=of(self.connections, anonymous_end),
            where=None if self.where is None else renamed(self.where, pseudonyms),
        )

    def choose(self, exchanges: pa.Table) -> pa.Table:
        """Those that pass, of exchanges with client and broker."""
        expression = self.expression
        return exchanges if expression is None else exchanges.filter(pa.array(passing(expression, exchanges)))


@dataclass(frozen=True, slots=True)
class SniffOptions:
    """What is to be sniffed, and how it is shown."""

    files: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()  # to listen on, instead of files
    live: LiveOptions = field(default_factory=LiveOptions)  # how; of ports it has those below
    user: str | None = None  # whom to become when the interfaces are open
    display: Display = Display()
    filters: Filters = Filters()
    window: PacketWindow = EVERYTHING  # of packets in files
    packet: int | None = None  # number of the one whose exchanges are wanted
    alone: bool = False  # of files, with live.write_to: packets of exchanges without the rest of their connections
    ports: frozenset[int] = frozenset()
    decode_as: frozenset[int] = frozenset()
    key_logs: tuple[str, ...] = ()  # with secrets of TLS sessions
    show_secrets: bool = False
    secret_names: tuple[str, ...] = ()
    topic_names: Mapping[str, str] = field(default_factory=dict)  # see EngineOptions
    metrics: Place | None = None  # where Prometheus may ask for them
    pseudonyms: Pseudonyms | None = None
    limits: Limits = DEFAULT


def _as_told(host: str) -> str:
    """An address as tables have it: IPv6 has several ways to be written."""
    try:
        return str(ip_address(host.removeprefix("[").removesuffix("]")))
    except ValueError:
        return host


def _of_connection(given: str) -> Expression:
    if given.isdecimal() and len(given) < 19:
        return Condition(COLUMNS["connection"], Kind.NUMBER, "==", (int(given),), "--connection")
    host, colon, port = given.rpartition(":")
    place = f"[{_as_told(host)}]:{port}" if given.startswith("[") and colon else given
    return Condition(COLUMNS["endpoint"], Kind.TEXT, "==", (place,), "--connection")


def style_of(*, as_json: bool, fields: str | None, tree: bool, verbose: bool, quiet: bool) -> str:
    """The one style that the flags ask for."""
    if quiet:
        return NOTHING
    return JSON if as_json else FIELDS if fields else TREE if tree else VERBOSE if verbose else LINES


def engine_options(options: SniffOptions) -> EngineOptions:
    """No more work than what is shown and counted needs; raises WrongUse where options do not go together."""
    for name in sorted(options.filters.apis):
        _check_api(name)
    if options.pseudonyms is not None and options.live.write_to is not None:
        raise WrongUse("-w writes packets as they are on the wire: it does not go with --anonymize")
    found = _shown(options)
    if looks_beside(options):
        from kafkascope.incident_watch import with_needed as with_all

        found = with_all(found)
    if options.metrics is None:
        return found
    if not options.interfaces and not any(map(is_stream, options.files)):
        raise WrongUse("--metrics goes with an interface or a pipe: a file is read before anybody asks")
    if options.display.records and options.display.tables is None:
        raise WrongUse("--metrics and --records do not go together: what is counted comes behind the records")
    from kafkascope.metrics import with_needed

    return with_needed(found)


def looks_beside(options: SniffOptions) -> bool:
    """Whether incidents are counted beside what is shown."""
    wanted = options.metrics is not None or options.display.top
    return bool(options.interfaces) and wanted and not options.display.incidents


def _check_api(name: str) -> None:
    known = COLUMNS["api"].words
    if name.lower() not in map(str.lower, known):
        from kafkascope.reports.columns.nearest import near_ones

        raise WrongUse(f"--api {name}: there is no such API{near_ones(name, known)}")


def _shown(options: SniffOptions) -> EngineOptions:
    """What is needed of what is shown; the parts of `SniffOptions` that do not go together are refused."""
    display, filters = options.display, options.filters
    least = _least(options)
    if options.live.write_to is not None:
        _check_writing(options)
        if not options.interfaces:
            return _whole(least)
    if display.alerts and not display.incidents:
        raise WrongUse("--alert tells of incidents: it goes with --incidents")
    if options.interfaces:  # what is told of them at the end
        least = replace(least, tables=frozenset({"exchanges"}), exchange_columns=SEEN_COLUMNS)
    if display.top and (display.incidents or display.groups or display.stats_s is not None):
        raise WrongUse("--top is a screen of its own: it does not go with --groups, --incidents or --stats")
    if display.tables is not None:
        if options.interfaces and is_uri(display.tables):
            raise WrongUse(f"--tables {told(display.tables)}: tables of an interface go to a local directory only")
        return _of_tables(least, display, filters)
    if display.stats_s is not None and (display.incidents or display.groups):
        raise WrongUse("--stats counts exchanges: --incidents and --groups are told by themselves")
    if display.incidents:
        return _of_incidents(least, display, filters)
    if display.groups:
        return _of_groups(least, display, filters)
    if display.stats_s is not None:
        return _of_stats(least, display, filters)
    if display.top:
        return _of_top(least, options)
    return _of_exchanges(least, display, filters)


def _least(options: SniffOptions) -> EngineOptions:
    """What is asked whatever is shown, and nothing to show."""
    return EngineOptions(
        tables=frozenset(),
        exchange_columns=frozenset(),
        session=SessionOptions(
            ports=options.ports, decode_as=options.decode_as, key_logs=options.key_logs, limits=options.limits
        ),
        reveal_secrets=options.show_secrets,
        secret_names=options.secret_names,
        topic_names=options.topic_names,
        pseudonyms=options.pseudonyms,
        window=options.window,
        views=frozenset(),
    )


def _check_writing(options: SniffOptions) -> None:
    if options.interfaces and options.filters != Filters():
        raise WrongUse(
            "-w writes all packets of an interface: leave filters out, and then take what matches out of FILE: "
            "sniff -r FILE ... -w OUT"
        )
    if not options.interfaces and replace(options.display, colour=False) != Display():
        raise WrongUse("-w of files writes packets instead of lines: options that show do not go with it")


def _of_tables(least: EngineOptions, display: Display, filters: Filters) -> EngineOptions:
    rest = replace(display, tables=None, every_s=EVERY_S, records=False, colour=False)
    if filters != Filters() or rest != Display():
        raise WrongUse(
            "--tables has all exchanges, as tables: of options that choose or show only --records goes with it "
            "(`kafkascope analyze FILE -o OUT --filter EXPR` chooses)"
        )
    return _whole(least, ALL_TABLES if display.records else WITHOUT_RECORDS)


def _of_incidents(least: EngineOptions, display: Display, filters: Filters) -> EngineOptions:
    if filters != Filters() or display.style not in (LINES, JSON) or display.records or display.groups:
        raise WrongUse("--incidents shows what broke, not exchanges: of other options only --json and -c go with it")
    return _whole(least)


def _of_groups(least: EngineOptions, display: Display, filters: Filters) -> EngineOptions:
    if filters != Filters(groups=filters.groups) or display.style not in (LINES, JSON) or display.records:
        raise WrongUse("--groups shows groups, not exchanges: of other options only --group, --json and -c go with it")
    from kafkascope.watching import VIEWS

    return least.with_views_at_once(VIEWS)


def _of_stats(least: EngineOptions, display: Display, filters: Filters) -> EngineOptions:
    if display.style not in (LINES, JSON) or display.records:
        raise WrongUse("--stats counts exchanges: of options that show them only --json, -c and filters go with it")
    from kafkascope.interval_watch import BY, NEEDED

    if display.stats_by not in BY:
        raise WrongUse(f"--stats {display.stats_by},...: exchanges are counted by one of {', '.join(BY)}")
    needed = NEEDED | frozenset(BY[display.stats_by].field.columns) | filters.columns() | SEEN_COLUMNS | {"connection"}
    return replace(least, tables=frozenset({"exchanges"}), exchange_columns=needed)


def _of_top(least: EngineOptions, options: SniffOptions) -> EngineOptions:
    display = options.display
    if not options.interfaces and options.files != ("-",):
        raise WrongUse("--top goes with an interface or standard input (-r -); of files `kafkascope analyze` tells")
    if options.filters != Filters() or display.style != LINES or display.records or display.limit is not None:
        raise WrongUse("--top shows a screen, not exchanges: options that choose or show these do not go with it")
    from kafkascope.top import counts, terminal

    if not terminal.is_there(keys_on_input=bool(options.interfaces)):
        raise WrongUse("--top needs a terminal, for keys and on standard output and error: see --stats for lines")
    return counts.with_needed(least)


def _of_exchanges(least: EngineOptions, display: Display, filters: Filters) -> EngineOptions:
    _check_columns(display.fields)
    if display.style == FIELDS and display.records:
        raise WrongUse(
            "--fields shows columns of the exchanges table; for records use --json --records, or no --fields"
        )
    return replace(
        least,
        tables=frozenset({"exchanges", "records"} if display.records else {"exchanges"}),
        exchange_columns=_columns_of(display)
        | filters.columns()
        | {"connection", "number"}
        | (least.exchange_columns or set()),
    )


def _check_columns(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in KNOWN_COLUMNS]
    if unknown:
        from kafkascope.reports.columns.nearest import near_ones

        near = near_ones(unknown[0], KNOWN_COLUMNS) if unknown[0] else ""
        wrong = f"there is no column {unknown[0]!r}{near}" if unknown[0] else "it has a comma too many"
        raise WrongUse(f"--fields: {wrong}; columns are {', '.join(KNOWN_COLUMNS)}")


def _columns_of(display: Display) -> frozenset[str]:
    """Columns that a style shows."""
    if display.style == FIELDS:
        return frozenset(display.fields)
    if display.style == JSON:
        return frozenset(KNOWN_COLUMNS)
    if display.style == TREE:
        return frozenset(KNOWN_COLUMNS) | {field.name for field in FRAMES}
    shown = SHOWN | {"group_id", "topics"}  # groups: for `Seen`
    return shown | SHOWN_BEHIND if display.style == VERBOSE else shown


def _whole(options: EngineOptions, tables: frozenset[str] = WITHOUT_RECORDS) -> EngineOptions:
    """The same for all that can be known."""
    return replace(options, tables=tables, exchange_columns=None, views=all_views())
