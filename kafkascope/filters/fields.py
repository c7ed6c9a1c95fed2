"""What filters can ask for by name: columns of the exchanges table, and fields of both bodies.

A name stands for any number of values in an exchange: none where it has no such field, many for topics and arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis, schema
from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import one_array
from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.text import address
from kafkascope.reports.rows.exchange_table import OUTCOMES, SASL_TOKEN
from kafkascope.reports.rows.topic_mentions import TOPICS
from kafkascope.reports.vocabulary.tables import EXCHANGES
from kafkascope.sniffer.columns import I64

_ADDRESS = r"^\[?(.*?)\]?:\d+$"  # address:port; of IPv6 the address stands in brackets


class Kind(Enum):
    """What values are, as people are told."""

    TEXT = "text"
    NUMBER = "a number"
    TIME = "a time"
    TRUTH = "true or false"
    STRUCTURE = "a structure"


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a name has in some exchanges."""

    values: pa.Array  # of one kind; times as nanoseconds since 1970
    rows: I64  # the exchange of each


@dataclass(frozen=True, slots=True)
class Field:
    """A name and where its values are."""

    name: str
    columns: tuple[str, ...]  # of exchanges with their ends, that it needs
    kinds: frozenset[Kind]
    path: tuple[str, ...] = ()  # in the body that is in the first column
    apis: frozenset[str] = frozenset()  # whose bodies can have it
    is_host: bool = False  # ports are left out
    has_strings: bool = False
    has_bytes: bool = False  # in which texts may stand that no schema tells of

    @property
    def is_word(self) -> bool:
        """Whether its values are words of the protocol, whose case does not count."""
        return not self.path and self.columns[0] in _WORDS

    @property
    def words(self) -> tuple[str, ...]:
        """All that these can be; none of other values."""
        return tuple(_WORDS[self.columns[0]]()) if self.is_word else ()

    @property
    def is_name(self) -> bool:
        """Whether its values are names that people gave, which have pseudonyms."""
        return not self.path and self.columns[0] in _NAMES

    @property
    def is_end(self) -> bool:
        """Whether its values are address:port."""
        return not self.is_host and self.columns[0] in ENDS

    @property
    def hides_texts(self) -> bool:
        """Whether there may be pseudonyms in its texts."""
        if self.is_name or (self.columns[0] in ("request", "response") and not self.path):
            return True
        from kafkascope.reports.rows.anonymous import keeps_words

        return bool(self.path) and (self.has_bytes or (self.has_strings and not keeps_words(self.path)))

    @property
    def nothing(self) -> str | None:
        """A value that is as good as none."""
        return "NONE" if self.columns[0] == "error" else None

    def values(self, exchanges: pa.Table, kind: Kind) -> Values:
        """Values of one kind; those of structures are true."""
        if self.path:
            return self._in_bodies(exchanges, kind)
        if self.columns == ENDS:
            ends = pa.concat_arrays([_plain(exchanges[end]) for end in ENDS])
            texts = pc.replace_substring_regex(ends, _ADDRESS, r"\1") if self.is_host else ends
            return Values(texts, np.tile(np.arange(len(exchanges)), len(ENDS)))
        column = _plain(exchanges[self.columns[0]])
        if pa.types.is_list(column.type):
            return Values(column.flatten(), pc.list_parent_indices(column).to_numpy())
        return Values(column, np.arange(len(column)))

    def _in_bodies(self, exchanges: pa.Table, kind: Kind) -> Values:
        text = _plain(exchanges[self.columns[0]])
        can_have = pc.and_(pc.is_in(_plain(exchanges["api"]), pa.array(sorted(self.apis))), pc.is_valid(text))
        places = np.flatnonzero(can_have.to_numpy(zero_copy_only=False))
        found: list[Any] = []
        rows: list[int] = []
        for place, body in zip(places.tolist(), text.take(pa.array(places)).to_pylist(), strict=True):
            values = [value for value in map(_AS[kind], leaves(json.loads(body), self.path)) if value is not None]
            found += values
            rows += [place] * len(values)
        if kind is Kind.NUMBER and any(isinstance(value, float) for value in found):
            return Values(pa.array(map(float, found), pa.float64()), np.array(rows, np.int64))
        return Values(pa.array(found, _ARROW[kind]), np.array(rows, np.int64))


def body_field(name: str) -> Field | None:
    """A field of bodies by its path, such as ``request.topics.name``; None if no API has one."""
    parts = tuple(name.split("."))
    known = body_paths()
    for length in range(len(parts), 1, -1):
        if (found := known.get(".".join(parts[:length]))) is None:
            continue
        if length == len(parts):
            kinds = found.kinds
        elif found.has_bytes:  # what stands in bytes is decoded where it is known, and in no schema of an API
            kinds = frozenset(Kind) - {Kind.TIME}
        else:
            return None
        return Field(
            name,
            (parts[0], "api"),
            kinds,
            path=parts[1:],
            apis=found.apis,
            has_strings=found.has_strings,
            has_bytes=found.has_bytes,
        )
    return None


@dataclass(frozen=True, slots=True)
class BodyPath:
    """What the APIs have at a path."""

    kinds: frozenset[Kind]
    apis: frozenset[str]
    has_strings: bool
    has_bytes: bool


@cache
def body_paths() -> Mapping[str, BodyPath]:
    """All paths of the schemas of all versions, with ``request.`` or ``response.`` in front."""
    found: dict[str, BodyPath] = {}
    for api, path, field in fields_of_bodies():
        before = found.get(path, BodyPath(frozenset(), frozenset(), False, False))
        found[path] = BodyPath(
            before.kinds | {_kind(field)},
            before.apis | {api},
            before.has_strings or field.element_type == "string",
            before.has_bytes or field.element_type == "bytes",
        )
    return found


def fields_of_bodies() -> Iterator[tuple[str, str, schema.Field]]:
    """API, path and definition of each field of a body, some of them more than once."""
    for api in schema.apis().values():
        for side, message in (("request", api.request), ("response", api.response)):
            for reading in (message, *message.alternatives):
                yield from ((api.name, path, field) for path, field in _paths(side, reading.fields))


def _paths(above: str, fields: Iterable[schema.Field]) -> Iterator[tuple[str, schema.Field]]:
    for field in fields:
        # Records have tables of their own: of a body they show their size.
        path = f"{above}.{field.name}SizeInBytes" if field.element_type == "records" else f"{above}.{field.name}"
        yield path, field
        yield from _paths(path, field.fields)


def _kind(field: schema.Field) -> Kind:
    if field.is_struct:
        return Kind.STRUCTURE
    if field.element_type in ("string", "uuid", "bytes"):
        return Kind.TEXT
    return Kind.TRUTH if field.element_type == "bool" else Kind.NUMBER


def leaves(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What stands at a path, in all elements of the arrays on the way."""
    if isinstance(value, list):
        for item in value:
            yield from leaves(item, path)
    elif not path:
        yield value
    elif isinstance(value, dict) and path[0] in value:
        yield from leaves(value[path[0]], path[1:])


def _text(value: Any) -> str | None:
    return value.encode(errors="replace").decode() if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    if isinstance(value, float):
        return value
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


# Of what stands in JSON that which is of a kind; else None.
_AS: dict[Kind, Callable[[Any], Any]] = {
    Kind.TEXT: _text,
    Kind.NUMBER: _number,
    Kind.TRUTH: lambda value: value if isinstance(value, bool) else None,
    Kind.STRUCTURE: lambda value: None if value is None else True,
}
_ARROW = {Kind.TEXT: pa.string(), Kind.NUMBER: pa.int64(), Kind.TRUTH: pa.bool_(), Kind.STRUCTURE: pa.bool_()}


def _plain(column: pa.ChunkedArray) -> pa.Array:
    array = one_array(column)
    if pa.types.is_dictionary(array.type):
        return array.cast(pa.string())
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("ns")).cast(pa.int64())
    return array


def _column_kind(kind: pa.DataType) -> Kind:
    if pa.types.is_timestamp(kind):
        return Kind.TIME
    return Kind.NUMBER if pa.types.is_integer(kind) or pa.types.is_floating(kind) else Kind.TEXT


_WORDS: dict[str, Callable[[], Iterable[str]]] = {
    "api": lambda: [*apis.names(), SASL_TOKEN],
    "error": lambda: [error.name for error in Error],
    "outcome": lambda: OUTCOMES,
    "decoded": lambda: ("full", "header", "none"),
}
ENDS = ("client", "broker")
"""Columns of both ends, as address:port, which the table lacks."""
_NAMES = frozenset({"client_id", "group_id", "member_id", TOPICS.name, *ENDS})
_ALSO = {"client": "client", "broker": "broker", "topic": TOPICS.name, "topics": TOPICS.name}
_ALSO |= {"group": "group_id", "member": "member_id"}


def both_ends(rows: pa.Table, endpoints: Mapping[int, Ends]) -> pa.Table:
    """Rows with a column ``connection``, with the columns client and broker: addresses with ports."""
    encoded = one_array(rows["connection"]).dictionary_encode()
    ends = [endpoints[connection] for connection in encoded.dictionary.to_pylist()]
    sides = {
        "client": [address(end.client, end.client_port) for end in ends],
        "broker": [address(end.broker, end.broker_port) for end in ends],
    }
    for name, texts in sides.items():
        rows = rows.append_column(name, pa.array(texts, pa.string()).take(encoded.indices))
    return rows


COLUMNS: Mapping[str, Field] = MappingProxyType(
    {field.name: Field(field.name, (field.name,), frozenset({_column_kind(field.type)})) for field in EXCHANGES}
    | {name: Field(name, (column,), frozenset({Kind.TEXT})) for name, column in _ALSO.items()}
    | {"host": Field("host", ENDS, frozenset({Kind.TEXT}), is_host=True)}
    | {"endpoint": Field("endpoint", ENDS, frozenset({Kind.TEXT}))}
)
"""Columns by name, and words for what some of them say."""
