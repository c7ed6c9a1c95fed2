"""What a TLS handshake says in the clear (RFC 5246, 7; RFC 8446, 4 and 6), and the names of versions and alerts.

Every length is checked against what is there; what does not fit is left out, as a hello may be of anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CLIENT_HELLO, SERVER_HELLO, ENCRYPTED_EXTENSIONS, CERTIFICATE, KEY_UPDATE = 1, 2, 8, 11, 24
MESSAGE_HEADER = 4  # bytes: type, length
MOST_EXTENSIONS = 200  # of a hello that are looked at
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""Random of a HelloRetryRequest, by which it differs from a ServerHello (RFC 8446, 4.1.3)."""
_SERVER_NAME, _ALPN, _ENCRYPT_THEN_MAC, _EARLY_DATA, _VERSIONS = 0, 16, 22, 42, 43

VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
TLS_1_2, TLS_1_3 = 0x0303, 0x0304

ALERTS = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    60: "export_restriction",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    100: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}


@dataclass(frozen=True, slots=True)
class ClientHello:
    """What a client offers."""

    random: bytes
    session: bytes
    server_name: str | None
    alpn: tuple[str, ...]  # protocols above TLS, of which the server may choose one
    early_data: bool

    @property
    def offers_http(self) -> bool:
        """Whether HTTP is among the protocols that it offers; clients of Kafka offer none."""
        return any(name == "h2" or name.startswith("http/") for name in self.alpn)


@dataclass(frozen=True, slots=True)
class ServerHello:
    """What a server chose."""

    random: bytes
    session: bytes
    version: int
    suite: int
    alpn: str | None  # in TLS 1.2; later it is encrypted
    encrypt_then_mac: bool

    @property
    def is_retry(self) -> bool:
        """Whether it asks for another ClientHello."""
        return self.random == RETRY


class _Cut(Exception):  # noqa: N818 (never leaves this file)
    """There are fewer bytes than a length says."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._position:
            raise _Cut
        self._position += size
        return self._data[self._position - size : self._position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """Bytes behind a length of so many bytes."""
        return self.take(self.number(size))

    @property
    def is_empty(self) -> bool:
        return self._position >= len(self._data)


def _extensions(reader: _Reader) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    if reader.is_empty:
        return found
    inside = _Reader(reader.vector(2))
    while not inside.is_empty and len(found) < MOST_EXTENSIONS:
        kind = inside.number(2)
        found[kind] = inside.vector(2)
    return found


def client_hello(body: bytes) -> ClientHello | None:
    """A ClientHello, from behind its message header; None if it is none."""
    reader = _Reader(body)
    try:
        reader.take(2)
        random = reader.take(32)
        session = reader.vector(1)
        reader.vector(2)
        reader.vector(1)
        extensions = _extensions(reader)
    except _Cut:
        return None
    return ClientHello(
        random,
        session,
        _name(extensions),
        _protocols(extensions),
        _EARLY_DATA in extensions,
    )


def server_hello(body: bytes) -> ServerHello | None:
    """A ServerHello or HelloRetryRequest, from behind its message header; None if it is none."""
    reader = _Reader(body)
    try:
        version = reader.number(2)
        random = reader.take(32)
        session = reader.vector(1)
        suite = reader.number(2)
        reader.take(1)
        extensions = _extensions(reader)
    except _Cut:
        return None
    chosen = extensions.get(_VERSIONS, b"")
    return ServerHello(
        random,
        session,
        int.from_bytes(chosen, "big") if len(chosen) == 2 else version,
        suite,
        next(iter(_protocols(extensions)), None),
        _ENCRYPT_THEN_MAC in extensions,
    )


def encrypted_extensions(body: bytes) -> tuple[str | None, bool]:
    """The protocol that a server chose above TLS 1.3, and whether it takes early data."""
    try:
        extensions = _extensions(_Reader(body))
    except _Cut:
        return None, False
    return next(iter(_protocols(extensions)), None), _EARLY_DATA in extensions


def first_certificate(body: bytes, version: int) -> bytes | None:
    """The certificate (DER) of who sent a Certificate message; None if it sent none."""
    reader = _Reader(body)
    try:
        if version >= TLS_1_3:
            reader.vector(1)
        certificates = _Reader(reader.vector(3))
        return None if certificates.is_empty else certificates.vector(3)
    except _Cut:
        return None


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Whole handshake messages at the beginning of bytes, each with its type."""
    position = 0
    while len(data) - position >= MESSAGE_HEADER:
        end = position + MESSAGE_HEADER + int.from_bytes(data[position + 1 : position + MESSAGE_HEADER], "big")
        if end > len(data):
            return
        yield data[position], data[position + MESSAGE_HEADER : end]
        position = end


def _name(extensions: dict[int, bytes]) -> str | None:
    """The host that a client wants (RFC 6066, 3)."""
    try:
        names = _Reader(_Reader(extensions[_SERVER_NAME]).vector(2))
        kind, name = names.number(1), names.vector(2)
    except (KeyError, _Cut):
        return None
    return name.decode("utf-8", "replace") if kind == 0 else None


def _protocols(extensions: dict[int, bytes]) -> tuple[str, ...]:
    """Protocols above TLS: those that a client offers, or the one that the server chose (RFC 7301)."""
    found: list[str] = []
    try:
        names = _Reader(_Reader(extensions[_ALPN]).vector(2))
        while not names.is_empty:
            found.append(names.vector(1).decode("utf-8", "replace"))
    except (KeyError, _Cut):
        pass
    return tuple(found)
