"""``kafkascope scrub``: captures that can be handed to anybody, of which the same can be found out but for names.

The files are read twice. First frames are found and decoded, and what they are to say is put on disk; then packets are
written with their headers and that. Whatever is in a packet and was not understood becomes zeros.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kafkascope import rewriting
from kafkascope.ahead import ahead
from kafkascope.decoders.blanking import Blanked
from kafkascope.decoders.characters import safe_text
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.program import Remark
from kafkascope.progress import ProgressBar
from kafkascope.reports.columns.remarks import unreadable_remark
from kafkascope.reports.columns.text import counted
from kafkascope.reports.rows.blank_frames import FrameBlanker
from kafkascope.rewriting import files_to_rewrite, written_anew
from kafkascope.sniffer.blank_packets import IPV4_BYTES, IPV6_BYTES, MAC_BYTES, blank
from kafkascope.sniffer.columns import Exchanges, Packets
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.session import Session, SessionOptions
from kafkascope.sniffer.sources.capture_writer import CaptureWriter
from kafkascope.sniffer.sources.files import Capture, open_capture
from kafkascope.sniffer.sources.live_options import Rotation
from kafkascope.sniffer.stream_content import StreamContent
from kafkascope.sniffer.translation import Translations
from kafkascope.temporary import TemporaryDirectory


@dataclass(slots=True)
class Scrubbed:
    """What became of a capture."""

    packets: int = 0
    frames: int = 0
    payload_bytes: int = 0  # of TCP, as captured
    blanked_bytes: int = 0  # of these: in no frame that was understood
    segments: int = 0  # packets with TCP
    batches: Blanked = field(default_factory=Blanked)
    protocols: Counter[str] = field(default_factory=Counter)  # of connections that are not read as Kafka
    unreadable: tuple[str, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether a file could not be read, or not to its end."""
        return bool(self.unreadable)

    @property
    def remarks(self) -> Iterator[str]:
        """What people should know of it."""
        return map(unreadable_remark, self.unreadable)

    def lines(self, out: str) -> Iterator[str]:
        """What was written to OUT, and what of it is zeros."""
        share = 100 * self.blanked_bytes / (self.payload_bytes or 1)
        yield f"{safe_text(out)}: {counted(self.packets, 'packet')}, {counted(self.frames, 'Kafka frame')} scrubbed"
        yield (
            f"{self.blanked_bytes:,} of {counted(self.payload_bytes, 'byte')} of TCP payload ({share:.1f} %) are in no "
            "frame that was understood: they are zeros"
        )
        if others := self.packets - self.segments:
            yield f"of {counted(others, 'packet')} without TCP, or with damaged headers, what they carry is zeros"
        if self.protocols:
            shown = ", ".join(f"{name} ({count:,})" for name, count in self.protocols.most_common())
            yield f"connections that are not read as Kafka, all of their payload zeros: {shown}"
        if self.protocols["tls"] or self.protocols["https"]:
            yield "TLS cannot be opened in what was written, whatever secrets one has"
        yield f"{self.batches.batches:,} record batches without what their records hold"
        if self.batches.lost:
            yield (
                f"{self.batches.lost:,} of these without records: they could not be decompressed, or what is left of "
                "them does not fit where they were"
            )


def scrub(paths: Sequence[str], out: str, pseudonyms: Pseudonyms, decode_as: frozenset[int] = frozenset()) -> Scrubbed:
    """Write the packets of captures to a pcapng file, without what they tell of anything but Kafka's own doings.

    Packets keep their order, times, lengths and ports. Names and addresses become pseudonyms, as long; records, and all
    bytes that were not understood, zeros; checksums are right. Where a packet began with what only a library reads
    (PPP, MPLS, IEEE 802.11), it begins with its IP header.

    Raises SourceError if nothing can be read, ValueError if it cannot be done for these files, and OSError.
    """
    files = files_to_rewrite(paths, out, "scrub", "one at a time, with one KEY, and they can be compared as before")
    done = Scrubbed()
    with TemporaryDirectory() as directory, open_capture(files) as capture:
        content = StreamContent(directory)
        with written_anew(out, Rotation()) as writer:
            _find_frames(capture, content, pseudonyms, SessionOptions(decode_as=decode_as), done)
            with open_capture(list(capture.contents), expected=capture.contents) as again:
                _write_packets(again, content, pseudonyms, writer, done)
        done.unreadable = capture.unreadable
    return done


def _find_frames(
    capture: Capture, content: StreamContent, pseudonyms: Pseudonyms, options: SessionOptions, done: Scrubbed
) -> None:
    session = Session(options)
    blanker = FrameBlanker(pseudonyms)

    def take(exchanges: Exchanges) -> None:
        frames = blanker.frames(exchanges)
        content.add(frames)
        done.frames += len(frames.offset)
        ended = session.ended()
        content.end(ended)
        done.protocols.update(row.protocol for row in ended if row.protocol not in ("kafka", "empty"))
        session.spans()
        for row in ended:
            session.issues.take(row.connection)

    with ProgressBar("find frames") as progress:
        for dissected in ahead(map(dissect, capture)):
            progress.update("find frames", capture.bytes_read, capture.size)
            take(session.feed(dissected.segments))
        for exchanges in session.finish():
            take(exchanges)
    content.finish()
    done.batches = blanker.records


def _write_packets(
    capture: Capture, content: StreamContent, pseudonyms: Pseudonyms, writer: CaptureWriter, done: Scrubbed
) -> None:
    translations = Translations()
    with ProgressBar("write packets") as progress:
        for packets, dissected in ahead((packets, dissect(packets)) for packets in capture):
            progress.update("write packets", capture.bytes_read, capture.size)
            blanked = blank(dissected.packets)
            for width in (MAC_BYTES, IPV4_BYTES, IPV6_BYTES):
                blanked.replace(width, pseudonyms.octets)
            segments = dissected.segments
            written = content.write(translations.named(segments), blanked.packets.data)
            blanked.set_checksums()
            writer.write(_as_they_came(packets, blanked.packets))
            done.packets += len(packets.number)
            done.segments += len(segments.number)
            payload = int(segments.captured.sum())
            done.payload_bytes += payload
            done.blanked_bytes += payload - int(written.sum())


def _as_they_came(packets: Packets, blanked: Packets) -> Packets:
    """Blanked packets; those without an IP header that could be found have the link type and sizes that they had."""
    lost = blanked.link_type < 0

    def column(name: str) -> Any:
        return np.where(lost, getattr(packets, name), getattr(blanked, name))

    kept = {name: column(name) for name in ("start", "captured", "original", "link_type")}
    return replace(blanked, **kept)


def run(captures: Sequence[str], out: str, pseudonyms: Pseudonyms, decode_as: frozenset[int], remark: Remark) -> int:
    """Scrub captures and say what became of them; returns the exit status."""
    return rewriting.run(lambda: scrub(captures, out, pseudonyms, decode_as), out, remark)
