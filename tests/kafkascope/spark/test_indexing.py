"""Ranges of files are indexed while Spark starts: as tasks do it, and as many as were begun when it is there."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.split import SplitIndex, ranges
from kafkascope.spark import indexing, tasks
from kafkascope.spark.indexing import Indexing
from kafkascope.spark.tasks import Range
from tests.paths import PCAPS

CAPTURE = str(PCAPS / "rebalance-storm" / "capture.pcap")


def go_on() -> None:
    """Nobody wants to stop."""


def pieces_of(path: str, split_bytes: int = 200_000) -> list[Range]:
    return [Range(path, *piece) for piece in ranges(path, split_bytes)]


def wait_for(indexed: Indexing) -> None:
    """Until it has come to its end: nothing else is ready before."""
    indexed._thread.join()


def test_ranges_are_indexed_in_their_order() -> None:
    pieces = pieces_of(CAPTURE)
    assert len(pieces) > 5
    with Indexing(pieces) as indexed:
        wait_for(indexed)
        assert indexed.found(go_on) == list(tasks.index(pieces))


def test_no_range_is_begun_that_is_too_large_to_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = pieces_of(CAPTURE), pieces_of(CAPTURE, 2_000_000)
    monkeypatch.setattr(indexing, "_MOST_BYTES", 200_000)
    with Indexing([*few[:2], *many, *few]) as indexed:
        wait_for(indexed)
        assert indexed.found(go_on) == list(tasks.index(few[:2]))


class Slow:
    """An index whose second range takes until it is told to go on."""

    def __init__(self) -> None:
        self.begun: list[Range] = []
        self.is_waiting, self.may_go_on = threading.Event(), threading.Event()

    def index(self, some: Iterable[Range]) -> Iterator[SplitIndex]:
        for one in some:
            self.begun.append(one)
            if len(self.begun) == 2:
                self.is_waiting.set()
                self.may_go_on.wait()
            yield from tasks.index([one])


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made = Slow()
    monkeypatch.setattr(indexing, "index", made.index)
    yield made
    made.may_go_on.set()


def test_what_was_begun_is_waited_for_and_no_more_is_begun(slow: Slow) -> None:
    pieces = pieces_of(CAPTURE)
    with Indexing(pieces) as indexed:
        slow.is_waiting.wait()
        assert indexed.found(slow.may_go_on.set) == list(tasks.index(pieces[:2]))
    assert slow.begun == pieces[:2]


def test_who_stops_waits_for_nothing(slow: Slow) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with Indexing(pieces_of(CAPTURE)) as indexed:
        slow.is_waiting.wait()
        with pytest.raises(KeyboardInterrupt):
            indexed.found(stop)
    slow.may_go_on.set()
    wait_for(indexed)
    assert len(slow.begun) == 2


def test_what_is_no_capture_any_more_is_told(tmp_path: Path) -> None:
    file = tmp_path / "capture.pcap"
    file.write_bytes(Path(CAPTURE).read_bytes())
    pieces = pieces_of(str(file))
    file.write_bytes(b"text")
    with Indexing(pieces) as indexed:
        wait_for(indexed)
        with pytest.raises(SourceError, match=str(file)):
            indexed.found(go_on)
