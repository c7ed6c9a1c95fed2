"""Exchanges with pseudonyms in the place of names, so that nothing behind them knows the names.

Strings are replaced where they stand, unless they are words of the protocol (`_WORDS`): a field that a release adds is
replaced. Bytes become zeros, but for what members of groups tell each other, whose strings are replaced, and tokens, of
which the user is, and the form stays. What was not read of a body is overwritten, so that it cannot be read then
either. Records stay, unless the caller replaces them: keys and values are replaced in their table.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis, payloads
from kafkascope.decoders.group_protocols import decode_member_assignment, decode_member_metadata
from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.payloads import Payload
from kafkascope.decoders.program import KIND_BYTES, KIND_RECORDS, KIND_STRING, KIND_UNKNOWN_TAG, UNKNOWN_TAG, Programs
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.decoders.sasl import KERBEROS, SHOWN_ERRORS, anonymous_token
from kafkascope.decoders.tape import Status, Tape
from kafkascope.reports.columns.arrow import one_array
from kafkascope.reports.columns.text import OWN_HOSTS, address, without_port
from kafkascope.reports.columns.topics import ID_PREFIX, RESERVED
from kafkascope.reports.rows.bodies import Bodies, BodyDecoder
from kafkascope.reports.rows.partitions import TopicCodes, read_partitions
from kafkascope.reports.rows.roles import SLOT_RECORDS
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker
from kafkascope.reports.vocabulary.tables import RECORDS
from kafkascope.sniffer.columns import I16, I64, U8, Bool, ConnectionRow, Exchanges, Kind, Segments

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
# Words of which reasons of clients are made (KIP-800; Java, Streams, franz-go, AdminClient), and what coordinators tell
# Streams applications (KIP-1071, StreamsGroupHeartbeatResponse.Status). Any other may be a name.
_REASONS = frozenset({"reason", "statusDetail"})
_REASON_WORDS = frozenset(
    b"""a active admin administrator after all already an and application are assignment assignments beginning being by
    cached changed client close closed cluster consumer corrupted do due encountered enforced entire error expired
    failed fatal fenced followup following for from generation given group has have in interest interests internal is
    leaving lifecycle lost manage member member-id metadata missing need normal not number of operation partition
    partitions per poll pro-actively probing re-join rebalance rebalancing rejoin rejoining removed requested response
    revoke revoked revoking same scheduled shutdown source standby stream streams subscription subscriptions task tasks
    the thread timeout to topic topics triggered unsubscribe unsubscribed update upon user version was we what
    with""".split()
)
_REASON_NAMES = re.compile(rb"[A-Z][A-Za-z]*Exception|HEARTBEAT|OFFSET_COMMIT|UNKNOWN_MEMBER_ID|[0-9]{1,5}|[.]+")
_REASON_PARTS = re.compile(rb"[^\s,:;=()\[\]{}]+")
_KEPT = frozenset(
    name.encode()
    for name in (
        *RESERVED.values(),
        *payloads.COORDINATOR_TOPICS,
        payloads.REMOTE_LOG_METADATA_TOPIC,
        *OWN_HOSTS,
    )
)
_TOKEN = "authBytes"
_TOKEN_ERROR = "errorMessage"  # in which Kafka's own words about tokens name nobody
_TOKEN_ERRORS = re.compile(SHOWN_ERRORS.encode())
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


def anonymous(
    exchanges: Exchanges,
    decoder: BodyDecoder,
    pseudonyms: Pseudonyms,
    of_records: Callable[[bytes, bool], bytes] | None = None,
) -> Exchanges:
    """The exchanges with pseudonyms; those given stay as they are.

    of_records: what to put in the place of fields with record batches, in as many bytes, by their content and whether
    they are of the cluster's metadata log; None: they stay.
    """
    data = exchanges.data.copy()
    replace = _replacement(pseudonyms)
    readable = _with_readable_bodies(exchanges)
    _blank_without_body(readable, data)
    for start, length in zip(exchanges.client_id_start.tolist(), exchanges.client_id_length.tolist(), strict=True):
        if start >= 0:
            client_id = exchanges.data[start : start + length].tobytes().decode("utf-8", "surrogateescape")
            made = anonymous_client_id(client_id, pseudonyms)
            _put(data, start, made.encode("utf-8", "surrogateescape"))
    for bodies in decoder.decode(readable):
        of = bodies.exchanges
        metadata = _metadata_records(bodies) if of_records is not None else frozenset()
        for tape, body, end, is_flexible in (
            (bodies.requests, of.request_body, of.request_end, _are_flexible(of.api_key, of.api_version, False)),
            (bodies.responses, of.response_body, of.response_end, _are_flexible(of.api_key, of.response_version, True)),
        ):
            _replace_strings(tape, data, replace)
            _replace_bytes(tape, data, replace)
            blank(tape, data, [KIND_UNKNOWN_TAG])  # of a release to come: their bytes may be anything
            if of_records is not None:
                _replace_records(tape, data, of_records, metadata)
            _blank_unread(tape, data, body, end, is_flexible)
    return dataclasses.replace(exchanges, data=data)


def anonymous_name(name: str, pseudonyms: Pseudonyms) -> str:
    """A name's pseudonym where messages have it."""
    kept = name.startswith(ID_PREFIX) or name.encode("utf-8", "surrogateescape") in _KEPT
    return name if kept else pseudonyms.name(name)


def anonymous_end(end: str, pseudonyms: Pseudonyms) -> str:
    """The same of address:port; anything else stays."""
    port = end.rpartition(":")[2]
    is_end = ":" in end and port.isdecimal()
    return address(anonymous_name(without_port(end), pseudonyms), int(port)) if is_end else end


def anonymous_client_id(client_id: str, pseudonyms: Pseudonyms) -> str:
    """A client id's pseudonym; what brokers call themselves stays, as their node ids do in all messages."""
    is_long_number = client_id.isdigit() and len(client_id) > _NODE_ID_DIGITS
    return client_id if is_of_broker(client_id) and not is_long_number else pseudonyms.name(client_id)


_NODE_ID_DIGITS = 5  # more are unusual: a longer number may be of a customer, or a telephone
_HEADER_BYTES, _RESPONSE_HEADER_BYTES = 10, 4  # up to the client id's length, and the correlation id
_TOKEN_HEAD_BYTES = 20  # a tag, a length in DER of up to 8 bytes, and an object identifier of 11
_NOTHING = 0xFF  # no request, tagged field or length begins with this: what was no header stays none


def _with_readable_bodies(exchanges: Exchanges) -> Exchanges:
    """Exchanges in which tokens, and frames whose header has tagged fields (no release knows any), have no body."""
    client_id_end = np.where(
        exchanges.client_id_start >= 0,
        exchanges.client_id_start + exchanges.client_id_length,
        exchanges.request_start + _HEADER_BYTES,
    )
    is_token = exchanges.kind == Kind.SASL
    no_request = is_token | (exchanges.request_body > client_id_end + 1)
    no_response = is_token | (exchanges.response_body > exchanges.response_start + _RESPONSE_HEADER_BYTES + 1)
    return dataclasses.replace(
        exchanges,
        request_body=np.where(no_request, -1, exchanges.request_body),
        response_body=np.where(no_response, -1, exchanges.response_body),
    )


def _blank_without_body(exchanges: Exchanges, data: U8) -> None:
    """Blank frames of which there is no body to read, but for their headers; of tokens, but for their kind."""
    is_token = exchanges.kind == Kind.SASL
    for start, body, end, header_bytes in (
        (exchanges.request_start, exchanges.request_body, exchanges.request_end, _HEADER_BYTES),
        (exchanges.response_start, exchanges.response_body, exchanges.response_end, _RESPONSE_HEADER_BYTES),
    ):
        for frame in np.flatnonzero((start >= 0) & (body < 0)).tolist():
            whole = slice(int(start[frame]), int(end[frame]))
            header = _kind_bytes(data[whole]) if is_token[frame] else header_bytes
            data[whole][header:] = _NOTHING


def _kind_bytes(token: U8) -> int:
    """The bytes at the head of a client's first GSS-API token that tell it from a request; 0 of any other token."""
    head = token[:_TOKEN_HEAD_BYTES].tobytes()
    found = head.find(KERBEROS)
    return found + len(KERBEROS) if head[:1] == b"\x60" and found > 0 else 0


def _replacement(pseudonyms: Pseudonyms) -> Callable[[bytes], bytes]:
    def replace(text: bytes) -> bytes:
        return text if text in _KEPT else pseudonyms.text(text)

    return replace


def _put(data: U8, start: int, content: bytes) -> None:
    data[start : start + len(content)] = np.frombuffer(content, np.uint8)


def _is_word(name: str, path: str) -> bool:
    return name in _WORDS or _WORD_PATHS.search(path) is not None


def keeps_words(names: Sequence[str]) -> bool:
    """Whether texts of a field of bodies stay, by its name behind those of the fields that it is in."""
    forms = (names[-1], f"{names[-1]}[]")  # what stands in an array
    above = "".join(f"{name}[]." for name in names[:-1])
    return any(_is_word(form, above + form) for form in forms)


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
        if fields.name[field] != _TOKEN_ERROR or _TOKEN_ERRORS.fullmatch(text) is None:
            _put(data, at, _reason(text, replace) if fields.name[field] in _REASONS else replace(text))


def _reason(text: bytes, replace: Callable[[bytes], bytes]) -> bytes:
    def shown(part: re.Match[bytes]) -> bytes:
        word = part[0]
        is_kept = word.lower().strip(b".") in _REASON_WORDS or _REASON_NAMES.fullmatch(word)
        return word if is_kept else replace(word)

    return _REASON_PARTS.sub(shown, text)


def _replace_bytes(tape: Tape, data: U8, replace: Callable[[bytes], bytes]) -> None:
    fields = tape.programs.fields
    rows = np.flatnonzero((fields.kind[tape.field] == KIND_BYTES) & (tape.value > 0))
    for at, length, field in zip(
        tape.at[rows].tolist(), tape.value[rows].tolist(), tape.field[rows].tolist(), strict=True
    ):
        content = tape.data[at : at + length].tobytes()
        if fields.name[field] == _TOKEN:
            made = anonymous_token(content, replace)
        else:
            made = _of_member(content, replace) if fields.name[field] in _MEMBER_BYTES else bytes(length)
        _put(data, at, made)


def _replace_records(
    tape: Tape, data: U8, of_records: Callable[[bytes, bool], bytes], metadata: frozenset[int]
) -> None:
    rows = np.flatnonzero((tape.programs.fields.kind[tape.field] == KIND_RECORDS) & (tape.value > 0))
    for at, length in zip(tape.at[rows].tolist(), tape.value[rows].tolist(), strict=True):
        _put(data, at, of_records(tape.data[at : at + length].tobytes(), at in metadata))


def _metadata_records(bodies: Bodies) -> frozenset[int]:
    """Where in the data records of the cluster's metadata log begin that were fetched."""
    frames = np.flatnonzero(bodies.exchanges.api_key == apis.FETCH)
    if not len(frames):
        return frozenset()
    told = read_partitions(bodies.responses, frames, bodies.roles.slot, TopicCodes())
    names = pa.array([*RESERVED, *RESERVED.values()], pa.string())
    return frozenset(told.place(SLOT_RECORDS)[pc.is_in(told.topic, names).to_numpy(zero_copy_only=False)].tolist())


def blank(tape: Tape, data: U8, kinds: Iterable[int], frames: Bool | None = None) -> None:
    """Let fields of some kinds be zeros where they stand; frames: in which (None: in all)."""
    rows = np.flatnonzero(np.isin(tape.programs.fields.kind[tape.field], list(kinds)))
    if frames is not None:
        rows = rows[frames[tape.frame_of(rows)]]
    for at, length in zip(tape.at[rows].tolist(), content_bytes(tape, rows).tolist(), strict=True):
        data[at : at + length] = 0


def content_bytes(tape: Tape, rows: I64) -> I64:
    """How long the content of rows is that are text, bytes, records, or tagged fields that no schema knows; null: 0."""
    value = tape.value[rows]
    return np.where(tape.field[rows] == UNKNOWN_TAG, value & 0xFFFFFFFF, np.maximum(value, 0))


def _of_member(content: bytes, replace: Callable[[bytes], bytes]) -> bytes:
    """What members tell each other, with pseudonyms for its strings and zeros for bytes of no known form."""
    read = _read(content)
    if read is None:
        return bytes(len(content))
    found = set(_strings(read))
    texts = {one.encode("utf-8", "surrogateescape") for one in found if isinstance(one, str)}
    lengths = {len(text) for text in texts}
    made = bytearray(content)
    place = 0
    while place < len(content):
        for begin in (place + 2, place + 4):  # behind its length
            length = int.from_bytes(content[place:begin], "big")
            if length in lengths and (text := content[begin : begin + length]) in texts:
                made[begin : begin + length] = replace(text)
                place = begin + length
                break
        else:
            place += 1
    for unknown in (one for one in found if isinstance(one, bytes)):
        for at in re.finditer(re.escape(unknown), content):
            made[at.start() : at.end()] = bytes(len(unknown))
    return bytes(made)


_PROTOCOLS = (("consumer", "stream"), ("consumer", "sticky"), ("consumer", "cooperative-sticky"), ("connect", ""))


def _read(content: bytes) -> Payload | None:
    """As the protocol that consumes it exactly: nothing beside says which it is."""
    for kind, name in _PROTOCOLS:
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


def _are_flexible(key: I16, version: I16, response: bool) -> Bool:
    """Whether messages have compact lengths (KIP-482)."""
    table = apis.api_table()
    first = table.first_flexible_response if response else table.first_flexible_request
    known = (key >= 0) & (key < len(first))
    return known & (version >= first[np.where(known, key, 0)])


def _blank_unread(tape: Tape, data: U8, body: I64, end: I64, is_flexible: Bool) -> None:
    """Blank what is behind the place at which reading a body stopped; it stops there again, at a length."""
    for frame in np.flatnonzero((tape.status != Status.OK) & (body >= 0)).tolist():
        low = max(int(body[frame]), int(tape.stopped_at[frame]) if tape.rows_in(frame) else 0)
        rest = data[low : int(end[frame])]
        rest[:] = 0
        if not tape.whole[frame]:
            mark = _NO_VARINT if is_flexible[frame] else _NO_LENGTH
            rest[: len(mark)] = mark[: len(rest)]


_NO_VARINT = np.frombuffer(b"\xff" * 5, np.uint8)
_NO_LENGTH = np.frombuffer(b"\x7f\xff\xff\xff", np.uint8)  # of 16 or 32 bits: more than there is behind it


def anonymous_connection(row: ConnectionRow, pseudonyms: Pseudonyms) -> ConnectionRow:
    """A connection with pseudonyms; its addresses are pseudonyms already."""
    names = row.tls_certificate_names
    return dataclasses.replace(
        row,
        client_id=None if row.client_id is None else anonymous_client_id(row.client_id, pseudonyms),
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
    encoded = one_array(values).dictionary_encode()
    made = [pseudonyms.content(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(made, pa.binary()).take(encoded.indices)
