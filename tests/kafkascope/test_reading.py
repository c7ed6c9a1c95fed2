"""What is told while an interface is listened to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kafkascope.engine import EngineOptions
from kafkascope.reading import Listening
from kafkascope.rehearsal import Rehearsal
from kafkascope.sniffer.columns import Packets


class Counting(Rehearsal):
    """Has the counts of packets and drops that it is given."""

    counts = (0, 0)

    def statistics(self) -> tuple[int, int]:
        return self.counts


class Dropping(Counting):
    """The kernel had no room for some packets."""

    counts = (100, 7)


def test_drops_are_told_when_they_grow_and_seldom() -> None:
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


class Cut(Rehearsal):
    """Of whose packets no more than 80 bytes come, from the second one with more on."""

    def __iter__(self) -> Iterator[Packets]:
        is_first = True
        for packets in super().__iter__():
            if (count := int((packets.captured > 80).sum())) and not is_first:
                self.cut += count
                packets = replace(packets, captured=np.minimum(packets.captured, 80))
            is_first = is_first and not count
            yield packets


def test_exchanges_in_packets_that_were_cut_midway_are_paired_and_say_so() -> None:
    """Connections of which so few bytes tell that they are Kafka: of the others, nothing is claimed."""

    def seen(listening: Listening) -> list[dict[str, Any]]:
        tables = [batch.tables["exchanges"] for batch in listening.batches() if "exchanges" in batch.tables]
        rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
        return rows

    whole = seen(Listening(Rehearsal(), EngineOptions(), itertools.count().__next__))
    listening = Listening(source := Cut(), EngineOptions(), itertools.count().__next__)
    cut = seen(listening)
    paired = ("connection", "number", "api", "correlation_id", "client_id", "outcome", "latency_ms", "request_bytes")
    known = {row["connection"] for row in cut}
    assert len(known) == 2
    assert [[row[name] for name in paired] for row in cut] == [
        [row[name] for name in paired] for row in whole if row["connection"] in known
    ]
    lacking = {(row["api"], row["decoded"], row["issue"]) for row in cut if row["issue"]}
    assert lacking == {
        (api, "header", f"response: only 40 of its {size} bytes are there")
        for api, size in (("Produce", 45), ("Metadata", 48))
    }
    [loss] = listening.losses()
    assert (loss.kind, loss.count, loss.in_all) == ("packets_cut", source.cut, source.cut)
    assert loss.text.startswith(f"of {source.cut} packets only the first bytes were taken")
