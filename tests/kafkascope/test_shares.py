"""One capture, one answer: however many processes read it, and whatever becomes of one of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

import kafkascope
from kafkascope import in_process, shares, side_by_side, understanding
from kafkascope.decoders.limits import Limits
from kafkascope.engine import EngineOptions
from kafkascope.incident_watch import Looks
from kafkascope.out.pipeline import StoppedError
from kafkascope.reading import Listening, Reading
from kafkascope.rehearsal import Rehearsal
from kafkascope.reports.columns.views import Known, View
from kafkascope.reports.views.guarded import results
from kafkascope.reports.views.registry import VIEWS
from kafkascope.reports.vocabulary.tables import SCHEMAS
from kafkascope.shares import first_share, read_all
from kafkascope.sniffer.capture_points import Content
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.spreading import EVERY_CONNECTION, Share
from tests.kafkascope.test_parity import CAPTURES, GROUPS, comparable, same_tables, summary_of
from tests.paths import PCAPS

EAGER = str(PCAPS / "eager-three-joins" / "capture.pcap")
PROCESSES = 3


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and rows of views are shared by three processes, however small they are and however few cores there are."""
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)
    monkeypatch.setattr(understanding, "SHARE_ROWS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(PROCESSES)))


class Counting:
    """Counts rows by table."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        for name, rows in tables.items():
            self.rows[name] = self.rows.get(name, 0) + rows.num_rows

    def finish(self) -> dict[str, int]:
        return self.rows


def counting(_: Share) -> AbstractContextManager[Counting]:
    return nullcontext(Counting())


def in_all(made: list[dict[str, int]]) -> dict[str, int]:
    """Rows of all tables; those of views may be more where a capture is cut."""
    return {name: sum(one.get(name, 0) for one in made) for name in SCHEMAS}


def one_process(path: str) -> dict[str, int]:
    with Reading([path], EngineOptions()) as reading:
        return in_all(read_all(reading, counting))


@pytest.mark.parametrize("number", [0, *(pytest.param(one, marks=pytest.mark.deep) for one in range(1, 2 * GROUPS))])
def test_three_processes_give_the_tables_of_one(number: int, tmp_path: Path) -> None:
    paths = [str(PCAPS / file) for file in CAPTURES[number :: 2 * GROUPS]]
    one, three = (kafkascope.read(paths, records=True, limits={"processes": most}) for most in (1, PROCESSES))
    for name in one.tables:
        assert comparable(name, one.arrow(name)).equals(comparable(name, three.arrow(name))), name
    assert one.summary == three.summary
    outs = tmp_path / "one", tmp_path / "three"
    few = EngineOptions(session=SessionOptions(limits=Limits(processes=1)))
    for out, options in zip(outs, (few, EngineOptions()), strict=True):
        in_process.analyze(paths, str(out), records=True, options=options)
        same_tables(one, out)
    assert (outs[0] / "report.html").read_text() == (outs[1] / "report.html").read_text()
    assert summary_of(outs[0]) == summary_of(outs[1])


@pytest.mark.parametrize("name", ["clients_tls", "net_noise", "net_capture_drops", "net_odd_tcp"])
def test_what_is_remarked_is_the_same(name: str) -> None:
    """Of what is known beside the rows: issues, limits, other protocols, TLS and what was inferred within it."""
    (path,) = map(str, (PCAPS / name).glob("capture.pcap*"))
    told = []
    for share in (EVERY_CONNECTION, Share(0, PROCESSES)):
        with Reading([path], EngineOptions(), share=share) as reading:
            read_all(reading, counting)
            told.append((list(reading.remarks()), reading.packets, reading.copies, reading.topic_names.learned()))
    assert told[0] == told[1]


def test_filters_choose_the_same_and_say_the_same_of_what_is_not_there() -> None:
    of = {
        most: kafkascope.read(EAGER, filter="api == JoinGroup", limits={"processes": most}) for most in (1, PROCESSES)
    }
    assert of[1].summary == of[PROCESSES].summary
    assert comparable("exchanges", of[1].arrow("exchanges")).equals(
        comparable("exchanges", of[PROCESSES].arrow("exchanges"))
    )
    said = []
    for most in (1, PROCESSES):
        with pytest.warns(UserWarning, match="0 of 426 exchanges matched") as caught:
            kafkascope.read(EAGER, filter="topic == nosuch", limits={"processes": most})
        said.append([str(one.message) for one in caught])
    assert said[0] == said[1]


def test_what_finds_no_room_is_told_by_each() -> None:
    with warnings.catch_warnings(record=True) as caught:
        cap = kafkascope.read(EAGER, spool_bytes=200_000)
    assert any("also spool_bytes" in str(one.message) for one in caught)
    full = cap.issues[cap.issues.kind == "spool_full"]
    assert (
        len(cap.exchanges)
        + sum(
            int(detail.split(" were kept, ")[1].split()[0]) for detail in full.detail if detail.startswith("exchanges")
        )
        == 426
    )


def test_the_share_of_a_process_that_was_killed_is_read_here() -> None:
    this = os.getpid()
    tried: list[Share] = []

    def deadly(share: Share) -> AbstractContextManager[Counting]:
        if os.getpid() != this and share.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        tried.append(share)
        return counting(share)

    with Reading([EAGER], EngineOptions(), share=Share(0, PROCESSES)) as reading:
        made = read_all(reading, deadly)
    assert in_all(made) == one_process(EAGER)
    assert tried == [Share(0, PROCESSES), Share(1, PROCESSES)]


def test_many_rows_of_a_view_are_understood_some_keys_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    path, limits, held = str(PCAPS / "mixed-versions" / "capture.pcap"), {"processes": 1}, list[int]()
    at_once = kafkascope.read(path, limits=limits)

    def counted(view: View, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        held.append(rows.num_rows)
        return results(view, rows, known)

    monkeypatch.setattr(understanding, "results", counted)
    monkeypatch.setattr(understanding, "_MOST_ROWS", 20)
    some = kafkascope.read(path, limits=limits)
    rows = some.arrow("throughput")
    assert len(held) > 3
    assert max(held) < sum(held) / 2
    assert comparable("throughput", rows).equals(comparable("throughput", at_once.arrow("throughput")))
    for name in some.tables:
        assert comparable(name, some.arrow(name)).equals(comparable(name, at_once.arrow(name))), name


@pytest.fixture
def understood_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process leaves it to the others to understand rows of views, unless they fail to."""
    this, numbers = os.getpid(), side_by_side.Numbers.__iter__
    monkeypatch.setattr(
        side_by_side.Numbers, "__iter__", lambda self: iter(()) if os.getpid() == this else numbers(self)
    )


@pytest.mark.usefixtures("understood_elsewhere")
def test_what_a_killed_process_was_to_understand_is_understood_here(monkeypatch: pytest.MonkeyPatch) -> None:
    one = kafkascope.read(EAGER, limits={"processes": 1})
    three = kafkascope.read(EAGER)
    this, make = os.getpid(), VIEWS["latency_counts"]

    def deadly() -> View:
        if os.getpid() != this:
            os.kill(os.getpid(), signal.SIGKILL)
        return make()

    monkeypatch.setitem(VIEWS, "latency_counts", deadly)
    for name in ("rebalances", "latency", "throughput", "incidents"):
        assert comparable(name, one.arrow(name)).equals(comparable(name, three.arrow(name))), name
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("understood_elsewhere")
def test_what_is_raised_where_rows_are_understood_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    cap, this, make = kafkascope.read(EAGER), os.getpid(), VIEWS["group_rows"]

    def failing() -> View:
        if os.getpid() != this:
            raise OSError("no room there")
        return make()

    monkeypatch.setitem(VIEWS, "group_rows", failing)
    with pytest.raises(OSError, match="no room there"):
        cap.arrow("latency")
    assert not multiprocessing.active_children()


def test_what_is_raised_in_a_process_is_raised_here_and_ends_all() -> None:
    this = os.getpid()

    @contextmanager
    def failing(share: Share) -> Iterator[Counting]:
        if os.getpid() != this and share.number == 1:
            raise SourceError("a.pcap", 7, "cannot be read there", "Copy it again")
        yield Counting()

    with (
        pytest.raises(SourceError, match="cannot be read there"),
        Reading([EAGER], EngineOptions(), share=Share(0, PROCESSES)) as reading,
    ):
        read_all(reading, failing)
    assert not multiprocessing.active_children()


class TwoWordsError(Exception):
    """Cannot be made again of what it says."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def test_an_error_that_cannot_be_handed_over_is_told_in_its_words() -> None:
    this = os.getpid()

    def failing(share: Share) -> AbstractContextManager[Counting]:
        if os.getpid() != this:
            raise TwoWordsError("hello", "world")
        return counting(share)

    with (
        pytest.raises(RuntimeError, match="TwoWordsError: hello world"),
        Reading([EAGER], EngineOptions(), share=Share(0, PROCESSES)) as reading,
    ):
        read_all(reading, failing)


def test_stopping_ends_all_processes() -> None:
    this = os.getpid()

    def endless(share: Share) -> AbstractContextManager[Counting]:
        if os.getpid() != this:
            signal.pause()
        return counting(share)

    calls = iter(range(1000))

    def stop_later() -> None:
        if next(calls) > 5:
            raise StoppedError("stopped")

    with (
        pytest.raises(StoppedError),
        Reading([EAGER], EngineOptions(), share=Share(0, PROCESSES)) as reading,
    ):
        read_all(reading, endless, stop_later)
    assert not multiprocessing.active_children()


def test_files_must_not_change_between_processes() -> None:
    with Reading([EAGER], EngineOptions()) as reading:
        read_all(reading, counting)
        (content,) = reading.capture.contents.values()
        assert content.digest is not None
        with pytest.raises(SourceError, match="eager-three-joins"):
            reading.take_in(reading.facts, {EAGER: Content(content.size, content.digest ^ 1)})


def test_what_is_shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert first_share([EAGER], 2) == Share(0, 2)
    assert first_share([EAGER, EAGER], 64) == Share(0, PROCESSES)
    for alone in (["-"], [EAGER, "-"], ["s3://bucket/file.pcap"], [str(tmp_path / "none.pcap")]):
        assert first_share(alone, 64) == EVERY_CONNECTION
    assert first_share([EAGER], 1) == EVERY_CONNECTION
    monkeypatch.setattr(shares, "SHARE_BYTES", Path(EAGER).stat().st_size // 2)
    assert first_share([EAGER], 64) == Share(0, 2)
    monkeypatch.setattr("sys.platform", "darwin")
    assert first_share([EAGER], 64) == EVERY_CONNECTION


def test_no_processes_beside_threads_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of a process that listens would have the locks that its threads hold, and nobody to let go of them."""
    assert EngineOptions().session.limits.processes > 1
    listening = Listening(Rehearsal(), EngineOptions())
    assert listening.options.session.limits.processes == 1

    def forked(*_: object) -> None:
        raise AssertionError("forked")

    monkeypatch.setattr(side_by_side, "Other", forked)
    looks = Looks(EngineOptions(), time.monotonic, forgets=True)
    with Reading([EAGER], EngineOptions()) as reading:
        for batch in reading.batches():
            looks.observe(batch, reading)
        looks.finish(reading)


def test_no_processes_where_there_may_be_none() -> None:
    """A worker of a pool may not have any; it reads by itself."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(first_share, ([EAGER], PROCESSES)) == EVERY_CONNECTION
        rows = pool.apply(rows_of, (EAGER,))
    assert rows == len(kafkascope.read(EAGER).rebalances)


def rows_of(path: str) -> int:
    return len(kafkascope.read(path).rebalances)
