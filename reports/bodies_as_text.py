"""Bodies as JSON text: most by a kernel, those with other messages inside, with secrets, or damaged one by one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from decoders import DecodeError, apis, decode_request, decode_response, to_json
from decoders.json_text import bodies_as_json
from decoders.nested import NOTHING_KNOWN, Knowledge, decode_nested
from decoders.redaction import MESSAGES_WITH_SECRETS
from decoders.sasl import decode_token
from decoders.tape import Tape
from reports.bodies import Bodies
from reports.damage import Damage
from reports.faults import fault
from sniffer.columns import Bool, Kind

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

LONGEST_TEXT = 1 << 28
"""Where the texts of a batch are more than a column holds (2 GiB), those of more bytes than this are left out."""

REMEMBERED_TEXTS = 2000
"""Members say the same again and again; so many texts are kept, of bodies up to `REMEMBERED_BYTES`."""
REMEMBERED_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class BodyText:
    """JSON of each exchange's bodies; null where there is none."""

    request: pa.Array
    response: pa.Array
    faults: Mapping[tuple[int, bool], str]  # of bodies that could not be written, by exchange and side (True: response)


class BodyTexts:
    """Writes bodies as text. Keeps what connections told that their later bodies need."""

    def __init__(self, *, reveal_secrets: bool = False, secret_names: tuple[str, ...] = ()) -> None:
        self._nothing_known = replace(NOTHING_KNOWN, reveal_secrets=reveal_secrets, secret_names=secret_names)
        self._known: dict[int, Knowledge] = {}
        self._texts: OrderedDict[tuple[int, int, bool, Knowledge, bytes], tuple[Knowledge, str | None]] = OrderedDict()

    def forget(self, connections: list[int]) -> None:
        """Drop what is known of connections that have ended."""
        for connection in connections:
            self._known.pop(connection, None)

    def write(self, bodies: Bodies, damage: Damage) -> BodyText:
        """The text of the bodies."""
        exchanges = bodies.exchanges
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
                        texts[index] = text.encode()
                except Exception as error:
                    faults[index, bool(response)] = fault(error)
                    texts[index] = None  # nor does the kernel write it, lest it have secrets
        return BodyText(
            _with(_by_kernel(bodies.requests, bodies.request_decoded), special[0]),
            _with(_by_kernel(bodies.responses, bodies.response_decoded), special[1]),
            faults,
        )

    def _one(self, bodies: Bodies, damage: Damage, index: int, response: bool) -> str | None:
        """The text of one body if it is not one for the kernel."""
        exchanges = bodies.exchanges
        connection = int(exchanges.connection[index])
        known = self._known.get(connection, self._nothing_known)
        key = int(exchanges.api_key[index])
        if exchanges.kind[index] == _SASL:
            return self._token(bodies, index, response, known)
        partial = (damage.responses if response else damage.requests).get(index)
        if partial is not None:
            return to_json(decode_nested(key, _records_by_size(partial), response=response, known=known))
        if (key, response) not in _ONE_BY_ONE | _TELLING:
            return None
        if not (bodies.response_decoded if response else bodies.request_decoded)[index]:
            return None
        version = int((exchanges.response_version if response else exchanges.api_version)[index])
        start, end = (
            (exchanges.response_body, exchanges.response_end)
            if response
            else (exchanges.request_body, exchanges.request_end)
        )
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
        token = exchanges.data[start[index] : end[index]].tobytes()
        return to_json(
            decode_token(known.mechanism, token, from_client=not response, reveal_secrets=known.reveal_secrets)
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


def _by_kernel(tape: Tape, decoded: Bool) -> pa.Array:
    """The text of frames read whole. One that the capture cut may look so too; it gets none, lest it have secrets."""
    texts = bodies_as_json(tape)
    shown = decoded
    if pa.types.is_large_string(texts.type):
        length = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
        shown = decoded & (length <= LONGEST_TEXT)
    if (tape.whole & ~shown).any():
        texts = pc.if_else(pa.array(shown), texts, pa.scalar(None, texts.type))
    return texts.cast(pa.string())


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
