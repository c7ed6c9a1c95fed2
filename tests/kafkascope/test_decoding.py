"""Single messages in Python."""

from __future__ import annotations

import pytest

import kafkascope
from tests.decoders.test_interpreter import EXCHANGES
from tests.decoders.written_messages import framed

HEARTBEAT = framed(bytes.fromhex("000c0000 00000007 00026d65 000167 00000001 000161"))


def test_messages_of_every_api_are_read_with_header_and_body() -> None:
    for sample in EXCHANGES[::5]:
        frame = bytes.fromhex(sample["frame_hex"])
        version: int = sample["requested_version"] if "requested_version" in sample else sample["version"]
        if sample["dir"] == "request":
            message = kafkascope.decode_request(frame)
        else:
            message = kafkascope.decode_response(frame, sample["key"], version)
        assert (message.api_key, message.version, message.hex()) == (sample["key"], version, sample["frame_hex"])
        assert message.body is not None
        lines = message.text().splitlines()
        assert lines[0].split() == ["0", "4", "size:", str(len(frame) - 4), "INT32"]
        assert len(lines) > 4


def test_a_message_is_shown_with_its_bytes() -> None:
    message = kafkascope.decode_request(HEARTBEAT)
    assert (message.api, message.is_response, message.body) == (
        "Heartbeat",
        False,
        {"groupId": "g", "generationId": 1, "memberId": "a"},
    )
    assert message.text(as_hex=True).splitlines()[-1].split() == [
        "23",
        "3",
        "00",
        "01",
        "61",
        "memberId:",
        '"a"',
        "STRING",
    ]
    assert message.hex(" ").startswith("00 00 00 16 00 0c")


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (HEARTBEAT + b"\0", "expected the end, 1 bytes are left over at offset 26"),
        (HEARTBEAT[:-1], "size: expected a frame of 22 bytes, 21 are there"),
        (framed(HEARTBEAT[4:6] + b"\0\x63" + HEARTBEAT[8:]), "a version that a release knows, not Heartbeat v99"),
        (b"", "4 bytes of size, 0 are there"),
    ],
)
def test_what_is_no_message_is_a_decode_error(frame: bytes, complaint: str) -> None:
    with pytest.raises(kafkascope.DecodeError, match=complaint):
        kafkascope.decode_request(frame)


def test_secrets_are_hidden_in_body_and_text_unless_they_are_asked_for() -> None:
    token = b"\0bo\0geheim"
    frame = framed(bytes.fromhex("00240000 00000001 ffff") + len(token).to_bytes(4, "big") + token)
    with pytest.raises(KeyError):
        kafkascope.decode_response(frame, "Nonsense", 0)
    hidden, shown = kafkascope.decode_request(frame), kafkascope.decode_request(frame, reveal_secrets=True)
    for text in (str(hidden), hidden.text(as_hex=True)):
        assert "geheim" not in text
        assert b"geheim".hex(" ") not in text
        assert b"geheim"[:4].hex(" ") not in text
    assert "geheim" in str(shown.body)
    assert "geheim" in shown.text()
