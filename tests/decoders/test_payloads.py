import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders import DecodeError, payloads

TOPICS = [*payloads.COORDINATOR_TOPICS, *payloads.TYPED_VALUE_TOPICS]


def test_a_committed_offset() -> None:
    key = bytes.fromhex("000100016700017400000003")
    value = bytes.fromhex("0003000000000000002a0000000500026d640000018f00000000")
    assert payloads.decode_stored_record("__consumer_offsets", key, value) == {
        "key": {"_definition": "OffsetCommitKey", "_version": 0, "group": "g", "topic": "t", "partition": 3},
        "value": {
            "_definition": "OffsetCommitValue",
            "_version": 3,
            "offset": 42,
            "leaderEpoch": 5,
            "metadata": "md",
            "commitTimestamp": 0x18F00000000,
        },
    }


def test_a_tombstone_has_a_null_value() -> None:
    key = bytes.fromhex("0002000167")
    record = payloads.decode_stored_record("__consumer_offsets", key, None)
    assert record == {"key": {"_definition": "GroupMetadataKey", "_version": 0, "group": "g"}, "value": None}


def test_offset_commits_of_the_first_record_type_are_read_as_those_of_the_second() -> None:
    value = bytes.fromhex("0001000000000000002a000000000000000000010000000000000002")
    payload = payloads.decode_coordinator_value("__consumer_offsets", 0, value)
    assert (payload.name, payload.version, payload.fields["expireTimestamp"]) == ("OffsetCommitValue", 1, 2)


def test_share_group_metadata_of_both_releases() -> None:
    def value(content: str) -> payloads.Payload:
        return payloads.decode_coordinator_value("__consumer_offsets", 11, bytes.fromhex("0000" + content))

    assert value("0000000400").fields == {"epoch": 4}
    assert value("00000004000000000000000900").fields == {"epoch": 4, "metadataHash": 9}


def test_a_cluster_metadata_record() -> None:
    value = bytes.fromhex("01020004746f70" + "11" * 16 + "00")
    record = payloads.decode_stored_record("__cluster_metadata", None, value)
    assert record == {
        "key": None,
        "value": {
            "_definition": "TopicRecord",
            "_version": 0,
            "name": "top",
            "topicId": "ERERERERERERERERERERER"[:21] + "Q",
        },
    }


def test_a_record_of_any_other_topic_is_nobodys_business() -> None:
    assert payloads.decode_stored_record("orders", b"k", b"v") is None


def test_bytes_behind_a_payload_are_kept() -> None:
    payload = payloads.decode_principal(bytes.fromhex("0000055573 657203626f0000cafe"))
    assert payload.rest == b"\xca\xfe"
    assert payload.as_dict() == {
        "_definition": "DefaultPrincipalData",
        "_version": 0,
        "type": "User",
        "name": "bo",
        "tokenAuthenticated": False,
        "_rest": b"\xca\xfe",
    }


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        ("__consumer_offsets", None, b"", "a key"),
        ("__consumer_offsets", b"\0\x63", b"\0\0", "a record type of __consumer_offsets, not 99"),
        ("__consumer_offsets", b"\0\2\0\1g", b"\0\x63", "a version of GroupMetadataValue in 0-4, not 99"),
        ("__cluster_metadata", None, b"\2\0\0", "frame version 1, not 2"),
        ("__cluster_metadata", None, b"\1\x7f\0", "a record type of __cluster_metadata, not 127"),
    ],
)
def test_what_nobody_knows_is_a_decode_error(topic: str, key: bytes | None, value: bytes, expected: str) -> None:
    with pytest.raises(DecodeError, match=expected):
        payloads.decode_stored_record(topic, key, value)


@given(st.sampled_from(TOPICS), st.integers(0, 25), st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_give_a_value_or_a_decode_error(topic: str, record_type: int, key: bytes, value: bytes) -> None:
    for attempt in (
        lambda: payloads.decode_stored_record(topic, bytes([0, record_type]) + key, b"\0\0" + value),
        lambda: payloads.decode_stored_record(topic, key, bytes([1, record_type, 0]) + value),
        lambda: payloads.decode_principal(value),
    ):
        try:
            attempt()
        except DecodeError:
            continue
