"""What went before an exchange on its connection: whether the broker was busy or had muted it, when the client had its
last answer. Kept from batch to batch, a row for each API of each connection that is open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.measures.latency.parts import ABSENT
from kafkascope.sniffer.columns import I64, Bool

MUTED_UNTIL = "muted_until"  # a column of the rows: latest end of a delay that this or an earlier answer told

NEEDED = ("connection", "number", "api_key", "requested", "request_done", "response_done", "throttle")
"""Columns of exchanges, int64 without nulls (`parts.ABSENT`), that neighbours are found by."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Stretches between exchanges: the row of the exchange each belongs to, and begin and length in nanoseconds."""

    row: I64
    begin: I64
    length: I64


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Exchanges with those before them. Rows are those kept from before, then the new ones in the order given."""

    rows: pa.Table
    new: int  # first new row
    busy_until: I64  # of each new row
    muted_until: I64
    throttled: Gap
    application: Gap


class Neighbours:
    """The last exchanges of each connection: of each API, and so of all."""

    def __init__(self) -> None:
        self._kept: pa.Table | None = None

    def observe(self, exchanges: pa.Table) -> Neighbourhood:
        """Exchanges with at least the columns `NEEDED`, of each connection in order of number."""
        fresh = exchanges.append_column(MUTED_UNTIL, pa.array(np.full(exchanges.num_rows, ABSENT, np.int64)))
        others, kept = self._take(fresh["connection"])
        rows = fresh if kept is None else pa.concat_tables([kept, fresh])
        new = rows.num_rows - exchanges.num_rows
        of = {name: rows[name].to_numpy() for name in (*NEEDED, MUTED_UNTIL)}
        count = rows.num_rows
        is_new = np.arange(count) >= new

        order = np.lexsort((of["number"], of["connection"]))
        before = _before(order, of["connection"][order])
        delay_ends = np.where(of["throttle"] > 0, of["response_done"] + of["throttle"], ABSENT)
        told = np.maximum(np.where(of["response_done"] >= 0, delay_ends, ABSENT), of[MUTED_UNTIL])
        muted = np.empty(count, np.int64)
        muted[order] = _highest_so_far(told[order], of["connection"][order])
        rows = rows.set_column(rows.schema.get_field_index(MUTED_UNTIL), MUTED_UNTIL, pa.array(muted))
        muted_before = _of(muted, before)

        by_api = np.lexsort((of["number"], of["api_key"], of["connection"]))
        last_of_kind = _before(by_api, of["connection"][by_api], of["api_key"][by_api])
        other = _last_of_another_kind(order, of["connection"][order], of["api_key"][order])
        last = rows.take(pa.array(_last(by_api, of["connection"][by_api], of["api_key"][by_api])))
        self._kept = last if others is None else pa.concat_tables([others, last]).combine_chunks()
        return Neighbourhood(
            rows,
            new,
            _of(of["response_done"], other)[new:],
            muted_before[new:],
            _throttled(of, before, is_new),
            _application(of, last_of_kind, muted_before, is_new),
        )

    def _take(self, connections: pa.ChunkedArray) -> tuple[pa.Table | None, pa.Table | None]:
        """What is kept of other connections, and of these."""
        if self._kept is None:
            return None, None
        mine = pc.is_in(self._kept["connection"], pc.unique(connections))
        return self._kept.filter(pc.invert(mine)), self._kept.filter(mine)

    def forget(self, connections: pa.Array) -> None:
        """Drop what is known of connections that have ended."""
        if self._kept is not None:
            self._kept = self._kept.filter(pc.invert(pc.is_in(self._kept["connection"], connections)))


def _throttled(of: dict[str, I64], before: I64, is_new: Bool) -> Gap:
    """From an answer that told a delay to the client's next request, at most the delay; belongs to that answer."""
    answered, told = _of(of["response_done"], before), _of(of["throttle"], before)
    length = np.minimum(of["requested"] - answered, told)
    rows = np.flatnonzero(is_new & (before >= 0) & (answered >= 0) & (of["requested"] >= 0) & (length > 0))
    return Gap(before[rows], answered[rows], length[rows])


def _application(of: dict[str, I64], last_of_kind: I64, muted_before: I64, is_new: Bool) -> Gap:
    """From an answer to the next request of its kind, without what was throttled; belongs to that request."""
    answered, requested = _of(of["response_done"], last_of_kind), of["requested"]
    there = is_new & (last_of_kind >= 0) & (answered >= 0) & (requested >= answered)
    rows = np.flatnonzero(there)
    free = np.clip(muted_before[rows], answered[rows], requested[rows])
    return Gap(rows, answered[rows], requested[rows] - free)


def _of(values: I64, rows: I64) -> I64:
    return np.where(rows >= 0, values[rows], np.int64(ABSENT))


def _same_as_before(*keys: I64) -> Bool:
    same = np.ones(len(keys[0]), np.bool_)
    same[:1] = False
    for key in keys:
        same[1:] &= key[1:] == key[:-1]
    return same


def _before(order: I64, *keys: I64) -> I64:
    """Of each row the one before it in that order with the same keys (given in that order); -1 if there is none."""
    result = np.full(len(order), -1, np.int64)
    places = np.flatnonzero(_same_as_before(*keys))
    result[order[places]] = order[places - 1]
    return result


def _last_of_another_kind(order: I64, connection: I64, api_key: I64) -> I64:
    """Of each row the last one before it on its connection that is of another API; -1 if there is none."""
    place = np.arange(len(order))
    run_begin = np.maximum.accumulate(np.where(_same_as_before(connection, api_key), 0, place))
    same = _same_as_before(connection)[run_begin]
    result = np.full(len(order), -1, np.int64)
    result[order[same]] = order[run_begin[same] - 1]
    return result


def _last(order: I64, *keys: I64) -> I64:
    """The last row in that order of each run of the same keys."""
    return order[np.append(~_same_as_before(*keys)[1:], True)] if len(order) else order


def _highest_so_far(values: I64, group: I64) -> I64:
    """Running maximum within runs of the same group."""
    distinct, rank = np.unique(values, return_inverse=True)
    run = np.cumsum(~_same_as_before(group)) * np.int64(len(distinct))
    highest: I64 = distinct[np.maximum.accumulate(run + rank.reshape(-1)) % max(len(distinct), 1)]
    return highest
