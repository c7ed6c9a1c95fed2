"""What files of one capture have in common: the same packets, by which their clocks are compared.

Of each file a sample of packets is taken, by a hash of what is the same wherever a packet is captured: addresses,
ports, sequence numbers, flags, length. So the samples of two files have the same packets, if both files do.

A packet is later at the second point that it passes by what it takes to get there. Between two hosts packets go both
ways: the clock difference lies between the least difference of times one way and the greatest the other way. Its
middle is taken, which is right if both ways are equally fast at their fastest (as NTP has it, RFC 5905 section 8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from kafkascope.sniffer.capture_points import PLAUSIBLE, RIGHT, CapturePoint, Clock, FileClock, Joined
from kafkascope.sniffer.columns import I64, U64, Bool, Segments
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.mixing import mixed_columns
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import FileReader, find_files, first_time, is_stream
from kafkascope.sniffer.sources.split import last_time
from kafkascope.sniffer.units import SECOND_NS

F64 = NDArray[np.float64]

MOST_SAMPLED = 1 << 18  # packets of all files together, and
LEAST_SAMPLED = 1 << 13  # of each file at least so many, if it has them
SMALL = 256 << 20  # bytes of all files: so few are always compared, for a clock may be wrong by hours
OVERLAP = 1 * SECOND_NS  # files that follow each other do not overlap by as much
LEAST_BOTH_WAYS = 3  # packets in common, each way between two hosts; what is sent again after a file's end goes one way
LEAST_ONE_WAY = 64  # ... or so many
AGREE = 1 * SECOND_NS  # differences farther from the median are of packets that were sent twice
LEAST_AGREEING = 0.5
WORTH_IT = 100_000  # a smaller difference is what it takes to note a packet's time
MOST_DRIFT = 1e-3  # ten times what a computer's clock is ever off; more is no drift
DRIFT_TIME, DRIFT_PACKETS = 10 * SECOND_NS, 64  # in less no drift can be seen
DRIFT_SPANS = 32
DRIFT_WAYS = 16
WINDOW, MOST_WINDOW = 10_000_000, 1 * SECOND_NS  # longer by what packets were seen to take
NEIGHBOURS = 8  # files that have the same packet are compared with so many of each other
MOST_RANK = 100

SYN = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """Packets of a file by their fingerprints, and the number of all."""

    fingerprint: U64
    at: I64  # by the file's clock
    way: U64  # of a packet between two hosts: they, and in the lowest bit which of them sent it
    packets: int


class Sampler:
    """Takes a sample of one file's packets, of a size that does not grow with the file.

    Which packets are in a sample depends on the number of all packets of the file alone: samples of its parts, taken
    with the number of all known, are together the sample of the whole.
    """

    def __init__(self, most: int, packets: int | None = None) -> None:
        """packets: of the whole file, where that is known before."""
        self._most = most
        self._known = packets
        self._packets = 0
        self._parts: list[tuple[U64, I64, U64]] = []
        self._limit = 0  # bits that are 0 in the fingerprints taken

    def feed(self, segments: Segments, packets: int) -> None:
        """Take the segments of so many packets."""
        self._packets += packets
        limit = self._bits(self._packets if self._known is None else self._known)
        if limit > self._limit:
            self._limit = limit
            self._parts = [_below(part, limit) for part in self._parts]
        # Of one byte are keep-alives, which are the same again and again; as are acknowledgements without payload.
        timed = (segments.at > -PLAUSIBLE) & (segments.at < PLAUSIBLE)
        rows = np.flatnonzero(timed & ((segments.length > 1) | (segments.flags & SYN > 0)))
        if len(rows):
            self._parts.append(_below((_fingerprint(segments, rows), segments.at[rows], _way(segments, rows)), limit))

    def sample(self) -> Sample:
        """The sample of what was fed."""
        empty = (np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.uint64))
        fingerprint, at, way = (np.concatenate(column) for column in zip(empty, *self._parts, strict=True))
        return Sample(fingerprint, at, way, self._packets)

    def _bits(self, packets: int) -> int:
        """Times that the sample must be halved."""
        return max(-(-packets // self._most) - 1, 0).bit_length()


def most_sampled(files: int) -> int:
    """Packets that are to be sampled of each of so many files."""
    return max(MOST_SAMPLED // max(files, 1), LEAST_SAMPLED)


def joined_samples(parts: Iterable[Sample]) -> Sample:
    """The sample of a file out of those of its parts."""
    listed = [Sampler(1).sample(), *parts]
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in listed])
        for field in fields(Sample)
        if field.name != "packets"
    }
    return Sample(**columns, packets=sum(part.packets for part in listed))


def is_worth_it(size: int, spans: Callable[[], Sequence[tuple[int, int] | None]]) -> bool:
    """Whether files are to be compared: all are small, or two overlap in time.

    size is that of all; spans gives first and last time of each.
    """
    if size <= SMALL:
        return True
    latest = None
    for first, last in sorted(span for span in spans() if span is not None):
        if latest is not None and min(latest, last) - first > min(OVERLAP, max(last - first, 0) // 2):
            return True
        latest = last if latest is None else max(latest, last)
    return False


def compare_files(paths: Iterable[str]) -> Joined | None:
    """Compare the files that the paths mean, if there are several; None if they have nothing in common.

    Reads each to the end. Files that cannot be read are left out.
    """
    files = find_files(paths)
    if len(files) < 2 or any(map(is_stream, files)):
        return None
    sizes = {}
    for file in files:
        try:
            reader = FileReader(file)
            reader.close()
            sizes[file] = reader.size or 0
        except SourceError:
            continue
    if len(sizes) < 2 or not is_worth_it(sum(sizes.values()), lambda: [_span(file) for file in sizes]):
        return None
    most = most_sampled(len(sizes))
    samples, contents = {}, {}
    for file in sizes:
        reader, sampler = FileReader(file), Sampler(most)
        for packets in reader:
            sampler.feed(dissect(packets).segments, len(packets.number))
        samples[file] = sampler.sample()
        if reader.content:
            contents[file] = reader.content
    joined = compare(samples)
    return joined and replace(joined, contents=contents)


def _span(file: str) -> tuple[int, int] | None:
    first, last = first_time(file), last_time(file)
    return None if first is None or last is None else (first, last)


def compare(samples: Mapping[str, Sample]) -> Joined | None:
    """Compare samples of files, in the order of `find_files`; None if they have nothing in common."""
    paths = list(samples)
    differences = _differences(list(samples.values()))
    if not differences:
        return None
    clocks, found = _set_clocks(paths, list(samples.values()), differences)
    apart = [
        difference.spread + max(abs(_left(difference, clocks, at)) for at in difference.times)
        for difference in differences
    ]
    window = min(WINDOW + 2 * max(apart), MOST_WINDOW)
    ranks = _ranks(len(paths), differences)
    points = {
        path: CapturePoint(sample.packets, rank, rank * window, clock)
        for (path, sample), rank, clock in zip(samples.items(), ranks, clocks, strict=True)
    }
    return Joined(points, window, tuple(found))


def _left(difference: _Difference, clocks: Sequence[Clock | None], at: int) -> int:
    """What is left of a difference with the clocks set, at a time of the first file."""
    first, second = (clocks[file] or RIGHT for file in (difference.first, difference.second))
    return second.at(difference.clock.at(at)) - first.at(at)


def _below(part: tuple[U64, I64, U64], bits: int) -> tuple[U64, I64, U64]:
    """Rows whose fingerprint begins with so many bits that are 0."""
    if not bits:
        return part
    chosen = part[0] >> np.uint64(64 - bits) == 0
    return part[0][chosen], part[1][chosen], part[2][chosen]


def _wide(column: NDArray[np.generic], rows: I64, shift: int = 0) -> U64:
    result: U64 = column[rows].astype(np.uint64) << np.uint64(shift)
    return result


def _fingerprint(segments: Segments, rows: I64) -> U64:
    """A hash of what is the same of a packet wherever it is captured."""
    with np.errstate(over="ignore"):
        return mixed_columns(
            *(getattr(segments, f"{side}_{half}")[rows] for side in ("source", "target") for half in ("high", "low")),
            _wide(segments.source_port, rows, 48) | _wide(segments.target_port, rows, 32) | _wide(segments.seq, rows),
            _wide(segments.ack, rows, 32) | _wide(segments.length, rows, 8) | _wide(segments.flags, rows),
        )


def _way(segments: Segments, rows: I64) -> U64:
    with np.errstate(over="ignore"):
        source, target = (
            mixed_columns(getattr(segments, f"{side}_high")[rows], getattr(segments, f"{side}_low")[rows])
            for side in ("source", "target")
        )
        hosts = (source + target) & ~np.uint64(1)
    up: Bool = np.where(source == target, segments.source_port[rows] < segments.target_port[rows], source < target)
    return hosts | up.astype(np.uint64)


# --- two files -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Difference:
    """How the clock of the second file differs from that of the first."""

    first: int  # files, by their place
    second: int
    clock: Clock  # makes times of the second of times of the first
    times: tuple[int, int]  # of the first and last packets in common, by the first's clock
    uncertainty: int
    spread: int  # the greatest difference between a packet's times, with the clocks set
    common: int


def _differences(samples: Sequence[Sample]) -> list[_Difference]:
    """Of all files that have packets in common."""
    fingerprint = np.concatenate([sample.fingerprint for sample in samples])
    at = np.concatenate([sample.at for sample in samples])
    way = np.concatenate([sample.way for sample in samples])
    file = np.repeat(np.arange(len(samples)), [len(sample.at) for sample in samples])
    order = np.lexsort((file, fingerprint))
    again = (np.diff(fingerprint[order]) == 0) & (np.diff(file[order]) == 0)
    once = np.ones(len(order), np.bool_)
    once[1:] &= ~again  # which of the two the other file has cannot be told
    once[:-1] &= ~again
    order = order[once]
    fingerprint, at, way, file = fingerprint[order], at[order], way[order], file[order]
    found: dict[tuple[int, int], list[I64]] = defaultdict(list)
    for apart in range(1, min(NEIGHBOURS, len(samples))):
        one = np.flatnonzero(fingerprint[apart:] == fingerprint[:-apart])
        pair = file[one] * len(samples) + file[one + apart]
        by_pair = np.argsort(pair, kind="stable")
        for rows in np.split(by_pair, np.flatnonzero(np.diff(pair[by_pair])) + 1):
            if len(rows):
                place = one[rows]
                found[int(file[place[0]]), int(file[place[0] + apart])].append(np.stack([place, place + apart]))
    differences = []
    for (first, second), places in sorted(found.items()):
        here, there = np.concatenate(places, axis=1)
        difference = _difference(first, second, at[here], at[there], way[here])
        if difference is not None:
            differences.append(difference)
    return differences


def _difference(first: int, second: int, here: I64, there: I64, way: U64) -> _Difference | None:
    base = int(np.median(there - here))
    agreeing = np.abs(there - here - base) <= AGREE + (MOST_DRIFT * np.ptp(here.astype(np.float64)))
    here, there, way = here[agreeing], there[agreeing], way[agreeing]
    if len(here) < LEAST_AGREEING * len(agreeing):
        return None
    order = np.argsort(way, kind="stable")
    edges = np.flatnonzero(np.diff(way[order])) + 1
    ways = {int(way[rows[0]]): rows for rows in np.split(order, edges)}
    both = [(ways[one], ways[one | 1]) for one in ways if not one & 1 and len(ways.get(one | 1, ())) >= LEAST_BOTH_WAYS]
    both = [pair for pair in both if len(pair[0]) >= LEAST_BOTH_WAYS]
    if not both and len(here) < LEAST_ONE_WAY:
        return None
    since = int(here.min())
    elapsed = (here - since).astype(np.float64)
    apart = (there - here - base).astype(np.float64)
    drift = _drift(elapsed, apart, ways.values())
    apart = apart - drift * elapsed
    low, high = -np.inf, np.inf
    for one, other in both:
        later, earlier = sorted((apart[one], apart[other]), key=lambda values: -float(np.median(values)))
        # What is farther off than all but one in a hundred may be the time of another packet.
        high = min(high, float(np.sort(later)[len(later) // 100]))
        low = max(low, float(np.sort(earlier)[-1 - len(earlier) // 100]))
    if not both:
        # One way only: what the packets took at least counts as the clock's.
        low, high = float(apart.min()), float(apart.max())
    middle = (low + high) / 2
    return _Difference(
        first,
        second,
        Clock(base + round(middle), drift, since),
        (since, int(here.max())),
        round(abs(high - low) / 2),
        round(float(np.abs(apart - middle).max())),
        len(here),
    )


def _drift(elapsed: F64, apart: F64, ways: Iterable[I64]) -> float:
    """Nanoseconds by which differences grow in a nanosecond; 0 where that is not more than they vary anyway."""
    duration = float(elapsed.max())
    if duration < DRIFT_TIME or len(elapsed) < DRIFT_PACKETS:
        return 0.0
    spans = min(DRIFT_SPANS, len(elapsed) // 16)
    middles: list[tuple[F64, F64]] = []
    slopes: list[F64] = []
    for rows in sorted(ways, key=len, reverse=True)[:DRIFT_WAYS]:
        span = np.minimum(elapsed[rows] / duration * spans, spans - 1).astype(np.int64)
        inside = [rows[span == one] for one in range(spans)]
        times = np.array([np.median(elapsed[these]) for these in inside if len(these) >= LEAST_BOTH_WAYS])
        values = np.array([np.median(apart[these]) for these in inside if len(these) >= LEAST_BOTH_WAYS])
        if not len(times):
            continue
        one, other = np.nonzero(times[None, :] - times[:, None] >= duration / 3)
        slopes.append((values[other] - values[one]) / (times[other] - times[one]))
        middles.append((times, values))
    every = np.concatenate(slopes) if slopes else np.empty(0)
    if not len(every):
        return 0.0
    drift = float(np.median(every))
    left = [values - drift * times for times, values in middles]
    noise = float(np.median(np.concatenate([np.abs(values - np.median(values)) for values in left])))
    if abs(drift) > MOST_DRIFT or abs(drift) * duration <= max(6 * noise, WORTH_IT):
        return 0.0
    return drift


# --- all files -------------------------------------------------------------------------------------------------------


def _set_clocks(
    paths: Sequence[str], samples: Sequence[Sample], differences: Sequence[_Difference]
) -> tuple[list[Clock | None], list[FileClock]]:
    """What sets each file's clock, and what is to be said of it.

    The clock in the middle is taken as right, of two the first file's; of those that agree with it the first one.
    """
    neighbours = _tree(len(paths), differences)
    clocks: list[Clock | None] = [None] * len(paths)
    found = []
    placed: set[int] = set()
    for file in range(len(paths)):
        if file in placed:
            continue
        members = _walk(file, neighbours)
        placed |= members.keys()
        if len(members) == 1:
            continue
        when = int(np.median([difference.times[0] for difference in differences if difference.first in members]))
        times = {one: clock.inverse().at(when) for one, (clock, _, _) in members.items()}
        middle = sorted(times.values())[(len(times) - 1) // 2 : len(times) // 2 + 1]
        reference = min(one for one in members if min(abs(times[one] - time) for time in middle) <= WORTH_IT)
        for one, (clock, uncertainty, common) in sorted(_walk(reference, neighbours).items()):
            if one == reference:
                continue
            first, last = (at - clock.at(at) for at in (int(samples[one].at.min()), int(samples[one].at.max())))
            corrected = max(abs(first), abs(last)) > max(uncertainty, WORTH_IT)
            if corrected:
                clocks[one] = clock
            drift = 0.0 - clock.drift if corrected else 0.0
            found.append(FileClock(paths[one], paths[reference], first, last, drift, uncertainty, common, corrected))
    return clocks, sorted(found, key=lambda clock: paths.index(clock.path))


def _tree(files: int, differences: Sequence[_Difference]) -> dict[int, list[_Difference]]:
    """By file the differences that connect it: of all those as few as need be, that rest on the most packets."""
    group = list(range(files))
    neighbours: dict[int, list[_Difference]] = defaultdict(list)
    for difference in sorted(differences, key=lambda one: (-one.common, one.first, one.second)):
        one, other = group[difference.first], group[difference.second]
        if one != other:
            group = [one if each == other else each for each in group]
            neighbours[difference.first].append(difference)
            neighbours[difference.second].append(difference)
    return neighbours


def _walk(root: int, neighbours: Mapping[int, Sequence[_Difference]]) -> dict[int, tuple[Clock, int, int]]:
    """What makes a file's times those of the root, how uncertain that is, and on how many packets it rests."""
    reached = {root: (RIGHT, 0, 0)}
    waiting = [root]
    while waiting:
        here = waiting.pop()
        clock, uncertainty, _ = reached[here]
        for difference in neighbours.get(here, ()):
            there = difference.second if difference.first == here else difference.first
            if there not in reached:
                step = difference.clock.inverse() if difference.first == here else difference.clock
                reached[there] = (clock.after(step), uncertainty + difference.uncertainty, difference.common)
                waiting.append(there)
    return reached


def _ranks(files: int, differences: Sequence[_Difference]) -> list[int]:
    """A rank for each file, another one than all that it has packets in common with; low ones first."""
    common: dict[int, set[int]] = defaultdict(set)
    for difference in differences:
        common[difference.first].add(difference.second)
        common[difference.second].add(difference.first)
    ranks: list[int] = []
    for file in range(files):
        taken = {ranks[other] for other in common[file] if other < file}
        ranks.append(min(next(rank for rank in range(files) if rank not in taken), MOST_RANK))
    return ranks
