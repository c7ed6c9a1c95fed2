"""``sniff --incidents``: of files what `read` has, live as soon as it is sure, and again when it is over."""

from __future__ import annotations

import gzip
import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path

import pytest

import kafkascope
from kafkascope import incident_watch
from kafkascope.engine import EngineOptions
from kafkascope.incident_watch import News, Told, Window, looks
from kafkascope.reading import Batch, Listening, Reading
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.incidents.incident import Incident, Subject, incident_of
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.issues import IssueLog
from kafkascope.sniffer.origins import NO_ORIGINS
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.units import SECOND_NS
from kafkascope.spool import Spool
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS
from tests.patience import PATIENCE_S, wait_until

KILLED = str(PCAPS / "broker-killed" / "capture.pcap.gz")
PAUSED = str(PCAPS / "broker-paused" / "capture.pcap.gz")


class Replayed:
    """What ``LiveSource`` is, with the packets of a file in batches."""

    is_partial = False
    origins = NO_ORIGINS
    is_behind = False
    cut = 0

    def __init__(self, path: str, batch_bytes: int) -> None:
        self.issues = IssueLog()
        self._path, self._batch_bytes = path, batch_bytes

    def __iter__(self) -> Iterator[Packets]:
        with open_capture([self._path], self._batch_bytes) as capture:
            yield from capture

    def statistics(self) -> tuple[int, int]:
        return 0, 0

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


def told_live(path: str, clock: Callable[[], float], batch_bytes: int = 200_000) -> list[list[News]]:
    options = EngineOptions()
    with Listening(Replayed(path, batch_bytes), options) as listening:  # type: ignore[arg-type]
        return list(looks(listening, options, lambda line: None, clock))


@cache
def of_file(path: str) -> list[Incident]:
    rows = numbered(kafkascope.read(path).arrow("incidents")).to_pylist()
    return [incident_of(row) for row in sorted(rows, key=lambda row: int(row["rank"]))]


def test_of_files_it_is_what_read_has() -> None:
    remarks: list[str] = []
    with Reading([PAUSED], EngineOptions()) as reading:
        *before, news = looks(reading, EngineOptions(), remarks.append)
    assert not any(before)
    assert [one.incident for one in news] == of_file(PAUSED)
    assert not any(one.is_over for one in news)
    assert remarks == []


def test_live_it_is_told_while_it_goes_on() -> None:
    seconds = count()
    found = told_live(KILLED, lambda: next(seconds))
    first = next(place for place, news in enumerate(found) if news)
    assert first < len(found) - 2  # not only at the end
    [down] = [one for news in found for one in news if one.incident.kind == IncidentKind.BROKER_DOWN]
    assert down.incident.subjects == of_file(KILLED)[0].subjects
    assert not down.is_over
    assert down.incident.ended is None


def test_without_a_look_it_is_told_at_the_end() -> None:
    found = told_live(KILLED, lambda: 0.0)
    assert not any(found[:-1])
    assert [one.incident for one in found[-1]] == of_file(KILLED)


def test_a_look_leaves_the_engine_as_it_was() -> None:
    seconds = count()
    found = told_live(PAUSED, lambda: next(seconds))
    stalled = [one.incident for news in found for one in news if one.incident.severity == Severity.WARNING]
    assert {one.kind for one in stalled} == {IncidentKind.BROKER_STALLED}
    assert {one.subjects for one in stalled} == {of_file(PAUSED)[0].subjects}


def test_of_a_pipe_it_is_told_while_it_goes_on(tmp_path: Path) -> None:
    pipe, whole = tmp_path / "pipe", gzip.decompress(Path(KILLED).read_bytes())
    os.mkfifo(pipe)
    chunks = [whole[begin : begin + 100_000] for begin in range(0, len(whole), 100_000)]
    opened: queue.Queue[Reading] = queue.Queue()
    written: list[int] = []

    def write() -> None:
        """Chunk after chunk, each when the one before has been read."""
        with pipe.open("wb") as file:

            def put(chunk: bytes) -> None:
                written.append(file.write(chunk))
                file.flush()  # the rest, if a signal came: a pipe itself has taken less then

            put(chunks[0])
            reading = opened.get(timeout=PATIENCE_S)
            for chunk in chunks[1:]:
                wait_until(lambda: reading.capture.bytes_read >= sum(written), "the chunk before is read")
                put(chunk)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    seconds, options = count(0, 0.5), EngineOptions()
    with Reading([str(pipe)], options, in_step=True) as reading:
        opened.put(reading)
        found = [(len(written), news) for news in looks(reading, options, lambda line: None, lambda: next(seconds))]
    writer.join(PATIENCE_S)
    assert sum(written) == len(whole), "the pipe was closed before all was written"
    [down] = [(place, one) for place, news in found for one in news if one.incident.kind == IncidentKind.BROKER_DOWN]
    assert down[0] < len(chunks) - 2
    assert down[1].incident.subjects == of_file(KILLED)[0].subjects


# --- when something is told ------------------------------------------------------------------------------------------

DOWN = Incident(
    kind=IncidentKind.BROKER_DOWN,
    severity=Severity.CRITICAL,
    certainty=Certainty.CERTAIN,
    subjects=(Subject(Role.BROKER, "2"), Subject(Role.HOST, "10.0.0.2")),
    started=1000 * SECOND_NS,
    ended=None,
    headline="broker 2 (10.0.0.2) went away",
    evidence=(),
    advice="Look at the log.",
    cost_ms=1.0,
)


def test_what_goes_on_is_told_when_two_looks_agree() -> None:
    told = Told()
    assert told.news([DOWN]) == []
    assert told.news([DOWN]) == [News(DOWN, False)]
    assert told.news([DOWN]) == []


def test_what_one_look_alone_had_is_not_told() -> None:
    told = Told()
    assert [told.news([DOWN]), told.news([]), told.news([DOWN])] == [[], [], []]


def test_at_the_end_what_is_there_is_told() -> None:
    assert Told().news([DOWN], is_end=True) == [News(DOWN, False)]


def test_what_is_over_is_told_at_once_and_once() -> None:
    over = replace(DOWN, ended=1010 * SECOND_NS)
    told = Told()
    assert told.news([over]) == [News(over, False)]
    assert told.news([over]) == []


def test_what_ends_is_told_again() -> None:
    over = replace(DOWN, ended=1010 * SECOND_NS)
    told = Told()
    told.news([DOWN])
    told.news([DOWN])
    assert told.news([over]) == [News(over, True)]
    assert told.news([over]) == []


def test_what_goes_on_though_it_was_told_to_be_over_is_told_when_its_end_is_known() -> None:
    first, later, last = (replace(DOWN, ended=end * SECOND_NS) for end in (1010, 1030, 1050))
    told = Told()
    told.news([first])
    assert told.news([later]) == []
    assert told.news([last]) == []
    assert told.news([last]) == [News(last, True)]
    assert told.news([last]) == []
    assert told.news([first]) == []  # as old rows are forgotten
    assert told.news([replace(last, ended=1059 * SECOND_NS)], is_end=True) == []  # no more than before


def test_what_becomes_graver_is_told_again() -> None:
    warning, over = replace(DOWN, severity=Severity.WARNING), replace(DOWN, ended=1010 * SECOND_NS)
    told = Told()
    told.news([warning])
    assert told.news([warning]) == [News(warning, False)]
    assert told.news([DOWN]) == [News(DOWN, False)]
    assert told.news([DOWN]) == []
    assert told.news([over]) == [News(over, True)]
    told = Told()
    told.news([replace(over, severity=Severity.WARNING)])
    assert told.news([over], is_end=True) == [News(over, True)]


@pytest.mark.parametrize(("later_s", "same"), [(60, True), (61, False)])
def test_the_same_trouble_later_is_another_incident(later_s: int, same: bool) -> None:
    over = replace(DOWN, ended=1010 * SECOND_NS)
    again = replace(DOWN, started=(1010 + later_s) * SECOND_NS, ended=2000 * SECOND_NS)
    assert incident_watch.is_same(over, again) == same
    told = Told()
    told.news([over])
    assert told.news([again]) == ([] if same else [News(again, False)])


def test_two_that_are_seen_at_once_are_two_however_near_they_are() -> None:
    over = replace(DOWN, ended=1010 * SECOND_NS)
    again = replace(DOWN, started=1050 * SECOND_NS)
    told = Told()
    told.news([over])
    assert told.news([over, again]) == []  # is not sure yet
    assert told.news([over, again]) == [News(again, False)]
    ended = replace(again, ended=1090 * SECOND_NS)
    assert told.news([ended]) == [News(ended, True)]
    assert Told().news([over, ended], is_end=True) == [News(over, False), News(ended, False)]


def test_others_are_other_incidents() -> None:
    assert not incident_watch.is_same(DOWN, replace(DOWN, kind=IncidentKind.BROKER_STALLED))
    assert not incident_watch.is_same(DOWN, replace(DOWN, subjects=(Subject(Role.BROKER, "3"),)))


def test_rows_older_than_two_windows_are_forgotten() -> None:
    now = [0.0]
    window = Window(lambda: now[0], forgets=True)
    with Reading([KILLED], EngineOptions()) as reading:
        batches: list[Batch] = [batch for batch in reading.batches() if "connections" in batch.tables]
    rows = [batch.tables["connections"].num_rows for batch in batches]
    window.write(batches[0])
    now[0] = incident_watch.WINDOW_S
    window.write(batches[0])
    assert window.so_far([]).table("connections").num_rows == 2 * rows[0]
    now[0] = 2 * incident_watch.WINDOW_S
    window.write(batches[0])
    assert window.so_far([]).table("connections").num_rows == 2 * rows[0]
    assert window.so_far([batches[0].tables]).table("connections").num_rows == 3 * rows[0]


def test_looks_take_a_fifth_of_the_time_at_most() -> None:
    now = [0.0]
    window = Window(lambda: now[0], forgets=True)
    assert not window.is_due()
    now[0] = incident_watch.LOOK_S
    assert window.is_due()
    now[0] += 30
    window.looked()
    now[0] += incident_watch.SHARE * 30 - 1
    assert not window.is_due()
    now[0] += 1
    assert window.is_due()


# --- the command -----------------------------------------------------------------------------------------------------


def test_json_has_the_evidence(command: Command) -> None:
    done = command("sniff", "-r", KILLED, "--incidents", "--json")
    [line] = done.stdout.splitlines()
    row = json.loads(line)
    assert (row["table"], row["kind"], row["over"]) == ("incidents", "broker_down", False)
    assert any(seen["packet"] for seen in row["evidence"])


def test_so_many_are_enough(command: Command) -> None:
    two = str(PCAPS / "two-at-once" / "capture.pcap.gz")
    assert command("sniff", "-r", two, "--incidents", "-c", "1").stdout.count("→") == 1


def test_options_for_exchanges_do_not_go_with_it(command: Command) -> None:
    done = command("sniff", "-r", KILLED, "--incidents", "--api", "Fetch")
    assert done.returncode == 2
    assert "--incidents shows what broke, not exchanges" in done.stderr


@pytest.mark.parametrize("story", ["all-well/capture.pcap.gz", "rolling-restart/capture.pcap.gz"])
def test_that_nothing_is_wrong_is_said_with_what_was_looked_at(command: Command, story: str) -> None:
    done = command("sniff", "-r", str(PCAPS / story), "--incidents")
    assert "nothing is wrong in this capture: " in done.stderr
    assert "nothing is wrong" not in command("sniff", "-r", KILLED, "--incidents").stderr


def test_without_kafka_nothing_is_claimed(command: Command) -> None:
    done = command("sniff", "-r", str(PCAPS / "all-well" / "capture.pcap.gz"), "--incidents", "--port", "1")
    assert done.stdout == ""
    assert "no Kafka to the ports asked for (1) was found" in done.stderr
    assert "nothing is wrong" not in done.stderr


def test_where_rows_found_no_room_nothing_is_not_claimed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = str(PCAPS / "broker-killed" / "capture.pcap.gz")
    assert "broker_down" in command("sniff", "-r", broken, "--incidents", "--json").stdout
    monkeypatch.setattr(incident_watch, "Spool", partial(Spool, 20_000))
    done = command("sniff", "-r", broken, "--incidents")
    assert done.returncode == 1
    assert "rows were kept" in done.stderr
    assert "nothing is wrong" not in done.stderr
