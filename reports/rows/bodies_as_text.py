"""Bodies as JSON text: most by a kernel, those with other messages inside, with secrets, or damaged one by one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import DecodeError, apis, decode_request, decode_response, to_json
from kafkascope.decoders.json_text import LONGEST_TEXT, bodies_as_json
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.decoders.nested import NOTHING_KNOWN, Knowledge, decode_nested
from kafkascope.decoders.redaction import MESSAGES_WITH_SECRETS
from kafkascope.decoders.sasl import decode_token
from kafkascope.decoders.tape import Tape
from kafkascope.reports.columns.faults import fault
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.rows.damage import Damage, count_issues
from kafkascope.reports.vocabulary.group_apis import GROUP_APIS
from kafkascope.sniffer.columns import I64, Bool, Exchanges, Kind
from kafkascope.sniffer.issues import IssueLog

# (API, response): messages with bytes inside that are messages of their own.
_NESTED = frozenset(
    {
        (apis.JOIN_GROUP, False),
        (apis.JOIN_GROUP, True),
        (apis.SYNC_GROUP, False),
        (apis.SYNC_GROUP, True),
        (apis.DESCRIBE_GROUPS, True),
        (apis.SASL_AUTHENTICATE, False),
        (apis.SASL_AUTHENTICATE, True),
        (apis.ENVELOPE, False),
        (apis.ENVELOPE, True),
    }
)
_ONE_BY_ONE = _NESTED | MESSAGES_WITH_SECRETS
# Messages that tell what later ones of their connection do not: the mechanism, and the protocol of the group.
_TELLING = frozenset({(apis.SASL_HANDSHAKE, False), (apis.JOIN_GROUP, False), (apis.JOIN_GROUP, True)})

# By side (requests, responses): the APIs of these.
_LOOKED_AT = tuple(
    np.array(sorted(key for key, of in _ONE_BY_ONE | _TELLING if of == response), np.int16)
    for response in (False, True)
)

_RECORDS_FIELDS = frozenset({"records", "unalignedRecords"})

_SASL = int(Kind.SASL)

# Of which `reports.groups` reads the texts.
_OF_GROUPS = np.array([apis.key_of(name) for name in (*sorted(GROUP_APIS), "ApiVersions")], np.int16)

LONGEST_OF_GROUPS = 16 << 20
"""Bytes of the text of a body, of one that the analysis of groups makes Python's objects of."""

ROWS_ONE_BY_ONE = 1_000_000
"""Values (rows of the tape) of a message that is written one by one: as Python's objects they take 100 bytes and more
each. Descriptions of the configuration of 2,000 topics are as many."""
BYTES_NESTED = 8 << 20
"""Bytes of a message with others inside, whose values the tape does not count. What a group keeps is a record of 1 MB
(max.message.bytes), unless its brokers are told otherwise."""

_LEFT_OUT = b""  # stands for the text of a body that is too large for one; JSON is never empty

REMEMBERED_TEXTS = 2000
"""Members say the same again and again; so many texts are kept, of bodies up to `REMEMBERED_BYTES`."""
REMEMBERED_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class BodyText:
    """JSON of each exchange's bodies; null where there is none, or where it would be too large."""

    request: pa.Array
    response: pa.Array
    issue: pa.Array  # of exchanges with a body that is too large for a text, null of others
    faults: Mapping[tuple[int, bool], str]  # of bodies that could not be written, by exchange and side (True: response)


class BodyTexts:
    """Writes bodies as text. Keeps what connections told that their later bodies need."""

    def __init__(
        self, *, reveal_secrets: bool = False, secret_names: tuple[str, ...] = (), limits: Limits = DEFAULT
    ) -> None:
        self._nothing_known = replace(
            NOTHING_KNOWN, reveal_secrets=reveal_secrets, secret_names=secret_names, limits=limits
        )
        self._known: dict[int, Knowledge] = {}
        self._texts: OrderedDict[tuple[int, int, bool, Knowledge, bytes], tuple[Knowledge, bytes | None]]
        self._texts = OrderedDict()

    def forget(self, connections: list[int]) -> None:
        """Drop what is known of connections that have ended."""
        for connection in connections:
            self._known.pop(connection, None)

    def write(self, bodies: Bodies, damage: Damage, issues: IssueLog) -> BodyText:
        """The text of the bodies; those that are too large for one are counted."""
        exchanges = bodies.exchanges
        longest = np.where(np.isin(exchanges.api_key, _OF_GROUPS), LONGEST_OF_GROUPS, LONGEST_TEXT)
        special: tuple[dict[int, bytes | None], dict[int, bytes | None]] = ({}, {})
        faults: dict[tuple[int, bool], str] = {}
        for index, response in _looked_at(bodies, damage):
            texts = special[response]
            try:
                text = self._one(bodies, damage, index, response)
                if text is not None:
                    texts[index] = text if len(text) <= longest[index] else _LEFT_OUT
            except Exception as error:
                faults[index, response] = fault(error)
                texts[index] = None  # nor does the kernel write it, lest it have secrets
        issue = pa.nulls(len(exchanges.number), pa.string())
        written: list[pa.Array] = []
        for response, tape, decoded in (
            (False, bodies.requests, bodies.request_decoded),
            (True, bodies.responses, bodies.response_decoded),
        ):
            given = special[response]
            # Of a frame that the capture cut, and that looks whole, there is no text, lest it have secrets.
            column = bodies_as_json(tape, longest, decoded, given).cast(pa.string())
            is_left_out = decoded & _are_empty(column)  # JSON is never empty
            is_left_out[[index for index, text in given.items() if text == _LEFT_OUT]] = True
            is_left_out[[index for index, side in faults if side == response]] = False
            left_out = np.flatnonzero(is_left_out)
            if len(left_out):
                issue = pc.coalesce(issue, _told(left_out, response, tape, issues, exchanges))
                column = pc.if_else(pa.array(is_left_out), pa.scalar(None, column.type), column)
            written.append(column)
        return BodyText(written[0], written[1], issue, faults)

    def _one(self, bodies: Bodies, damage: Damage, index: int, response: bool) -> bytes | None:
        """The text of one of the bodies that are looked at, if it is not one for the kernel."""
        exchanges = bodies.exchanges
        connection = int(exchanges.connection[index])
        known = self._known.get(connection, self._nothing_known)
        key = int(exchanges.api_key[index])
        if exchanges.kind[index] == _SASL:
            return self._token(bodies, index, response, known)
        tape = bodies.responses if response else bodies.requests
        start, end = (
            (exchanges.response_body, exchanges.response_end)
            if response
            else (exchanges.request_body, exchanges.request_end)
        )
        size = int(end[index] - start[index])
        too_large = tape.rows_in(index) > ROWS_ONE_BY_ONE or ((key, response) in _NESTED and size > BYTES_NESTED)
        partial = (damage.responses if response else damage.requests).get(index)
        if partial is not None:
            if too_large:
                return _LEFT_OUT
            return to_json(decode_nested(key, _records_by_size(partial), response=response, known=known)).encode()
        if too_large:
            return _LEFT_OUT
        version = int((exchanges.response_version if response else exchanges.api_version)[index])
        data = exchanges.data[start[index] : end[index]].tobytes()
        remembered = (key, version, response, known, data)
        found = self._texts.get(remembered)
        if found is None:
            found = _read(key, version, response, known, data)
            if len(data) <= REMEMBERED_BYTES:
                self._texts[remembered] = found
                if len(self._texts) > REMEMBERED_TEXTS:
                    self._texts.popitem(last=False)
        told, text = found
        if told is not known:
            self._known[connection] = told
        return text

    def _token(self, bodies: Bodies, index: int, response: bool, known: Knowledge) -> bytes | None:
        exchanges = bodies.exchanges
        start, end = (
            (exchanges.response_start, exchanges.response_end)
            if response
            else (exchanges.request_start, exchanges.request_end)
        )
        if start[index] < 0:
            return None
        if end[index] - start[index] > BYTES_NESTED:
            return _LEFT_OUT
        token = exchanges.data[start[index] : end[index]].tobytes()
        return to_json(
            decode_token(
                known.mechanism,
                token,
                from_client=not response,
                reveal_secrets=known.reveal_secrets,
                limits=known.limits,
            )
        ).encode()


def _looked_at(bodies: Bodies, damage: Damage) -> list[tuple[int, bool]]:
    """Bodies that are not for the kernel alone: exchange, and whether it is the response. In this order."""
    exchanges = bodies.exchanges
    found: list[tuple[int, bool]] = []
    for response, decoded, partial in (
        (False, bodies.request_decoded, damage.requests),
        (True, bodies.response_decoded, damage.responses),
    ):
        chosen = decoded & np.isin(exchanges.api_key, _LOOKED_AT[response]) | (exchanges.kind == _SASL)
        chosen[list(partial)] = True
        found += [(index, response) for index in np.flatnonzero(chosen).tolist()]
    return sorted(found)


def _read(key: int, version: int, response: bool, known: Knowledge, data: bytes) -> tuple[Knowledge, bytes | None]:
    """What is known behind a body that was read whole, and its text if it is not one for the kernel."""
    try:
        body = decode_response(key, version, data) if response else decode_request(key, version, data)
    except DecodeError as error:  # two layouts fit: the first of them is as good as any
        body = error.partial if isinstance(error.partial, dict) else {}
    if (key, response) in _TELLING:
        known = replace(
            known,
            mechanism=body.get("mechanism") or known.mechanism,
            protocol_type=body.get("protocolType") or known.protocol_type,
            protocol_name=body.get("protocolName") or known.protocol_name,
        )
    if (key, response) not in _ONE_BY_ONE:
        return known, None
    return known, to_json(decode_nested(key, body, response=response, known=known)).encode()


def _are_empty(texts: pa.Array) -> Bool:
    """Texts without bytes, or null."""
    empty: Bool = pc.equal(pc.fill_null(pc.binary_length(texts), 0), 0).to_numpy(zero_copy_only=False)
    return empty


def _told(left_out: I64, response: bool, tape: Tape, issues: IssueLog, exchanges: Exchanges) -> pa.Array:
    """Count bodies that have no text; what is to be said of each exchange."""
    count_issues(
        issues,
        exchanges,
        left_out,
        np.full(len(left_out), response),
        "body_too_large",
        lambda index: f"too large to be shown as text, with {tape.rows_in(left_out[index]):,} values",
    )
    side = "response" if response else "request"
    said = np.zeros(len(exchanges.number), bool)
    said[left_out] = True
    return pc.if_else(pa.array(said), f"{side}: too large to be shown as text", pa.scalar(None, pa.string()))


def _records_by_size(value: Any) -> Any:
    """A decoded value with the size of records fields in their place, as the kernel writes them."""
    if isinstance(value, list):
        return [_records_by_size(element) for element in value]
    if not isinstance(value, dict):
        return value
    return dict(
        (f"{name}SizeInBytes", len(member))
        if name in _RECORDS_FIELDS and isinstance(member, bytes)
        else (name, _records_by_size(member))
        for name, member in value.items()
    )
