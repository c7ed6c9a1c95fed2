"""What must hold of any capture, however it is cut, damaged, disordered or incomplete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.engine import Engine, EngineOptions, Tables
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS
from kafkascope.sniffer.sources import SourceError
from kafkascope.sniffer.sources.files import FileReader
from tests.kafkascope.damaged_captures import (
    FILE_HEADER,
    FIN,
    RST,
    SYN,
    Piece,
    Row,
    Told,
    analyze,
    beginning,
    pieces_of,
    read_file,
    record_offsets,
    segments_of,
    told,
    with_issue,
)

# Groups, SASL, transactions, old clients; by name and number of packets.
CAPTURES = (
    ("net_vlan/capture.pcap", 300),
    ("clients_sasl/capture.pcap", 300),
    ("clients_old_formats/capture.pcap", 300),
    ("eager-three-joins/capture.pcap", 300),
    ("transactions/capture.pcap", 300),
    ("clients_librdkafka/capture.pcap", 300),
)
EXCHANGES = EngineOptions(tables=frozenset({"exchanges"}), views=frozenset())
captures = st.sampled_from(CAPTURES)
seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=15)
thorough = settings(max_examples=500)  # 1.3 s for one of each property: a quarter of an hour


@cache
def whole(name: str, packets: int) -> Tables:
    return analyze(segments_of(pieces_of(name, packets)))


def test_every_truncation_of_a_file_gives_the_packets_before_it(tmp_path: Path) -> None:
    data = beginning("net_vlan/capture.pcap", 30)
    ends = record_offsets(data)
    path = tmp_path / "cut.pcap"
    for size in range(len(data)):
        path.write_bytes(data[:size])
        complete = sum(end <= size for end in ends)
        if size < FILE_HEADER:
            with pytest.raises(SourceError):
                FileReader(str(path))
            continue
        reader = FileReader(str(path))
        packets = [number for batch in reader for number in batch.number.tolist()]
        assert packets == list(range(1, complete + 1)), size
        cut = size not in (FILE_HEADER, *ends)
        assert [issue.kind for issue in reader.issues] == ["truncated_capture"] * cut, size


@pytest.mark.parametrize(("name", "packets"), CAPTURES)
def test_rows_that_are_complete_stay_what_they_are_wherever_the_capture_ends(name: str, packets: int) -> None:
    segments = segments_of(pieces_of(name, packets))
    engine = Engine(EXCHANGES)
    complete = []
    for row in range(len(segments.number)):
        complete += _exchanges(engine.feed(segments.rows(slice(row, row + 1))))
    everything = complete + _exchanges(engine.finish())
    assert len(everything) > 20
    for size in range(1, len(segments.number), 11):
        engine = Engine(EXCHANGES)
        early = _exchanges(engine.feed(segments.rows(slice(0, size))))
        assert early == complete[: len(early)]
        late = _exchanges(engine.finish())
        assert all(row in everything for row in late if (row["outcome"], row["decoded"]) == ("answered", "full"))


def _exchanges(pieces: Iterable[Tables]) -> list[Row]:
    """By time of completion; topics that are known by id only have their name when another row told it."""
    return [row for tables in pieces if "exchanges" in tables for row in tables["exchanges"].to_pylist()]


def damage(data: bytes, seed: int) -> bytes:
    """Random bytes in the places where they do most: record headers, packet headers, frames, anywhere."""
    random = Random(seed)
    places = [FILE_HEADER, *record_offsets(data)[:-1]]
    damaged = bytearray(data)
    first, size = random.choice([(0, 16), (16, 70), (70, 150), (0, 0)])
    for _ in range(random.choice([1, 1, 3, 10, 100, 400])):
        place = random.choice(places) + first + random.randrange(size) if size else random.randrange(len(data))
        place = min(place, len(data) - 1)
        damaged[place] = random.choice([0, 255, 127, 128, random.randrange(256), damaged[place] ^ 1])
    return bytes(damaged)


def _damage_does_no_harm(capture: tuple[str, int], seed: int, path: Path) -> None:
    data = beginning(*capture)
    damaged = damage(data, seed)
    path.write_bytes(damaged)
    try:
        tables, reading = read_file(path)
    except SourceError:
        assert damaged[:FILE_HEADER] != data[:FILE_HEADER]
        return
    assert all(map(str.strip, reading.remarks()))
    for table in tables.values():
        table.validate(full=True)
    if "issues" in tables:
        assert set(tables["issues"]["kind"].to_pylist()) <= set(ISSUE_KINDS)


def _disordered(pieces: Sequence[Piece], random: Random) -> list[Piece]:
    """The same streams in other packets: split, doubled, swapped with the next one (but never a SYN, FIN or RST)."""
    result: list[Piece] = []
    for piece in pieces:
        control = piece["flags"] & (SYN | FIN | RST)
        if len(piece.payload) > 1 and not control and random.random() < 0.3:
            at = random.randrange(1, len(piece.payload))
            rest = piece.having(piece.payload[at:], seq=piece["seq"] + at & 0xFFFFFFFF)
            parts = [piece.having(piece.payload[:at]), rest]
        else:
            parts = [piece]
        for part in parts:
            result.append(part)
            if not control and random.random() < 0.1:
                result.append(part)
    for _ in range(len(result) // 10):
        at = random.randrange(len(result) - 1)
        one, other = result[at : at + 2]
        if not (one["flags"] | other["flags"]) & (SYN | FIN | RST) and one.stream == other.stream:
            result[at : at + 2] = [other, one]
    return result


def _other_packets_tell_the_same(capture: tuple[str, int], seed: int) -> None:
    expected = told(whole(*capture))
    tables = analyze(segments_of(_disordered(pieces_of(*capture), Random(seed))))
    found, damaged = told(tables), with_issue(tables)
    for client, rows in expected.items():
        assert found.get(client) == rows or client in damaged, client
    _nothing_is_invented(found, expected)


def _losses_are_told_and_nothing_is_invented(capture: tuple[str, int], seed: int) -> None:
    random = Random(seed)
    pieces = pieces_of(*capture)
    lost = {random.randrange(len(pieces)) for _ in range(random.choice([1, 2, 5, 30]))}
    tables = analyze(segments_of([piece for at, piece in enumerate(pieces) if at not in lost]))
    found, damaged = told(tables), with_issue(tables)
    expected = told(whole(*capture))
    _nothing_is_invented(found, expected)
    last = {piece.stream: at for at, piece in enumerate(pieces) if piece.payload}
    seen = {f"{row['client']}:{row['client_port']}" for row in tables["connections"].to_pylist()}
    ends_lost = any(at in lost for at in last.values())  # nothing behind them proves that they were there
    for client, rows in expected.items():
        if client in seen and not ends_lost:
            assert found.get(client) == rows or client in damaged, client


def _nothing_is_invented(found: Told, expected: Told) -> None:
    for client, rows in found.items():
        known = expected.get(client, [])
        assert all(row in known for row in rows), client


def _cuts_do_not_matter(capture: tuple[str, int], seed: int) -> None:
    random = Random(seed)
    segments = segments_of(_disordered(pieces_of(*capture), random))
    sizes: list[int] = []
    while sum(sizes) < len(segments.number):
        sizes.append(min(random.choice([1, 1, 2, 17, 100]), len(segments.number) - sum(sizes)))
    at_once, in_parts = analyze(segments), analyze(segments, sizes)
    assert set(at_once) == set(in_parts)
    for name, table in at_once.items():
        rows = sorted(map(str, table.to_pylist()))
        assert rows == sorted(map(str, in_parts[name].to_pylist())), name


@pytest.mark.no_cover
@quick
@given(captures, seeds)
def test_damage_does_no_harm(tmp_path_factory: pytest.TempPathFactory, capture: tuple[str, int], seed: int) -> None:
    _damage_does_no_harm(capture, seed, tmp_path_factory.getbasetemp() / "damaged.pcap")


@pytest.mark.deep
@thorough
@given(captures, seeds)
def test_much_damage_does_no_harm(
    tmp_path_factory: pytest.TempPathFactory, capture: tuple[str, int], seed: int
) -> None:
    _damage_does_no_harm(capture, seed, tmp_path_factory.getbasetemp() / "damaged.pcap")


STREAM_PROPERTIES = [
    _other_packets_tell_the_same,
    _losses_are_told_and_nothing_is_invented,
    _cuts_do_not_matter,
]


@pytest.mark.no_cover  # the same ways, thousands of times
@pytest.mark.parametrize("holds", STREAM_PROPERTIES)
@quick
@given(captures, seeds)
def test_streams(holds: Callable[[tuple[str, int], int], None], capture: tuple[str, int], seed: int) -> None:
    holds(capture, seed)


@pytest.mark.deep
@pytest.mark.parametrize("holds", STREAM_PROPERTIES)
@thorough
@given(captures, seeds)
def test_streams_many_times(holds: Callable[[tuple[str, int], int], None], capture: tuple[str, int], seed: int) -> None:
    holds(capture, seed)
