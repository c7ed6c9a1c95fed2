"""Streams of real conversations with bytes changed, inserted and lost: no harm, and nothing unaccounted for."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.decoders.limits import Limits
from kafkascope.sniffer.columns import Exchanges
from kafkascope.sniffer.exchanges import Conversations, Start
from kafkascope.sniffer.pairing import state as pairing
from kafkascope.sniffer.tcp import Connections
from tests.sniffer.capture_segments import plain, segments_of
from tests.sniffer.tcp_conversation import Piece, read_runs
from tests.sniffer.written_runs import Run, runs

# Groups, SASL with and without frames, many codecs, old clients; by name and the most packets of a connection.
CAPTURES = ("eager-three-joins", "clients_sasl", "clients_sasl_v0", "clients_codecs", "clients_kcat_old_java")
MOST_PACKETS = 120
MOST_BYTES = 100_000
SIZES = (0, 3, 4, 7, 8, 255, 1 << 20, 1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Part:
    """What one packet brought; data None: a gap."""

    direction: int
    length: int
    data: bytes | None
    number: int


@cache
def conversations(name: str) -> list[list[Part]]:
    """The connections of a capture, packet by packet, those that are not too long for many examples."""
    connections = Connections()
    streams: dict[tuple[int, int], list[Piece]] = {}
    for batch in segments_of(f"{name}/capture.pcap"):
        read_runs(connections.feed(replace(batch, data=batch.data.copy())), streams)
    for more in connections.finish():
        read_runs(more, streams)
    found = []
    for connection in sorted({connection for connection, _ in streams}):
        parts = [
            Part(direction, piece.length, piece.data, piece.number)
            for direction in (0, 1)
            for piece in streams.get((connection, direction), [])
        ]
        size = sum(part.length for part in parts)
        if 4 <= len(parts) <= MOST_PACKETS and size <= MOST_BYTES and all(part.data for part in parts):
            found.append(sorted(parts, key=lambda part: part.number))
    return found


def damaged(parts: list[Part], chance: random.Random) -> list[Part]:
    """A few packets with other bytes: overwritten, a size of a frame among them, inserted, left out."""
    parts = list(parts)
    for _ in range(chance.randint(1, 4)):
        index = chance.randrange(len(parts))
        data = parts[index].data or b""
        at = chance.choice((0, chance.randrange(len(data) + 1)))
        how = chance.randrange(4)
        if how == 0:
            other = bytes(chance.randrange(256) for _ in range(chance.choice((1, 1, 4, 40))))
            data = data[:at] + other + data[at + len(other) :]
        elif how == 1:
            data = data[:at] + chance.choice(SIZES).to_bytes(4, "big") + data[at + 4 :]
        elif how == 2:
            data = data[:at] + bytes(chance.randrange(256) for _ in range(chance.randint(1, 50))) + data[at:]
        else:
            data = data[:at] + data[at + chance.randint(1, 50) :]
        parts[index] = replace(parts[index], data=data, length=len(data))
    return [part for part in parts if part.length]


def with_gaps(parts: list[Part], chance: random.Random) -> list[Part]:
    lost = chance.sample(range(len(parts)), min(len(parts), chance.randint(1, 3)))
    return [replace(part, data=None) if index in lost else part for index, part in enumerate(parts)]


class Watched(Conversations):
    """Keeps all events, of which issues tell the first of a kind and how many there were."""

    def __init__(self, opened: bool) -> None:
        super().__init__(lambda ids: {one: Start(opened) for one in ids}, Limits(frame_bytes=1 << 20))
        self.events: list[list[int]] = []

    def _report(self) -> None:
        self.events += self._events[: int(self._at[pairing.AT_EVENT])].tolist()
        super()._report()


def talk(parts: list[Part], opened: bool, size: int) -> tuple[Watched, list[Exchanges]]:
    """Feed so many packets at a time."""
    talking = Watched(opened)
    offsets = [0, 0]
    batches = []
    for low in range(0, len(parts), size):
        rows = []
        for part in parts[low : low + size]:
            written = part.length if part.data is None else part.data
            rows.append(Run(1, part.direction, offsets[part.direction], written, part.number))
            offsets[part.direction] += part.length
        batches.append(talking.feed(runs(rows)))
    return talking, [*batches, talking.end([1])]


def plausible(exchanges: Exchanges) -> None:
    """Every position lies in the bytes of the batch, in order."""
    for side in ("request", "response"):
        start, end, body = (getattr(exchanges, f"{side}_{name}") for name in ("start", "end", "body"))
        there = start >= 0
        assert (end[~there] == -1).all()
        assert (body[~there] == -1).all()
        assert (start[there] <= end[there]).all()
        assert (end[there] <= len(exchanges.data)).all()
        inside = there & (body >= 0)
        assert (start[inside] <= body[inside]).all()
        assert (body[inside] <= end[inside]).all()
        size = getattr(exchanges, f"{side}_bytes")
        whole = getattr(exchanges, f"{side}_whole")
        assert (end[whole] - start[whole] + 4 == size[whole]).all()
        assert (end[there] - start[there] + 4 <= size[there]).all()


def same_whatever_the_batches(
    parts: list[Part], opened: bool, chance: random.Random
) -> tuple[Watched, list[Exchanges]]:
    talking, batches = talk(parts, opened, len(parts))
    for batch in batches:
        plausible(batch)
    for size in (1, chance.randint(2, 9)):
        other, others = talk(parts, opened, size)
        assert plain(others) == plain(batches)
        assert other.protocol(1) == talking.protocol(1)
        assert sorted(map(str, other.issues)) == sorted(map(str, talking.issues))
    return talking, batches


def each_byte_is_accounted_for(name: str, seed: int) -> None:
    """Without gaps, the bytes of a stream are those of its frames, and those that issues tell of."""
    chance = random.Random(seed)
    parts = damaged(chance.choice(conversations(name)), chance)
    if not parts:
        return
    talking, batches = same_whatever_the_batches(parts, chance.random() < 0.8, chance)
    client = talking.client_direction(1)
    if client is None:
        assert talking.protocol(1) != "kafka"
        assert not any(len(batch.number) for batch in batches)
        return
    for direction in (0, 1):
        side = "request" if direction == client else "response"
        total = sum(part.length for part in parts if part.direction == direction)
        accounted = sum(int(getattr(b, f"{side}_bytes")[getattr(b, f"{side}_whole")].sum()) for b in batches)
        told = [event for event in talking.events if event[pairing.EVENT_DIRECTION] == direction]
        cut = [event[pairing.EVENT_OFFSET] for event in told if event[pairing.EVENT_KIND] == pairing.INCOMPLETE]
        assert len(cut) <= 1
        accounted += sum(total - offset for offset in cut)
        for event in told:
            if event[pairing.EVENT_KIND] in (pairing.BYTES_SKIPPED, pairing.SKIPPED_TO_END):
                accounted += event[pairing.EVENT_VALUE]
            elif event[pairing.EVENT_KIND] == pairing.NO_HEADER and event[pairing.EVENT_OFFSET] not in cut:
                accounted += 4 + event[pairing.EVENT_VALUE]
        assert accounted == total, (direction, accounted - total, told)
    assert sum(issue.count for issue in talking.issues) == len(talking.events)


def losses_do_no_harm(name: str, seed: int) -> None:
    chance = random.Random(seed)
    parts = chance.choice(conversations(name))
    if chance.random() < 0.5:
        parts = damaged(parts, chance)
    if parts:
        same_whatever_the_batches(with_gaps(parts, chance), chance.random() < 0.8, chance)


PROPERTIES = [each_byte_is_accounted_for, losses_do_no_harm]


@pytest.mark.parametrize("name", CAPTURES)
def test_there_are_conversations(name: str) -> None:
    assert len(conversations(name)) >= 3
    for parts in conversations(name)[:3]:
        talking, batches = talk(parts, True, 5)
        assert talking.protocol(1) == "kafka"
        assert sum(len(batch.number) for batch in batches) > 1
        assert not [event for event in talking.events if event[pairing.EVENT_KIND] != pairing.INCOMPLETE]


@pytest.mark.parametrize("holds", PROPERTIES)
@settings(max_examples=40)
@given(st.sampled_from(CAPTURES), seeds)
def test_damage(holds: object, name: str, seed: int) -> None:
    assert callable(holds)
    holds(name, seed)


@pytest.mark.deep
@pytest.mark.parametrize("holds", PROPERTIES)
@given(st.sampled_from(CAPTURES), seeds)
def test_much_damage(holds: object, name: str, seed: int) -> None:
    assert callable(holds)
    holds(name, seed)
