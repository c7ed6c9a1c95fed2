"""Single messages in Python: ``kafkascope.decode_request(...)`` and ``kafkascope.decode_response(...)``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkascope.decoders import DecodeError, apis, decode_frame, plain
from kafkascope.decoders.nested import Knowledge, decode_nested
from kafkascope.decoders.parts import dissect_frame
from kafkascope.decoders.redaction import checked_names

HIDDEN = (
    "the bytes of a message hold what anonymize hides: `kafkascope scrub` writes a capture without it, to be read "
    "without anonymize"
)


@dataclass(frozen=True, slots=True)
class Message:
    """A request or a response."""

    api: str  # Fetch; api-99 for a key that no release knows
    api_key: int
    version: int  # that the request has
    is_response: bool
    body: dict[str, Any] | None  # by field name, without secrets; None: no release knows it, or it is damaged
    raw: bytes = field(repr=False)  # the whole frame as on the wire: four bytes of size, header, body; b"": anonymize

    def hex(self, separator: str = "") -> str:
        """The bytes of the whole frame in hex, secrets and all; with a separator between them.

        Raises LookupError where names are hidden (anonymize), as `text` does.
        """
        if not self.raw:
            raise LookupError(HIDDEN)
        return self.raw.hex(separator) if separator else self.raw.hex()

    def text(self, *, as_hex: bool = False) -> str:
        """A line for each field: offset, length, name, value and type; with as_hex its bytes too, without secrets."""
        if not self.raw:
            raise LookupError(HIDDEN)
        from kafkascope.reports.show.message_lines import MessageStyle, frame_lines

        found = dissect_frame(self.raw, response_to=(self.api_key, self.version) if self.is_response else None)
        return "\n".join(frame_lines(found, self.raw, plain(self.body), MessageStyle(as_hex=as_hex)))


def message_of(row: Mapping[str, Any], side: str, raw: bytes | None) -> Message | None:
    """The request or response of an exchange: its row of the exchanges table, and its frame.

    None if there is no frame, or it is not known which API it is of.
    """
    if raw is None or row["api_key"] is None:
        return None
    body = None if row[side] is None else json.loads(row[side])
    return Message(row["api"], int(row["api_key"]), int(row["api_version"]), side == "response", body, raw)


def decode_request(frame: bytes, *, reveal_secrets: bool = False, secret_names: Iterable[str] = ()) -> Message:
    """A request: four bytes of size, header, body. The header says API and version.

    Raises `kafkascope.DecodeError` (a ValueError) where the bytes are not what the protocol says, or are left over.
    Secrets read ``[redacted]`` in the body unless they are to be revealed; secret_names: as of `kafkascope.read`.

    >>> import kafkascope
    >>> frame = bytes.fromhex("00000016 000c0000 00000007 00026d65 000167 00000001 000161")
    >>> kafkascope.decode_request(frame).body
    {'groupId': 'g', 'generationId': 1, 'memberId': 'a'}
    """
    return _decoded(frame, None, Knowledge(reveal_secrets=reveal_secrets, secret_names=checked_names(secret_names)))


def decode_response(
    frame: bytes, api: str | int, version: int, *, reveal_secrets: bool = False, secret_names: Iterable[str] = ()
) -> Message:
    """A response: four bytes of size, header, body. It does not say itself which API (name or key) and version it has.

    Raises KeyError if no API is called so; else as `decode_request`.

    >>> import kafkascope
    >>> kafkascope.decode_response(bytes.fromhex("00000006 00000007 001b"), api="Heartbeat", version=0).body
    {'errorCode': 27}
    """
    key = api if isinstance(api, int) else apis.key_of(api)
    known = Knowledge(reveal_secrets=reveal_secrets, secret_names=checked_names(secret_names))
    return _decoded(frame, (key, version), known)


def _decoded(frame: bytes, response_to: tuple[int, int] | None, known: Knowledge) -> Message:
    raw = bytes(frame)
    read = decode_frame(raw, response_to=response_to)
    response = response_to is not None
    if read.body is None:
        unknown = f"a version that a release knows, not {apis.name_of(read.api_key)} v{read.api_version}"
        raise DecodeError("body", len(raw) - len(read.rest), unknown)
    if read.rest:
        raise DecodeError("", len(raw) - len(read.rest), f"the end, {len(read.rest)} bytes are left over")
    body = decode_nested(read.api_key, read.body, response=response, known=known)
    return Message(apis.name_of(read.api_key), read.api_key, read.api_version, response, body, raw)
