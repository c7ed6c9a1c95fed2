"""Exchanges in, tables out: what is asked for and no more. The state kept is what later exchanges need."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.reports.columns.faults import all_or_nothing, isolated
from kafkascope.reports.columns.text import address
from kafkascope.reports.columns.topics import ID_PREFIX, NO_ID, TopicNames
from kafkascope.reports.rows import tape_rows
from kafkascope.reports.rows.bodies import Bodies, BodyDecoder, some
from kafkascope.reports.rows.bodies_as_text import BodyText, BodyTexts
from kafkascope.reports.rows.connection_table import (
    Introduction,
    connection_table,
    introduce,
    introduce_bare,
    issue_table,
)
from kafkascope.reports.rows.damage import SKIPPED, Damage, DamageReader
from kafkascope.reports.rows.error_table import error_table
from kafkascope.reports.rows.exchange_table import (
    TEXT_COLUMNS,
    ExchangeColumns,
    api_names,
    client_ids,
    exchange_table,
    needs_bodies,
)
from kafkascope.reports.rows.frames import FRAMES, with_frames
from kafkascope.reports.rows.health_table import health_table
from kafkascope.reports.rows.partition_tables import PartitionTables
from kafkascope.reports.rows.partitions import TopicCodes
from kafkascope.reports.rows.records_apart import FIELDS_WITH_RECORDS
from kafkascope.reports.rows.request_terms import RequestTerms
from kafkascope.reports.rows.roles import TOPIC, TOPIC_ID
from kafkascope.reports.rows.told_offsets import told_offsets
from kafkascope.reports.rows.topic_mentions import TOPICS, topic_mentions
from kafkascope.reports.vocabulary.issue_kinds import BODIES_SKIPPED, INTERNAL_ERROR, LIMITED, OF_RECORDS
from kafkascope.reports.vocabulary.tables import CONNECTIONS, EXCHANGES
from kafkascope.sniffer.columns import Bool, ConnectionRow, Exchanges
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.origins import NO_ORIGINS, Origins
from kafkascope.sniffer.session import SideSpans

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms

BYTES_AT_ONCE = 32_000_000
"""Bodies of more bytes are worked off in parts, so that their tapes and texts take a bounded amount of memory."""

BULKY = (apis.PRODUCE, apis.FETCH, apis.SHARE_FETCH)
"""APIs whose bodies carry records: of all others bodies are few and small, and later messages need them."""

AHEAD = "exchanges_ahead"
"""The name under which exchanges come before anything else that is of them, if that is wanted."""

_MADE_WITH_RECORDS = frozenset({"partitions", "batches", "ready"})
_FROM_PARTITIONS = _MADE_WITH_RECORDS | {"records"}
_FROM_BODIES = _FROM_PARTITIONS | {"errors", "terms", "told_offsets"}


class Endpoint(Protocol):
    """The broker's end of a connection."""

    @property
    def broker(self) -> str:
        """Its address."""

    @property
    def broker_port(self) -> int:
        """Its port."""


class TableBuilder:
    """Makes the tables of exchanges as they complete. What comes out does not depend on how they were cut into batches.

    Among the tables may be ``terms`` and ``ready``, which views need, and among exchange_columns ``topics`` (those that
    an exchange names) and ``request_frame`` (the bytes of both sides): columns behind those of the schema.
    With `AHEAD` among the tables, exchanges come under this name too, in a piece of their own before their other rows.
    `topic_names` and `issues` grow as exchanges are observed. Topics are written by id until their name is known: the
    driver resolves them again when it has seen all (`TopicNames.resolve`).
    """

    def __init__(
        self,
        wanted: frozenset[str],
        *,
        exchange_columns: frozenset[str] | None = None,
        reveal_secrets: bool = False,
        secret_names: tuple[str, ...] = (),
        origins: Origins = NO_ORIGINS,
        records_here: int | None = None,
        pseudonyms: Pseudonyms | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        """records_here: as `PartitionTables` has it; fields come as a table with the name `FIELDS_WITH_RECORDS`."""
        self._origins = origins
        self._pseudonyms = pseudonyms
        self._limits = limits
        self._anonymizing: BodyDecoder | None = None
        columns = frozenset(EXCHANGES.names) if exchange_columns is None else exchange_columns
        self._wanted = wanted
        self._columns = columns if "exchanges" in wanted else frozenset[str]()
        self._topics = TOPICS.name in self._columns
        self._frames = FRAMES[0].name in self._columns
        self._needs_bodies = needs_bodies(self._columns) or self._topics or bool(wanted & _FROM_BODIES)
        self._decoder = BodyDecoder(limits) if self._needs_bodies or "connections" in wanted else None
        self._damage = DamageReader(limits, keeps_parts=bool(self._columns & TEXT_COLUMNS))
        self._reveal_secrets = reveal_secrets
        self._texts = BodyTexts(reveal_secrets=reveal_secrets, secret_names=secret_names, limits=limits)
        self._partitions = PartitionTables(
            wanted & _FROM_PARTITIONS,
            origins,
            reveal_secrets=reveal_secrets,
            secret_names=secret_names,
            records_here=records_here,
            pseudonyms=pseudonyms,
            limits=limits,
        )
        self._hands_on: Callable[[], bool] = lambda: False
        self._terms = RequestTerms(self._decoder.programs) if self._decoder and "terms" in wanted else None
        self._topic_codes = TopicCodes()
        self._introductions: dict[int, Introduction] = {}
        self.topic_names = TopicNames()
        self.issues = IssueLog()
        self.remarkable = (
            IssueLog()
        )  # faults of ours, limits that were reached, damaged records: of all connections together

    def observe(
        self, exchanges: Exchanges, endpoints: Mapping[int, Endpoint], *, hurried: bool = False
    ) -> Iterator[dict[str, pa.Table]]:
        """The rows of these exchanges, by table; a table without rows is absent.

        hurried: leave out what bodies of `BULKY` tell, which is most of the work; such exchanges are counted in issues.

        They come in pieces, so that what is held at once is bounded, and must all be taken. The rows of an exchange are
        in one piece, but for its records: these are in pieces of their own, in order of the exchanges, behind the piece
        with their exchanges, or before it if this has tables that are made while records are read.
        """
        self._partitions.hands_on = self._hands_on()  # at once for all, as parts may be tried again
        if self._pseudonyms is not None and len(exchanges.number):
            from kafkascope.reports.rows.anonymous import anonymous

            self._anonymizing = self._anonymizing or self._decoder or BodyDecoder(self._limits)
            exchanges = anonymous(exchanges, self._anonymizing, self._pseudonyms)
        for part in _in_parts(exchanges) if len(exchanges.number) else ():
            yield from self._guarded(part, endpoints, hurried)

    def hand_on_records(self, when: Callable[[], bool]) -> None:
        """Give fields with records in the place of these, as long as that is so when exchanges are observed.

        Only where of batches nothing else is wanted, and there are no pseudonyms: see `PartitionTables.hands_on`.
        """
        self._hands_on = when

    def end_connections(self, rows: Sequence[ConnectionRow], issues: Sequence[Issue] = ()) -> dict[str, pa.Table]:
        """The rows of connections that have ended, and of the issues given and those met in their bodies."""
        if self._pseudonyms is not None:
            from kafkascope.reports.rows.anonymous import anonymous_connection

            rows = [anonymous_connection(row, self._pseudonyms) for row in rows]
        log = IssueLog(issues)
        for row in rows:
            for issue in self.issues.take(row.connection):
                log.add(issue)

        def without(rows: Sequence[ConnectionRow], said: str) -> list[pa.Table]:
            for row in rows:
                issue = Issue(INTERNAL_ERROR, f"connection: {said}", row.connection, row.first_seen, row.connection)
                log.add(issue)
                self._note(issue)
            return [CONNECTIONS.empty_table()]

        ended = [row.connection for row in rows]
        tables = {}
        if "connections" in self._wanted and rows:
            introductions, origins = self._introductions, self._origins
            table = isolated(rows, lambda some: [connection_table(some, introductions, log, origins)], without)
            tables["connections"] = pa.concat_tables(table)
        if "issues" in self._wanted and len(log):
            tables["issues"] = issue_table(log, self._origins)
        for connection in ended:
            self._introductions.pop(connection, None)
        self._damage.forget(ended)
        self._partitions.forget(ended)
        self._texts.forget(ended)
        return tables

    def end_spans(self, spans: SideSpans) -> dict[str, pa.Table]:
        """The rows of spans of connections that are over."""
        if "tcp_health" not in self._wanted or not len(spans.rows):
            return {}
        return {"tcp_health": health_table(spans, self._origins)}

    def _count(self, issue: Issue) -> None:
        self.issues.add(issue)
        if issue.kind == INTERNAL_ERROR or issue.kind in LIMITED | OF_RECORDS:
            self._note(issue)

    def _note(self, issue: Issue) -> None:
        self.remarkable.add(dataclasses.replace(issue, connection=None))

    def _guarded(
        self, exchanges: Exchanges, endpoints: Mapping[int, Endpoint], hurried: bool
    ) -> Iterator[dict[str, pa.Table]]:
        """The tables of the exchanges; those on which something is raised have but a row without what bodies tell.

        What is tried again, in parts, gives the rows again that it gave before something was raised: they are counted.
        """
        given = Counter[str]()  # rows by table
        done = Counter[str]()  # those of parts that are through
        now = Counter[str]()  # and those of the part in hand, as far as it came

        def fresh(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
            found = {}
            for name, table in tables.items():
                if name == AHEAD:  # rows that come again are of these again
                    found[name] = table
                    continue
                known = min(max(given[name] - now[name], 0), len(table))
                now[name] += len(table)
                given[name] = max(given[name], now[name])
                if known < len(table):
                    found[name] = table.slice(known)
            return found

        def observe(places: Sequence[int]) -> Iterator[dict[str, pa.Table]]:
            nonlocal done, now
            now = done.copy()
            issues = IssueLog()
            with all_or_nothing(self):
                of_these = some(exchanges, places[0], places[-1] + 1)
                for tables in self._observe(of_these, endpoints, issues, hurried):
                    named = {
                        name: self.topic_names.resolve(table) for name, table in tables.items() if table is not None
                    }
                    if rows := fresh(named):
                        yield rows
            for issue in issues:
                self._count(issue)
            done = now

        def without(places: Sequence[int], said: str) -> Iterator[dict[str, pa.Table]]:
            nonlocal done
            whole = now["exchanges"] - done["exchanges"]  # these lack at most some of their records
            first = min(whole, len(places) - 1)
            rows = self._without_bodies(some(exchanges, places[first], places[-1] + 1), said)
            if whole < len(places) and rows:
                yield fresh(rows)
            done = now

        yield from isolated(range(len(exchanges.number)), observe, without)

    def _observe(
        self, exchanges: Exchanges, endpoints: Mapping[int, Endpoint], issues: IssueLog, hurried: bool
    ) -> Iterator[dict[str, pa.Table | None]]:
        if self._decoder is not None:
            introduce_bare(exchanges, self._introductions)
        if self._decoder is not None and self._needs_bodies:
            wanted = ~np.isin(exchanges.api_key, BULKY) if hurried else None
            for bodies in self._decoder.decode(exchanges, wanted):
                if count := int(np.count_nonzero(bodies.skipped)):
                    issues.add(Issue(BODIES_SKIPPED, f"Produce, Fetch, ShareFetch: {SKIPPED}", count=count))
                yield from self._of_bodies(bodies, endpoints, issues)
            return
        if self._decoder is not None:
            introducing = _introducing(exchanges)
            for bodies in self._decoder.decode(exchanges, introducing) if introducing.any() else ():
                introduce(bodies, _introducing(bodies.exchanges), self._introductions)
        if "exchanges" in self._wanted:
            api, client_id = api_names(exchanges), client_ids(exchanges)
            columns = ExchangeColumns(exchanges, api, client_id, None, None, None, self._origins)
            table = exchange_table(columns, self._columns)
            yield {"exchanges": with_frames(table, exchanges) if self._frames else table}

    def _without_bodies(self, exchanges: Exchanges, said: str) -> dict[str, pa.Table]:
        """The rows of exchanges with what headers tell, and an issue each, of which `fault` said it."""
        count = len(exchanges.number)
        damage = Damage(pa.nulls(count, pa.string()), [])
        absent = (exchanges.request_start < 0).tolist()
        damage.add_faults(exchanges, {(place, absent[place]): said for place in range(count)})
        for issue in damage.issues:
            self._count(issue)
        if "exchanges" not in self._wanted:
            return {}
        bodies = None if self._decoder is None else next(self._decoder.decode(exchanges, np.zeros(count, bool)))
        nothing = pa.nulls(count, pa.string())
        columns = ExchangeColumns(
            exchanges,
            api_names(exchanges),
            client_ids(exchanges),
            bodies,
            damage,
            BodyText(nothing, nothing, nothing, {}),
            self._origins,
        )
        table = exchange_table(columns, self._columns)
        if self._topics:
            table = table.append_column(TOPICS, pa.array([[]] * count, TOPICS.type))
        if self._frames:
            table = with_frames(table, exchanges)
        return {name: table for name in ("exchanges", AHEAD) if name in self._wanted}

    def _of_bodies(
        self, bodies: Bodies, endpoints: Mapping[int, Endpoint], issues: IssueLog
    ) -> Iterator[dict[str, pa.Table | None]]:
        exchanges = bodies.exchanges
        api, client_id = api_names(exchanges), client_ids(exchanges)
        if "connections" in self._wanted:
            introduce(bodies, _introducing(exchanges), self._introductions)
        damage = self._damage.read(bodies)
        tables: dict[str, pa.Table | None] = {}  # None: no rows
        if "exchanges" in self._wanted:
            text = self._texts.write(bodies, damage, issues) if self._columns & TEXT_COLUMNS else None
            if text is not None:
                damage.add_faults(exchanges, text.faults)
            made_from = ExchangeColumns(exchanges, api, client_id, bodies, damage, text, self._origins)
            table = exchange_table(made_from, self._columns)
            del text, made_from
            self._learn_topics(bodies)
            if self._topics:
                table = table.append_column(TOPICS, topic_mentions(bodies, self.topic_names))
            if self._frames:
                table = with_frames(table, exchanges)
            tables["exchanges"] = table
            if AHEAD in self._wanted:
                yield {AHEAD: table}
        else:
            self._learn_topics(bodies)
        for issue in damage.issues:
            issues.add(issue)
        if "errors" in self._wanted:
            brokers = {connection: address(end.broker, end.broker_port) for connection, end in endpoints.items()}
            tables["errors"] = error_table(
                bodies, api, client_id, brokers, self._origins, reveal_secrets=self._reveal_secrets
            )
        if self._terms is not None:
            tables["terms"] = self._terms.table(bodies)
        if "told_offsets" in self._wanted:
            tables["told_offsets"] = told_offsets(bodies, api, client_id, self._topic_codes)
        if not self._wanted & _MADE_WITH_RECORDS:
            yield tables
            tables = {}
        for more in self._partitions.observe(bodies, api, client_id, self.topic_names, issues):
            if "records" in more or FIELDS_WITH_RECORDS in more:
                yield more
            else:
                tables |= more
        yield tables

    def _learn_topics(self, bodies: Bodies) -> None:
        for tape, first in (
            (bodies.requests, bodies.first_in_requests),
            (bodies.responses, bodies.first_in_responses),
        ):
            frames = np.flatnonzero((first[:, TOPIC] >= 0) & (first[:, TOPIC_ID] >= 0))
            if not len(frames):
                continue
            rows = tape_rows.named_ids(tape.field, tape.parent, tape.frame_start, bodies.roles.role, frames)
            names, ids = tape.strings(rows[:, 0]), tape.uuids(rows[:, 1])
            pairs = pc.unique(pc.binary_join_element_wise(ids, names, " "))
            for pair in pairs.drop_null().to_pylist():
                topic_id, _, name = pair.partition(" ")
                if name and topic_id != NO_ID:
                    self.topic_names.learn([(ID_PREFIX + topic_id, name)])


def _introducing(exchanges: Exchanges) -> Bool:
    return np.isin(exchanges.api_key, (apis.SASL_HANDSHAKE, apis.API_VERSIONS))


def _in_parts(exchanges: Exchanges) -> list[Exchanges]:
    """The exchanges in parts of some `BYTES_AT_ONCE`, at least one exchange each."""
    sizes = (exchanges.request_end - exchanges.request_start) + (exchanges.response_end - exchanges.response_start)
    ends = np.cumsum(sizes)
    cuts = (np.flatnonzero(np.diff(ends // BYTES_AT_ONCE)) + 1).tolist()
    return [some(exchanges, first, last) for first, last in zip([0, *cuts], [*cuts, len(ends)], strict=True)]
