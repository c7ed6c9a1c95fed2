"""The notebook's view of a capture: ``kafkascope.read(...)`` and the tables it gives as pandas DataFrames."""

from __future__ import annotations

import html
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.answering import Answering, why_not
from kafkascope.dataframes import ordered, to_frame
from kafkascope.decoders.characters import safe_text
from kafkascope.decoders.limits import DEFAULT
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.decoders.redaction import checked_names
from kafkascope.engine import ALL_TABLES, WITHOUT_RECORDS, EngineOptions
from kafkascope.reading import Reading
from kafkascope.reports.answers.capture_points import clock_row
from kafkascope.reports.columns.remarks import fault_remark
from kafkascope.reports.columns.shown import shown_html
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import Known
from kafkascope.reports.findings.alike import together
from kafkascope.reports.incidents.rules import NEEDED, conclusions
from kafkascope.reports.measures.progress.rereads import attach_rereads, readers_of
from kafkascope.reports.measures.summary import Summary, capture_name, not_taken_note
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.views.guarded import results
from kafkascope.reports.views.registry import VIEWS, results_of
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR, ISSUE_KINDS
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, CONCLUSIONS, ISSUES, SCHEMAS
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.session import SessionOptions
from kafkascope.spool import Spool


@dataclass(frozen=True, slots=True)
class DecodedExchange:
    """One exchange: its row of the exchanges table, and both bodies decoded (None where there is none)."""

    row: dict[str, Any]
    request: dict[str, Any] | None
    response: dict[str, Any] | None
    records: pd.DataFrame | None = field(repr=False)

    def _repr_html_(self) -> str:
        head = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{shown_html(str(value))}</td></tr>"
            for name, value in self.row.items()
            if value is not None and name not in ("request", "response")
        )
        bodies = "".join(
            f"<details open><summary>{title}</summary><pre>{html.escape(json.dumps(body, indent=2))}</pre></details>"
            for title, body in (("request", self.request), ("response", self.response))
            if body is not None
        )
        return f"<table>{head}</table>{bodies}"


class Rows(Protocol):
    """Where the rows of tables and views are; a spool is one."""

    def table(self, name: str) -> pa.Table:
        """The rows of one table."""

    def issues(self) -> Iterator[Issue]:
        """An issue for each table that lacks rows."""


class Capture(Answering):
    """The tables of a capture. Each is a property: ``cap.exchanges``, ``cap.errors``, and so on.

    They are pandas DataFrames, made when first asked for; ``frame(name)`` has all of ``tables``, ``arrow(name)`` gives
    one as it is.
    """

    def __init__(self, spool: Rows, names: TopicNames, summary: Summary, options: EngineOptions, source: str) -> None:
        """spool: the rows of the tables, and of the views of which answers are made."""
        self._spool = spool
        self._names = names
        self._views = options.views
        self._wanted = options.tables | {*options.results}
        self._results: dict[str, dict[str, pa.Table]] = {}  # by view
        self._late_issues: list[pa.Table] = []
        self._frames: dict[str, pd.DataFrame] = {}
        self._source = source
        self.summary = summary.result()

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that were asked for."""
        return tuple(name for name in ALL_SCHEMAS if name in self._wanted)

    def arrow(self, name: str, where: pc.Expression | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """One table with its Arrow schema, rows as they became complete; KeyError if it was not asked for.

        With where, only the rows for which it holds; with columns, only these.
        """
        table = self._arrow(name)
        table = table if where is None else table.filter(where)
        return table if columns is None else table.select(list(columns))

    def _arrow(self, name: str) -> pa.Table:
        if name not in self._wanted:
            raise KeyError(f"{name}: {why_not(name, self.tables)}")
        if name == "issues":
            return pa.concat_tables([self._spool.table(name), issue_table(self._spool.issues()), *self._late_issues])
        if name in SCHEMAS:
            return self._names.resolve(self._spool.table(name))
        if name in CONCLUSIONS:
            return self._conclusions[name]
        table = self._of_views(name)
        if name == "rebalances" and "lag" in self._wanted:  # known of topics, not of groups
            return attach_rereads(table, self.arrow("rereads"), readers_of(self.arrow("lag")))
        return together(table).findings if name == "findings" else table

    def _of_views(self, name: str) -> pa.Table:
        found = [self._result(view) for view in sorted(self._views) if name in results_of([view])]
        return pa.concat_tables(
            [tables[name] for tables in found if name in tables] or [ALL_SCHEMAS[name].empty_table()]
        )

    @cached_property
    def _conclusions(self) -> dict[str, pa.Table]:
        tables = {name: self.arrow(name) for name in NEEDED} | {"findings": self._of_views("findings")}  # not together
        made = conclusions({name: ds.dataset(table) for name, table in tables.items()}, self.summary)
        self._add_issues(made.pop("issues", ISSUES.empty_table()))
        return made

    def _result(self, view: str) -> dict[str, pa.Table]:
        if view not in self._results:
            rows = self._names.resolve(self._spool.table(view))
            made = results(VIEWS[view](), rows, Known.of(self._names.learned()))
            self._add_issues(made.pop("issues", ISSUES.empty_table()))
            self._results[view] = made
        return self._results[view]

    def _add_issues(self, issues: pa.Table) -> None:
        """Take in what was met when an answer was asked for, and say so if there are faults of ours."""
        if issues.num_rows:
            self._late_issues.append(issues)
            self._frames.pop("issues", None)
        if faults := pc.sum(issues.filter(pc.equal(issues["kind"], INTERNAL_ERROR))["count"]).as_py():
            warnings.warn(fault_remark(faults), stacklevel=2)

    def frame(self, name: str) -> pd.DataFrame:
        """One table as a DataFrame."""
        if name not in self._frames:
            self._frames[name] = to_frame(ordered(name, self.arrow(name)))
        return self._frames[name]

    @property
    def connections(self) -> pd.DataFrame:
        """TCP connections."""
        return self.frame("connections")

    @property
    def tcp_health(self) -> pd.DataFrame:
        """How the packets of connections fared, by sender and span of ten seconds."""
        return self.frame("tcp_health")

    @property
    def exchanges(self) -> pd.DataFrame:
        """Requests with their responses."""
        return self.frame("exchanges")

    @property
    def errors(self) -> pd.DataFrame:
        """Every error code that is not 0, wherever it stood."""
        return self.frame("errors")

    @property
    def partitions(self) -> pd.DataFrame:
        """What fetch and produce said of each partition."""
        return self.frame("partitions")

    @property
    def batches(self) -> pd.DataFrame:
        """Record batches."""
        return self.frame("batches")

    @property
    def records(self) -> pd.DataFrame:
        """Records; only with ``read(..., records=True)``."""
        return self.frame("records")

    @property
    def issues(self) -> pd.DataFrame:
        """Damage and oddities met while reading."""
        return self.frame("issues")

    @property
    def incidents(self) -> pd.DataFrame:
        """What broke, one row for each cause with all that came of it; what to look at first is first."""
        return self.frame("incidents")

    @property
    def silences(self) -> pd.DataFrame:
        """When a broker said nothing on any connection though answers were due."""
        return self.frame("silences")

    @property
    def findings(self) -> pd.DataFrame:
        """Problems with their evidence and what to do, the weightiest first."""
        return self.frame("findings")

    @property
    def group_events(self) -> pd.DataFrame:
        """What happened to groups and their members."""
        return self.frame("group_events")

    @property
    def rebalances(self) -> pd.DataFrame:
        """Each generation or epoch of each group: what set it off, what it cost, who was in it."""
        return self.frame("rebalances")

    @property
    def cluster_events(self) -> pd.DataFrame:
        """What happened to clusters: brokers, leaders, in-sync replicas, controllers, coordinators; who moved when."""
        return self.frame("cluster_events")

    def _has(self, name: str) -> bool:
        return name in self._wanted

    def exchange(self, n: int) -> DecodedExchange:
        """The exchange in row n of ``cap.exchanges``, with its bodies; IndexError if there is none."""
        table = self.exchanges
        if not 0 <= n < len(table):
            raise IndexError(f"exchange {n}: the capture has {len(table)} exchanges, 0 to {len(table) - 1}")
        row = {name: None if pd.isna(value) else value for name, value in table.iloc[n].items()}
        records = None
        if "records" in self._wanted:
            of = self.records
            records = of[(of.connection == row["connection"]) & (of.number == row["number"])].reset_index(drop=True)
        bodies = [json.loads(text) if (text := row[side]) else None for side in ("request", "response")]
        return DecodedExchange({str(k): v for k, v in row.items()}, bodies[0], bodies[1], records)

    def __repr__(self) -> str:
        s, source = self.summary, safe_text(self._source)
        return (
            f"<Capture {source}: {s['packets']} packets, {sum(s['connections'].values())} connections, "
            f"{sum(s['exchanges'].values())} exchanges, {sum(s['errors'].values())} errors, "
            f"{s['first'] or '-'} to {s['last'] or '-'}{not_taken_note(s)}>"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(api['api'])}</td><td>{api['exchanges']}</td><td>{api['errors']}</td>"
            f"<td>{api['latency_ms']['p50']}</td><td>{api['latency_ms']['p99']}</td></tr>"
            for api in self.summary["apis"]
        )
        return (
            f"<p>{html.escape(repr(self)[1:-1])}</p>{self._answers_html()}<table><tr><th>API</th><th>exchanges</th><th>errors</th>"
            f"<th>p50 ms</th><th>p99 ms</th></tr>{rows}</table>"
        )


def _paths(given: str | Path | Iterable[str | Path]) -> list[str]:
    return [str(given)] if isinstance(given, str | Path) else [str(one) for one in given]


def read(
    path: str | Path | Iterable[str | Path],
    records: bool = False,
    spark: Any = None,
    *,
    answers: bool = True,
    ports: Iterable[int] = (),
    decode_as: Iterable[int] = (),
    reveal_secrets: bool = False,
    secret_names: Iterable[str] = (),
    tls_keylog: str | Path | Iterable[str | Path] = (),
    anonymize: str | None = None,
    spool_bytes: int | None = None,
    limits: Mapping[str, int] | None = None,
) -> Any:
    """Read captures (files, directories, globs) into tables.

    In this process by default: a ``Capture`` of pandas DataFrames. With ``spark=session`` a ``SparkCapture`` whose
    tables are Spark DataFrames. Raises ``sniffer.sources.SourceError`` where nothing could be read.

    Answers (findings, rebalances, latency and so on) are made when they are first asked for, of rows that are taken
    while the tables are made. With ``answers=False`` they are not, which takes about half the time.

    secret_names are regular expressions for names of configurations whose values are hidden too, besides those that
    are known (``decoders.redaction.SECRET_NAMES``); ValueError if one is none. reveal_secrets shows all.

    tls_keylog names files with secrets of TLS sessions (SSLKEYLOGFILE), with which what they carry is read; those in
    pcapng files are used anyway.

    anonymize is a key: names, addresses and contents are replaced by pseudonyms, the same ones for the same key.

    Tables wait on disk (in TMPDIR) until they are looked at, and take spool_bytes there at most, else half of what is
    free. Rows that find no room are left out: a warning says so, and an issue ``spool_full``.

    limits are numbers by name, such as ``{"held_bytes": 2 << 30}``: all of them, with what they mean, are those of
    ``decoders.limits.Limits``. One that is reached is an issue. ValueError for one that is none.

    >>> import kafkascope
    >>> cap = kafkascope.read("pcaps/eager-three-joins/capture.pcap")
    >>> cap.exchanges[cap.exchanges.api == "JoinGroup"][["client_id", "api_version", "latency_ms"]]
    """
    paths = _paths(path)
    options = EngineOptions(
        tables=ALL_TABLES if records else WITHOUT_RECORDS,
        session=SessionOptions(
            ports=frozenset(ports),
            decode_as=frozenset(decode_as),
            key_logs=tuple(_paths(tls_keylog)),
            limits=reduce(lambda limits, one: limits.but(*one), (limits or {}).items(), DEFAULT),
        ),
        reveal_secrets=reveal_secrets,
        secret_names=checked_names(secret_names),
        pseudonyms=Pseudonyms(anonymize) if anonymize else None,
    )
    if not answers:
        options = replace(options, views=frozenset())
    if spark is not None:
        from kafkascope.spark import read as read_on_spark

        return read_on_spark(paths, spark=spark, options=options)
    reading = Reading(paths, options)
    spool, summary = Spool(spool_bytes), Summary()
    with reading:
        for batch in reading.batches():
            spool.write(batch.tables)
            summary.observe(batch.tables)
    spool.finish()
    for issue in spool.issues():
        warnings.warn(f"{issue.detail}; effect: {ISSUE_KINDS[issue.kind].weakens}", RuntimeWarning, stacklevel=2)
    summary.observe({"issues": issue_table(spool.issues())})
    summary.packets, summary.copies, summary.ports = reading.packets, reading.copies, options.session.ports
    summary.captures = sorted(capture_name(file.path) for file in reading.capture.files)
    summary.files = reading.capture.captured()
    summary.clocks = [clock_row(clock) for clock in reading.joined.clocks] if reading.joined else []
    summary.rename_topics(reading.topic_names.learned())
    return Capture(spool, reading.topic_names, summary, options, ", ".join(paths))
