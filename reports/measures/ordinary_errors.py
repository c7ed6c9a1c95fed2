"""Which errors are part of how the protocol works, and how many of them are, by the rules of the table of errors.

An error that is ordinary once is trouble when it does not stop. So each rule has a number that may come within a span
of time to one client, group or partition; all that lie in a span with more are trouble. An error without a rule is
trouble. Of the same errors, those within a second count as one: clients differ in how fast they try again (the Java
client's retry.backoff.ms is 100 ms), and some have many requests under way when one thing happens to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.errors import Error, Ordinary
from kafkascope.reports.columns.arrow import Numbers, dictionary_codes
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import SECOND_NS

_RULES = [(error, rule) for error in Error for rule in error.ordinary]


def ordinary(rows: pa.Table) -> tuple[Bool, pa.Array]:
    """Which rows of ERROR_COUNTS are ordinary, and the reason of each that is; all rows of an error must be there."""
    found = np.full(rows.num_rows, -1, np.int64)
    present = set(rows["error"].unique().to_pylist())
    for place, (error, rule) in enumerate(_RULES):
        if error not in present:
            continue
        of_error = pc.is_in(rows["error"], pa.array([error]))
        apis = pc.is_in(rows["api"], pa.array(rule.apis)) if rule.apis else pa.scalar(True)
        chosen = np.flatnonzero(pc.and_(of_error, apis).to_numpy().astype(np.bool_) & (found < 0))
        if len(chosen):
            few = ~_too_many(rows.take(pa.array(chosen)), rule)
            found[chosen[few]] = place
    reasons = pa.array([rule.reason for _, rule in _RULES])
    return found >= 0, reasons.take(pa.array(found, mask=found < 0))


def _too_many(rows: pa.Table, rule: Ordinary) -> Bool:
    """Which rows lie in a span of the rule's length that has more than it allows."""
    scope = _codes(rows, rule.by)
    span: I64 = rows["span"].to_numpy()
    lasted = rows["last_at"].to_numpy() - rows["first_at"].to_numpy()
    count: I64 = np.minimum(rows["count"].to_numpy(), lasted // SECOND_NS + 1)
    order = np.lexsort((span, scope))
    spans = np.unique(np.concatenate([span, span + np.int64(rule.seconds * SECOND_NS)]))
    key = scope * np.int64(len(spans))
    begin = (key + np.searchsorted(spans, span))[order]
    end = (key + np.searchsorted(spans, span + np.int64(rule.seconds * SECOND_NS)))[order]
    first, last = np.searchsorted(begin, begin), np.searchsorted(begin, end)
    total = np.concatenate([[0], np.cumsum(count[order])])
    over = total[last] - total[first] > rule.most
    marks = np.zeros(len(order) + 1, np.int64)
    np.add.at(marks, first[over], 1)
    np.add.at(marks, last[over], -1)
    result = np.empty(len(order), np.bool_)
    result[order] = np.cumsum(marks[:-1]) > 0
    return result


def _codes(rows: pa.Table, names: Sequence[str]) -> Numbers:
    code = np.zeros(rows.num_rows, np.int64)
    for name in names:
        values, distinct = dictionary_codes(rows[name])
        code = np.unique(code * np.int64(len(distinct) + 1) + values + 1, return_inverse=True)[1].reshape(-1)
    return code.astype(np.int64)
