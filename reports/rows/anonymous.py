"""Exchanges with pseudonyms in the place of names, so that nothing behind them knows the names.

Strings are replaced where they stand, unless they are words of the protocol (`_WORDS`): a field that a release adds is
replaced. Bytes become zeros, but for what members of groups tell each other, whose strings are replaced. Of a body that
was not read to its end the rest becomes zeros, and so does a body of no known layout. Records stay: keys and values are
replaced in their table.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kafkascope.decoders import payloads
from kafkascope.decoders.group_protocols import decode_member_assignment, decode_member_metadata
from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.payloads import Payload
from kafkascope.decoders.program import KIND_BYTES, KIND_STRING, Programs
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.decoders.tape import Tape
from kafkascope.reports.columns.topics import RESERVED
from kafkascope.reports.rows.bodies import BodyDecoder
from kafkascope.reports.vocabulary.tables import RECORDS
from kafkascope.sniffer.columns import I64, U8, Bool, ConnectionRow, Exchanges, Kind, Segments

# Fields that hold words of the protocol, or of the program that speaks it.
_WORDS = frozenset(
    {
        "assignorName",
        "clientSoftwareName",
        "clientSoftwareVersion",
        "entityType",
        "feature",
        "groupState",
        "groupType",
        "mechanism",
        "mechanisms",
        "mechanisms[]",
        "ownerPrincipalType",
        "principalType",
        "protocolData",
        "protocolName",
        "protocolType",
        "serverAssignor",
        "stateFilters[]",
        "statesFilter[]",
        "tokenRequesterPrincipalType",
        "transactionState",
        "typesFilter[]",
        "unknownStateFilters[]",
    }
)
_WORD_PATHS = re.compile(
    r"(?:configs|synonyms|supportedFeatures|finalizedFeatures|featureUpdates|protocols)\[\]\.name$"
    r"|(?:configurationKeys|mechanisms|stateFilters|statesFilter|typesFilter|unknownStateFilters)\[\]$"
)
# Words of which clients' reasons are made (KIP-800; Java, Streams, franz-go, AdminClient). Any other may be a name.
_REASON_WORDS = frozenset(
    b"""a active admin administrator after all already an and assignment assignments beginning being by cached changed
    client close closed cluster consumer corrupted due encountered enforced expired failed fenced followup for
    from generation given group has in interest interests is leaving lifecycle lost manage member member-id
    metadata need normal of operation partition partitions per poll pro-actively probing re-join rebalance
    rebalancing rejoin rejoining removed response revoke revoked revoking scheduled shutdown standby stream
    streams subscription subscriptions task tasks the thread timeout to topic topics triggered unsubscribe
    unsubscribed update upon user version was we what with""".split()
)
_REASON_NAMES = re.compile(rb"[A-Z][A-Za-z]*Exception|HEARTBEAT|OFFSET_COMMIT|UNKNOWN_MEMBER_ID|[.,:;()]+")
_KEPT = frozenset(
    name.encode() for name in (*RESERVED.values(), *payloads.COORDINATOR_TOPICS, payloads.REMOTE_LOG_METADATA_TOPIC)
)
_MEMBER_BYTES = frozenset({"metadata", "assignment", "memberMetadata", "memberAssignment"})


def anonymous_hosts(segments: Segments, pseudonyms: Pseudonyms) -> Segments:
    """Segments with pseudonyms for both addresses."""
    made = {}
    for side in ("source", "target"):
        halves = np.stack([getattr(segments, f"{side}_high"), getattr(segments, f"{side}_low")], axis=1)
        unique, place = np.unique(halves, axis=0, return_inverse=True)
        new = np.array([pseudonyms.address(*pair) for pair in unique.tolist()], np.uint64).reshape(-1, 2)
        made[f"{side}_high"], made[f"{side}_low"] = new[place.reshape(-1)].T.copy()
    return dataclasses.replace(segments, **made)


def anonymous(exchanges: Exchanges, decoder: BodyDecoder, pseudonyms: Pseudonyms) -> Exchanges:
    """The exchanges with pseudonyms; those given stay as they are."""
    data = exchanges.data.copy()
    replace = _replacement(pseudonyms)
    for start, length in zip(exchanges.client_id_start.tolist(), exchanges.client_id_length.tolist(), strict=True):
        if start >= 0:
            _put(data, start, replace(data[start : start + length].tobytes()))
    for start, body, end in (
        (exchanges.request_start, exchanges.request_body, exchanges.request_end),
        (exchanges.response_start, exchanges.response_body, exchanges.response_end),
    ):
        raw = (exchanges.kind == Kind.SASL) | (body < 0)
        for low, high in zip(start[raw].tolist(), end[raw].tolist(), strict=True):
            if low >= 0:
                data[low + _HEADER : high] = 0
    for bodies in decoder.decode(exchanges):
        of = bodies.exchanges
        for tape, body, end in (
            (bodies.requests, of.request_body, of.request_end),
            (bodies.responses, of.response_body, of.response_end),
        ):
            _replace_strings(tape, data, replace)
            _replace_bytes(tape, data, replace)
            _blank_unread(tape, data, body, end)
    return dataclasses.replace(exchanges, data=data)


_HEADER = 8  # bytes that pairing and tables have read of a frame without body


def _replacement(pseudonyms: Pseudonyms) -> Callable[[bytes], bytes]:
    def replace(text: bytes) -> bytes:
        return text if text in _KEPT else pseudonyms.text(text)

    return replace


def _put(data: U8, start: int, content: bytes) -> None:
    data[start : start + len(content)] = np.frombuffer(content, np.uint8)


def _is_word(name: str, path: str) -> bool:
    return name in _WORDS or _WORD_PATHS.search(path) is not None


def _replaced_fields(programs: Programs) -> Bool:
    fields = programs.fields
    return np.array(
        [
            fields.kind[field] == KIND_STRING and not _is_word(fields.name[field], fields.path[field])
            for field in range(len(fields))
        ],
        bool,
    )


def _replace_strings(tape: Tape, data: U8, replace: Callable[[bytes], bytes]) -> None:
    fields = tape.programs.fields
    rows = np.flatnonzero(_replaced_fields(tape.programs)[tape.field] & (tape.value > 0))
    places = zip(tape.at[rows].tolist(), tape.value[rows].tolist(), tape.field[rows].tolist(), strict=True)
    for at, length, field in places:
        text = tape.data[at : at + length].tobytes()
        _put(data, at, _reason(text, replace) if fields.name[field] == "reason" else replace(text))


def _reason(text: bytes, replace: Callable[[bytes], bytes]) -> bytes:
    def shown(word: bytes) -> bytes:
        is_kept = word.lower().strip(b".,:;()") in _REASON_WORDS or _REASON_NAMES.fullmatch(word)
        return word if is_kept else replace(word)

    return b" ".join(map(shown, text.split(b" ")))


def _replace_bytes(tape: Tape, data: U8, replace: Callable[[bytes], bytes]) -> None:
    fields = tape.programs.fields
    rows = np.flatnonzero((fields.kind[tape.field] == KIND_BYTES) & (tape.value > 0))
    for at, length, field in zip(
        tape.at[rows].tolist(), tape.value[rows].tolist(), tape.field[rows].tolist(), strict=True
    ):
        content = tape.data[at : at + length].tobytes()
        is_of_member = fields.name[field] in _MEMBER_BYTES
        _put(data, at, _of_member(content, replace) if is_of_member else bytes(length))


def _of_member(content: bytes, replace: Callable[[bytes], bytes]) -> bytes:
    """What members tell each other, with pseudonyms for its strings and zeros for bytes of no known form."""
    read = _read(content)
    if read is None:
        return bytes(len(content))
    made = content
    for found in sorted(set(_strings(read)), key=len, reverse=True):
        if isinstance(found, bytes):
            made = made.replace(found, bytes(len(found)))
        else:
            text = found.encode("utf-8", "surrogateescape")
            for size in (2, 4):
                prefix = len(text).to_bytes(size, "big")
                made = made.replace(prefix + text, prefix + replace(text))
    return made


_PROTOCOLS = (("consumer", "stream"), ("consumer", "sticky"), ("consumer", "cooperative-sticky"), ("connect", ""))


def _read(content: bytes) -> Payload | None:
    """As the protocol that consumes it exactly: nothing beside says which it is."""
    for kind, name in (
        ("consumer", "stream"),
        ("consumer", "sticky"),
        ("consumer", "cooperative-sticky"),
        ("connect", ""),
    ):
        for decode in (decode_member_metadata, decode_member_assignment):
            try:
                read = decode(content, kind, name)
            except DecodeError:
                continue
            if read is not None and not read.rest and not any(isinstance(one, bytes) for one in _strings(read)):
                return read
    for decode in (decode_member_metadata, decode_member_assignment):
        try:
            read = decode(content, "consumer", None)
        except DecodeError:
            continue
        if read is not None:
            return read
    return None


def _strings(value: Any) -> Iterator[str | bytes]:
    if isinstance(value, Payload):
        yield from _strings(value.fields)
        if value.rest:
            yield value.rest
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in ("_definition", "_version"):
                yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str | bytes) and value:
        yield value


def _blank_unread(tape: Tape, data: U8, body: I64, end: I64) -> None:
    whole = tape.whole
    for frame in np.flatnonzero(~whole & (body >= 0)).tolist():
        low = max(int(body[frame]), int(tape.stopped_at[frame]) if tape.rows_in(frame) else 0)
        data[low : int(end[frame])] = 0


def anonymous_connection(row: ConnectionRow, pseudonyms: Pseudonyms) -> ConnectionRow:
    """A connection with pseudonyms; its addresses are pseudonyms already."""
    names = row.tls_certificate_names
    return dataclasses.replace(
        row,
        client_id=None if row.client_id is None else pseudonyms.name(row.client_id),
        tls_server_name=None if row.tls_server_name is None else pseudonyms.name(row.tls_server_name),
        tls_certificate_names=None if names is None else tuple(map(pseudonyms.name, names)),
    )


def anonymous_records(records: pa.Table, pseudonyms: Pseudonyms) -> pa.Table:
    """The table of records with pseudonyms for keys, values, and headers."""
    for name in ("key", "value"):
        records = records.set_column(records.column_names.index(name), name, _contents(records[name], pseudonyms))
    headers = [
        None
        if row is None
        else [
            {
                "key": pseudonyms.name(one["key"]),
                "value": None if one["value"] is None else pseudonyms.content(one["value"]),
            }
            for one in row
        ]
        for row in records["headers"].to_pylist()
    ]
    place = records.column_names.index("headers")
    return records.set_column(place, "headers", pa.array(headers, records["headers"].type)).cast(RECORDS)


def _contents(values: Any, pseudonyms: Pseudonyms) -> pa.Array:
    encoded = values.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    made = [pseudonyms.content(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(made, pa.binary()).take(encoded.indices)
