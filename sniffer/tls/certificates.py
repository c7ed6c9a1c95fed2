"""Whom a certificate names, and from when to when (RFC 5280)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID

from kafkascope.sniffer.units import SECOND_NS

MOST_NAMES = 50


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is told of one; times are nanoseconds since 1970 UTC."""

    names: tuple[str, ...]  # the common name, then those of hosts and addresses
    begins: int
    ends: int


@lru_cache(maxsize=256)
def read_certificate(data: bytes) -> Certificate | None:
    """What a certificate (DER) says; None if it is none."""
    try:
        read = x509.load_der_x509_certificate(data)
        names = [str(name.value) for name in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        try:
            others = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names += others.get_values_for_type(x509.DNSName)
            names += map(str, others.get_values_for_type(x509.IPAddress))
        except x509.ExtensionNotFound:
            pass
        begins, ends = (int(at.timestamp()) for at in (read.not_valid_before_utc, read.not_valid_after_utc))
    except (
        ValueError,
        TypeError,
        OverflowError,
        x509.DuplicateExtension,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    ):
        return None
    if max(abs(begins), abs(ends)) > 1 << 33:  # beyond what nanoseconds can hold
        return None
    return Certificate(tuple(dict.fromkeys(names))[:MOST_NAMES], begins * SECOND_NS, ends * SECOND_NS)
