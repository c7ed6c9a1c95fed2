import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkascope import decoders
from kafkascope.decoders import apis
from kafkascope.decoders.nested import Knowledge, decode_nested, decode_nested_record
from kafkascope.decoders.sasl import REDACTED
from tests.decoders.written_messages import request_header

SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
ASSIGNMENT = bytes.fromhex("0000000000010001740000000100000002ffffffff")
ASSIGNED = [{"topic": "t", "partitions": [2]}]


def test_join_group_of_a_consumer_with_the_protocol_it_names() -> None:
    sticky = SUBSCRIPTION[:-4] + bytes.fromhex("0000000400000009")
    body: dict[str, Any] = {
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}, {"name": "cooperative-sticky", "metadata": sticky}],
    }
    first, second = decode_nested(apis.JOIN_GROUP, body, response=False)["protocols"]
    assert first["metadata"]["topics"] == ["t"]
    assert second["metadata"]["userData"]["generation"] == 9
    assert body["protocols"][0]["metadata"] == SUBSCRIPTION


def test_sync_group_of_old_versions_needs_no_protocol_type() -> None:
    request = {"assignments": [{"memberId": "m", "assignment": ASSIGNMENT}, {"memberId": "n", "assignment": b""}]}
    first, second = decode_nested(apis.SYNC_GROUP, request, response=False)["assignments"]
    assert first["assignment"]["assignedPartitions"] == ASSIGNED
    assert second["assignment"] == b""
    answer = decode_nested(apis.SYNC_GROUP, {"errorCode": 0, "assignment": ASSIGNMENT}, response=True)
    assert answer["assignment"]["assignedPartitions"] == ASSIGNED
    strange = decode_nested(apis.SYNC_GROUP, {"assignment": b"?"}, response=True)
    assert strange == {"assignment": REDACTED}
    known = Knowledge(reveal_secrets=True)
    assert decode_nested(apis.SYNC_GROUP, {"assignment": b"?"}, response=True, known=known) == {"assignment": b"?"}


def test_connect_and_described_groups() -> None:
    worker = bytes.fromhex("00000001750000000000000007")
    answer = {"protocolType": "connect", "protocolName": "default", "members": [{"metadata": worker}]}
    (member,) = decode_nested(apis.JOIN_GROUP, answer, response=True)["members"]
    assert member["metadata"]["url"] == "u"
    member = {"memberMetadata": SUBSCRIPTION, "memberAssignment": ASSIGNMENT}
    groups = {"groups": [{"protocolType": "consumer", "protocolData": "range", "members": [member]}]}
    (shown,) = decode_nested(apis.DESCRIBE_GROUPS, groups, response=True)["groups"][0]["members"]
    assert shown["memberMetadata"]["topics"] == ["t"]
    assert shown["memberAssignment"]["assignedPartitions"] == ASSIGNED


def test_tokens_are_shown_without_their_secrets_unless_asked_for() -> None:
    body = {"authBytes": b"\0alice\0pw"}
    hidden = decode_nested(apis.SASL_AUTHENTICATE, body, response=False, known=Knowledge(mechanism="PLAIN"))
    assert hidden["authBytes"]["password"] == REDACTED
    known = Knowledge(mechanism="PLAIN", reveal_secrets=True)
    assert decode_nested(apis.SASL_AUTHENTICATE, body, response=False, known=known)["authBytes"]["password"] == "pw"


def envelope(request: bytes) -> dict[str, Any]:
    principal = bytes.fromhex("0000055573657203626f0000")
    return {"requestData": request, "requestPrincipal": principal, "clientHostAddress": b"\x7f\0\0\1"}


def test_a_forwarded_request_is_decoded_and_its_secrets_are_not_shown() -> None:
    header = request_header(7, 39, 1, None)  # RenewDelegationToken
    request = header + struct.pack(">i", 6) + b"secret" + struct.pack(">q", 5)
    shown = decode_nested(apis.ENVELOPE, envelope(request), response=False)
    assert shown["requestData"]["header"]["correlationId"] == 7
    assert shown["requestData"]["body"] == {"hmac": REDACTED, "renewPeriodMs": 5}
    assert shown["requestPrincipal"]["name"] == "bo"
    revealed = decode_nested(apis.ENVELOPE, envelope(request), response=False, known=Knowledge(reveal_secrets=True))
    assert revealed["requestData"]["body"]["hmac"] == b"secret"


def test_a_forwarded_request_that_cannot_be_read_is_not_shown() -> None:
    for request in (b"\0\x27\0\1secret", b"secret", request_header(7, apis.ENVELOPE, 0, None) + b"secret"):
        assert decode_nested(apis.ENVELOPE, envelope(request), response=False)["requestData"] == REDACTED
    assert decode_nested(apis.ENVELOPE, {"responseData": b"secret"}, response=True)["responseData"] == REDACTED


def test_what_brokers_do_not_pass_on_is_not_shown() -> None:
    produce = request_header(7, apis.PRODUCE, 3, None) + struct.pack(">hhii", -1, 1, 1, 0)
    assert decode_nested(apis.ENVELOPE, envelope(produce), response=False)["requestData"] == REDACTED
    for principal in (b"secret", envelope(b"")["requestPrincipal"] + b"secret"):
        body = envelope(b"") | {"requestPrincipal": principal}
        assert decode_nested(apis.ENVELOPE, body, response=False)["requestPrincipal"] == REDACTED
        revealed = decode_nested(apis.ENVELOPE, body, response=False, known=Knowledge(reveal_secrets=True))
        assert revealed["requestPrincipal"] != REDACTED


def test_texts_of_errors_are_shown_if_they_are_known() -> None:
    body = {"errorCode": 58, "errorMessage": "no such password: hunter2", "authBytes": b""}
    assert decode_nested(apis.SASL_AUTHENTICATE, body, response=True)["errorMessage"] == REDACTED
    revealed = decode_nested(apis.SASL_AUTHENTICATE, body, response=True, known=Knowledge(reveal_secrets=True))
    assert revealed["errorMessage"] == body["errorMessage"]


def test_records_of_the_metadata_log_are_not_shown() -> None:
    partitions = [{"partitionIndex": 0, "records": b"secret"}]
    for topic in ({"topic": "__cluster_metadata"}, {"topicId": "A" * 21 + "Q"}):
        body = {"responses": [topic | {"partitions": partitions}, {"topic": "t", "partitions": partitions}]}
        log, other = decode_nested(apis.FETCH, body, response=True)["responses"]
        assert (log["partitions"][0]["records"], other["partitions"][0]["records"]) == (REDACTED, b"secret")
        assert decode_nested(apis.FETCH, body, response=True, known=Knowledge(reveal_secrets=True)) == body
    piece = {"name": "__cluster_metadata", "partitions": [{"index": 0, "unalignedRecords": b"secret"}]}
    (shown,) = decode_nested(apis.FETCH_SNAPSHOT, {"topics": [piece]}, response=True)["topics"]
    assert shown["partitions"][0]["unalignedRecords"] == REDACTED


def test_members_of_a_stored_group() -> None:
    member = b"\0\1m" + b"\0\1c" + b"\0\1h" + struct.pack(">i", 9)
    member += struct.pack(">i", len(SUBSCRIPTION)) + SUBSCRIPTION + struct.pack(">i", len(ASSIGNMENT)) + ASSIGNMENT
    value = b"\0\0" + b"\0\x08consumer" + struct.pack(">i", 4) + b"\0\5range" + b"\0\1m" + b"\0\0\0\1" + member
    record = decode_nested_record("__consumer_offsets", b"\0\2\0\1g", value)
    assert record is not None
    (shown,) = record["value"]["members"]
    assert shown["subscription"]["topics"] == ["t"]
    assert shown["assignment"]["assignedPartitions"] == ASSIGNED
    assert decode_nested_record("orders", b"k", b"v") is None


@given(st.sampled_from([(11, 2), (14, 3), (15, 4), (36, 1), (58, 0), (32, 3)]), st.binary(max_size=200), st.booleans())
def test_whatever_a_body_holds_nothing_raises(api: tuple[int, int], data: bytes, response: bool) -> None:
    body: Any
    try:
        body = (decoders.decode_response if response else decoders.decode_request)(*api, data)
    except decoders.DecodeError as error:
        body = error.partial
    assert decode_nested(api[0], body, response=response).keys() == body.keys()
