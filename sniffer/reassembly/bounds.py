"""How far the reassembly believes a segment, and how long it waits; and how both are measured."""

from __future__ import annotations

from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer.columns import NO_TIME
from kafkascope.sniffer.reassembly.state import Integer
from kafkascope.sniffer.units import SECOND_NS

# Bounds of plausibility and patience. Times are nanoseconds of the connection's own clock: the latest of its packets.
WINDOW = 64 << 20  # a segment farther than this from all that was seen or acknowledged is not believed
FARTHEST = 1 << 30  # the largest gap that a single segment makes believe
SENT_LATER, SENT_BEFORE = 8192, 1024  # packets by which identifications of two may be apart that a host counts up
AGREEING = 3  # implausible segments that continue each other are believed from this one on,
AGREEING_BEHIND = 16  # ... and from this one on, if they may as well be old: sequence numbers begin anew behind 4 GB
SOON = 3_000_000  # the same packet once more so soon was captured twice, unless its loss was shown meanwhile
PROOF_PACKETS = 64  # an acknowledged byte that is still missing so many packets of the connection later is a gap ...
PROOF_TIME = 1 * SECOND_NS  # ... or so much later: files may be out of order, with acknowledgements ahead of the data
ONE_WAY_PIECES = 256  # where the other side was not captured, a hole with so many segments behind it is a gap,
ONE_WAY_BYTES = 1 << 20  # or so many bytes,
ONE_WAY_TIME = 3 * SECOND_NS  # or one so old
MOST_PIECES = 4096  # ... and in any case one with so many segments behind it
REUSE_TIME = 60 * SECOND_NS  # a packet so long after the end begins another connection on the same ports
IDLE_TIME = 20 * 60 * SECOND_NS  # ... and so does one after such a silence, or after a shorter one
UNANSWERED_TIME = 35 * SECOND_NS  # where one side alone was seen, and no payload: Linux repeats a SYN after up to 32 s
SWEEP_SEGMENTS = 1024  # connections that have ended are looked for after so many segments (more with many connections)
COMPARED_SEGMENTS = 16  # first copies of bytes of a stream that are kept, to compare what comes again: the latest,
COMPARED_BYTES = 16 << 10  # ... no more than so many bytes,
COMPARED_TIME = 1 * SECOND_NS  # ... and for so long: most retransmissions come sooner
FORGOTTEN_TIME = 10 * SECOND_NS  # silence after which they may be dropped, whatever disorder there is in times
RECENT = 64  # segments of a stream that are remembered, to know them again; two interfaces may take turns by dozens


@borrowing
def elapsed(at: Integer, since: Integer) -> Integer:
    """Nanoseconds from one time to another; none if either is not known."""
    if at == NO_TIME or since == NO_TIME:
        return 0
    return at - since


@borrowing
def unwrap(seq: Integer, near: Integer) -> Integer:
    """Position of a sequence number: the nearest one to the position ``near``."""
    distance = (seq - near) & 0xFFFFFFFF
    if distance >= 0x80000000:
        distance -= 0x100000000
    return near + distance
