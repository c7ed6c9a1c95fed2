"""Whatever the network and the capture do to segments: no wrong byte, no lost one, and no dependence on batches."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.sniffer.tcp_conversation import ACK, FIN, MILLISECOND, RST, SECOND, SYN, Conversation, Packet, run


@st.composite
def conversations(draw: st.DrawFn, opened: bool | None = None) -> tuple[Conversation, list[bytes]]:
    """A well-behaved connection near sequence wrap, and the bytes that each side sends."""
    conversation = Conversation(
        draw(st.sampled_from([0, 1, 2**31 - 40, 2**32 - 40, 2**32 - 1])),
        draw(st.sampled_from([7, 2**31 - 9, 2**32 - 30])),
    )
    if draw(st.booleans()) if opened is None else opened:
        conversation.open()
    sent = [b"", b""]
    for side, size in draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30)), min_size=1, max_size=40)):
        payload = bytes((len(sent[side]) + i) * (7 + 4 * side) % 251 for i in range(size))
        sent[side] += payload
        conversation.send(side, payload, later=draw(st.sampled_from([0, 1000, MILLISECOND, SECOND])))
    if draw(st.booleans()):
        conversation.close()
    return conversation, sent


@st.composite
def damaged(draw: st.DrawFn) -> list[Packet]:
    """Packets of two connections: some lost, doubled, late, cut, resegmented, with other numbers or flags."""
    packets: list[Packet] = []
    for port in (40000, 40001):
        conversation, _ = draw(conversations())
        for packet in conversation.packets:
            own = replace(
                packet,
                source=(packet.source[0], port) if packet.source[1] != 9092 else packet.source,
                target=(packet.target[0], port) if packet.target[1] != 9092 else packet.target,
            )
            what = draw(st.integers(0, 20))
            if what == 0:
                continue
            if what == 1:
                packets += [own, own]
            elif what == 2:
                packets += [own, replace(own, at=own.at + draw(st.sampled_from([5, 300])) * MILLISECOND)]
                again = own.seq if own.payload else 0
                packets[-1] = replace(packets[-1], sacked=draw(st.sampled_from([0, 9])), dsack=again)
            elif what == 3:
                packets.append(replace(own, captured=draw(st.integers(0, 20))))
            elif what == 4:
                packets.append(replace(own, seq=own.seq + draw(st.sampled_from([-9, -1, 1, 9, 2**27, 2**30, 2**31]))))
            elif what == 5:
                packets.append(replace(own, ack=own.ack + draw(st.sampled_from([-9, 1, 9, 2**27, 2**31]))))
            elif what == 6:
                packets.append(replace(own, flags=draw(st.sampled_from([SYN, RST, FIN | ACK, 0, SYN | ACK, 31]))))
            elif what == 7:
                packets.append(replace(own, at=own.at + draw(st.sampled_from([-SECOND, 70 * SECOND, 1300 * SECOND]))))
            elif what == 8:
                packets += [
                    own,
                    replace(own, payload=own.payload[::-1], at=own.at + draw(st.sampled_from([1, SECOND]))),
                ]
            else:
                packets.append(own)
    for _ in range(draw(st.integers(0, 12))):
        i = draw(st.integers(0, len(packets) - 1)) if packets else 0
        j = min(i + draw(st.integers(0, 8)), len(packets) - 1)
        if packets:
            packets.insert(j, packets.pop(i))
    if draw(st.booleans()):
        packets = [
            replace(packet, ident=draw(st.sampled_from([0, 7, i, 0xFFFF - i]))) for i, packet in enumerate(packets)
        ]
    return packets


def flattened(packets: list[Packet], cuts: list[int]) -> object:
    """All that a capture gives, in a form in which it must not depend on how it was cut."""
    outcome = run(packets, cuts)
    return outcome.streams, sorted(outcome.ended, key=lambda one: one.connection), outcome.issues, outcome.spans


@settings(max_examples=150, deadline=None, print_blob=True)
@given(damaged(), st.data())
def test_batches_make_no_difference(packets: list[Packet], data: st.DataObject) -> None:
    whole = flattened(packets, [])
    assert flattened(packets, list(range(1, len(packets)))) == whole
    cuts = data.draw(st.lists(st.integers(0, len(packets)), max_size=4))
    assert flattened(packets, cuts) == whole


@settings(max_examples=150, deadline=None, print_blob=True)
@given(conversations(opened=True), st.data())
def test_bytes_come_once_and_in_order(made: tuple[Conversation, list[bytes]], data: st.DataObject) -> None:
    """Resegmented retransmissions, duplicates and disorder change nothing in the streams."""
    conversation, sent = made
    packets = list(conversation.packets)
    for i in data.draw(st.lists(st.integers(3, max(len(packets) - 1, 3)), max_size=10)):
        if i >= len(packets) or packets[i].flags & SYN:
            continue
        first = 1 if packets[i].source[1] == 9092 else 0
        isn = conversation.packets[first].seq
        before = sent[first][: (packets[i].seq - isn - 1) % 2**32 + len(packets[i].payload)]
        back = data.draw(st.integers(0, min(len(before), 50)))
        again = before[len(before) - back :][: data.draw(st.integers(0, 50))]
        seq = isn + 1 + len(before) - back
        packets.insert(i + 1, replace(packets[i], seq=seq, payload=again, flags=ACK))
    for i in data.draw(st.lists(st.integers(3, max(len(packets) - 1, 3)), max_size=10)):
        if i < len(packets):
            packets.insert(min(i + data.draw(st.integers(0, 5)), len(packets) - 1), packets.pop(i))
    outcome = run(packets, data.draw(st.lists(st.integers(0, len(packets)), max_size=3)))
    note(str(outcome))
    assert {one.connection for one in outcome.ended} == {1}
    # Bytes that come more than a second after they were acknowledged are given up: then there is a gap in their place.
    for direction in (0, 1):
        got = outcome.data(1, direction)
        for piece in outcome.streams.get((1, direction), []):
            if piece.data is not None:
                assert piece.data == sent[direction][piece.offset : piece.offset + piece.length]
        assert len(got) == len(sent[direction])
        if "tcp_late_data" not in outcome.counts():
            assert got == sent[direction]
    one = outcome.only()
    assert one.source_bytes + one.target_bytes + one.gap_bytes == len(sent[0]) + len(sent[1])


@settings(max_examples=150, deadline=None, print_blob=True)
@given(conversations(opened=True), st.data())
def test_what_the_capture_lacks_is_a_gap_of_its_size(
    made: tuple[Conversation, list[bytes]], data: st.DataObject
) -> None:
    conversation, sent = made
    lost = data.draw(st.sets(st.integers(3, max(len(conversation.packets) - 1, 3)), max_size=12))
    kept = [packet for i, packet in enumerate(conversation.packets) if i not in lost]
    outcome = run(kept, data.draw(st.lists(st.integers(0, len(kept)), max_size=3)))
    expected = [bytearray(b"?" * len(side)) for side in sent]
    seen = [0, 0]  # how far a byte, or an acknowledgement, or a FIN shows the stream to go
    for packet in kept:
        side = 1 if packet.source[1] == 9092 else 0
        isns = [conversation.packets[i].seq for i in (0, 1)]
        offset = (packet.seq - isns[side] - 1) % 2**32
        if packet.flags & SYN:
            continue
        expected[side][offset : offset + len(packet.payload)] = packet.payload
        if packet.payload or packet.flags & FIN:
            seen[side] = max(seen[side], offset + len(packet.payload))
        shown = (packet.ack - isns[1 - side] - 1) % 2**32
        if shown - seen[1 - side] > 1 or shown <= len(sent[1 - side]) - 1:
            seen[1 - side] = max(seen[1 - side], min(shown, len(sent[1 - side])))
    for direction in (0, 1):
        got = outcome.data(1, direction)
        # A single byte at the end may have been a FIN.
        assert len(got) - seen[direction] in (-1, 0, 1)
        assert got[: seen[direction] - 1] == bytes(expected[direction][: len(got)])[: seen[direction] - 1]
    assert "tcp_late_data" not in outcome.counts()
    assert "tcp_wild_segment" not in outcome.counts()
