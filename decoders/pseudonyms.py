"""Names, addresses and contents replaced by pseudonyms, the same ones wherever they stand and each time for one key.

A pseudonym is as long as what it stands for, so it takes its place in a message: letters become letters, digits digits,
by a shift that hangs on the key and on what stands before. So names stay different, and names that begin alike have
pseudonyms that begin alike: a member's id with its client's. Lengths and beginnings in common are what is given away.
A host's addresses for itself (127.0.0.0/8, ::1) stay, as they are of no host, and no other address becomes one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

LONGEST = 4096  # bytes of a text of which each has its own shift; what is behind becomes x
CONTENT_BYTES = 16  # of a pseudonym of a key or value

_CLASSES = (
    (ord("a"), ord("z")),
    (ord("A"), ord("Z")),
    (ord("0"), ord("9")),
    (0x80, 0xBF),  # what follows the first byte of a character in UTF-8
)
_SECOND_BYTES = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}  # RFC 3629, 4
_IPV4 = re.compile(rb"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w.])")


def _class_of(byte: int, before: int) -> tuple[int, int] | None:
    """The first and last of the bytes that may stand for a byte; None if it stays."""
    if before in _SECOND_BYTES and 0x80 <= byte <= 0xBF:
        return _SECOND_BYTES[before]
    return next((span for span in _CLASSES if span[0] <= byte <= span[1]), None)


class Pseudonyms:
    """Pseudonyms by one key."""

    def __init__(self, key: str) -> None:
        self._key = hashlib.blake2b(key.encode(), digest_size=32).digest()
        self._kept: Callable[[bytes], bytes] = lru_cache(maxsize=100_000)(self._of_text)

    def __repr__(self) -> str:
        return "<Pseudonyms>"

    def __deepcopy__(self, _: Any) -> Pseudonyms:
        return self

    def __reduce__(self) -> Any:
        return _of_key, (self._key,)

    def text(self, text: bytes) -> bytes:
        """The pseudonym of a text, with addresses in it as `address` has them."""
        return self._kept(text)

    def name(self, name: str) -> str:
        """The same of a string."""
        return self._kept(name.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def content(self, data: bytes) -> bytes:
        """The pseudonym of a record's key or value, which tells nothing of it but whether another is the same."""
        return hashlib.blake2b(data, key=self._key, person=b"content", digest_size=CONTENT_BYTES).hexdigest().encode()

    def address(self, high: int, low: int) -> tuple[int, int]:
        """The pseudonym of an address of 16 bytes (IPv4 mapped, ::ffff:0:0/96), in two halves as it was."""
        if not high and low >> 32 == 0xFFFF:
            return 0, 0xFFFF << 32 | int(IPv4Address(self._ipv4(str(IPv4Address(low & 0xFFFFFFFF)))))
        value = int(IPv6Address(self._ipv6(IPv6Address(high << 64 | low))))
        return value >> 64, value & (1 << 64) - 1

    def octets(self, address: bytes) -> bytes:
        """The pseudonym of an address as it stands in a packet's header: 4 or 16 bytes of IP, 6 of hardware.

        That of hardware is a local one (IEEE 802c) and tells whether it is of a group; none and all stay.
        """
        if len(address) == 4:
            return (self.address(0, 0xFFFF << 32 | int.from_bytes(address, "big"))[1] & 0xFFFFFFFF).to_bytes(4, "big")
        if len(address) == 16:
            halves = self.address(int.from_bytes(address[:8], "big"), int.from_bytes(address[8:], "big"))
            return b"".join(half.to_bytes(8, "big") for half in halves)
        if address in (bytes(6), b"\xff" * 6):
            return address
        made = hashlib.blake2b(address, key=self._key, person=b"hardware", digest_size=6).digest()
        return bytes([made[0] & 0xFC | 2 | address[0] & 1]) + made[1:]

    def _of_text(self, text: bytes) -> bytes:
        if b":" in text:
            try:
                address = IPv6Address(text.decode("ascii"))
                made = str(self._ipv6(address)).encode()
                if len(made) == len(text):
                    return made
            except (AddressValueError, UnicodeDecodeError):
                pass
        parts, behind = [], 0
        for found in _IPV4.finditer(text):
            try:
                address4 = self._ipv4(str(IPv4Address(found[0].decode()))).encode()
            except AddressValueError:
                continue
            parts += [self._shifted(text[behind : found.start()]), address4]
            behind = found.end()
        return b"".join(parts) + self._shifted(text[behind:])

    def _shifted(self, text: bytes) -> bytes:
        state = hashlib.blake2b(key=self._key, person=b"text", digest_size=8)
        made = bytearray(text)
        before = 0
        for place, byte in enumerate(text[:LONGEST]):
            span = _class_of(byte, before)
            if span is not None:
                shift = int.from_bytes(state.digest(), "big")
                made[place] = span[0] + (byte - span[0] + shift) % (span[1] - span[0] + 1)
            state.update(bytes([byte]))
            before = byte
        made[LONGEST:] = b"x" * len(made[LONGEST:])
        return bytes(made)

    def _shift(self, before: str, value: int, first: int, last: int) -> int:
        digest = hashlib.blake2b(before.encode(), key=self._key, person=b"address", digest_size=8).digest()
        return first + (value - first + int.from_bytes(digest, "big")) % (last - first + 1)

    def _ipv4(self, address: str) -> str:
        """Addresses of hosts for themselves stay; what would become one takes the place that they have free."""
        if address.startswith("127."):
            return address
        made = self._shifted_ipv4(address)
        return self._shifted_ipv4("127." + address.partition(".")[2]) if made.startswith("127.") else made

    def _shifted_ipv4(self, address: str) -> str:
        """Each number becomes one with as many digits."""
        made, before = [], "4"
        for number in address.split("."):
            first, last = ((0, 9), (10, 99), (100, 255))[len(number) - 1]
            made.append(str(self._shift(before, int(number), first, last)))
            before += "." + number
        return ".".join(made)

    def _ipv6(self, address: IPv6Address) -> IPv6Address:
        """As of IPv4."""
        if address.is_loopback:
            return address
        made = self._shifted_ipv6(address)
        return self._shifted_ipv6(IPv6Address("::1")) if made.is_loopback else made

    def _shifted_ipv6(self, address: IPv6Address) -> IPv6Address:
        """Each group becomes one with as many digits; those that are zero stay."""
        if address.ipv4_mapped is not None:
            return IPv6Address("::ffff:" + self._ipv4(str(address.ipv4_mapped)))
        made, before = [], "6"
        for group in address.exploded.split(":"):
            digits = len(group.lstrip("0"))
            value = int(group, 16)
            if digits:
                value = self._shift(before, value, 1 << 4 * (digits - 1), (1 << 4 * digits) - 1)
            made.append(f"{value:x}")
            before += ":" + group
        return IPv6Address(":".join(made))


def _of_key(key: bytes) -> Pseudonyms:
    made = Pseudonyms("")
    made._key = key
    return made
