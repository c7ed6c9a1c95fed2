"""``kafkascope annotate``, ``sniff -r -w``: a capture once more, or what matches, with what was found out beside it.

The files are read twice: first they are understood, then their packets are written with comments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyarrow import dataset as ds

from kafkascope import rewriting
from kafkascope.ahead import ahead
from kafkascope.capture import Capture, read_here
from kafkascope.decoders.characters import safe_text
from kafkascope.engine import EngineOptions
from kafkascope.filters.expressions import Expression
from kafkascope.filters.no_match import NoMatch
from kafkascope.filters.of_captures import with_ends
from kafkascope.matching import CARRIED, Matching
from kafkascope.program import Remark
from kafkascope.progress import ProgressBar
from kafkascope.reports.columns.text import counted
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.show.host_names import host_names
from kafkascope.reports.show.packet_comments import MOST_AT_ONE, PacketComments, packet_comments
from kafkascope.rewriting import files_to_rewrite, written_anew
from kafkascope.sniffer.columns import NO_TIME, Packets
from kafkascope.sniffer.sources.capture_writer import names_blocks, secrets_block
from kafkascope.sniffer.sources.files import CaptureFile, open_capture
from kafkascope.sniffer.sources.live_options import Rotation
from kafkascope.sniffer.sources.order import running_maximum
from kafkascope.sniffer.sources.pcapng import NOTES
from kafkascope.sniffer.units import SECOND_NS

_NEAR_NS = 5 * SECOND_NS  # from a moment to the packet where it is told, of those that are chosen to be written


@dataclass(slots=True)
class Annotated:
    """What became of a capture."""

    packets: int = 0
    of: int = 0  # packets that were read
    comments: int = 0
    hosts: int = 0
    remarks: tuple[str, ...] = ()  # what people should know of it
    is_partial: bool = False  # whether a file could not be read

    def lines(self, out: str) -> Iterator[str]:
        """What was written to OUT."""
        some = f"{self.packets:,} of " if self.packets < self.of else ""
        told = [f"{some}{counted(self.of, 'packet')}", counted(self.comments, "comment")]
        yield f"{safe_text(out)}: {', '.join(told)}, names of {counted(self.hosts, 'host')}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which packets are to be written, and to which files."""

    command: str = "annotate"  # that is told to do so
    exchanges: Expression | None = None  # None: all packets
    alone: bool = False  # without the rest of the exchanges' connections
    rotation: Rotation = field(default_factory=Rotation)


def annotate(paths: Sequence[str], out: str, options: EngineOptions, wanted: Wanted = Wanted()) -> Annotated:
    """Write packets of captures to a pcapng file, or several, with comments and names of hosts.

    Comments and secrets of TLS in the captures are kept. Raises SourceError if nothing can be read, ValueError if it
    cannot be done for these files, and OSError.
    """
    files = files_to_rewrite(paths, out, wanted.command)
    open_capture(files).close()  # there is something to read
    done = Annotated()
    with written_anew(out, wanted.rotation) as writer:
        read, reading = read_here(files, options)
        signs = signs_of(read)
        comments, names = packet_comments(signs), host_names(signs)
        described = reading.capture.files
        secrets = [one for file in described for one in file.secrets]
        writer.begin_with(names_blocks(names) + b"".join(map(secrets_block, secrets)))
        matching = _matching(read, wanted)
        placed = Placed(comments, described, None if matching is None else _NEAR_NS)
        contents = reading.capture.contents
        with open_capture(list(contents), expected=contents) as again, ProgressBar("write packets") as progress:
            for packets in ahead(again):
                progress.update("write packets", again.bytes_read, again.size)
                done.of += len(packets.number)
                packets = options.window.bounds(again.first_time).cut(packets)
                packets = packets if matching is None else matching.of(packets)
                mine = placed.of(packets)
                writer.write(packets, mine)
                done.packets += len(packets.number)
                done.comments += sum(len(mine.get(number, ())) for number in packets.number.tolist())
    done.hosts, done.is_partial = len(names), reading.is_partial
    of_comments = placed.remarks() if done.packets else _why_none(read, wanted)
    done.remarks = (*reading.remarks(), *_not_kept(described), *of_comments)
    return done


def _why_none(read: Capture, wanted: Wanted) -> Iterator[str]:
    """Why no packet was written."""
    if wanted.exchanges is not None:
        no_match = NoMatch(wanted.exchanges)
        connections = read.arrow("connections")
        for batch in read.dataset("exchanges").to_batches():
            rows = pa.Table.from_batches([batch])
            no_match.observe(with_ends(rows, connections), 0)
        if (said := no_match.remark()) is not None:
            yield said


def _matching(read: Capture, wanted: Wanted) -> Matching | None:
    if wanted.exchanges is None:
        return None
    chosen = read.chosen(wanted.exchanges, CARRIED)
    return Matching(chosen, read.arrow("connections"), alone=wanted.alone)


def signs_of(read: Capture) -> Signs:
    """The tables of a capture as comments are made of them."""
    names = ("incidents", "rebalances", "errors", "error_histogram", "cluster_events", "connections", "exchanges")
    return Signs({name: ds.dataset(read.arrow(name)) for name in names})


class Placed:
    """Comments by the packets that they go to, as packets come by."""

    def __init__(self, comments: PacketComments, files: Iterable[CaptureFile], within: int | None = None) -> None:
        """files: whose own comments come first. within: nanoseconds up to the packet to which a moment goes, if any."""
        self._of_packets: defaultdict[int, list[str]] = defaultdict(list)
        for file in files:
            for note in file.notes:
                text = note.text if note.packet else f"comment of {file.path}: {note.text}"
                self._of_packets[note.packet or file.first_number].append(text)
        for number, texts in comments.of_packets.items():
            self._of_packets[number] += texts
        self._numbers = np.fromiter(self._of_packets, np.int64)
        self._moments = comments.of_times
        self._left_out, self._far, self._within = comments.left_out, 0, within
        self._place = 0  # of the moment that comes next
        self._latest = NO_TIME

    def of(self, packets: Packets) -> Mapping[int, Sequence[str]]:
        """The comments of packets that are written, which are those behind the packets given before."""
        if not len(packets.number):
            return {}
        key = running_maximum(packets.at, self._latest)
        self._latest = int(key[-1])
        found: defaultdict[int, list[str]] = defaultdict(list)
        while self._place < len(self._moments) and self._moments[self._place][0] <= self._latest:
            at, text = self._moments[self._place]
            place = np.searchsorted(key, at)
            mine = found[int(packets.number[place])]
            if self._within is not None and key[place] - at > self._within:
                self._far += 1
            elif len(mine) < MOST_AT_ONE:
                mine.append(text)
            else:
                self._left_out += 1
            self._place += 1
        for number in packets.number[np.isin(packets.number, self._numbers)].tolist():
            found[number] += self._of_packets[number]
        return {number: list(dict.fromkeys(texts)) for number, texts in found.items()}

    def remarks(self) -> Iterator[str]:
        """What of the comments went to no packet."""
        if self._left_out:
            yield f"{counted(self._left_out, 'comment')} left out: there are too many, or their packet is not known"
        if self._far:
            yield f"{counted(self._far, 'comment')} left out: of what is written no packet is near their moment"
        if behind := len(self._moments) - self._place:
            yield f"{counted(behind, 'comment')} left out: the moment is behind the last packet"


def _not_kept(files: Iterable[CaptureFile]) -> Iterator[str]:
    """What captures have that is not in what is written."""
    names = {interface.name for file in files for interface in file.interfaces if interface.name}
    if names:
        yield f"packets do not say any more by which interface they came ({', '.join(sorted(names))})"
    for file in files:
        if len(file.notes) == NOTES:
            yield f"{file.path}: of its comments the first {NOTES:,} were kept"


def run(captures: Sequence[str], out: str, options: EngineOptions, remark: Remark, wanted: Wanted = Wanted()) -> int:
    """Annotate captures and say what became of them; returns the exit status."""
    return rewriting.run(lambda: annotate(captures, out, options, wanted), out, remark)
