"""Captures of several brokers at once: as good as one capture at the switch between them, whatever their clocks say."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import kafkascope
from kafkascope.capture import Capture
from kafkascope.sniffer.comparison import compare_files
from tests.kafkascope.conftest import Command
from tests.kafkascope.joined_captures import BROKERS, ROLLING, SECOND, SWITCH, Record, records, write
from tests.kafkascope.test_parity import comparable

NET_FORMATS = ROLLING.parent / "net_formats"
MILLISECOND = 1_000_000
Taken = dict[str, tuple[bytes, list[Record]]]  # header and packets of each file
# Numbers of packets, and so of connections, differ with the files; times with the place.
PLACES = ["connection", "at", "packet", "request_packet", "response_packet", "latency_ms", "file"]
SHIFTS = {
    "ahead": {0: (3_200 * MILLISECOND, 0.0)},
    "behind": {1: (-250 * MILLISECOND, 0.0)},
    "drifting": {2: (0, 50e-6)},
    "all of it": {0: (3_200 * MILLISECOND, 50e-6), 2: (-250 * MILLISECOND, -20e-6)},
    "an hour": {1: (3_600 * SECOND, 0.0)},
}


@pytest.fixture(scope="module")
def taken() -> Taken:
    """What was captured at the brokers and at the switch while all captured, from one quiet moment to another."""
    found = {name: records(name) for name in (*BROKERS, SWITCH)}
    begin = max(packets[0][0] for _, packets in found.values())
    end = min(packets[-1][0] for _, packets in found.values())
    times = np.unique([at for _, packets in found.values() for at, _, _ in packets])
    quiet = np.flatnonzero(np.diff(times) > 2 * MILLISECOND)
    first, last = times[quiet[times[quiet] > begin][0]], times[quiet[times[quiet] < end][-1]]
    return {
        name: (header, [packet for packet in packets if first < packet[0] <= last])
        for name, (header, packets) in found.items()
    }


def at_brokers(taken: Taken, folder: Path, shifts: dict[int, tuple[int, float]] | None = None) -> list[str]:
    return [
        write(folder / f"k{i}.pcap", *taken[name], *(shifts or {}).get(i, (0, 0.0))) for i, name in enumerate(BROKERS)
    ]


def named(capture: Capture, table: str) -> pd.DataFrame:
    """Rows of a table with both ends of their connection, sorted by them: the number is that of a packet in a file."""
    columns = ["client", "client_port", "broker", "broker_port", "bytes_up"]
    connections = capture.connections.set_index("connection", drop=False)[columns].add_prefix("of_")
    ends = list(connections.columns)
    rows = capture.frame(table).join(connections, on="connection")
    keys = [*ends, *(["number"] if "number" in rows else [])]
    return rows.sort_values(keys, kind="stable", ignore_index=True)


def assert_same(one: Capture, other: Capture, within: int) -> None:
    """The same connections, exchanges, errors and partitions, at times that differ by so many nanoseconds at most."""
    for table in ("connections", "exchanges", "errors", "partitions", "batches"):
        mine, theirs = named(one, table), named(other, table)
        assert len(mine) == len(theirs), table
        for column in mine.columns:
            if pd.api.types.is_datetime64_any_dtype(mine[column]) and column not in PLACES:
                apart = (mine[column] - theirs[column]).abs().max()
                assert not apart > pd.Timedelta(within, "ns"), (table, column)
                assert mine[column].isna().equals(theirs[column].isna()), (table, column)
            elif column.startswith(("rtt_", "round_trip", "least_round_trip")):  # between two such times
                apart = (mine[column] - theirs[column]).abs().max()
                assert not apart > 2 * within / MILLISECOND, (table, column)
                assert mine[column].isna().equals(theirs[column].isna()), (table, column)
            elif column not in PLACES:
                assert mine[column].equals(theirs[column]), (table, column)
    assert one.summary["packets"] == other.summary["packets"]


def test_three_brokers_joined_are_the_switch(taken: Taken, tmp_path: Path) -> None:
    at_switch = write(tmp_path / "a-switch.pcap", *taken[SWITCH])
    switch = kafkascope.read(at_switch)
    paths = at_brokers(taken, tmp_path)
    joined = kafkascope.read(paths)
    assert len(joined.exchanges) > 4000
    assert_same(joined, switch, MILLISECOND // 2)
    assert joined.summary["copies"] == sum(len(taken[name][1]) for name in BROKERS) - len(taken[SWITCH][1])
    assert [clock["corrected"] for clock in joined.summary["clocks"]] == [False, False]
    assert "clock_difference" not in set(joined.issues.kind)
    # One place for both times of an exchange: the difference is what both places have from each other, twice.
    mine, theirs = named(joined, "exchanges"), named(switch, "exchanges")
    assert (mine.latency_ms - theirs.latency_ms).abs().median() < 0.01
    # With the switch among them, all goes by the switch, whose path sorts first.
    everywhere = kafkascope.read([*paths, at_switch])
    assert_same(everywhere, switch, 0)


def test_the_order_in_which_files_are_given_makes_no_difference(taken: Taken, tmp_path: Path) -> None:
    paths = at_brokers(taken, tmp_path, SHIFTS["behind"])[:2]
    one, other = (kafkascope.read(given) for given in (paths, paths[::-1]))
    assert [clock["file"] for clock in other.summary["clocks"]] == [paths[1]]
    for key in ("files", "clocks", "copies", "issues"):
        assert one.summary[key] == other.summary[key], key
    for table in one.tables:
        assert one.arrow(table).equals(other.arrow(table)), table


@pytest.mark.parametrize("name", SHIFTS)
def test_clocks_that_differ_make_no_difference(name: str, taken: Taken, tmp_path: Path) -> None:
    (right := tmp_path / "right").mkdir()
    expected = kafkascope.read(at_brokers(taken, right))
    paths = at_brokers(taken, tmp_path, SHIFTS[name])
    found = kafkascope.read(paths)
    (reference,) = {clock["reference"] for clock in found.summary["clocks"]}
    ahead, drift = SHIFTS[name].get(paths.index(reference), (0, 0.0))
    if not ahead:  # else all times are those of a wrong clock, as two of three are wrong
        assert_same(found, expected, 10_000)
    for clock in found.summary["clocks"]:
        file = paths.index(clock["file"])
        own = SHIFTS[name].get(file, (0, 0.0))
        assert clock["corrected"] == ((own != (0, 0.0)) or bool(ahead))
        assert abs(clock["ahead_ms"] - (own[0] - ahead) / 1e6) < 1
        assert abs(clock["drift_ppm"] - (own[1] - drift) * 1e6) < 1
    (issue,) = found.issues[found.issues.kind == "clock_difference"].to_dict("records")
    assert issue["count"] == sum(clock["corrected"] for clock in found.summary["clocks"])


def test_what_one_file_lacks_another_one_fills(taken: Taken, tmp_path: Path) -> None:
    seed = 8
    print("seed", seed)
    chance = np.random.default_rng(seed)
    expected = kafkascope.read(at_brokers(taken, tmp_path))
    (damaged := tmp_path / "damaged").mkdir()
    paths = []
    for i, name in enumerate(BROKERS):
        header, packets = taken[name]
        between = [data[26:30] + data[30:34] for _, _, data in packets]
        # Packets to and from the other brokers are in another file, too.
        elsewhere = [data[3] in (11, 12, 13) and data[7] in (11, 12, 13) for data in between]
        lost = chance.random(len(packets)) < 0.2
        kept = [p for p, common, gone in zip(packets, elsewhere, lost, strict=True) if not (i == 0 and common and gone)]
        assert (len(kept) < len(packets)) == (i == 0)
        paths.append(write(damaged / f"k{i}.pcap", header, kept))
    found = kafkascope.read(paths)
    for table in ("connections", "exchanges"):
        mine, theirs = named(found, table), named(expected, table)
        for column in ("bytes_up", "bytes_down", "gap_bytes", "exchanges", "api", "correlation_id", "outcome"):
            if column in mine:
                assert mine[column].equals(theirs[column]), (table, column)


def test_pieces_of_one_capture_are_left_alone(taken: Taken, tmp_path: Path) -> None:
    rotated = sorted(str(path) for path in NET_FORMATS.glob("rotated-*.pcap"))
    assert compare_files(rotated) is None
    whole, pieces = kafkascope.read(NET_FORMATS / "capture.pcap.gz"), kafkascope.read(rotated)
    assert_same(pieces, whole, SECOND // 10)  # they were recorded by two programs at once
    assert (pieces.summary["copies"], pieces.summary["clocks"]) == (0, [])
    # Pieces of two captures: each has packets in common with those of the other, and with none of its own.
    names = BROKERS[:2]
    both = kafkascope.read([write(tmp_path / f"{i}.pcap", *taken[name]) for i, name in enumerate(names)])
    paths = []
    for i, name in enumerate(names):
        header, packets = taken[name]
        first, span = packets[0][0], packets[-1][0] + 1 - packets[0][0]
        for begin, end in pairwise(first + span * j // (3 + i) for j in range(4 + i)):
            piece = [packet for packet in packets if begin <= packet[0] < end]
            paths.append(write(tmp_path / f"{i}-{begin}.pcap", header, piece, (1 - i) * 3 * SECOND))
    found = kafkascope.read(paths)
    assert_same(found, both, MILLISECOND)
    assert found.summary["copies"] == both.summary["copies"]


def test_a_file_and_its_copy_count_once(taken: Taken, tmp_path: Path) -> None:
    once = kafkascope.read(write(tmp_path / "one.pcap", *taken[BROKERS[0]]))
    write(tmp_path / "other.pcap", *taken[BROKERS[0]], ahead=7 * SECOND)
    twice = kafkascope.read(tmp_path / "*.pcap")
    assert_same(twice, once, 0)
    assert twice.summary["copies"] == once.summary["packets"]


def test_spark_joins_as_one_process_does(spark: Any, taken: Taken, tmp_path: Path) -> None:
    from kafkascope.spark import analyze

    paths = at_brokers(taken, tmp_path, SHIFTS["all of it"])
    here = kafkascope.read(paths, records=True)
    for split_bytes, partitions in ((300_000, 3), (10_000_000, 1)):
        out = tmp_path / f"{split_bytes}-{partitions}"
        done = analyze(paths, str(out), spark=spark, records=True, split_bytes=split_bytes, partitions=partitions)
        summary = done.summary.result()
        for key in ("packets", "copies", "clocks", "connections", "exchanges", "issues"):
            assert summary[key] == here.summary[key], key
        for name in here.tables:
            mine = comparable(name, here.arrow(name))
            theirs = comparable(name, pq.read_table(out / "tables" / name))
            different = [c for c in mine.column_names if not mine[c].equals(theirs[c])]
            assert not different, (name, split_bytes, partitions, different)


def test_the_correction_is_said(command: Command, taken: Taken, tmp_path: Path) -> None:
    paths = at_brokers(taken, tmp_path, SHIFTS["behind"])
    done = command("sniff", *(word for path in paths for word in ("-r", path)))
    assert done.stdout.count("\n") == len(kafkascope.read(paths).exchanges)
    (said,) = [line for line in done.stderr.splitlines() if "clock" in line]
    assert "k1.pcap: its clock was 250.000 ms behind" in said
    assert "k0.pcap" in said
    assert "that several files have are counted once" in done.stderr
