"""The compiled half of TCP reassembly: one pass over segments, in the order of the capture.

``absorb`` looks up the connection of each segment, moves that connection's state on by it, and writes rows: bytes of
streams and gaps in them. All that a connection's rows, statistics and issues depend on are its own segments in their
order, so that it does not matter how a capture is cut into batches, or which other connections it holds: unless there
are so many, or hold so much together, that limits are reached.

Where files were captured at several points at once, a stream goes by the file with the lowest rank that has its
packets, for differences of times mean something at one point only. What other files have is a copy, which is left out
(and counted as such, not as a packet or a retransmission), unless it brings something that has not been seen. Copies
come one window for each rank later than they were captured: when one is looked at, what it may be a copy of is known.

Sequence numbers (RFC 9293) are unwrapped to positions: int64 numbers whose low 32 bits are the sequence number, and
that never wrap. 0 is no position. A stream's offset is a position less that of its first byte.
"""
