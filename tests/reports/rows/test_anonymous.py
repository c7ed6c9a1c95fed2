"""Names inside what members tell each other, with pseudonyms in their place."""

from __future__ import annotations

import struct

import pytest

from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.reports.rows.anonymous import _of_member, _reason, anonymous_client_id


def subscription(*topics: bytes, user_data: bytes | None = None) -> bytes:
    named = b"".join(struct.pack(">h", len(topic)) + topic for topic in topics)
    data = struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data
    return struct.pack(">hi", 0, len(topics)) + named + data


def test_each_name_is_replaced_once_whatever_the_pseudonyms_are() -> None:
    """Also where the pseudonym of one is the name of another."""
    pseudonyms = {b"t1": b"t2", b"t2": b"t3", b"t33": b"t44"}
    found = _of_member(subscription(b"t1", b"t2", b"t33"), pseudonyms.__getitem__)
    assert found == subscription(b"t2", b"t3", b"t44")


def test_what_nobody_can_read_is_zeros() -> None:
    unknown = b"\x07secret"
    found = _of_member(subscription(b"t1", user_data=unknown), lambda text: b"x" * len(text))
    assert found == subscription(b"xx", user_data=bytes(len(unknown)))
    assert _of_member(b"\xff" * 9, lambda text: text) == bytes(9)


def test_many_topics() -> None:
    topics = [b"topic-%05d" % number for number in range(8_000)]
    assert _of_member(subscription(*topics), lambda text: text.upper()) == subscription(*map(bytes.upper, topics))


@pytest.mark.parametrize(
    ("client_id", "stays"),
    [("2", True), ("10001", True), ("broker-2-fetcher-0", True), ("310206", False), ("orders-1", False)],
)
def test_what_brokers_call_themselves_stays(client_id: str, stays: bool) -> None:
    """By it they are told apart; a longer number may be of a person."""
    made = anonymous_client_id(client_id, Pseudonyms("key"))
    assert (made == client_id) == stays
    assert len(made) == len(client_id)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (b"Source topics lines, orders.eu are missing.", b"Source topics LINES, ORDERS.EU are missing."),
        (
            b"Following topics do not have the same number of partitions: [{lines=4, users=3}]",
            b"Following topics do not have the same number of partitions: [{LINES=4, USERS=3}]",
        ),
        (b"consumer poll timeout has expired.", b"consumer poll timeout has expired."),
        (b"need to revoke (by alice 310206)", b"need to revoke (by ALICE 310206)"),
    ],
)
def test_of_texts_names_are_replaced_as_they_are_elsewhere(text: bytes, made: bytes) -> None:
    replaced = []

    def replace(name: bytes) -> bytes:
        replaced.append(name)
        return name.upper()

    assert _reason(text, replace) == made
    assert (b"310206" in replaced) == (b"310206" in text)
