"""What is told while an interface is listened to."""

from __future__ import annotations

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
    seconds = [0.0, 0.1, 0.2, 1.1, 1.2, 9.0]
    listening = Listening(source, EngineOptions(), iter(seconds).__next__)
    told = []
    for source.counts in [(10, 0), (1000, 250), (2000, 600), (4000, 600), (5000, 601), (9000, 601)]:
        told.append(list(listening.news()))
    (first,) = told[1]
    assert first.startswith("the kernel dropped 250 packets (250 in all, 25.0 %): they come faster than")
    assert "tcpdump -w" in first
    assert told == [
        [],
        [first],
        [],
        ["the kernel dropped 350 packets (600 in all, 15.0 %)"],
        [],
        ["the kernel dropped 1 packet (601 in all, 6.7 %)"],
    ]
