"""Names inside what members tell each other, with pseudonyms in their place."""

from __future__ import annotations

import struct

from kafkascope.reports.rows.anonymous import _of_member


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
