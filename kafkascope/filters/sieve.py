"""A filter at work while tables are made: rows of exchanges that do not pass are left out before they are written.

What is told of the whole capture must not be told of a part of it. So views see all rows, and of what other answers
look at, rows of all exchanges stay beside the tables until these are made (`WHOLE`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.filters.expressions import All, Expression, columns, passing, renamed
from kafkascope.filters.fields import both_ends
from kafkascope.filters.no_match import NoMatch
from kafkascope.reports.answers.clients import ASKING, HEAD
from kafkascope.reports.columns.arrow import one_array
from kafkascope.reports.columns.parties import Ends, ExchangePlaces
from kafkascope.reports.columns.topics import ID_PREFIX, TopicNames
from kafkascope.reports.incidents.clients.open_transactions import OF_TRANSACTIONS
from kafkascope.reports.incidents.planned.changes import CHANGES
from kafkascope.reports.incidents.positions.given_up import OF_SHARE_GROUPS
from kafkascope.reports.rows.topic_mentions import TOPICS, resolve_mentions
from kafkascope.reports.vocabulary.tables import BESIDE, OF_EXCHANGES, SCHEMAS, UNDECIDED, WHOLE
from kafkascope.sniffer.columns import Bool

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms

MOST_OF_TASK = 100
"""Names of each kind that a task remembers, to tell of them if nothing matches."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which exchanges the tables are to have."""

    expression: Expression
    text: str | None  # as a person wrote it; None: it is not told, as names in it have pseudonyms

    @classmethod
    def of(cls, text: str, pseudonyms: Pseudonyms | None = None) -> Filter:
        """What a text means, where names have these pseudonyms; raises ``filters.language.FilterError``, and
        ``filters.expressions.HiddenError`` for what pseudonyms hide.
        """
        from kafkascope.filters.language import parsed

        expression = parsed(text)
        return cls(expression, text) if pseudonyms is None else cls(renamed(expression, pseudonyms), None)

    @property
    def asks_for_topics(self) -> bool:
        """Whether it hangs on names of topics, some of which may be told later or elsewhere."""
        return TOPICS.name in columns(self.expression)

    def refused(self, undecided: pa.Table, names: Mapping[str, str]) -> ExchangePlaces:
        """Those of exchanges that waited for names of topics which do not pass, now that names are known."""
        passed = passing(self.expression, resolve_mentions(undecided, TopicNames(names)))
        return ExchangePlaces(undecided.filter(pa.array(~passed)))


def without(rows: pa.Table, refused: ExchangePlaces) -> pa.Table:
    """Rows of a table without those of some exchanges."""
    return rows.filter(pa.array(refused.of(rows) < 0))


class Sieve:
    """Chooses the rows of one engine; what is known of exchanges lasts until the next ones come ahead."""

    def __init__(self, of: Filter) -> None:
        self._filter = of
        expression = of.expression
        parts = expression.of if isinstance(expression, All) else (expression,)
        self._without_topics = All(tuple(part for part in parts if TOPICS.name not in columns(part)))
        self._wanted = ExchangePlaces(SCHEMAS["exchanges"].empty_table())
        self.columns = frozenset({TOPICS.name}) if of.asks_for_topics else frozenset()  # beside those of the table
        self.no_match = NoMatch(expression, most=MOST_OF_TASK)

    def sift(
        self, tables: Mapping[str, pa.Table], ahead: pa.Table | None, endpoints: Mapping[int, Ends]
    ) -> dict[str, pa.Table]:
        """Rows of exchanges that pass, or may, in the place of all, and what is kept beside them.

        ahead: exchanges of which all rows to come are, until the next ones.
        """
        found = {name: rows for name, rows in tables.items() if name not in OF_EXCHANGES}
        if ahead is not None and ahead.num_rows:
            found |= self._decide(both_ends(ahead, endpoints))
        for name in OF_EXCHANGES:
            if (rows := tables.get(name)) is None:
                continue
            if name in WHOLE:
                found[WHOLE[name]] = _for_answers(rows) if name == "exchanges" else rows
            mine = rows.filter(pa.array(self._wanted.of(rows) >= 0))
            if mine.num_rows:
                found[name] = mine.select(SCHEMAS[name].names)
        return found

    def _decide(self, exchanges: pa.Table) -> dict[str, pa.Table]:
        """Find out who passes; returns those of whom it is not known yet."""
        passed = passing(self._filter.expression, exchanges)
        open_ones = np.zeros(len(passed), np.bool_)
        if self._filter.asks_for_topics:
            open_ones = _are_nameless(exchanges) & passing(self._without_topics, exchanges)
        self.no_match.observe(exchanges, int(np.count_nonzero(passed & ~open_ones)))
        self._wanted = ExchangePlaces(exchanges.filter(passed | open_ones))
        return {UNDECIDED: exchanges.select(BESIDE[UNDECIDED].names).filter(open_ones)} if open_ones.any() else {}


def _are_nameless(exchanges: pa.Table) -> Bool:
    """Whether each names a topic by id alone."""
    topics = one_array(exchanges[TOPICS.name])
    nameless = pc.list_parent_indices(topics).filter(pc.starts_with(pc.list_flatten(topics), ID_PREFIX))
    found = np.zeros(len(exchanges), np.bool_)
    found[nameless.to_numpy()] = True
    return found


def _for_answers(exchanges: pa.Table) -> pa.Table:
    """Exchanges with no more of their bodies than answers read."""
    schema = SCHEMAS["exchanges"]
    api, request = exchanges["api"], exchanges["request"]
    head = pc.if_else(pc.is_in(api, pa.array(ASKING)), pc.utf8_slice_codeunits(request, 0, HEAD), None)
    kept = pc.if_else(pc.is_in(api, pa.array([*OF_TRANSACTIONS, *CHANGES, *OF_SHARE_GROUPS])), request, head)
    answers = pc.if_else(pc.is_in(api, pa.array(OF_SHARE_GROUPS)), exchanges["response"], None)
    bodies = {"request": kept, "response": answers}
    return pa.table({name: bodies.get(name, exchanges[name]) for name in schema.names}, schema=schema)
