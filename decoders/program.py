"""Every message layout of the protocol as flat rows of numbers, which the kernels of tape.py and json_text.py execute.

One program is made for each API, version and direction, and for the few data messages that travel inside bodies. A
program is a run of rows (operation, field id, argument, argument); what the arguments mean is told at each operation
below. A field id stands for a field's path, whatever the version, so that one id selects a field over all versions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkascope.decoders import schema
from kafkascope.decoders.interpreter import default_value
from kafkascope.decoders.schema import NEVER, Field, Message

Int8s = npt.NDArray[np.int8]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

# Operations without arguments: a value of fixed width. UUID is the last one, kernels rely on it.
INT8, INT16, INT32, INT64, UINT16, UINT32, BOOL, FLOAT64, UUID = range(9)
# Length-prefixed values: the first argument is 1 where null is allowed. COMPACT_BYTES is the last one.
STRING, COMPACT_STRING, BYTES, COMPACT_BYTES = range(9, 13)
# Arrays: row behind the array's END_ARRAY; flags (see ARRAY_*) and, shifted, the least bytes of an element (1 if none).
ARRAY, COMPACT_ARRAY = 13, 14
# End of an element: row of the array's own operation.
END_ARRAY = 15
# A struct: row behind its END_STRUCT; how its presence is written (see PRESENCE_*).
STRUCT = 16
END_STRUCT = 17
# Tagged fields of a struct or message: how many are defined; row behind all of them. As many TAG rows follow at once.
TAGS = 18
# One tagged field's place in the table, never executed: its field id, its tag, the row where its value begins.
TAG = 19
# End of a tagged field's value: the row of its TAGS.
END_TAG = 20
# End of the message.
STOP = 21

ARRAY_NULLABLE = 1
ARRAY_OF_SCALARS = 2
ARRAY_LEAST_SHIFT = 2

PRESENCE_ALWAYS, PRESENCE_INT8, PRESENCE_VARINT = range(3)

FIXED_WIDTH = {
    "int8": (INT8, 1),
    "int16": (INT16, 2),
    "int32": (INT32, 4),
    "int64": (INT64, 8),
    "uint16": (UINT16, 2),
    "uint32": (UINT32, 4),
    "bool": (BOOL, 1),
    "float64": (FLOAT64, 8),
    "uuid": (UUID, 16),
}

# What a row of the tape is, by the field's type; elements of arrays of structs have a kind of their own.
(
    KIND_INTEGER,
    KIND_BOOL,
    KIND_FLOAT,
    KIND_UUID,
    KIND_STRING,
    KIND_BYTES,
    KIND_RECORDS,
    KIND_ARRAY,
    KIND_STRUCT,
    KIND_ELEMENT,
    KIND_UNKNOWN_TAG,
) = range(11)

KINDS = {
    "bool": KIND_BOOL,
    "float64": KIND_FLOAT,
    "uuid": KIND_UUID,
    "string": KIND_STRING,
    "bytes": KIND_BYTES,
    "records": KIND_RECORDS,
}

UNKNOWN_TAG = 0
"""Field id of a tagged field that no schema defines; its value on the tape is tag << 32 | length."""

MAX_DEPTH = 32
"""Open arrays, structs and tag sections that the kernels have room for. The schemas need about 10."""


@dataclass(frozen=True, slots=True)
class FieldTable:
    """What is known of each field id; every column is indexed by it.

    An array of structs has two ids: `responses` is the array (value: count, -1 for null), `responses[]` an element of
    it (value: index). An array of scalars too: `brokers` and `brokers[]`, whose rows are the scalars themselves. A
    field in an element is `responses[].topic`, in a struct `snapshotId.epoch`.
    """

    name: tuple[str, ...]
    path: tuple[str, ...]
    type: tuple[str, ...]  # of an integer that versions write in several widths the widest
    entity_type: tuple[str | None, ...]
    api_key: Int16s  # -1 for UNKNOWN_TAG
    is_response: Bools
    kind: Int8s
    is_error_code: Bools  # an int16 called errorCode or ending so

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True)
class Layout:
    """A message to compile, and where it is used."""

    message: Message
    api_key: int
    is_response: bool


@dataclass(frozen=True, slots=True, eq=False)
class Programs:
    """All programs and the tables beside them. A program's id is its index in `entry`. Equal only to itself."""

    rows: Int32s  # [r, 4]
    entry: Int64s  # [p] first row of each program
    alternative: Int32s  # [p] program that reads the version's other layout, or -1
    message: tuple[Message, ...]  # [p] the definition as read: of an alternative, its own
    version: Int16s  # [p]
    fields: FieldTable
    by_version: Int32s  # [2, key, version] program by direction (1: response), or -1
    by_path: dict[tuple[int, bool, str], int]
    tag_defaults: dict[int, tuple[str, object]]  # name and default of the tagged field of each TAG row

    def program_of(self, api_key: npt.ArrayLike, version: npt.ArrayLike, response: npt.ArrayLike) -> Int32s:
        """Programs of many messages at once, i32[n]; -1 for a key or version that no schema defines."""
        keys = np.asarray(api_key, np.int64)
        versions = np.asarray(version, np.int64)
        directions = np.asarray(response, np.bool_).astype(np.int64)
        known = (
            (keys >= 0) & (keys < self.by_version.shape[1]) & (versions >= 0) & (versions < self.by_version.shape[2])
        )
        found = self.by_version[directions, np.where(known, keys, 0), np.where(known, versions, 0)]
        return np.where(known, found, -1).astype(np.int32)

    def field_id(self, api_key: int, response: bool, path: str) -> int:
        """Id of a field of an API's request or response, or -1; paths as in `FieldTable`."""
        return self.by_path.get((api_key, response, path), -1)


def ordered(fields: Sequence[Field], version: int) -> list[Field]:
    """The members that a version has: those written in place, then the tagged ones, each in order of definition."""
    there = [field for field in fields if version in field.versions]
    return sorted(there, key=lambda field: version in field.tagged)


class _Compiler:
    """Rows and fields as they grow; thrown away when all layouts are compiled."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.columns: list[tuple[str, str, str, str | None, int, bool, int]] = []
        self.ids: dict[tuple[str, str], int] = {}
        self.defaults: dict[int, tuple[str, object]] = {}
        self.layout = Layout(Message("", "data", None, NEVER, NEVER, ()), -1, False)
        self.version = 0
        self.add_field("_tags", "_tags", "", None, KIND_UNKNOWN_TAG)

    def compile(self, layout: Layout, message: Message, version: int) -> int:
        """Append a program; returns its first row."""
        self.layout, self.version = layout, version
        first = len(self.rows)
        self.members(message.fields, "", version in message.flexible, 1)
        self.emit(STOP, 0)
        return first

    def emit(self, operation: int, field: int, argument: int = 0) -> int:
        self.rows.append((operation, field, argument, 0))
        return len(self.rows) - 1

    def add_field(self, name: str, path: str, type_name: str, entity_type: str | None, kind: int) -> int:
        layout = self.layout
        key = (layout.message.name, path)
        field = self.ids.setdefault(key, len(self.columns))
        if field == len(self.columns):
            self.columns.append((name, path, type_name, entity_type, layout.api_key, layout.is_response, kind))
            return field
        before = self.columns[field][2]
        if before != type_name:
            if not KIND_INTEGER == kind == self.columns[field][6]:
                raise ValueError(f"{layout.message.name} {path}: {type_name} in one version, {before} in another")
            widest = max(before, type_name, key=lambda integer: FIXED_WIDTH[integer][1])
            self.columns[field] = (name, path, widest, entity_type, layout.api_key, layout.is_response, kind)
        return field

    def members(self, fields: Sequence[Field], prefix: str, flexible: bool, depth: int) -> int:
        """The fields of a struct or message; returns the least number of bytes they take."""
        if depth > MAX_DEPTH:
            raise ValueError(f"{self.layout.message.name} nests deeper than {MAX_DEPTH}")
        least = 0
        tagged = []
        for field in ordered(fields, self.version):
            if self.version in field.tagged:
                tagged.append(field)
            else:
                least += self.value(field, prefix, flexible, PRESENCE_INT8, depth)
        if not flexible:
            return least
        tags = self.emit(TAGS, 0, len(tagged))
        places = [self.emit(TAG, 0, field.tag if field.tag is not None else -1) for field in tagged]
        for place, field in zip(places, tagged, strict=True):
            begin = len(self.rows)
            self.value(field, prefix, flexible, PRESENCE_VARINT, depth + 1)
            self.emit(END_TAG, 0, tags)
            self.rows[place] = (
                TAG,
                self.ids[self.layout.message.name, prefix + field.name],
                self.rows[place][2],
                begin,
            )
            self.defaults[place] = (field.name, default_value(field, self.version))
        self.rows[tags] = (TAGS, 0, len(tagged), len(self.rows))
        return least + 1

    def value(self, field: Field, prefix: str, flexible: bool, presence: int, depth: int) -> int:
        """One field; returns the least number of bytes it takes."""
        path = prefix + field.name
        nullable = self.version in field.nullable
        compact = flexible if field.flexible is None else self.version in field.flexible
        if field.is_array:
            array = self.add_field(field.name, path, field.type, field.entity_type, KIND_ARRAY)
            start = self.emit(COMPACT_ARRAY if compact else ARRAY, array)
            element_type = field.element_type
            if field.is_struct:
                element = self.add_field(field.name, path + "[]", element_type, None, KIND_ELEMENT)
                least = self.members(field.fields, path + "[].", flexible, depth + 1)
            else:
                kind = kind_of(element_type)
                element = self.add_field(field.name, path + "[]", element_type, field.entity_type, kind)
                least = self.scalar(element_type, element, compact, False)
            if element != array + 1:
                raise ValueError(f"{self.layout.message.name} {path}: an element's id must follow its array's")
            self.emit(END_ARRAY, array, start)
            flags = (
                ARRAY_NULLABLE * nullable
                | ARRAY_OF_SCALARS * (not field.is_struct)
                | max(least, 1) << ARRAY_LEAST_SHIFT
            )
            self.rows[start] = (self.rows[start][0], array, len(self.rows), flags)
            return 1 if compact else 4
        if field.is_struct:
            struct = self.add_field(field.name, path, field.type, field.entity_type, KIND_STRUCT)
            if not nullable:
                presence = PRESENCE_ALWAYS
            start = self.emit(STRUCT, struct)
            least = self.members(field.fields, path + ".", flexible, depth + 1)
            self.emit(END_STRUCT, struct, start)
            self.rows[start] = (STRUCT, struct, len(self.rows), presence)
            return least if presence == PRESENCE_ALWAYS else 1
        number = self.add_field(field.name, path, field.type, field.entity_type, kind_of(field.type))
        return self.scalar(field.type, number, compact, nullable)

    def scalar(self, type_name: str, field: int, compact: bool, nullable: bool) -> int:
        if type_name in FIXED_WIDTH:
            operation, width = FIXED_WIDTH[type_name]
            self.emit(operation, field)
            return width
        if type_name == "string":
            self.emit(COMPACT_STRING if compact else STRING, field, int(nullable))
            return 1 if compact else 2
        if type_name in ("bytes", "records"):
            self.emit(COMPACT_BYTES if compact else BYTES, field, int(nullable))
            return 1 if compact else 4
        raise ValueError(f"{self.layout.message.name}: unknown type {type_name}")


def kind_of(type_name: str) -> int:
    """Kind of a scalar type."""
    return KINDS.get(type_name, KIND_INTEGER)


def compile_layouts(layouts: Iterable[Layout]) -> Programs:
    """Compile every version of every layout. Raises ValueError for a schema that the kernels could not follow."""
    compiler = _Compiler()
    entry: list[int] = []
    alternative: list[int] = []
    read_as: list[Message] = []
    origin: list[tuple[Layout, int]] = []
    tried_first: list[tuple[Layout, int, int]] = []  # layout, version and program
    for layout in layouts:
        for version in range(layout.message.versions.first, layout.message.versions.last + 1):
            readings = layout.message.readings(version)
            tried_first.append((layout, version, len(entry)))
            for left, reading in zip(range(len(readings) - 1, -1, -1), readings, strict=True):
                alternative.append(len(entry) + 1 if left else -1)
                entry.append(compiler.compile(layout, reading, version))
                read_as.append(reading)
                origin.append((layout, version))
    most_key, most_version = max(layout.api_key for layout, _ in origin), max(version for _, version in origin)
    by_version = np.full((2, most_key + 1, most_version + 1), -1, np.int32)
    for layout, version, number in tried_first:
        by_version[int(layout.is_response), layout.api_key, version] = number
    names, paths, types, entity_types, api_keys, is_response, kinds = zip(*compiler.columns, strict=True)
    error_codes = [t == "int16" and n.lower().endswith("errorcode") for n, t in zip(names, types, strict=True)]
    fields = FieldTable(
        names,
        paths,
        types,
        entity_types,
        np.array(api_keys, np.int16),
        np.array(is_response, np.bool_),
        np.array(kinds, np.int8),
        np.array(error_codes, np.bool_),
    )
    return Programs(
        np.array(compiler.rows, np.int32),
        np.array(entry, np.int64),
        np.array(alternative, np.int32),
        tuple(read_as),
        np.array([version for _, version in origin], np.int16),
        fields,
        by_version,
        {
            (key, response, path): field
            for field, (key, response, path) in enumerate(zip(api_keys, is_response, paths, strict=True))
            if key >= 0
        },
        dict(compiler.defaults),
    )


@functools.lru_cache(maxsize=1)
def programs() -> Programs:
    """The programs of every API, version and direction; compiled when first asked for."""
    layouts = [
        Layout(message, api.key, is_response)
        for api in schema.apis().values()
        for is_response, message in ((False, api.request), (True, api.response))
    ]
    return compile_layouts(layouts)
