"""Secrets in stored records, whole columns of values at a time: the metadata log's, and those that Connect keeps.

The rules are those of redaction, as expressions that Arrow applies to columns. A value with a secret is hidden whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import schema
from kafkascope.decoders.payloads import FRAME_VERSION
from kafkascope.decoders.record_columns import Bytes, Flags, Integers, binary_array
from kafkascope.decoders.redaction import BEFORE_USER, SECRET_RECORD_FIELDS, expression
from kafkascope.decoders.sasl import REDACTED

# What keys and values of Connect's own records look like (KafkaConfigBackingStore): configurations of connectors and
# tasks, and the key that workers sign requests to each other with (KIP-507).
_CONNECT_KEYS = ("connector-", "task-", "session-key")
_CONNECT_VALUE = r'"(?:properties|algorithm)"'
_CONNECT_SESSION_KEY = b"session-key"
_CONFIG_RECORD = 4  # record type of ConfigRecord
_REDACTED_VALUE = pa.scalar(REDACTED.encode(), pa.binary())
_BETWEEN_WORDS = r"""["'=:&?;,\s{}\[\]]+"""


def redact_stored(keys: Any, values: Any, in_metadata_log: Flags, *, more: tuple[str, ...] = ()) -> Any:
    """The values of records (binary columns of Arrow), with [redacted] for those that hold a secret.

    In the metadata log (in_metadata_log; its control records are none of these) what cannot be read may be one. In
    other topics the configurations that Connect stores are looked at, and hidden if they so much as mention a secret.
    more: see checked_names.
    """
    of_connect = np.zeros(len(keys), bool)
    for start in _CONNECT_KEYS:
        of_connect |= _flags(pc.starts_with(keys, start))
    if not (in_metadata_log.any() or of_connect.any()):
        return values
    secret = np.zeros(len(keys), bool)
    secret[in_metadata_log] = _secret_metadata(_chosen(values, in_metadata_log), more)
    secret[of_connect] |= _secret_of_connect(_chosen(keys, of_connect), _chosen(values, of_connect), more)
    return pc.if_else(pa.array(secret & _flags(pc.is_valid(values))), _REDACTED_VALUE, values)


def _secret_metadata(values: pa.Array, more: tuple[str, ...]) -> Flags:
    """Which values in the metadata log are secret: all but those of record types without secrets, and configurations.

    A ConfigRecord has its frame version, record type, version and resource type in a byte each, then three compact
    strings (name of the resource, name and value of the configuration), and the number of its tags, which is 0.
    """
    secret = ~_flags(pc.match_substring_regex(values, _beginning_of(_harmless_types())))
    configurations = np.flatnonzero(_flags(pc.match_substring_regex(values, _beginning_of([_CONFIG_RECORD]) + r"\x00")))
    if not len(configurations):
        return secret
    values = values.take(pa.array(configurations))
    data = np.frombuffer(values.buffers()[2], np.uint8)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    end = offsets[1:].astype(np.int64)
    at, length = _compact_string(data, offsets[:-1] + np.int64(4), end)
    at, length = name, name_length = _compact_string(data, at + length, end)
    at, length = _compact_string(data, at + length, end)
    readable = at + length == end - 1
    names = binary_array(data, name, np.where(readable, name_length, 0))
    contents = binary_array(data, at, np.where(readable, length, 0))
    by_name = _flags(pc.match_substring_regex(names, expression(more), ignore_case=True))
    secret[configurations] = ~readable | by_name | _mention_secrets(contents, more)
    return secret


def _compact_string(data: Bytes, at: Integers, end: Integers) -> tuple[Integers, Integers]:
    """Where compact strings at these places begin, and their lengths; a length beyond end if there is none.

    A null string has no length here. Before the string stands its length and one more in up to two bytes (KIP-482):
    no name is longer.
    """
    first, second = (data[np.minimum(at + i, len(data) - 1)].astype(np.int64) for i in (0, 1))
    is_long = first >= 128
    length = np.where(is_long, (first & 127) | second << 7, first) - 1
    start = at + 1 + is_long
    there = (start <= end) & ~(is_long & (second >= 128))
    return start, np.where(there, np.maximum(length, 0), end + 1)


def _secret_of_connect(keys: pa.Array, values: pa.Array, more: tuple[str, ...]) -> Flags:
    secret = _mention_secrets(values, more) | _flags(pc.equal(keys, _CONNECT_SESSION_KEY))
    return secret & _flags(pc.match_substring_regex(values, _CONNECT_VALUE))


def _mention_secrets(values: pa.Array, more: tuple[str, ...]) -> Flags:
    """Which values holds_secret is true for, and any other in which the name of a secret is a word."""
    words = pc.replace_substring_regex(values, _BETWEEN_WORDS, "\n")  # on lines of their own, for ^ and $
    named = pc.match_substring_regex(words, f"(?m:{expression(more)})", ignore_case=True)
    return _flags(named) | _flags(pc.match_substring_regex(values, f"(?s:(?:{BEFORE_USER}).*@)"))


def _chosen(column: Any, rows: Flags) -> pa.Array:
    chosen = column.filter(pa.array(rows))
    return chosen.combine_chunks() if isinstance(chosen, pa.ChunkedArray) else chosen


def _flags(column: Any) -> Flags:
    """A column of booleans, null as False."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), bool)


def _beginning_of(record_types: Iterable[int]) -> str:
    """What values of these types begin with, for Arrow; all types there are take one byte."""
    types = "".join(rf"\x{one:02x}" for one in record_types)
    return rf"^\x{FRAME_VERSION:02x}[{types}]"


@cache
def _harmless_types() -> tuple[int, ...]:
    """The types of records in the metadata log that have no secrets."""
    secret = {"ConfigRecord", *SECRET_RECORD_FIELDS}
    found = schema.data_messages("metadata").values()
    return tuple(message.key for message in found if message.key is not None and message.name not in secret)
