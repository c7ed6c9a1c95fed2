"""What is asked of `sniff`, and what an engine has to give for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.decoders.schema import apis
from kafkascope.engine import EngineOptions
from kafkascope.reports.vocabulary.tables import EXCHANGES
from kafkascope.seen import COLUMNS as SEEN_COLUMNS
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.files import is_stream
from kafkascope.sniffer.sources.live_options import LiveOptions

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms
    from kafkascope.metrics import Place

LINES, VERBOSE, TREE, JSON, FIELDS = "lines", "verbose", "tree", "json", "fields"

# Columns that a line shows; the bodies as JSON are far more work than all of them.
_BODIES = frozenset({"request", "response"})
_LINE_COLUMNS = frozenset(EXCHANGES.names) - _BODIES

# Columns that are more than a column of the exchanges table, for --fields and --json.
_MORE_COLUMNS = ("client", "broker", "topics")


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
    limits: Limits = DEFAULT


def style_of(*, as_json: bool, fields: str | None, tree: bool, verbose: bool) -> str:
    """The one style that the flags ask for."""
    return JSON if as_json else FIELDS if fields else TREE if tree else VERBOSE if verbose else LINES


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
        session=SessionOptions(
            ports=options.ports, decode_as=options.decode_as, key_logs=options.key_logs, limits=options.limits
        ),
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


def _among(values: Any, wanted: Iterable[str]) -> Any:
    return pc.is_in(values, pa.array(sorted(wanted), pa.string()))
