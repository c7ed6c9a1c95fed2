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

_LEFT_OUT = ""  # stands for the text of a body that is too large for one; JSON is never empty

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
        self._texts: OrderedDict[tuple[int, int, bool, Knowledge, bytes], tuple[Knowledge, str | None]] = OrderedDict()

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
        looked_at = np.zeros(len(exchanges.number), bool)
        for key, _ in _ONE_BY_ONE | _TELLING:
            looked_at |= exchanges.api_key == key
        looked_at |= exchanges.kind == _SASL
        looked_at[list(damage.requests.keys() | damage.responses.keys())] = True
        for index in np.flatnonzero(looked_at).tolist():
            for response, texts in enumerate(special):
                try:
                    text = self._one(bodies, damage, index, bool(response))
                    if text is not None:
                        texts[index] = (text if len(text) <= longest[index] else _LEFT_OUT).encode()
                except Exception as error:
                    faults[index, bool(response)] = fault(error)
                    texts[index] = None  # nor does the kernel write it, lest it have secrets
        issue = pa.nulls(len(exchanges.number), pa.string())
        written: list[pa.Array] = []
        for response, (tape, decoded) in enumerate(
            ((bodies.requests, bodies.request_decoded), (bodies.responses, bodies.response_decoded))
        ):
            texts = _with(_by_kernel(tape, decoded, longest), special[response])
            is_left_out = _is_left_out(texts, decoded)
            is_left_out[[index for index, side in faults if side == bool(response)]] = False
            left_out = np.flatnonzero(is_left_out)
            if len(left_out):
                issue = pc.coalesce(issue, _told(left_out, bool(response), tape, issues, exchanges))
                texts = _with(texts, dict.fromkeys(left_out.tolist()))
            written.append(texts)
        return BodyText(written[0], written[1], issue, faults)

    def _one(self, bodies: Bodies, damage: Damage, index: int, response: bool) -> str | None:
        """The text of one body if it is not one for the kernel."""
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
            return to_json(decode_nested(key, _records_by_size(partial), response=response, known=known))
        if (key, response) not in _ONE_BY_ONE | _TELLING:
            return None
        if not (bodies.response_decoded if response else bodies.request_decoded)[index]:
            return None
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

    def _token(self, bodies: Bodies, index: int, response: bool, known: Knowledge) -> str | None:
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
        )


def _read(key: int, version: int, response: bool, known: Knowledge, data: bytes) -> tuple[Knowledge, str | None]:
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
    return known, to_json(decode_nested(key, body, response=response, known=known))


def _by_kernel(tape: Tape, decoded: Bool, longest: I64) -> pa.Array:
    """The text of frames read whole. One that the capture cut may look so too; it gets none, lest it have secrets."""
    texts = bodies_as_json(tape, longest=longest)
    if (tape.whole & ~decoded).any():
        texts = pc.if_else(pa.array(decoded), texts, pa.scalar(None, texts.type))
    return texts.cast(pa.string())


def _is_left_out(texts: pa.Array, decoded: Bool) -> Bool:
    """Bodies that are too large for a text."""
    missing = pc.is_null(texts).to_numpy(zero_copy_only=False)
    marked = pc.fill_null(pc.equal(pc.binary_length(texts), 0), False).to_numpy(zero_copy_only=False)
    left_out: Bool = (decoded & missing) | marked
    return left_out


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


def _with(texts: pa.Array, special: Mapping[int, bytes | None]) -> pa.Array:
    if not special:
        return texts
    mask = np.zeros(len(texts), bool)
    mask[list(special)] = True
    replacements = pa.array([special[index] for index in sorted(special)], pa.binary()).cast(texts.type)
    return pc.replace_with_mask(texts, pa.array(mask), replacements)
