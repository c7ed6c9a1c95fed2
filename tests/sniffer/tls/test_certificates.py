"""What certificates say, and what is none."""

from __future__ import annotations

import ssl
from functools import lru_cache

import pytest

from kafkascope.sniffer.tls.certificates import read_certificate
from tests.sniffer.tls.tls_conversation import certificate


@lru_cache
def der() -> bytes:
    pem = certificate().decode()
    return ssl.PEM_cert_to_DER_cert(pem[pem.index(ssl.PEM_HEADER) :])


VERSION = bytes.fromhex("a003020102")  # [0] INTEGER 2: of version 3


def test_whom_it_names() -> None:
    read = read_certificate(der())
    assert read is not None
    assert read.names == ("broker one", "broker-1.example", "kafka.example")


@pytest.mark.parametrize("version", [b"\x01", b"\x05"])
def test_versions_that_there_are_not_are_none(version: bytes) -> None:
    whole = der()
    place = whole.index(VERSION) + len(VERSION) - 1
    assert read_certificate(whole[:place] + version + whole[place + 1 :]) is None


def test_no_byte_of_it_can_be_damaged_so_that_reading_fails() -> None:
    whole = der()
    for place in range(len(whole)):
        for value in {0x00, 0xFF, whole[place] ^ 0x01}:
            read_certificate(whole[:place] + bytes([value]) + whole[place + 1 :])
