"""How the packets of connections fare, as Wireshark's experts see it: by sender and span of ten seconds.

``count_segment`` looks at a segment after the reassembly has: what was sent again, or late, is decided there alone.
Spans begin at multiples of SPAN since 1970. One is over with the connection, or with the first packet that lies behind
it; a packet whose time goes back counts in the span in hand. What is told of a connection depends on its own packets in
their order.

All times are those of the capture point. It sees a round trip from data of one side to the other side's answer, which
is the way from the capture point to that other side and back.

Positions are those of ``sniffer.reassembly``: sequence numbers that do not wrap, 0 is none. A SYN ends where its stream
begins, a FIN one behind its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer.columns import ACK, FIN, NO_TIME, RST, SYN
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

Record = Any  # one element of a structured array, as numba sees it
Integer = Any  # int64 inside kernels

SPAN = 10 * SECOND_NS
TENTH = SPAN // 100  # of a second
FAST = 200 * MILLISECOND_NS  # and a round trip after the sign of a loss it is a timer that sends again: Linux's least
# How long a host may hold back an acknowledgement that it could send at once: Linux's TCP_DELACK_MIN, TCP_DELACK_MAX.
ACK_HELD_LEAST, ACK_HELD = 40 * MILLISECOND_NS, 200 * MILLISECOND_NS

# How long a host waits for an acknowledgement at most before it sends again, while round trips are short: Linux 200 ms,
# Windows and BSD 300 ms or less (RFC 6298 says a second).
TIMER = 300 * MILLISECOND_NS

AGAIN = 8  # latest retransmissions of a side, in the span in hand, of which the other side may tell that they were vain
BY_SIGN, BY_TIMER = 1, 2  # why something was sent again

NO_SYN, NO_SCALE = -2, -1  # in place of a window scale

# What was seen of a side in a span, and how it stood at its end. Names are those of the table tcp_health.
ROW = np.dtype(
    [
        ("connection", "i8"),
        ("at", "i8"),  # begin of the span
        ("first", "i8"),
        ("last", "i8"),
        ("last_payload", "i8"),
        ("first_packet", "i8"),  # number; 0: it sent none
        ("bytes", "i8"),
        ("rtt_sum", "i8"),
        ("rtt_min", "i8"),
        ("rtt_max", "i8"),
        ("unacked_since", "i8"),
        ("unacked_max", "i8"),
        ("sent_in", "u8", (2,)),  # bit n: sent something in the n-th tenth of a second
        ("payload_in", "u8", (2,)),
        ("packets", "i4"),
        ("fast_retransmits", "i4"),
        ("timeout_retransmits", "i4"),
        ("spurious_retransmits", "i4"),
        ("acknowledgements", "i4"),  # packets that do nothing else
        ("duplicate_acks", "i4"),
        ("sacked_gaps", "i4"),
        ("out_of_order", "i4"),
        ("zero_windows", "i4"),
        ("window_full", "i4"),
        ("keep_alives", "i4"),
        ("resets", "i4"),
        ("syns", "i4"),
        ("refused", "i4"),
        ("retransmits_to_closed", "i4"),
        ("rtt_samples", "i4"),
        ("side", "i1"),
    ]
)
# What is kept of a side for as long as its connection lives.
FLOW = np.dtype(
    [
        # Of what it sent: the oldest segment that is not acknowledged and the newest one, by their ends; 0: none.
        ("first_end", "i8"),
        ("first_at", "i8"),
        ("last_end", "i8"),
        ("last_at", "i8"),
        ("repeated", "i8"),  # up to here an acknowledgement may be of a first copy or of a later one (Karn)
        ("recovery", "i8"),  # up to here the other side has shown that something lacks ...
        ("missing_at", "i8"),  # ... which it did last at this time
        ("least_rtt", "i8"),  # of all spans
        ("longest_rtt", "i8"),  # the same
        ("recent_rtt", "i8"),  # the least of the latest span that is over and has one
        ("again_seq", "u4", (AGAIN,)),
        ("again_length", "i4", (AGAIN,)),
        ("again_why", "i1", (AGAIN,)),  # 0: nothing is here
        ("again_next", "i1"),
        # Of what it acknowledged.
        ("limit", "i8"),  # position up to which the other side may send; 0: not known
        ("ack", "i8"),  # of its latest packet, as in the header; -1: none
        ("ack_at", "i8"),
        ("window", "i4"),  # the same, not scaled
        ("sacked", "i4"),
        ("scale", "i1"),
        ("probing", "i1"),  # 1: its latest packet asked only whether the other side is there
        ("has_ended", "i1"),  # 1: a FIN was seen
        ("has_acked", "i1"),  # 1: a packet was seen that does nothing but acknowledge
        # Sums of all spans that are over.
        ("fast_retransmits", "i4"),
        ("timeout_retransmits", "i4"),
        ("spurious_retransmits", "i4"),
        ("duplicate_acks", "i4"),
        ("zero_windows", "i4"),
        ("keep_alives", "i4"),
        ("rtt_samples", "i4"),
        ("rtt_sum", "i8"),
    ]
)


@borrowing
def begin(flow: Record) -> None:
    """Forget the side of a connection that was here before."""
    flow.first_end = 0
    flow.last_end = 0
    flow.repeated = 0
    flow.recovery = 0
    flow.missing_at = NO_TIME
    flow.least_rtt = NO_TIME
    flow.longest_rtt = 0
    flow.recent_rtt = NO_TIME
    flow.again_next = 0
    for place in range(AGAIN):
        flow.again_why[place] = 0
    flow.limit = 0
    flow.ack = -1
    flow.ack_at = NO_TIME
    flow.window = -1
    flow.sacked = 0
    flow.scale = NO_SYN
    flow.probing = 0
    flow.has_ended = 0
    flow.has_acked = 0
    flow.fast_retransmits = 0
    flow.timeout_retransmits = 0
    flow.spurious_retransmits = 0
    flow.duplicate_acks = 0
    flow.zero_windows = 0
    flow.keep_alives = 0
    flow.rtt_samples = 0
    flow.rtt_sum = 0


@borrowing
def begin_span(row: Record, at: Integer) -> None:
    """Begin the span that a time lies in; without a time the span has none, until a packet brings one."""
    row.at = at if at == NO_TIME else at - at % SPAN
    row.first = NO_TIME
    row.last = NO_TIME
    row.last_payload = NO_TIME
    row.first_packet = 0
    row.bytes = 0
    row.rtt_sum = 0
    row.rtt_min = NO_TIME
    row.rtt_max = NO_TIME
    row.unacked_since = NO_TIME
    row.unacked_max = NO_TIME
    for word in range(2):
        row.sent_in[word] = 0
        row.payload_in[word] = 0
    row.packets = 0
    row.fast_retransmits = 0
    row.timeout_retransmits = 0
    row.spurious_retransmits = 0
    row.acknowledgements = 0
    row.duplicate_acks = 0
    row.sacked_gaps = 0
    row.out_of_order = 0
    row.zero_windows = 0
    row.window_full = 0
    row.keep_alives = 0
    row.resets = 0
    row.syns = 0
    row.refused = 0
    row.retransmits_to_closed = 0
    row.rtt_samples = 0


@borrowing
def end_span(row: Record, flow: Record, last: Integer, is_answered: bool) -> None:
    """Note how a side stands at the end of a span, and add the span to its sums.

    last: time of the connection's last packet in the span. Where nothing of the other side was captured, or nothing
    that only acknowledges (is_answered is False), nobody knows what it acknowledged.
    """
    if flow.first_end > 0 and is_answered:
        row.unacked_since = flow.first_at
        if last != NO_TIME and flow.first_at != NO_TIME:
            row.unacked_max = max(row.unacked_max, last - flow.first_at)
    for place in range(AGAIN):
        flow.again_why[place] = 0
    flow.fast_retransmits += row.fast_retransmits
    flow.timeout_retransmits += row.timeout_retransmits
    flow.spurious_retransmits += row.spurious_retransmits
    flow.duplicate_acks += row.duplicate_acks
    flow.zero_windows += row.zero_windows
    flow.keep_alives += row.keep_alives
    flow.rtt_samples += row.rtt_samples
    flow.rtt_sum += row.rtt_sum
    if row.rtt_samples > 0:
        flow.recent_rtt = row.rtt_min


@borrowing
def shows_acknowledgements(flow: Record, peer: Record) -> Any:
    """Whether the capture has what does nothing but acknowledge, by what it has of both sides of a connection.

    Not if it was filtered by payload, as with Wireshark's kafka. Then the next message seems to acknowledge the last.
    """
    return flow.has_acked or peer.has_acked


@borrowing
def _end_of(stream: Record) -> Integer:
    """Position behind all that a side has sent."""
    return max(stream.highest, stream.fin + 1)


@borrowing
def _sent(flow: Record, end: Integer, at: Integer) -> None:
    """Note when what ends at a position was sent; it is the newest, and the oldest one if nothing else waits."""
    if flow.first_end == 0:
        flow.first_end = end
        flow.first_at = at
    else:
        flow.last_end = end
        flow.last_at = at


@borrowing
def _acknowledged(flow: Record, row: Record, peer: Record, acked: Integer, at: Integer, is_one_point: bool) -> None:
    """Take what is acknowledged from what waits for it, and the round trip from its newest segment.

    When the oldest one goes, the newest one stands for all that still wait. So a wait is told shorter than it was, by
    no more than it took to send a flight. peer: who acknowledges.
    """
    if flow.first_end == 0 or acked < flow.first_end:
        return
    end, sent, oldest = flow.first_end, flow.first_at, flow.first_at
    if flow.last_end > 0 and acked >= flow.last_end:
        end, sent = flow.last_end, flow.last_at
        flow.first_end = 0
    else:
        flow.first_end = flow.last_end
        flow.first_at = flow.last_at
    flow.last_end = 0
    if at == NO_TIME or oldest == NO_TIME or sent == NO_TIME or not is_one_point:
        return
    is_told = shows_acknowledgements(flow, peer)
    if is_told or at - oldest < ACK_HELD_LEAST:
        row.unacked_max = max(row.unacked_max, at - oldest)
    took = at - sent
    if acked != end or end <= flow.repeated or took < 0 or not (is_told or took < ACK_HELD_LEAST):
        return
    # Who waits for so long sends again. If it did not, it was not this packet that acknowledged: the capture lacks it.
    if took > TIMER + 2 * flow.longest_rtt and row.timeout_retransmits + row.spurious_retransmits == 0:
        return
    if row.rtt_samples == 0 or took < row.rtt_min:
        row.rtt_min = took
    row.rtt_max = max(row.rtt_max, took)
    flow.longest_rtt = max(flow.longest_rtt, took)
    row.rtt_sum += took
    row.rtt_samples += 1
    if flow.least_rtt == NO_TIME or took < flow.least_rtt:
        flow.least_rtt = took


@borrowing
def _count_repeated(
    row: Record, flow: Record, peer: Record, stream: Record, position: Integer, end: Integer, at: Integer
) -> None:
    """Count a segment that was sent again by why it was."""
    flow.repeated = _end_of(stream)
    if end <= stream.acked:
        row.spurious_retransmits += 1
        return
    if (
        position < flow.recovery
        and stream.acked < flow.recovery
        and (at == NO_TIME or flow.missing_at == NO_TIME or at - flow.missing_at <= FAST + max(peer.least_rtt, 0))
    ):
        row.fast_retransmits += 1
        why = BY_SIGN
    else:
        row.timeout_retransmits += 1
        why = BY_TIMER
    row.retransmits_to_closed += peer.has_ended
    place = flow.again_next
    flow.again_seq[place] = position & 0xFFFFFFFF
    flow.again_length[place] = end - position
    flow.again_why[place] = why
    flow.again_next = (place + 1) % AGAIN


@borrowing
def _find_vain(row: Record, flow: Record, seq: Integer) -> None:
    """Count a retransmission as spurious that brought bytes once more; the network doubles packets too."""
    for place in range(AGAIN):
        why = flow.again_why[place]
        if why and (seq - np.int64(flow.again_seq[place])) & 0xFFFFFFFF < flow.again_length[place]:
            flow.again_why[place] = 0
            row.spurious_retransmits += 1
            if why == BY_SIGN:
                row.fast_retransmits -= 1
            else:
                row.timeout_retransmits -= 1
            return


@borrowing
def may_answer(flow: Record, peer: Record, position: Integer, shown_at: Integer, at: Integer) -> Any:
    """Whether what fills a hole may have been sent because the other side had said that it lacks.

    flow: of its sender. The hole showed at shown_at, by what came before its bytes. It takes from then to the receiver
    and back, and to the sender and back, until they can come once more.
    """
    if NO_TIME in (at, shown_at, peer.least_rtt) or flow.missing_at < shown_at or position >= flow.recovery:
        return False
    return at - shown_at >= peer.least_rtt + max(flow.least_rtt, 0)


@borrowing
def _count_ack(
    row: Record,
    flow: Record,
    peer_row: Record,
    peer: Record,
    other: Record,
    ack: Integer,
    window: Integer,
    sacked: Integer,
    dsack: Integer,
    at: Integer,
    is_bare: bool,
    may_be_double: bool,
    is_one_point: bool,
) -> None:
    """Take what a segment says of the other side's stream; it is bare if it says nothing else."""
    _acknowledged(peer, peer_row, flow, other.acked, at, is_one_point)
    if (
        is_bare
        and ack == flow.ack
        and window == flow.window
        and ack == other.acked & 0xFFFFFFFF
        and _end_of(other) > other.acked
        and not peer.probing
        and not (may_be_double and sacked == flow.sacked)
    ):
        row.duplicate_acks += 1
        peer.recovery = _end_of(other)
        peer.missing_at = at
    elif ack != flow.ack and other.acked < peer.recovery:
        peer.missing_at = at
    if sacked > 0:
        row.sacked_gaps += 1
        peer.recovery = _end_of(other)
        peer.missing_at = at
    if dsack:
        _find_vain(peer_row, peer, dsack)


@borrowing
def count_segment(
    connection: Record,
    stream: Record,
    other: Record,
    row: Record,
    peer_row: Record,
    flow: Record,
    peer: Record,
    position: Integer,
    ack: Integer,
    flags: Integer,
    length: Integer,
    window: Integer,
    scale: Integer,
    sacked: Integer,
    dsack: Integer,
    number: Integer,
    at: Integer,
    fresh: Integer,
    highest: Integer,
    is_repeated: bool,
    is_out_of_order: bool,
    is_double: bool,
    may_be_double: bool,
) -> None:
    """Count a segment, which the reassembly has taken, in the span in hand.

    row, flow, stream: those of its sender; peer_row, peer, other: of the other side. fresh: how many of its bytes were
    new; highest: where its stream ended before it. is_double: it was captured
    twice; may_be_double: other segments were, and it came as soon behind the one before.
    """
    if row.packets == 0:
        row.first_packet = number
    row.packets += 1
    if at != NO_TIME:
        tenth = min(max(at - row.at, 0) // TENTH, 99)
        bit = np.uint64(1) << np.uint64(tenth & 63)
        row.sent_in[tenth >> 6] |= bit
        if length > 0:
            row.payload_in[tenth >> 6] |= bit
            row.last_payload = max(row.last_payload, at)
        if row.first == NO_TIME or at < row.first:
            row.first = at
        row.last = max(row.last, at)
    row.bytes += fresh
    if is_double:
        return
    if flags & RST:
        row.resets += 1
        if stream.base == 0 and peer.scale != NO_SYN:  # nothing but this answers the SYN
            row.refused += 1
            connection.is_refused = 1
        return
    if flags & SYN:
        row.syns += 1
        flow.scale = scale
    is_one_point = stream.rank == other.rank
    is_bare = length == 0 and flags & (SYN | FIN) == 0
    is_probe = (
        length <= 1
        and flags & (SYN | FIN) == 0
        and stream.base > 0
        and fresh == 0
        and not is_repeated
        and (position == stream.highest - 1 or (length == 0 and position == stream.acked - 1))
    )
    if is_probe and position == stream.highest - 1 and peer.window != 0:
        row.keep_alives += 1
    flow.probing = is_probe
    if flags & ACK:
        flow.has_acked |= is_bare
        row.acknowledgements += is_bare
        if other.base > 0:
            _count_ack(
                row,
                flow,
                peer_row,
                peer,
                other,
                ack,
                window,
                sacked,
                dsack,
                at,
                is_bare and not is_probe,
                may_be_double,
                is_one_point,
            )
            if ack == other.acked & 0xFFFFFFFF and flow.scale != NO_SYN and peer.scale != NO_SYN:
                shift = flow.scale if flow.scale > 0 and peer.scale != NO_SCALE and flags & SYN == 0 else 0
                flow.limit = other.acked + (window << shift)
        if window == 0 and flags & SYN == 0:
            row.zero_windows += 1
        flow.ack = ack
        flow.ack_at = at
        flow.window = window
        flow.sacked = sacked
    if is_out_of_order:
        row.out_of_order += 1
    if is_bare:
        return
    end = position + length + (flags & SYN > 0) + (flags & FIN > 0)
    if is_repeated:
        _count_repeated(row, flow, peer, stream, position, end, at)
        return
    if length > 0 and stream.highest > highest:
        if peer.limit > 0 and stream.highest == peer.limit:
            row.window_full += 1
    elif flags & SYN:
        if end != stream.base:
            return
    elif flags & FIN == 0 or stream.fin == 0 or flow.has_ended:
        return
    if flags & FIN and stream.fin > 0:
        flow.has_ended = 1
    if end > stream.acked:
        _sent(flow, end, at)
