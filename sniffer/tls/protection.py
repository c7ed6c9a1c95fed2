"""Records opened: the ciphers of TLS 1.2 (RFC 5246, 5288, 6655, 7366, 7905) and TLS 1.3 (RFC 8446).

Each tells by its tag, or MAC, whether a record is the one with a sequence number: a wrong guess gives None.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from kafkascope.sniffer.tls.suites import Suite

HEADER = 5  # bytes of a record's header: type, version, length


class Protection(Protocol):
    """The keys of one direction, from a change of keys to the next."""

    least_overhead: int
    """Bytes of a record on the wire beyond its content, header included, at the least."""

    def open(self, sequence: int, header: bytes, fragment: bytes) -> tuple[int, bytes] | None:
        """Type and content of a record; None if it was not protected with these keys and this sequence number."""


class Shared:
    """Has no state: copies of connections share it."""

    def __deepcopy__(self, _: Any) -> Any:
        return self


def _aead(suite: Suite, key: bytes) -> Any:
    if suite.mode == "gcm":
        return AESGCM(key)
    if suite.mode == "chacha20":
        return ChaCha20Poly1305(key)
    return AESCCM(key, tag_length=8 if suite.mode == "ccm_8" else 16)


def _tag_bytes(suite: Suite) -> int:
    return 8 if suite.mode == "ccm_8" else 16


def expand_label(secret: bytes, label: str, length: int, algorithm: str) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446, 7.1; RFC 5869, 2.3)."""
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    made, block, counter = b"", b"", 1
    while len(made) < length:
        block = hmac.digest(secret, block + info + bytes([counter]), algorithm)
        made += block
        counter += 1
    return made[:length]


def pseudorandom(secret: bytes, label: bytes, seed: bytes, length: int, algorithm: str) -> bytes:
    """The pseudorandom function of TLS 1.2 (RFC 5246, 5)."""
    seed = label + seed
    made, link = b"", seed
    while len(made) < length:
        link = hmac.digest(secret, link, algorithm)
        made += hmac.digest(secret, link + seed, algorithm)
    return made[:length]


class Protection13(Shared):
    """TLS 1.3: one traffic secret (RFC 8446, 5.2 and 7.3)."""

    def __init__(self, suite: Suite, secret: bytes) -> None:
        self._suite = suite
        self._secret = secret
        self._aead = _aead(suite, expand_label(secret, "key", suite.key_bytes, suite.hash))
        self._iv = int.from_bytes(expand_label(secret, "iv", 12, suite.hash), "big")
        self.least_overhead = HEADER + 1 + _tag_bytes(suite)

    def open(self, sequence: int, header: bytes, fragment: bytes) -> tuple[int, bytes] | None:
        """As in Protection."""
        try:
            inner: bytes = self._aead.decrypt((self._iv ^ sequence).to_bytes(12, "big"), fragment, header)
        except (InvalidTag, ValueError):
            return None
        inner = inner.rstrip(b"\0")
        return (inner[-1], inner[:-1]) if inner else None

    def next(self) -> Protection13:
        """Behind a KeyUpdate (7.2)."""
        size = hashlib.new(self._suite.hash).digest_size
        return Protection13(self._suite, expand_label(self._secret, "traffic upd", size, self._suite.hash))


def protections12(
    suite: Suite, master: bytes, client_random: bytes, server_random: bytes, encrypt_then_mac: bool
) -> tuple[Protection, Protection]:
    """Those of client and server in TLS 1.2 (RFC 5246, 6.3)."""
    iv_bytes = 0 if suite.mode == "cbc" else 12 if suite.mode == "chacha20" else 4
    sizes = [suite.mac_bytes, suite.mac_bytes, suite.key_bytes, suite.key_bytes, iv_bytes, iv_bytes]
    block = pseudorandom(master, b"key expansion", server_random + client_random, sum(sizes), suite.hash)
    parts = []
    for size in sizes:
        parts.append(block[:size])
        block = block[size:]
    macs, keys, ivs = parts[:2], parts[2:4], parts[4:]
    if suite.mode == "cbc":
        cbc = [Cbc12(suite, key, mac, encrypt_then_mac) for key, mac in zip(keys, macs, strict=True)]
        return cbc[0], cbc[1]
    aead = [Aead12(suite, key, iv) for key, iv in zip(keys, ivs, strict=True)]
    return aead[0], aead[1]


class Aead12(Shared):
    """TLS 1.2 with an AEAD: a nonce out of the record (GCM, CCM) or out of the sequence number (ChaCha20)."""

    def __init__(self, suite: Suite, key: bytes, iv: bytes) -> None:
        self._aead = _aead(suite, key)
        self._iv = iv
        self._explicit = 0 if suite.mode == "chacha20" else 8
        self._overhead = self._explicit + _tag_bytes(suite)
        self.least_overhead = HEADER + self._overhead

    def open(self, sequence: int, header: bytes, fragment: bytes) -> tuple[int, bytes] | None:
        """As in Protection."""
        if len(fragment) < self._overhead:
            return None
        number = sequence.to_bytes(8, "big")
        if self._explicit:
            nonce = self._iv + fragment[: self._explicit]
        else:
            nonce = (int.from_bytes(self._iv, "big") ^ sequence).to_bytes(12, "big")
        length = (len(fragment) - self._overhead).to_bytes(2, "big")
        try:
            return header[0], self._aead.decrypt(nonce, fragment[self._explicit :], number + header[:3] + length)
        except (InvalidTag, ValueError):
            return None


class Cbc12(Shared):
    """TLS 1.2 with AES-CBC and HMAC, in the order of RFC 5246 or (encrypt then MAC) of RFC 7366."""

    def __init__(self, suite: Suite, key: bytes, mac: bytes, encrypt_then_mac: bool) -> None:
        assert suite.mac is not None
        self._key, self._mac = key, mac
        self._algorithm, self._mac_bytes = suite.mac, suite.mac_bytes
        self._encrypt_then_mac = encrypt_then_mac
        self.least_overhead = HEADER + 16 + suite.mac_bytes + 1

    def open(self, sequence: int, header: bytes, fragment: bytes) -> tuple[int, bytes] | None:
        """As in Protection."""
        mac = b""
        if self._encrypt_then_mac:
            fragment, mac = fragment[: -self._mac_bytes], fragment[-self._mac_bytes :]
            if mac != self._mac_of(sequence, header, fragment):
                return None
        if len(fragment) < 32 or len(fragment) % 16:
            return None
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(fragment[:16])).decryptor()
        content: bytes = decryptor.update(fragment[16:]) + decryptor.finalize()
        padding = content[-1] + 1
        if padding > len(content):
            return None
        content = content[:-padding]
        if not self._encrypt_then_mac:
            content, mac = content[: -self._mac_bytes], content[-self._mac_bytes :]
            if mac != self._mac_of(sequence, header, content):
                return None
        return header[0], content

    def _mac_of(self, sequence: int, header: bytes, content: bytes) -> bytes:
        said = sequence.to_bytes(8, "big") + header[:3] + len(content).to_bytes(2, "big") + content
        return hmac.digest(self._mac, said, self._algorithm)
