"""Cipher suites by their numbers (IANA, TLS Cipher Suites): what of them must be known to open records."""

from __future__ import annotations

from dataclasses import dataclass

# For each suite its number. Of TLS 1.2 the key exchanges differ in nothing that matters here, so they are in groups.
_NUMBERS: dict[str, tuple[int, ...]] = {
    # RFC 8446
    "TLS_AES_128_GCM_SHA256": (0x1301,),
    "TLS_AES_256_GCM_SHA384": (0x1302,),
    "TLS_CHACHA20_POLY1305_SHA256": (0x1303,),
    "TLS_AES_128_CCM_SHA256": (0x1304,),
    "TLS_AES_128_CCM_8_SHA256": (0x1305,),
    # RFC 5288 and 5289: RSA, DHE_RSA, DHE_DSS, DH_anon, ECDHE_ECDSA, ECDHE_RSA, and the PSKs of RFC 5487
    "AES_128_GCM_SHA256": (0x9C, 0x9E, 0xA2, 0xA6, 0xC02B, 0xC02F, 0xA8, 0xAA, 0xAC),
    "AES_256_GCM_SHA384": (0x9D, 0x9F, 0xA3, 0xA7, 0xC02C, 0xC030, 0xA9, 0xAB, 0xAD),
    # RFC 6655, 7251: RSA, DHE_RSA, PSK, DHE_PSK, ECDHE_ECDSA
    "AES_128_CCM_SHA256": (0xC09C, 0xC09E, 0xC0A4, 0xC0A6, 0xC0AC),
    "AES_256_CCM_SHA256": (0xC09D, 0xC09F, 0xC0A5, 0xC0A7, 0xC0AD),
    "AES_128_CCM_8_SHA256": (0xC0A0, 0xC0A2, 0xC0A8, 0xC0AA, 0xC0AE),
    "AES_256_CCM_8_SHA256": (0xC0A1, 0xC0A3, 0xC0A9, 0xC0AB, 0xC0AF),
    # RFC 7905: ECDHE_RSA, ECDHE_ECDSA, DHE_RSA, PSK, ECDHE_PSK, DHE_PSK, RSA_PSK
    "CHACHA20_POLY1305_SHA256": (0xCCA8, 0xCCA9, 0xCCAA, 0xCCAB, 0xCCAC, 0xCCAD, 0xCCAE),
    # RFC 5246, 5289: RSA, DHE_DSS, DHE_RSA, DH_anon, ECDHE_ECDSA, ECDHE_RSA
    "AES_128_CBC_SHA": (0x2F, 0x32, 0x33, 0x34, 0xC009, 0xC013),
    "AES_256_CBC_SHA": (0x35, 0x38, 0x39, 0x3A, 0xC00A, 0xC014),
    "AES_128_CBC_SHA256": (0x3C, 0x40, 0x67, 0x6C, 0xC023, 0xC027),
    "AES_256_CBC_SHA256": (0x3D, 0x6A, 0x6B, 0x6D),
    "AES_256_CBC_SHA384": (0xC024, 0xC028),
}
_KEY_BYTES = {"AES_128": 16, "AES_256": 32, "CHACHA20": 32}
_MAC_BYTES = {"sha1": 20, "sha256": 32, "sha384": 48}


@dataclass(frozen=True, slots=True)
class Suite:
    """How records are protected."""

    name: str  # without the key exchange, which does not matter to records
    mode: str  # gcm, ccm, ccm_8, chacha20, cbc
    key_bytes: int
    hash: str  # of the key schedule (1.3) or the pseudorandom function (1.2)
    mac: str | None  # hash of the MAC (cbc)
    mac_bytes: int


def _suite(name: str) -> Suite:
    cipher = name.removeprefix("TLS_")
    mode = next(mode for mode in ("CCM_8", "CCM", "GCM", "CHACHA20", "CBC") if mode in cipher).lower()
    key_bytes = next(size for start, size in _KEY_BYTES.items() if cipher.startswith(start))
    last = cipher.rpartition("_")[2].lower()
    mac = None if mode != "cbc" else "sha1" if last == "sha" else last
    return Suite(name, mode, key_bytes, "sha384" if last == "sha384" else "sha256", mac, _MAC_BYTES[mac] if mac else 0)


SUITES: dict[int, Suite] = {number: _suite(name) for name, numbers in _NUMBERS.items() for number in numbers}
SUITES_OF_1_3 = frozenset(range(0x1301, 0x1306))  # no earlier version has them
