from __future__ import annotations

import logging

import numpy as np
import pytest

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.sniffer.columns import NO_TIME, Exchanges, Kind, Outcome, Runs
from kafkascope.sniffer.exchanges import Conversations, Start
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.pairing.state import MOST_WAITING
from tests.decoders.written_messages import framed, request, response
from tests.sniffer.written_runs import Run, runs
from tests.steps import steps

LOW = Limits(waiting_bytes=1 << 16, frame_bytes=1 << 20)


def talk(
    *parts: tuple[int, bytes | int], limits: Limits = DEFAULT, opened: bool = True
) -> tuple[list[tuple[int, int]], list[Issue], Exchanges]:
    """Packets of (direction, bytes or length of a gap), one batch each, then all of them as one: both must be equal."""
    found = []
    for size in (1, len(parts)):
        conversations = Conversations(lambda ids: {one: Start(opened) for one in ids}, limits)
        offsets = [0, 0]
        rows = []
        for number, (direction, part) in enumerate(parts, 1):
            rows.append(Run(1, direction, offsets[direction], part, number))
            offsets[direction] += part if isinstance(part, int) else len(part)
        outcome = []
        last = None
        for low in range(0, len(rows), size):
            last = conversations.feed(runs(rows[low : low + size]))
            outcome += list(zip(last.correlation_id.tolist(), last.outcome.tolist(), strict=True))
        end = conversations.end([1])
        outcome += list(zip(end.correlation_id.tolist(), end.outcome.tolist(), strict=True))
        assert last is not None
        found.append((outcome, list(conversations.issues), last))
    assert found[0][0] == found[1][0]
    assert list(map(str, found[0][1])) == list(map(str, found[1][1]))
    return found[1]


def test_equal_ids_are_answered_in_order() -> None:
    outcome, issues, exchanges = talk((0, request(7) + request(7)), (1, response(7)), (1, response(7)))
    assert outcome == [(7, Outcome.ANSWERED)] * 2
    assert exchanges.response_packet.tolist() == [2, 3]
    assert not issues


def test_a_response_before_its_request_needs_an_earlier_time() -> None:
    outcome, _, _ = talk((0, request(1)), (1, response(2)), (0, request(2)), (1, response(2)))
    assert outcome == [(2, Outcome.ORPHAN), (2, Outcome.ANSWERED), (1, Outcome.UNANSWERED)]


@pytest.mark.parametrize("length", [1, 64, 65, 300])
def test_the_client_id_of_a_connection_is_whole(length: int) -> None:
    """Streams makes long ones, which differ at their ends."""
    name = b"".join(b"%d," % n for n in range(length))[:length]
    conversations = Conversations(lambda ids: {one: Start(True) for one in ids}, DEFAULT)
    offset = 0
    for number, asked in enumerate((name, name, b"x" * length), 1):
        frame = request(number, client_id=asked)
        conversations.feed(runs([Run(1, 0, offset, frame, number)]))
        offset += len(frame)
    conversations.end([1])
    assert conversations.client_id(1) == name.decode()
    conversations.forget(1)
    assert conversations.client_id(1) is None


def test_acks_0_is_complete_at_once() -> None:
    outcome, _, _ = talk((0, request(1, 0, 2, bytes(2) + bytes(8))), (0, request(2, 0, 3, b"\xff\xff" + bytes(10))))
    assert outcome == [(1, Outcome.ONE_WAY), (2, Outcome.ONE_WAY)]


def test_api_versions_falls_back_to_version_0() -> None:
    _, _, exchanges = talk((0, request(1, 18, 3, b"\0")), (1, response(1, b"\0\x23" + bytes(4))))
    assert exchanges.response_version.tolist() == [0]
    assert exchanges.api_version.tolist() == [3]


def test_the_oldest_of_too_many_requests_is_given_up() -> None:
    asked = b"".join(map(request, range(MOST_WAITING)))
    outcome, issues, _ = talk((0, asked), (1, response(0)))
    assert outcome == [(0, Outcome.ANSWERED)] + [(number, Outcome.UNANSWERED) for number in range(1, MOST_WAITING)]
    assert not issues
    outcome, issues, _ = talk((0, asked + request(MOST_WAITING)), (1, response(1)))
    assert outcome[:2] == [(0, Outcome.UNANSWERED), (1, Outcome.ANSWERED)]
    assert [issue.kind for issue in issues] == ["too_many_waiting"]


def test_the_oldest_of_too_many_bytes_is_given_up_but_never_the_only_request() -> None:
    half = bytes(LOW.waiting_bytes // 2)
    only = request(1, content=half + half)
    outcome, issues, _ = talk((0, only), (1, response(1)), limits=LOW)
    assert (outcome, issues) == ([(1, Outcome.ANSWERED)], [])
    two = request(1, content=half) + request(2, content=half)
    outcome, issues, _ = talk((0, two), (1, response(2)), limits=LOW)
    assert outcome == [(1, Outcome.UNANSWERED), (2, Outcome.ANSWERED)]
    assert [issue.kind for issue in issues] == ["too_many_waiting"]


@pytest.mark.parametrize(("client_id", "is_kafka"), [(b"a-client-with-a-long-name", True), (b"\0" * 25, False)])
def test_a_first_request_that_is_cut_in_its_client_id_is_one(client_id: bytes, is_kafka: bool) -> None:
    """As in captures with a small snap length."""
    frame = request(1, client_id=client_id)
    outcome, issues, _ = talk(
        (0, frame[:20]), (0, len(frame) - 20), (1, response(1)), (0, request(2)), (1, response(2))
    )
    answered = [(1, Outcome.ANSWERED), (2, Outcome.ANSWERED)]
    assert (outcome == answered) is is_kafka
    assert ([issue.kind for issue in issues] == ["frame_cut"]) is is_kafka


def test_a_gap_in_a_frame_keeps_the_next() -> None:
    whole = response(1, bytes(100))
    outcome, issues, exchanges = talk(
        (0, request(1) + request(2)), (1, whole[:30]), (1, 40), (1, whole[70:] + response(2))
    )
    assert outcome == [(1, Outcome.ANSWERED), (2, Outcome.ANSWERED)]
    assert exchanges.response_whole.tolist() == [False, True]
    assert (exchanges.response_end - exchanges.response_start).tolist() == [26, 6]
    assert exchanges.response_bytes.tolist() == [108, 10]
    assert [issue.kind for issue in issues] == ["frame_cut"]


def test_sync_is_found_again_by_an_answer() -> None:
    outcome, issues, _ = talk((0, request(1) + request(2)), (1, 17), (1, b"xyz" + response(2)))
    assert outcome == [(2, Outcome.ANSWERED), (1, Outcome.UNANSWERED)]
    assert {issue.kind for issue in issues} == {"frame_sync_lost", "bytes_skipped"}


@pytest.mark.parametrize("side", [0, 1])
def test_sync_is_found_again_by_the_first_bytes_of_a_packet(side: int) -> None:
    """As of packets that are cut to their first bytes, when a frame has begun within one."""
    large = [request(2, content=bytes(200)), response(2, bytes(200))][side]
    told: list[tuple[int, bytes | int]] = [(0, request(2)), (1, response(2))]
    told[side : side + 1] = [(side, large[:60]), (side, len(large) - 60)]
    lost: list[tuple[int, bytes | int]] = [(side, 30), (side, b"xyz"), (side, 10)]
    outcome, issues, exchanges = talk(
        (0, request(1)), (1, response(1)), *lost, *told, (0, request(3)), (1, response(3))
    )
    assert outcome == [(1, Outcome.ANSWERED), (2, Outcome.ANSWERED), (3, Outcome.ANSWERED)]
    assert [exchanges.request_whole.tolist(), exchanges.response_whole.tolist()][side] == [True, False, True]
    assert {issue.kind for issue in issues} == {"frame_sync_lost", "bytes_skipped", "frame_cut"}


@pytest.mark.parametrize(
    ("side", "frame"),
    [
        (0, request(2, content=bytes(200), client_id=b"d")),
        (0, request(2, version=99, content=bytes(200))),
        (0, b"x" + request(2, content=bytes(200))),
        (1, response(7, bytes(200))),
        (1, b"x" + response(2, bytes(200))),
    ],
)
def test_first_bytes_that_say_too_little_are_no_frame(side: int, frame: bytes) -> None:
    asked = [(0, request(1)), (1, response(1)), (0, request(2))]
    cut: list[tuple[int, bytes | int]] = [(side, 30), (side, frame[:60]), (side, len(frame) - 60)]
    outcome, issues, _ = talk(*asked, *cut, (0, request(3, 3, 1, ALL_TOPICS)), (1, response(3, NO_METADATA)))
    assert outcome == [(1, Outcome.ANSWERED), (3, Outcome.ANSWERED), (2, Outcome.UNANSWERED)]
    assert {issue.kind for issue in issues} == {"frame_sync_lost", "bytes_skipped"}


def test_a_frame_of_2_gib_is_an_issue() -> None:
    outcome, issues, _ = talk((0, request(1)), (1, response(1)), (0, b"\x7f\xff\xff\xff" + bytes(100)))
    assert outcome == [(1, Outcome.ANSWERED)]
    assert {issue.kind for issue in issues} == {"implausible_size", "bytes_skipped"}


def test_raw_sasl_tokens_are_paired_in_order() -> None:
    token = b"\0user\0secret"
    outcome, _, exchanges = talk(
        (0, request(1, 17, 0, b"\0\5PLAIN")),
        (1, response(1, b"\0\0\0\0\0\1\0\5PLAIN")),
        (0, framed(token)),
        (1, bytes(4)),
        (0, request(2, 3, 1, bytes(4))),
        (1, response(2)),
    )
    assert outcome == [(1, Outcome.ANSWERED), (0, Outcome.ANSWERED), (2, Outcome.ANSWERED)]
    assert exchanges.kind.tolist() == [0, 1, 0]


def handshake(correlation: int, mechanism: bytes) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    name = len(mechanism).to_bytes(2, "big") + mechanism
    return (0, request(correlation, 17, 0, name)), (1, response(correlation, b"\0\0\0\0\0\1" + name))


# The heads of a Kerberos 5 token and of what is sealed with its key (RFC 4121).
TICKET = b"\x60\x82\1\xd4\x06\x09\x2a\x86\x48\x86\xf7\x12\1\2\2\1\0" + bytes(range(200))
SEALED = b"\5\4\4\xff\0\x0c\0\0" + bytes(24)


def test_scram_in_bare_tokens() -> None:
    outcome, issues, exchanges = talk(
        *handshake(1, b"SCRAM-SHA-256"),
        (0, framed(b"n,,n=user,r=abc")),
        (1, framed(b"r=abcdef,s=c2FsdA==,i=4096")),
        (0, framed(b"c=biws,r=abcdef,p=cHJvb2Y=")),
        (1, framed(b"v=c2lnbmF0dXJl")),
        (0, request(2, 3, 1, bytes(4))),
        (1, response(2)),
    )
    assert outcome == [(1, Outcome.ANSWERED), (0, Outcome.ANSWERED), (0, Outcome.ANSWERED), (2, Outcome.ANSWERED)]
    assert exchanges.kind.tolist() == [0, 1, 1, 0]
    assert not issues


def test_the_last_token_of_gssapi_has_no_answer() -> None:
    outcome, issues, exchanges = talk(
        *handshake(7, b"GSSAPI"),
        (0, framed(TICKET)),
        (1, framed(SEALED)),
        (0, framed(SEALED)),
        (0, request(0, 18, 0)),
        (1, response(0, bytes(6))),
        (0, request(1, 3, 1, bytes(4))),
        (1, response(1)),
    )
    assert outcome == [
        (7, Outcome.ANSWERED),
        (0, Outcome.ANSWERED),
        (0, Outcome.ONE_WAY),
        (0, Outcome.ANSWERED),
        (1, Outcome.ANSWERED),
    ]
    assert exchanges.kind.tolist() == [0, 1, 1, 0, 0]
    assert exchanges.response_packet.tolist() == [2, 4, 0, 7, 9]
    assert not issues


def test_gssapi_with_mutual_authentication_has_an_empty_token_of_the_client() -> None:
    outcome, issues, _ = talk(
        *handshake(1, b"GSSAPI"),
        (0, framed(TICKET)),
        (1, framed(TICKET[:120])),
        (0, framed(b"")),
        (1, framed(SEALED)),
        (0, framed(SEALED)),
        (0, request(2, 18, 0) + request(3, 18, 0)),
        (1, response(2, bytes(6)) + response(3, bytes(6))),
    )
    assert [how for _, how in outcome] == [Outcome.ANSWERED] * 3 + [Outcome.ONE_WAY] + [Outcome.ANSWERED] * 2
    assert not issues


def test_a_connection_may_begin_with_a_gssapi_token() -> None:
    outcome, issues, exchanges = talk(
        (0, framed(TICKET)),
        (1, framed(SEALED)),
        (0, framed(SEALED)),
        (0, request(0, 3, 0, bytes(4))),
        (1, response(0)),
    )
    assert [how for _, how in outcome] == [Outcome.ANSWERED, Outcome.ONE_WAY, Outcome.ANSWERED]
    assert exchanges.kind.tolist() == [1, 1, 0]
    assert not issues


def test_a_refused_token_is_unanswered() -> None:
    outcome, _, exchanges = talk(*handshake(1, b"PLAIN"), (0, framed(b"\0user\0wrong")))
    assert outcome == [(1, Outcome.ANSWERED), (0, Outcome.UNANSWERED)]
    assert exchanges.kind.tolist() == [0]


def test_a_token_is_answered_though_a_request_came_between_in_the_file() -> None:
    token = framed(b"\0user\0secret")
    outcome, _, _ = talk(
        *handshake(1, b"PLAIN"), (0, token), (0, request(2, 18, 0)), (1, framed(b"")), (1, response(2, bytes(6)))
    )
    assert outcome == [(1, Outcome.ANSWERED), (0, Outcome.ANSWERED), (2, Outcome.ANSWERED)]


def test_answers_without_requests_take_no_python_each() -> None:
    def steps_for(count: int) -> int:
        conversations = Conversations(lambda ids: {one: Start(True, kafka_client=0) for one in ids})
        frames = b"".join(response(number, b"\0\0\0\1\0\0\0\0") for number in range(count))
        starts = 16 * np.arange(count)
        numbers = np.arange(1, count + 1)
        data, connections = np.frombuffer(frames, np.uint8), np.ones(count, np.int64)
        directions, lengths = np.ones(count, np.int8), np.full(count, 16)
        unknown = np.full(count, NO_TIME)
        columns = (connections, directions, starts, starts, lengths, numbers, numbers, numbers)
        runs = Runs(data, *columns, *[unknown] * 6)
        found = steps(lambda: (conversations.feed(runs), conversations.end([1])))
        assert conversations.count(1) == count
        return found

    steps_for(800)  # makes what is made when it is first asked for
    assert steps_for(800) < 1.2 * steps_for(200)


NO_TEXT = [b"a\x01b\x1b[31m", b"\xff\xfeabc", b"x" * 1025, b"y" * 32767]
ALL_TOPICS = (-1).to_bytes(4, "big", signed=True)
NO_METADATA = bytes(12)


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("client_id", NO_TEXT)
def test_a_client_id_that_is_no_text_or_very_long_hides_no_connection(client_id: bytes, opened: bool) -> None:
    first, second, third = (request(number, 3, 1, ALL_TOPICS, client_id) for number in (1, 2, 3))
    outcome, issues, exchanges = talk(
        (0, first[:15]),
        (0, first[15:]),
        (1, response(1, NO_METADATA)),
        (0, second),
        (1, response(2, NO_METADATA)),
        (0, 1000),
        (0, b"from a frame that began in the gap" + third),
        (1, response(3, NO_METADATA)),
        opened=opened,
    )
    assert outcome == [(1, Outcome.ANSWERED), (2, Outcome.ANSWERED), (3, Outcome.ANSWERED)]
    assert exchanges.client_id_length.tolist() == [len(client_id)] * 3
    assert {issue.kind for issue in issues} == {"frame_sync_lost", "bytes_skipped"}


@pytest.mark.parametrize("client_id", NO_TEXT)
def test_a_frame_with_such_a_client_id_is_kafka_only_if_its_body_fits(client_id: bytes) -> None:
    frame = request(1, 3, 1, ALL_TOPICS + b"more", client_id)
    outcome, issues, _ = talk((0, frame[:15]), (0, frame[15:]), (1, response(1, NO_METADATA)))
    assert not outcome
    assert not issues


# What others begin with, as their specifications have it; each reads as a size and a header without a client id.
FOREIGN = {
    "FastCGI": ["01010001 0008 0000 0001 0000 0000 0000" + "0104 0001 0000 0000", "0106 0001 0008 0000" + "00" * 8],
    "OpenFlow 1.5": ["06000010 00000001 0001 0008 0000 0040", "06000010 ffffffff 0001 0008 0000 0072"],
    "SMPP": [
        "00000020 00000002 00000000 00000001 61626300 64656600 00340000 00000000",
        "00000010 80000002 00000000 00000001",
    ],
    "little-endian": [
        "01000000 00000000 01000000 00000000 10000000 00000000" + "61" * 16,
        "02000000 00000000" + "00" * 16,
    ],
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_reads_as_a_header_without_client_id_is_kafka_only_if_its_body_fits(name: str) -> None:
    said, answered = map(bytes.fromhex, FOREIGN[name])
    outcome, issues, _ = talk((0, said[:12]), (0, said[12:]), (1, answered), (0, said), (1, answered))
    assert not outcome
    assert not issues
    outcome, *_ = talk((0, request(1, 3, 1, ALL_TOPICS, None)), (1, response(1, NO_METADATA)))
    assert outcome == [(1, Outcome.ANSWERED)]


@pytest.mark.parametrize("opened", [True, False])
def test_api_versions_of_old_librdkafka_name_the_apis_that_they_ask_for(opened: bool) -> None:
    outcome, issues, _ = talk((0, request(8, 18, 0, bytes(4), b"rdkafka")), (1, response(8, bytes(6))), opened=opened)
    assert outcome == [(8, Outcome.ANSWERED)]
    assert not issues


def test_a_first_request_that_no_layout_can_judge_leaves_those_behind_it() -> None:
    outcome, _, _ = talk(
        (0, request(1, 18, 99, b"", NO_TEXT[0])),
        (1, response(1, b"\0\x23" + bytes(4))),
        (0, request(2, 3, 1, ALL_TOPICS, NO_TEXT[0])),
        (1, response(2, NO_METADATA)),
    )
    assert (2, Outcome.ANSWERED) in outcome


def test_requests_behind_raw_sasl_tokens_may_have_such_a_client_id() -> None:
    token = b"\0user\0secret"
    outcome, _, exchanges = talk(
        (0, request(1, 17, 0, b"\0\5PLAIN", NO_TEXT[0])),
        (1, response(1, b"\0\0\0\0\0\1\0\5PLAIN")),
        (0, framed(token)),
        (1, bytes(4)),
        (0, request(2, 3, 1, ALL_TOPICS, NO_TEXT[0])),
        (1, response(2, NO_METADATA)),
    )
    assert outcome == [(1, Outcome.ANSWERED), (0, Outcome.ANSWERED), (2, Outcome.ANSWERED)]
    assert exchanges.kind.tolist() == [Kind.KAFKA, Kind.SASL, Kind.KAFKA]


ALERT = bytes.fromhex("15030300020250")


def test_an_alert_of_tls_to_a_request_says_that_the_client_speaks_without() -> None:
    outcome, issues, _ = talk((0, request(1, 18)), (1, ALERT[:3]), (1, ALERT[3:]))
    assert outcome == [(1, Outcome.UNANSWERED)]
    assert [issue.kind for issue in issues] == ["plaintext_to_tls"]
    assert issues[0].packet == 2


def test_what_looks_like_an_alert_behind_an_answer_is_none() -> None:
    _, issues, _ = talk((0, request(1) + request(2)), (1, response(1)), (1, ALERT))
    assert {issue.kind for issue in issues} == {"implausible_size", "bytes_skipped"}


def test_that_the_capture_begins_within_a_frame_is_no_damage() -> None:
    """Of a connection whose begin is in the capture it is."""
    told: list[tuple[int, bytes | int]] = [(0, request(7, 3, 1, ALL_TOPICS)), (1, response(7, NO_METADATA))]
    outcome, (issue,), _ = talk((0, b"\0\0"), *told, opened=False)
    assert outcome == [(7, Outcome.ANSWERED)]
    assert issue.kind == "begun_before"
    assert issue.detail == "the first 2 bytes are of a frame that began before the capture (bytes from the client)"
    _, issues, _ = talk((0, b"\0\0"), *told, opened=True)
    assert "begun_before" not in {issue.kind for issue in issues}


def test_how_a_connection_from_its_middle_was_recognised_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "kafkascope"):
        talk((0, b"\0\0"), (0, request(7, 3, 0, b"\0\0\0\0")), opened=False)
    assert "connection 1: not known yet, as it began before the capture; looking for frames in it" in caplog.text
    assert "connection 1, packet 2: a request of 15 bytes at offset 2 is taken" in caplog.text
