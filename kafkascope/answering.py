"""What can be asked of a capture's tables, wherever they lie: one group, latencies, errors, lag, throughput."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.dataframes import to_frame
from kafkascope.decoders.characters import safe_text
from kafkascope.figures import Answer, plotly_needed
from kafkascope.filters.expressions import Expression, columns
from kafkascope.filters.fields import ENDS
from kafkascope.filters.of_captures import passing_of, with_ends
from kafkascope.groups import Group
from kafkascope.one_exchange import DecodedExchange
from kafkascope.packets import NoSuchPacketError
from kafkascope.reports.answers import coverage, progress
from kafkascope.reports.answers.clients import clients
from kafkascope.reports.answers.groups import GroupLimits, groups
from kafkascope.reports.answers.incident_timelines import IncidentTimeline, timelines
from kafkascope.reports.answers.incidents import grave, nothing_wrong
from kafkascope.reports.answers.topology import topology
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.order import ordered
from kafkascope.reports.columns.remarks import filter_text
from kafkascope.reports.columns.shown import shown_html, shown_text
from kafkascope.reports.columns.words import nanoseconds
from kafkascope.reports.incidents.incident import Incident, incident_of
from kafkascope.reports.measures.error_histogram import errors_histogram
from kafkascope.reports.measures.latency.counts import latency
from kafkascope.reports.measures.summary import not_taken_note
from kafkascope.reports.measures.throughput import throughput
from kafkascope.reports.show.explanation import explain_incident
from kafkascope.reports.show.incident_lines import lines as incident_lines
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, ASKED, EXCHANGES, MEANING, OF_EXCHANGES
from kafkascope.sniffer.columns import Bool

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from kafkascope.again import FilesAgain

Of = TypeVar("Of", bound=type)
_WHOLE = ("lag", "topology")  # methods that give a table as it is
_NO_FILES = "this capture came from a pipe, or is what an analysis left"
_GROUPS_NAMED = 20
_FINDINGS_SHOWN, _GROUPS_SHOWN = 10, 10
_COLOURS: dict[str, str] = {Severity.CRITICAL: "#c9252d", Severity.WARNING: "#a35c00"}


def columns_told(schemas: Mapping[str, pa.Schema]) -> Callable[[Of], Of]:
    """Let ``help`` tell of each attribute that is a table, whole, its columns with their meanings and units."""

    def told(of: Of) -> Of:
        for name, schema in schemas.items():
            member = vars(of).get(name)
            if isinstance(member, property | cached_property) or (member is not None and name in _WHOLE):
                columns = "".join(f"\n- {one.name}: {one.metadata[MEANING].decode()}" for one in schema)
                member.__doc__ = f"{cleandoc(member.__doc__ or '')}\n\nColumns, times in UTC:\n{columns}\n"
        return of

    return told


@dataclass(frozen=True, slots=True)
class ShownIncident:
    """An incident as a notebook shows it; its parts are in ``incident``."""

    incident: Incident
    _around: Callable[[], IncidentTimeline] = field(repr=False, compare=False)

    def timeline(self) -> Figure:
        """What happened around it on one axis of time: evidence, brokers, connections, groups, latency and lag.

        Raises ModuleNotFoundError without plotly.
        """
        with plotly_needed():
            from kafkascope.reports.show.figures.incident import timeline

        return timeline(self.incident, self._around())

    def explain(self) -> str:
        """What broke, what it cost, how one knows, what to do, in words."""
        return explain_incident(self.incident)

    def __repr__(self) -> str:
        return self.explain()


@columns_told(ALL_SCHEMAS | ASKED)
class Answering(ABC):
    """Questions to a capture, answered out of its tables as pandas DataFrames."""

    def __init__(self, summary: dict[str, Any], source: str) -> None:
        """summary: counts over all tables. source: what was read, as it may be told."""
        self.summary = summary
        self.source = source

    @abstractmethod
    def arrow(self, name: str, where: pc.Expression | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """One table with its Arrow schema, without a copy; KeyError if it is not there.

        With where, only the rows for which it holds; with columns, only these.

        >>> polars.from_arrow(cap.arrow("exchanges"))
        """

    def group(self, group_id: str) -> Group:
        """One group; KeyError if the capture says nothing of it."""
        mine = pc.field("group_id") == group_id
        rebalances = ordered("rebalances", self.arrow("rebalances", mine))
        events = ordered("group_events", self.arrow("group_events", mine))
        if not rebalances.num_rows and not events.num_rows:
            named = [shown_text(name) for name in self._group_ids()[:_GROUPS_NAMED]]
            raise KeyError(f"{shown_text(group_id)}: groups of the capture are {named}")
        findings = ordered("findings", self.arrow("findings", pc.field("subject") == f"group {group_id}"))
        return Group(group_id, rebalances, events, findings)

    def incident(self, rank: int) -> ShownIncident:
        """One incident by its rank, 1 for what to look at first; IndexError if there is none."""
        rows = numbered(self.arrow("incidents", pc.field("rank") == rank)).to_pylist()
        if not rows:
            raise IndexError(f"incident {rank}: the capture has {len(self.arrow('incidents', columns=['rank']))}")
        one = incident_of(rows[0])
        return ShownIncident(one, lambda: self._around(one))

    def _around(self, one: Incident) -> IncidentTimeline:
        names = ("rebalances", "group_events", "lag", "connections", "silences", "cluster_events", "latency")
        tables = self.datasets(*names)
        of_groups = groups(tables.get("rebalances"), tables.get("group_events"), GroupLimits())
        begin, end = (nanoseconds(self.summary.get(name)) or one.started for name in ("first", "last"))
        [around] = timelines([one], tables, of_groups, progress.lag(tables.get("lag"), end), begin, end)
        return around

    @cached_property
    def clients(self) -> Answer:
        """Clients: what each is, how it is set as far as the wire shows it, what it does, how it fares.

        LookupError of what an analysis with a filter left: it lacks exchanges of which this is made.
        """
        tables = self._needed("connections", "exchanges", "errors", "error_histogram", "batches", "partitions")
        return Answer.of("clients", to_frame(clients(tables)))

    def topology(self) -> Answer:
        """Who speaks with whom: bytes and records by client, broker and topic, the most bytes first.

        LookupError as of `clients`.
        """
        tables = self._needed("connections", "batches", "partitions")
        return Answer.of("topology", to_frame(topology(tables)))

    def latency(self, by: str | Sequence[str] = ("api", "part"), part: str | None = None) -> Answer:
        """Percentiles of durations, grouped at will; the figure is one over time if ``from`` is among by.

        by: any of api, api_version, broker, client_id, client, topic, acks, part (what the time was spent on) and from
        (begin of a span). Without part among by it is about one: the one given, else the total.
        Columns: those of by, count (exchanges), and in milliseconds sum_ms, p50, p90, p99, p99.9 (within 1 %) and max.
        """
        return Answer.of("latency", to_frame(latency(self.arrow("latency"), by, part)))

    def throughput(self, by: str | Sequence[str] = ("topic", "direction")) -> Answer:
        """What was produced and fetched, grouped at will, the most bytes first; the figure as with `latency`.

        by: any of topic, client_id, client, direction, codec and from (begin of a span).
        Columns: those of by, requests, empty (fetches that brought nothing), batches, single_record_batches, records,
        bytes (as they travel), bytes_uncompressed, records_per_batch, bytes_per_batch, compression_ratio (uncompressed
        to compressed), empty_share (of requests), and with from bytes_per_second. With codec there are no requests.
        """
        return Answer.of("throughput", to_frame(throughput(self.arrow("throughput"), by)))

    def errors_histogram(self, by: str | Sequence[str] = ("api", "error")) -> Answer:
        """Errors counted, grouped at will, trouble before what is ordinary; the figure is one over time with ``at``.

        by: any of api, error, code, topic, partition, group_id, member_id, broker, client_id and at (begin of a span).
        Columns: those of by, count, trouble (those that are not ordinary), first and last (times), and with error among
        by retriable, meaning and advice.
        """
        return Answer.of("error_histogram", to_frame(errors_histogram(self.arrow("error_histogram"), by)))

    def lag(self, group_id: str | None = None) -> Answer:
        """What groups (or one) had committed and fetched against where partitions ended, in spans of time."""
        where = None if group_id is None else pc.field("group_id") == group_id
        return Answer.of("lag", to_frame(ordered("lag", self.arrow("lag", where))))

    def packet(self, n: int) -> list[DecodedExchange]:
        """The exchanges whose request or response packet n of the capture is part of; none if it tells nothing new.

        The files are read once more, up to it. Raises ``packets.NoSuchPacketError``, a LookupError, if there is no such
        packet, or it carries nothing, or, with a filter, none of these exchanges is in the tables;
        ``sniffer.sources.SourceError`` if the files are not what they were.
        """
        files = self._again()
        if files is None:
            raise NoSuchPacketError(f"packets are looked for in files; {_NO_FILES}")
        found = self.chosen(files.packet(n).exchanges, EXCHANGES.names)
        if not found.num_rows and self._filtered is not None:
            raise NoSuchPacketError(f"packet {n} is part of no exchange in the tables; {self._filtered}")
        return [self._decoded(row) for _, row in to_frame(ordered("exchanges", found)).iterrows()]

    def _decoded(self, row: pd.Series) -> DecodedExchange:
        """The exchange of a row of the exchanges table."""
        records = None
        if self._has("records"):
            of = (pc.field("connection") == row["connection"]) & (pc.field("number") == row["number"])
            records = to_frame(ordered("records", self.arrow("records", of)))
        return DecodedExchange.of(row, records, self._frames)

    def _frames(self, connection: int, number: int) -> Mapping[str, bytes | None]:
        files = self._again()
        if files is None:
            raise LookupError(f"bytes are read out of files; {_NO_FILES}")
        return files.frames(connection, number)

    def chosen(self, wanted: Expression, names: Sequence[str]) -> pa.Table:
        """Some columns of the exchanges that pass, as they were read: few are in memory at once, but for those."""
        found = [EXCHANGES.empty_table().select(names)]
        for batch in self.dataset("exchanges").to_batches():
            rows = pa.Table.from_batches([batch])
            passing = self._passing_of(rows, wanted)
            found.append(rows.select(names).filter(pa.array(passing)))
        return pa.concat_tables(found)

    def _passing_of(self, rows: pa.Table, wanted: Expression) -> Bool:
        if not columns(wanted).isdisjoint(ENDS):
            of = pc.field("connection").isin(pc.unique(rows["connection"]))
            rows = with_ends(rows, self.arrow("connections", of))
        return passing_of(wanted, rows, self._topic_names())

    def dataset(self, name: str) -> ds.Dataset:
        """One table for what reads Arrow part by part, and only rows and columns that it needs; KeyError as `arrow`.

        >>> polars.scan_pyarrow_dataset(cap.dataset("exchanges"))
        >>> exchanges = cap.dataset("exchanges")
        >>> duckdb.sql("select api, count(*) from exchanges group by api")
        """
        return ds.dataset(self.arrow(name))

    def datasets(self, *names: str) -> dict[str, ds.Dataset]:
        """Those of some tables that are there, by name."""
        return {name: self.dataset(name) for name in names if self._has(name)}

    def of_all(self, *names: str) -> dict[str, ds.Dataset]:
        """Those of some tables that are there with all rows of the capture, by name, whatever a filter left out."""
        partial = OF_EXCHANGES if self._filtered is not None else ()
        return self.datasets(*(name for name in names if name not in partial))

    @property
    def _filtered(self) -> str | None:
        """What a filter left in tables, in words; None without one."""
        return filter_text(**self.summary["filter"]) if "filter" in self.summary else None

    def _needed(self, *names: str) -> dict[str, ds.Dataset]:
        """Those of some tables that are there, with all rows; raises LookupError where a filter left some out."""
        found = self.of_all(*names)
        if self._filtered is not None and any(self._has(name) and name not in found for name in names):
            raise LookupError(f"{self._filtered}; this one needs all, which an analysis without a filter keeps")
        return found

    def _group_ids(self) -> list[str]:
        named = [
            self.arrow(name, columns=["group_id"])["group_id"].unique().to_pylist()
            for name in ("rebalances", "group_events")
        ]
        return sorted({group_id for of_table in named for group_id in of_table if group_id is not None})

    def __repr__(self) -> str:
        lines = [self._headline()]
        if self._has("incidents"):
            rows = numbered(ordered("incidents", self.arrow("incidents"))).to_pylist()
            if not any(row["severity"] != Severity.INFO for row in rows):
                lines.append(shown_text(self._nothing_wrong(rows)))
            for row in rows[:_FINDINGS_SHOWN]:
                lines += incident_lines(incident_of(row), is_over=False)
            lines += [f"and {len(rows) - _FINDINGS_SHOWN:,} more in incidents"] if len(rows) > _FINDINGS_SHOWN else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._headline())}</p>{self._answers_html()}{self._contents_html()}"

    def _headline(self) -> str:
        window = f" ({self.summary['window']['asked_for']})" if "window" in self.summary else ""
        told = " · ".join([safe_text(self.source) + window, *coverage.headline(self.summary)])
        told += "" if self._filtered is None else f"; {self._filtered}"
        return told + not_taken_note(self.summary)

    @abstractmethod
    def _contents_html(self) -> str:
        """What is in it, as HTML."""

    def _answers_html(self) -> str:
        """The weightiest findings, and the groups that rebalanced most, as HTML; nothing where there are none."""
        found = self._incidents_html() if self._has("incidents") else ""
        found += self._findings_html() if self._has("findings") else ""
        return found + (self._groups_html() if self._has("rebalances") else "")

    @abstractmethod
    def _has(self, name: str) -> bool:
        """Whether a table is there."""

    def _topic_names(self) -> Mapping[str, str]:
        """Names of topics that bodies have by their id alone, as far as they are known."""
        return {}

    def _again(self) -> FilesAgain | None:
        """The files that were read; None if they cannot be read again."""
        return None

    def _incidents_html(self) -> str:
        table = ordered("incidents", self.arrow("incidents"))
        rows = table.slice(0, _FINDINGS_SHOWN).select(["severity", "headline", "advice"]).to_pylist()
        if not any(row["severity"] != Severity.INFO for row in rows):
            return f"<p>{shown_html(self._nothing_wrong(table.to_pylist()))}</p>" + _listed_html(rows)
        return _listed_html(rows)

    def _nothing_wrong(self, incidents: Sequence[Mapping[str, Any]]) -> str:
        found = grave(self.arrow("findings"), incidents) if self._has("findings") else ()
        return nothing_wrong(self.summary, found)

    def _findings_html(self) -> str:
        rows = ordered("findings", self.arrow("findings"))
        shown = rows.slice(0, _FINDINGS_SHOWN).select(["severity", "title", "advice"]).to_pylist()
        if not shown:
            return ""
        more = len(rows) - len(shown)
        return _listed_html([row | {"headline": row["title"]} for row in shown]) + (
            f"<p>and {more} more in <code>findings</code></p>" if more else ""
        )

    def _groups_html(self) -> str:
        counts = self.arrow("rebalances", columns=["group_id"])["group_id"].value_counts().to_pylist()
        if not counts:
            return ""
        counts.sort(key=lambda one: (-one["counts"], one["values"]))
        named = ", ".join(f"{shown_html(one['values'])} ({one['counts']})" for one in counts[:_GROUPS_SHOWN])
        more = len(counts) - _GROUPS_SHOWN
        return f"<p>rebalances of groups: {named}{f' and {more} groups more' if more > 0 else ''}</p>"


def _listed_html(rows: Sequence[Mapping[str, str]]) -> str:
    """What is wrong and what to do, row by row."""
    items = "".join(
        f"<li><b style='color:{_COLOURS.get(row['severity'], 'inherit')}'>{html.escape(row['severity'])}</b> "
        f"{shown_html(row['headline'])}<br><small>{shown_html(row['advice'] or '')}</small></li>"
        for row in rows
    )
    return f"<ol>{items}</ol>" if rows else ""


def why_not(name: str, tables: Iterable[str]) -> str:
    """Why a capture that has some tables has none of this name."""
    if name == "records":
        return "read(..., records=True) makes it"
    if name in ALL_SCHEMAS:
        return "read(..., answers=False) does not make it"
    return f"tables are {', '.join(tables)}"
