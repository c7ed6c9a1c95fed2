"""Every kind of issue: what it means, and what it weakens. A test holds that no other kinds are emitted."""

from __future__ import annotations

from dataclasses import dataclass

INTERNAL_ERROR = "internal_error"
BODIES_SKIPPED = "bodies_skipped"
KERNEL_DROPS = "kernel_drops"
PACKETS_CUT = "packets_cut"
CAPTURE_NOT_WRITTEN = "capture_not_written"
INTERFACE_FAILED = "interface_failed"


LIMITED = frozenset(
    {"too_many_connections", "too_many_bytes", "too_many_waiting", "body_too_large", "compression_bomb"}
)
"""Kinds that tell that one of `decoders.limits.Limits` was reached."""
OF_FRAMES = frozenset(
    {
        "tcp_gap",
        "tcp_late_data",
        "tcp_wild_segment",
        "implausible_size",
        "frame_sync_lost",
        "bytes_skipped",
        "frame_without_header",
        "bad_request_header",
        "tls_damaged_record",
        "tls_lost_records",
    }
)
"""Kinds that tell of frames that may be missing altogether, so that no exchange shows it."""
OF_RECORDS = frozenset({"bad_crc", "bad_batch"})
"""Kinds that tell that records are damaged, of exchanges that are not."""


@dataclass(frozen=True, slots=True)
class IssueKind:
    """What a kind of issue says, to a person who reads the results."""

    meaning: str
    weakens: str  # what of the results is less than whole because of it


NOTHING = "nothing"
"""What is weakened by issues that take nothing from the results."""

_AROUND = "packets at this place are missing, and with them the exchanges in them"

ISSUE_KINDS: dict[str, IssueKind] = {
    # Files and interfaces
    "truncated_capture": IssueKind("the file ends in the midst of a packet", "the last packet is missing"),
    "damaged_packet_record": IssueKind("bytes of the file are no packet record; they were passed over", _AROUND),
    "captured_exceeds_original": IssueKind(
        "a record holds more bytes than its packet had on the wire", "sizes of these packets are doubtful"
    ),
    "damaged_file": IssueKind("the compression or the disk gave damaged data", "all that came behind it is missing"),
    "file_grew": IssueKind("a file grew while it was read", "the packets that were appended meanwhile are missing"),
    "file_missing": IssueKind("the numbers of a rotation's files have a gap", _AROUND),
    "file_late": IssueKind("a file came after those behind it had been taken", "its packets are missing"),
    "file_overlaps": IssueKind(
        "a file of a rotation begins before the one before it ends", "packets of the two are not in order of time"
    ),
    "time_goes_back": IssueKind(
        "packets are more than a second older than one before them: a clock was set back, captures were put one behind "
        "the other, or a time is damaged",
        "what came before what, and how long it took, where times are there twice",
    ),
    "unreadable_file": IssueKind("one of several files could not be read", "its packets are missing"),
    "unknown_interface": IssueKind("a packet names an interface that its file does not describe", _AROUND),
    "interfaces_left_out": IssueKind(
        "a file describes too many interfaces to keep", "packets of the others are missing"
    ),
    "secrets_left_out": IssueKind(
        "secrets of TLS sessions were too many to keep", "what connections carry whose secrets these are is missing"
    ),
    INTERFACE_FAILED: IssueKind(
        "a network interface went down or away", "packets of it are missing from then on, or until it was up again"
    ),
    KERNEL_DROPS: IssueKind("the kernel dropped packets, as they came too fast", _AROUND),
    PACKETS_CUT: IssueKind(
        "packets were cut to their first bytes as they were captured, so that none had to be dropped",
        "bodies of large messages at these places are read in part",
    ),
    CAPTURE_NOT_WRITTEN: IssueKind("packets could not be written to a file as well", "they are missing in that file"),
    "lines_left_out": IssueKind("whoever read the output was too slow", "lines are missing from the output"),
    BODIES_SKIPPED: IssueKind(
        "bodies of Produce, Fetch and ShareFetch were not decoded, so that no packets had to be dropped",
        "topics, errors, partitions and records of these exchanges are missing",
    ),
    "clock_difference": IssueKind(
        "clocks of files differ by more than packets take from one to the other",
        "times as such, if the clock that was taken for right was not",
    ),
    "spool_full": IssueKind(
        "tables found no more room on disk, or in the part of it that they may take",
        "the last rows of a table are missing, and what answers would say of them",
    ),
    # Packets
    "ip_fragment": IssueKind("an IP packet came in fragments, which are not put together", "streams have gaps there"),
    "truncated_header": IssueKind("too few bytes of a packet were captured for its headers", _AROUND),
    "lying_length": IssueKind("an IP length disagrees with the packet", "the packet may be missing or cut"),
    "damaged_header": IssueKind("an IP or TCP header has impossible contents", _AROUND),
    "unknown_link_type": IssueKind("packets are of a link type that is not known", "none of them was read"),
    # TCP
    "tcp_gap": IssueKind("bytes of a stream are not in the capture", "frames at this place are cut or missing"),
    "tcp_late_data": IssueKind("bytes came after the place where they belong was given up", "as of a gap"),
    "address_translated": IssueKind("packets were captured before and after their addresses were translated", NOTHING),
    "duplicate_packet": IssueKind("the same packet was captured twice", NOTHING),
    "snap_length": IssueKind("packets were cut off when they were captured", "frames at these places are cut"),
    "tcp_wild_segment": IssueKind("a sequence number is far from what was expected", "the segment was left out"),
    "tcp_data_after_fin": IssueKind("data came behind the end of its stream", "these bytes were left out"),
    "tcp_conflicting_data": IssueKind(
        "bytes that came again differ from their first copy: damage, or somebody who wants to deceive",
        "the first copy was taken; the receiver may have taken another",
    ),
    "tcp_one_way": IssueKind("only one side's packets were captured", "requests or responses are missing"),
    "too_many_connections": IssueKind(
        "more connections at once than are followed", "what came of those that were ended is a connection of its own"
    ),
    "too_many_bytes": IssueKind(
        "bytes that wait, for lost ones, secrets of TLS, the rest of a message or its answer, are more than are held",
        "there are gaps, or bodies are read in part, or TLS is not opened",
    ),
    # Frames and exchanges
    "implausible_size": IssueKind("a frame claims a size that cannot be", "the frame is missing"),
    "frame_sync_lost": IssueKind(
        "a gap hides where the next frame begins", "frames up to the next that is found are missing"
    ),
    "begun_before": IssueKind(
        "a connection began before the capture, which begins within one of its frames", "this frame is missing"
    ),
    "bytes_skipped": IssueKind("bytes belong to no frame that could be read", "frames in them are missing"),
    "frame_cut": IssueKind("a frame lacks bytes that the capture does not have", "its body is read in part"),
    "frame_without_header": IssueKind("not even the header of a frame was captured", "the frame is missing"),
    "too_many_waiting": IssueKind(
        "more frames wait for their other half than are kept", "the oldest are shown as unanswered or orphans"
    ),
    "frame_incomplete": IssueKind("the stream ends within a frame", "its body is read in part"),
    "bad_request_header": IssueKind("a frame that should be a request has no credible header", "it is missing"),
    "plaintext_to_tls": IssueKind(
        "a client without TLS speaks to a port with TLS, which answers with an alert", "nothing: no request is answered"
    ),
    "tls_unanswered": IssueKind(
        "a client begins TLS and gets no answer before the connection is closed, as by a port without TLS", NOTHING
    ),
    "tls_not_opened": IssueKind(
        "there is a key log, and it does not open a TLS connection", "what this connection carries is missing"
    ),
    "tls_damaged_record": IssueKind("a TLS record cannot be opened: its bytes are damaged", "frames in it are missing"),
    "tls_lost_records": IssueKind("TLS records lack bytes, which the capture does not have", "frames in them are cut"),
    "tls_incomplete_record": IssueKind("a stream ends within a TLS record", "its last frame is cut"),
    "key_log_damaged": IssueKind(
        "a line of a key log is of no form that is known", "the connection whose secret it should be is not read"
    ),
    "one_way_capture": IssueKind(
        "the requests or the responses of a Kafka connection are not in the capture", "no latency, no matching"
    ),
    # Bodies
    "undecodable_header": IssueKind("a frame ends within its header", "the body is not shown"),
    "undecodable_body": IssueKind("a body is not what its API and version say", "it is read up to there"),
    "bytes_left_over": IssueKind("a body is whole, and bytes follow it", NOTHING),
    "body_too_large": IssueKind(
        "a body has more values, or more text, than are kept of one",
        "the tables have its first values; its text is not shown, nor what it says of a group",
    ),
    "unknown_api": IssueKind("no release of Kafka knows the API", "the body is not shown"),
    "unknown_version": IssueKind("no release of Kafka knows this version of the API", "the body is not shown"),
    "batch_time_out_of_range": IssueKind("a batch's times are beyond what a table holds", "these times are left out"),
    "record_time_out_of_range": IssueKind("a record's time is beyond what a table holds", "this time is left out"),
    "bad_crc": IssueKind("the checksum of a record batch is wrong", "its records may be damaged"),
    "bad_batch": IssueKind("a record batch is damaged or cut", "its records are missing, or some of them"),
    "compression_bomb": IssueKind(
        "a record batch grows out of all proportion", "its records are missing, or all but the first"
    ),
    # Incidents
    "too_many_rows": IssueKind(
        "a table has more rows than rules of incidents look at", "incidents that only the others show are missing"
    ),
    # What is followed live
    "too_many_groups": IssueKind("more groups than are followed", "of those that come back the time before is missing"),
    "too_many_names": IssueKind("more names than are counted apart", "the others are counted together"),
    # This program
    INTERNAL_ERROR: IssueKind(
        "kafkascope has a fault that this message (or group, or answer) met; please report it, with its detail",
        "what this message, group or answer would have told is missing in part",
    ),
}
