"""Frames as they may be handed to anybody: what nobody has understood is not in them."""

from __future__ import annotations

import dataclasses

import numpy as np

from kafkascope.decoders import apis
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.decoders.records import decode_records
from kafkascope.reports.rows.blank_frames import FrameBlanker
from kafkascope.sniffer.columns import Exchanges, Kind
from tests.decoders.written_messages import uvarint
from tests.reports.written_exchanges import Written, batch, exchanges

SECRET = b"what nobody is to know"
UNKNOWN_TAG = b"\1" + uvarint(99) + uvarint(len(SECRET)) + SECRET
LIST_GROUPS = 16
HEARTBEAT = {"groupId": "payments", "generationId": 3, "memberId": "member-1"}


def frames(made: Exchanges) -> list[bytes]:
    """Requests, then responses; without size prefixes, which say how long they are on the wire."""
    found = FrameBlanker(Pseudonyms("key")).frames(made)
    ends = np.cumsum(found.length).tolist()
    result = []
    for length, end in zip(found.length.tolist(), ends, strict=True):
        frame = found.data[end - length : end].tobytes()
        assert int.from_bytes(frame[:4], "big") >= length - 4
        result.append(frame[4:])
    return result


def test_names_are_others_and_numbers_the_same() -> None:
    made = exchanges(Written(apis.HEARTBEAT, 4, HEARTBEAT, {"throttleTimeMs": 5, "errorCode": 27}))
    request, response = frames(made)
    assert [len(request), len(response)] == [made.request_bytes[0] - 4, made.response_bytes[0] - 4]
    assert not any(name in request for name in (b"payments", b"member", b"tester"))
    assert Pseudonyms("key").text(b"payments") in request
    assert request[:10] == made.data[:10].tobytes()
    assert response == made.data[made.response_start[0] : made.response_end[0]].tobytes()


def test_records_are_blank() -> None:
    topics = [{"name": "t", "partitionData": [{"index": 1, "records": batch(SECRET, SECRET)}]}]
    made = exchanges(Written(apis.PRODUCE, 7, {"acks": -1, "topicData": topics}))
    blanker = FrameBlanker(Pseudonyms("key"))
    data = blanker.frames(made).data.tobytes()
    assert SECRET not in data
    assert (blanker.records.batches, blanker.records.lost) == (1, 0)
    (found,) = decode_records(data[-len(batch(SECRET, SECRET)) :])
    assert [one["value"] for one in found["records"]] == [bytes(len(SECRET))] * 2


def test_what_is_not_known_is_not_there() -> None:
    """Tagged fields, bytes behind the last field, tokens, versions to come, pieces of texts."""
    written = [
        Written(apis.HEARTBEAT, 4, b"\x02g\0\0\0\3\x02m\0" + UNKNOWN_TAG),
        Written(apis.HEARTBEAT, 3, b"\0\1g\0\0\0\3\0\1m\xff\xff" + SECRET),
        Written(apis.HEARTBEAT, 120, SECRET, SECRET),
        Written(apis.HEARTBEAT, 3, b"\0\x50" + SECRET),
        Written(-1, -1, SECRET, SECRET, kind=Kind.SASL),
    ]
    for one in written:
        made = list(frames(exchanges(one)))
        assert made
        for frame in made:
            assert not any(SECRET[at : at + 4] in frame for at in range(len(SECRET) - 4)), one


def test_headers_with_tagged_fields_hide_them() -> None:
    made = exchanges(Written(apis.HEARTBEAT, 4, UNKNOWN_TAG[1:] + b"\x02g\0\0\0\3\x02m\0\0"))
    data = made.data.copy()
    at = int(made.request_body[0])
    data[at - 1] = 1  # fields
    body = made.request_body + len(UNKNOWN_TAG) - 1
    (request,) = frames(dataclasses.replace(made, data=data, request_body=body))
    assert SECRET[:4] not in request
    assert Pseudonyms("key").text(b"tester") in request


def test_a_response_that_could_be_several_is_still_one_of_them() -> None:
    """Whatever is content in any reading that fits is blank."""
    known = exchanges(
        Written(LIST_GROUPS, 0, None, {"errorCode": 0, "groups": [{"groupId": SECRET.decode(), "protocolType": ""}]})
    )
    nameless = dataclasses.replace(known, api_key=np.array([-1], np.int16), response_body=known.response_start + 4)
    (response,) = frames(nameless)
    assert SECRET[:4] not in response
    assert len(response) == known.response_bytes[0] - 4


def test_tagged_fields_of_any_number_are_blank_in_what_could_be_several() -> None:
    """A number of 32 bits makes the value on the tape negative."""
    tagged = b"\1" + uvarint(1 << 31) + uvarint(len(SECRET)) + SECRET
    known = exchanges(Written(apis.HEARTBEAT, 4, None, bytes(6) + tagged))
    nameless = dataclasses.replace(known, api_key=np.array([-1], np.int16), response_body=known.response_start + 5)
    (response,) = frames(nameless)
    assert SECRET[:4] not in response
