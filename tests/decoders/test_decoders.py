"""The package's own functions: frames, text, what importing it costs."""

import json
import subprocess
import sys

import pytest

from kafkascope import decoders
from kafkascope.decoders import DecodeError
from tests.decoders.written_messages import framed

HEARTBEAT = bytes.fromhex("000c00000000000700026d65") + bytes.fromhex("00016700000001000161")


def test_a_request_frame() -> None:
    frame = decoders.decode_frame(framed(HEARTBEAT))
    assert (frame.api_key, frame.api_version, frame.header_version, frame.size) == (12, 0, 1, len(HEARTBEAT))
    assert frame.header == {"requestApiKey": 12, "requestApiVersion": 0, "correlationId": 7, "clientId": "me"}
    assert frame.body == {"groupId": "g", "generationId": 1, "memberId": "a"}
    assert frame.rest == b""


def test_a_response_frame_needs_to_be_told_what_it_answers() -> None:
    frame = decoders.decode_frame(framed(bytes.fromhex("00000007001b")), response_to=(12, 0))
    assert frame.header == {"correlationId": 7}
    assert frame.body == {"errorCode": 27}


def test_an_unknown_api_or_version_still_has_a_header() -> None:
    unknown = bytes.fromhex("03e700000000000700026d6500") + b"body"
    frame = decoders.decode_frame(framed(unknown))
    assert frame.header["clientId"] == "me"
    assert (frame.body, frame.rest) == (None, b"body")
    assert decoders.decode_frame(framed(b"\0\0\0\7\0body"), response_to=(12, 99)).rest == b"body"
    for decode in (decoders.decode_request, decoders.decode_response):
        with pytest.raises(DecodeError, match="an API and version that the schemas know"):
            decode(999, 0, b"")


def test_a_body_and_what_follows_it() -> None:
    assert decoders.decode_body(12, 0, b"\0\x1b..", response=True) == ({"errorCode": 27}, b"..")
    assert decoders.decode_body(12, 0, HEARTBEAT[12:], response=False)[1] == b""


def test_bytes_behind_the_body_and_behind_the_frame_are_the_rest() -> None:
    assert decoders.decode_frame(framed(HEARTBEAT + b"more") + b"next").rest == b"morenext"


def test_every_cut_of_a_frame_is_a_decode_error_with_what_was_read() -> None:
    whole = framed(HEARTBEAT)
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            decoders.decode_frame(whole[:length])
    for length in range(len(HEARTBEAT)):
        with pytest.raises(DecodeError) as caught:
            decoders.decode_frame(framed(HEARTBEAT[:length]))
        assert caught.value.offset <= 4 + length
    assert caught.value.path == "body.memberId"
    assert caught.value.partial == {
        "header": {"requestApiKey": 12, "requestApiVersion": 0, "correlationId": 7, "clientId": "me"},
        "body": {"groupId": "g", "generationId": 1},
    }


@pytest.mark.parametrize("version", [1, 3, 5, 99])
def test_an_answer_to_an_api_versions_request_the_broker_does_not_know_is_version_0(version: int) -> None:
    body = bytes.fromhex("002300000001001200000003")
    expected = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 3}]}
    assert decoders.decode_response(18, version, body) == expected
    assert decoders.decode_frame(framed(b"\0\0\0\1" + body), response_to=(18, version)).body == expected


def test_memory_of_any_kind_is_taken() -> None:
    body = HEARTBEAT[12:]
    for kind in (bytes, bytearray, memoryview):
        assert decoders.decode_request(12, 0, kind(body))["groupId"] == "g"


def test_json() -> None:
    value = {"b": b"\xff\0", "n": None, "t": True, "f": [1.5, float("nan"), float("-inf")], "_tags": {7: b""}, "u": "é"}
    text = decoders.to_json(value)
    assert json.loads(text) == {
        "b": "/wA=",
        "n": None,
        "t": True,
        "f": [1.5, "NaN", "-Infinity"],
        "_tags": {"7": ""},
        "u": "é",
    }


def test_importing_the_package_does_not_import_the_compiler() -> None:
    program = "import sys, decoders; print(sorted({'numba', 'pyarrow', 'pandas'} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
