"""What is told while an interface is listened to."""

from __future__ import annotations

import itertools

import pyarrow as pa

from kafkascope.engine import EngineOptions
from kafkascope.reading import Listening
from kafkascope.rehearsal import Rehearsal


class Counting(Rehearsal):
    """Has the counts of packets and drops that it is given."""

    counts = (0, 0)

    def statistics(self) -> tuple[int, int]:
        return self.counts


def test_drops_are_told_when_they_grow_and_once_a_second_at_most() -> None:
    source = Counting()
    seconds = [0.0, 0.1, 0.2, 1.1, 1.2, 9.0, 9.1, 9.2]
    listening = Listening(source, EngineOptions(), iter(seconds).__next__)
    told = []
    for source.counts in [(10, 0), (1000, 250), (2000, 600), (4000, 600), (5000, 601), (9000, 601)]:
        told.append([(loss.kind, loss.count, loss.in_all, loss.text) for loss in listening.losses()])
    (first,) = told[1]
    assert first[:3] == ("kernel_drops", 250, 250)
    assert first[3].startswith("the kernel dropped 250 packets (250 in all, 25.0 %): they come faster than")
    assert "tcpdump -w" in first[3]
    assert told == [
        [],
        [first],
        [],
        [("kernel_drops", 350, 600, "the kernel dropped 350 packets (600 in all, 15.0 %)")],
        [],
        [("kernel_drops", 1, 601, "the kernel dropped 1 packet (601 in all, 6.7 %)")],
    ]
    source.counts = (9010, 603)
    assert list(listening.losses()) == []
    assert [loss.count for loss in listening.losses(at_end=True)] == [2]


def test_when_too_much_waits_bodies_of_records_are_skipped_and_counted() -> None:
    """The rehearsal has two exchanges with records among others."""
    source = Rehearsal()
    source.is_behind = True
    listening = Listening(source, EngineOptions(), itertools.count().__next__)
    exchanges = pa.concat_tables(
        batch.tables["exchanges"] for batch in listening.batches() if "exchanges" in batch.tables
    )
    skipped = [row for row in exchanges.to_pylist() if row["issue"] and row["issue"].startswith("bodies skipped")]
    assert [row["api"] for row in skipped] == ["Produce", "Produce"]
    assert {(row["decoded"], row["request"], row["outcome"]) for row in skipped} == {("header", None, "answered")}
    others = [row for row in exchanges.to_pylist() if row["api"] == "Metadata"]
    assert {row["decoded"] for row in others if row["outcome"] == "answered"} == {"full"}
    [loss] = listening.losses()
    assert (loss.kind, loss.count, loss.in_all) == ("bodies_skipped", 2, 2)
    assert loss.text.startswith("the bodies of 2 exchanges were skipped (2 in all): they come faster")
    assert list(listening.losses()) == []
    assert any("2 times); effect: topics, errors, partitions" in line for line in listening.remarks())
