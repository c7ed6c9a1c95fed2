from __future__ import annotations

import numpy as np
import pytest

from kafkascope.sniffer.recognise import (
    Verdict,
    are_responses,
    begins_with_cut_request,
    begins_with_request,
    fits,
    other_protocol,
    readings,
    signature,
)

REQUEST = bytes.fromhex("00000016 0003 0001 00000007 0003 616263 00000001 0003") + b"abc"


@pytest.mark.parametrize("length", range(17))
def test_a_request_is_told_by_its_header_alone(length: int) -> None:
    assert begins_with_request(REQUEST[:length], 1 << 20) is Verdict.MORE


def test_a_whole_header_is_enough() -> None:
    assert begins_with_request(REQUEST[:17], 1 << 20) is Verdict.REQUEST
    assert begins_with_request(REQUEST, 1 << 20) is Verdict.REQUEST


@pytest.mark.parametrize(
    ("client_id", "is_one"), [(b"caf\xc3", True), (b"cafe", True), (b"\xff\xc3", False), (b"\0", False)]
)
def test_of_a_client_id_that_the_capture_cuts_what_is_there_must_be_text(client_id: bytes, is_one: bool) -> None:
    assert begins_with_cut_request(REQUEST[:14] + client_id) is is_one


def test_a_cut_header_of_an_unknown_version_is_no_request() -> None:
    assert begins_with_cut_request(REQUEST[:14])
    assert not begins_with_cut_request(REQUEST[:13])
    assert not begins_with_cut_request(REQUEST[:6] + b"\0\xff" + REQUEST[8:14])


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        bytes.fromhex("7fffffff 0003 0001 00000007 ffff"),
        bytes.fromhex("00000016 00ff 0001 00000007 ffff"),
        bytes.fromhex("00000016 0003 0001 00000007 7fff 616263"),
    ],
)
def test_what_is_no_request(data: bytes) -> None:
    assert begins_with_request(data, 1 << 20) is Verdict.NO


@pytest.mark.parametrize("data", ["00000016 0003 0001 00000007 0003 610062", "00000800 0003 0001 00000007 0401"])
def test_of_a_client_id_that_is_no_text_or_very_long_the_body_must_tell(data: str) -> None:
    assert begins_with_request(bytes.fromhex(data), 1 << 20) is Verdict.DOUBTFUL


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "tls"),
        (b"GET / HTTP/1.1\r\n", "http"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh"),
        (b"*1\r\n$4\r\nPING\r\n", "redis"),
        (bytes.fromhex("00000008fffffffe0000000b"), "zookeeper"),
    ],
)
def test_signatures(data: bytes, name: str) -> None:
    assert signature(data) == name
    assert other_protocol((b"", data)) == name


def test_nothing_else_is_known() -> None:
    assert signature(REQUEST) is None
    assert other_protocol((b"", b"")) == "empty"
    assert other_protocol((b"\xff\xfe", b"")) == "unknown"


def test_a_body_fits_to_its_last_byte() -> None:
    body = np.frombuffer(bytes.fromhex("0000 00000001"), np.uint8)  # Heartbeat 0 has the error code alone
    assert fits(body, 0, 2, 12, 0, True)
    assert not fits(body, 0, 3, 12, 0, True)
    assert not fits(body, 0, 2, 9999, 0, True)


def test_readings_are_told_apart() -> None:
    table = readings()
    pairs = list(zip(table.api_key.tolist(), table.api_version.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(table.api_key.tolist()) == set(range(95))


def test_zookeeper_is_no_chain_of_responses() -> None:
    frames = b"".join(
        (21).to_bytes(4, "big") + xid.to_bytes(4, "big") + (4).to_bytes(4, "big") + b"\0\0\0\x08/brokers" + b"\0"
        for xid in range(1, 5)
    )
    assert not are_responses(np.frombuffer(frames, np.uint8), 0, len(frames), 4)


@pytest.mark.parametrize("size", [-1, 0, 3])
def test_a_frame_smaller_than_a_correlation_id_is_no_response(size: int) -> None:
    data = np.frombuffer(size.to_bytes(4, "big", signed=True) + bytes(20), np.uint8)
    assert not are_responses(data, 0, len(data), 3)
