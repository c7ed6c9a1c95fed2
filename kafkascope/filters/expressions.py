"""Expressions as values, and which exchanges pass them.

An exchange passes a condition if one of the values of its field does; ``!=`` is that no value is equal. So a field
without a value passes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.filters.fields import Field, Kind
from kafkascope.sniffer.columns import I64, Bool

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a field with any of some values; ``exists`` needs none."""

    field: Field
    kind: Kind
    comparison: str  # a key of `COMPARISONS`, or UNEQUAL, EXISTS
    values: tuple[Value, ...]  # times as nanoseconds since 1970
    asked: str  # by what a person asked for it: an option, or a field and a comparison; empty: nobody did


@dataclass(frozen=True, slots=True)
class Not:
    """What does not pass."""

    of: Expression


@dataclass(frozen=True, slots=True)
class All:
    """What passes all of them."""

    of: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """What passes any of them."""

    of: tuple[Expression, ...]


Expression = Condition | Not | All | Either

EXISTS, UNEQUAL = "exists", "!="
_ANY_KIND = frozenset(Kind)
_TEXT = frozenset({Kind.TEXT})
_ORDERED = frozenset({Kind.NUMBER, Kind.TIME})


@dataclass(frozen=True, slots=True)
class Comparison:
    """What values are compared for."""

    holds: Callable[[pa.Array, Any, bool], pa.Array]  # values, with what, and whether case does not count
    kinds: frozenset[Kind]


def _equal(values: pa.Array, value: Any, ignore_case: bool) -> pa.Array:
    return pc.equal(pc.utf8_lower(values), value.lower()) if ignore_case else pc.equal(values, value)


COMPARISONS = {
    "==": Comparison(_equal, _ANY_KIND - {Kind.STRUCTURE}),
    "<": Comparison(lambda values, value, _: pc.less(values, value), _ORDERED),
    "<=": Comparison(lambda values, value, _: pc.less_equal(values, value), _ORDERED),
    ">": Comparison(lambda values, value, _: pc.greater(values, value), _ORDERED),
    ">=": Comparison(lambda values, value, _: pc.greater_equal(values, value), _ORDERED),
    "contains": Comparison(
        lambda values, value, ignore_case: pc.match_substring(values, value, ignore_case=ignore_case), _TEXT
    ),
    "matches": Comparison(
        lambda values, value, ignore_case: pc.match_substring_regex(values, value, ignore_case=ignore_case), _TEXT
    ),
}


def passing(expression: Expression, exchanges: pa.Table) -> Bool:
    """Which rows of a table of exchanges pass; it has the columns that are needed, and client and broker."""
    match expression:
        case Not(of):
            return ~passing(of, exchanges)
        case All(of):
            passed = np.ones(len(exchanges), np.bool_)
            for one in sorted(of, key=_reads_bodies):
                rows = exchanges.select(sorted(columns(one)))
                passed[passed] = passing(one, rows if passed.all() else rows.filter(pa.array(passed)))
            return passed
        case Either(of):
            return ~passing(All(tuple(map(Not, of))), exchanges)
    if expression.comparison == UNEQUAL:
        return _unequal(expression, exchanges)
    found = expression.field.values(exchanges, expression.kind)
    return _hits(found.rows[_mask(expression, found.values)], len(exchanges))


def _unequal(condition: Condition, exchanges: pa.Table) -> Bool:
    found = condition.field.values(exchanges, condition.kind)
    there = found.rows[found.values.is_valid().to_numpy(zero_copy_only=False)]
    equal = found.rows[_mask(replace(condition, comparison="=="), found.values)]
    return _hits(there, len(exchanges)) & ~_hits(equal, len(exchanges))


def _hits(rows: I64, count: int) -> Bool:
    hits = np.zeros(count, np.bool_)
    hits[rows] = True
    return hits


def _reads_bodies(expression: Expression) -> bool:
    """Whether it is much work: then it comes last, and is done for those alone that passed before."""
    return not columns(expression).isdisjoint(("request", "response"))


def _alike(values: pa.Array, value: Value) -> tuple[pa.Array, Value]:
    """Values and what they are compared with, of one type where one of both is floating.

    Arrow refuses to compare whole numbers with floating ones if it cannot represent them exactly.
    """
    if pa.types.is_floating(values.type) and not isinstance(value, str):
        return values, float(value)
    if isinstance(value, float) and pa.types.is_integer(values.type):
        return values.cast(pa.float64(), safe=False), value
    return values, value


def _mask(condition: Condition, values: pa.Array) -> Bool:
    ignore_case = condition.field.is_word
    if condition.comparison == EXISTS:
        nothing = condition.field.nothing
        masks = [pc.is_valid(values) if nothing is None else pc.not_equal(values, nothing)]
    else:
        holds = COMPARISONS[condition.comparison].holds
        masks = [holds(*_alike(values, value), ignore_case) for value in condition.values]
    found = [pc.fill_null(mask, False).to_numpy(zero_copy_only=False) for mask in masks]
    result: Bool = np.logical_or.reduce(found)
    return result


def conditions(expression: Expression, *, also_not: bool = False) -> Iterator[Condition]:
    """The conditions in an expression; without also_not those alone that something is to pass."""
    match expression:
        case Condition():
            yield expression
        case Not(of):
            yield from conditions(of, also_not=True) if also_not else ()
        case All(of) | Either(of):
            for one in of:
                yield from conditions(one, also_not=also_not)


def columns(expression: Expression) -> frozenset[str]:
    """Columns of exchanges, or of their ends, that an expression looks at."""
    return frozenset(name for one in conditions(expression, also_not=True) for name in one.field.columns)


class HiddenError(ValueError):
    """Pseudonyms hide what is asked for."""


def renamed(expression: Expression, pseudonyms: Pseudonyms) -> Expression:
    """The same for exchanges whose names have pseudonyms: only whole names can be found again, else HiddenError."""
    match expression:
        case Not(of):
            return Not(renamed(of, pseudonyms))
        case All(of):
            return All(tuple(renamed(one, pseudonyms) for one in of))
        case Either(of):
            return Either(tuple(renamed(one, pseudonyms) for one in of))
    field = expression.field
    if expression.comparison == EXISTS or expression.kind is not Kind.TEXT or not field.hides_texts:
        return expression
    if not field.is_name or expression.comparison not in ("==", UNEQUAL):
        raise HiddenError(f"{expression.asked}: {_ONLY_WHOLE_NAMES}")
    from kafkascope.reports.rows.anonymous import anonymous_client_id, anonymous_end, anonymous_name

    is_client_id = field.columns[0] == "client_id"
    rename = anonymous_end if field.is_end else anonymous_client_id if is_client_id else anonymous_name
    return replace(expression, values=tuple(rename(str(value), pseudonyms) for value in expression.values))


_ONLY_WHOLE_NAMES = (
    "behind pseudonyms only whole names are found, as they are in the capture: ask with == or != for client_id, topic, "
    "group, member, host, endpoint, client or broker"
)
