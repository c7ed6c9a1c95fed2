from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders import DecodeError, group_protocols
from kafkascope.decoders.payloads import Payload
from tests.decoders import oracle
from tests.paths import DATA

KINDS = {"consumer-protocol", "consumer-userdata", "connect", "streams-userdata"}
PAYLOADS = [
    bytes.fromhex(sample["frame_hex"])
    for sample in oracle.samples(DATA / "oracle.ndjson.gz")
    if sample.get("kind") in KINDS
]
DECODERS = (
    group_protocols.decode_subscription,
    group_protocols.decode_assignment,
    group_protocols.decode_sticky,
    group_protocols.decode_cooperative_sticky,
    group_protocols.decode_connect_metadata,
    group_protocols.decode_connect_assignment,
    group_protocols.decode_streams_subscription,
    group_protocols.decode_streams_assignment,
)
SUBSCRIPTION_0 = bytes.fromhex("000000000001000174")


def subscription(user_data: bytes) -> bytes:
    return SUBSCRIPTION_0 + len(user_data).to_bytes(4, "big") + user_data


def test_a_subscription_with_the_user_data_of_its_assignor() -> None:
    sticky = bytes.fromhex("00000001000174000000020000000000000001")
    decoded = group_protocols.decode_subscription(subscription(sticky + bytes.fromhex("00000005")), "sticky")
    assert decoded.as_dict() == {
        "_definition": "ConsumerProtocolSubscription",
        "_version": 0,
        "topics": ["t"],
        "userData": {
            "_definition": "StickyAssignorUserData",
            "_version": 1,
            "previousAssignment": [{"topic": "t", "partitions": [0, 1]}],
            "generation": 5,
        },
    }
    old = group_protocols.decode_subscription(subscription(sticky), "sticky").fields["userData"]
    assert old["_version"] == 0
    assert "generation" not in old
    cooperative = group_protocols.decode_subscription(subscription(b"\0\0\0\7"), "cooperative-sticky")
    assert cooperative.fields["userData"]["generation"] == 7


def test_clients_that_send_the_user_data_of_the_sticky_assignor_with_the_cooperative_one() -> None:
    user_data = bytes.fromhex("00000001000174000000010000000200000009")  # franz-go, librdkafka
    shown = group_protocols.decode_subscription(subscription(user_data), "cooperative-sticky").fields["userData"]
    assert (shown["_definition"], shown["generation"]) == ("StickyAssignorUserData", 9)
    assignment = bytes.fromhex("000000000000") + len(user_data).to_bytes(4, "big") + user_data
    for name in ("cooperative-sticky", None):
        shown = group_protocols.decode_assignment(assignment, name).fields["userData"]
        assert shown["previousAssignment"] == [{"topic": "t", "partitions": [2]}]


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky", "stream", "range", None])
def test_user_data_that_cannot_be_read_stays_bytes(assignor: str | None) -> None:
    assert group_protocols.decode_subscription(subscription(b"?"), assignor).fields["userData"] == b"?"


def test_streams_user_data_of_an_assignment_is_found_without_a_protocol_name() -> None:
    info = bytes.fromhex("0000000100000001000000000000000200000000")
    data = bytes.fromhex("000000000000") + len(info).to_bytes(4, "big") + info
    for name in ("stream", None):
        user_data = group_protocols.decode_assignment(data, name).fields["userData"]
        assert user_data["activeTasks"] == [{"topicGroupId": 0, "partition": 2}]
    assert group_protocols.decode_assignment(data, "range").fields["userData"] == info


def test_a_version_of_the_future_is_read_as_the_newest_known() -> None:
    newest = bytes.fromhex("000300000000ffffffff0000000000000004ffff")
    future = bytes.fromhex("0009") + newest[2:] + b"new"
    assert group_protocols.decode_subscription(newest).fields["generationId"] == 4
    decoded = group_protocols.decode_subscription(future)
    assert (decoded.version, decoded.fields["generationId"], decoded.rest) == (9, 4, b"new")


def test_without_a_protocol_type_the_one_that_fits_is_taken() -> None:
    connect = bytes.fromhex("00010001750000000000000007ffffffff")
    for data, name in ((subscription(b""), "ConsumerProtocolSubscription"), (connect, "ConnectMetadata")):
        payload = group_protocols.decode_member_metadata(data, None, None)
        assert payload is not None
        assert payload.name == name
    assert group_protocols.decode_member_metadata(b'{"json": 1}', None, None) is None
    assert group_protocols.decode_member_metadata(connect, "sr", None) is None
    with pytest.raises(DecodeError):
        group_protocols.decode_member_metadata(connect, "consumer", None)


def test_every_cut_is_a_decode_error_and_any_decoder_raises_nothing_else() -> None:
    for data in PAYLOADS:
        for length in range(0, len(data), max(1, len(data) // 40)):
            for decoder in DECODERS:
                try:
                    offset = len(data[:length]) - len(decoder(data[:length]).rest)
                except DecodeError as error:
                    offset = error.offset
                assert 0 <= offset <= length


def test_a_count_of_tasks_beyond_the_bytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="a count of tasks that 8 bytes can hold"):
        group_protocols.decode_streams_assignment(bytes.fromhex("000000017fffffff0000000000000000"))


@given(st.sampled_from(DECODERS), st.binary(max_size=120), st.integers(0, 11))
def test_any_bytes_give_a_value_or_a_decode_error(
    decoder: Callable[[bytes], Payload], data: bytes, version: int
) -> None:
    for prefix in (b"", bytes([0, version]), bytes([0, 0, 0, version])):
        try:
            decoder(prefix + data)
        except DecodeError:
            continue
