"""`kafkascope watch`: files of a rotation one by one give what one analysis of all of them gives, whatever happens."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkascope import following, in_process
from kafkascope.decoders.limits import Limits
from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.engine import ALL_TABLES, Engine, EngineOptions, Tables
from kafkascope.filters.sieve import Filter
from kafkascope.following import BETWEEN_RENEWALS_S, Watch
from kafkascope.out import output
from kafkascope.out.errors import OutputError
from kafkascope.out.names import run_of_part
from kafkascope.out.output import Layout
from kafkascope.out.stored import stored
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, OF_EXCHANGES
from kafkascope.rotation import QUIET_S
from kafkascope.sniffer.columns import Segments
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.errors import SourceError
from tests.kafkascope.conftest import Command
from tests.kafkascope.test_anonymize import names_of
from tests.kafkascope.test_parity import comparable, summary_of
from tests.kafkascope.test_tls import CAPTURE as TLS
from tests.kafkascope.test_tls import KEY_LOG
from tests.paths import PCAPS

JOINS = PCAPS / "eager-three-joins" / "capture.pcap"
HEADER, RECORD = 24, 16


def pieces(capture: Path, count: int) -> list[bytes]:
    """A pcap file as so many, each with about as many packets: connections and groups go on from one to the next."""
    data = capture.read_bytes()
    starts = [HEADER]
    while starts[-1] < len(data):
        starts.append(starts[-1] + RECORD + struct.unpack_from("<I", data, starts[-1] + 8)[0])
    edges = [starts[(len(starts) - 1) * piece // count] for piece in range(count + 1)]
    return [data[:HEADER] + data[begin:end] for begin, end in pairwise(edges)]


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    directory = tmp_path / "caps"
    directory.mkdir()
    return directory


class Clock:
    """Tells the seconds that it is told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


PLAIN = EngineOptions()


def watch(
    captures: Path,
    out: Path,
    said: list[str] | None = None,
    clock: Clock | None = None,
    options: EngineOptions = PLAIN,
    layout: Layout = output.PLAIN,
) -> Watch:
    told = [] if said is None else said
    return Watch(str(captures), str(out), options, remark=told.append, clock=clock or Clock(), layout=layout)


def write(captures: Path, content: Sequence[bytes], first: int = 0) -> Iterator[Path]:
    """Files as tcpdump -C calls them, one at a time."""
    for number, data in enumerate(content, first):
        file = captures / f"c.pcap{number or ''}"
        file.write_bytes(data)
        yield file


def drain(watched: Watch, *, at_end: bool = False) -> None:
    while watched.step(at_end=at_end):
        pass


def same_as_one_analysis(files: Sequence[Path], out: Path, tmp_path: Path, options: EngineOptions = PLAIN) -> None:
    """Check tables, summary and report."""
    whole = tmp_path / "whole"
    in_process.analyze([str(file) for file in files], str(whole), overwrite=True, options=options)
    for name in ALL_SCHEMAS:
        if not (whole / "tables" / name).exists():
            assert not (out / "tables" / name).exists(), name
            continue
        one, other = (comparable(name, pq.read_table(place / "tables" / name)) for place in (whole, out))
        assert one.equals(other), name
    assert summary_of(out) == summary_of(whole)
    assert (out / "report.html").read_text() == (whole / "report.html").read_text()


@pytest.mark.parametrize("capture", ["eager-three-joins", "killed-consumer"])
def test_files_one_by_one_are_one_capture(capture: str, captures: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "out", list[str]()
    files: list[Path] = []
    with closing(watch(captures, out, said)) as watched:
        for file in write(captures, pieces(PCAPS / capture / "capture.pcap", 4)):
            files.append(file)
            drain(watched)
            if files[:-1]:  # the newest one may still grow
                assert [Path(f["file"]) for f in summary_of(out)["files"]] == files[:-1]
        same_as_one_analysis(files[:-1], out, tmp_path)
        drain(watched, at_end=True)
    same_as_one_analysis(files, out, tmp_path)
    assert not said
    assert {path.name for path in out.iterdir()} == {"tables", "report.html", "summary.json"}


def test_a_filter_chooses_as_of_one_capture(captures: Path, tmp_path: Path) -> None:
    options = EngineOptions(filter=Filter.of("topic == orders-eu or error"))
    files = list(write(captures, pieces(PCAPS / "kip848" / "capture.pcap", 3)))
    with closing(watch(captures, tmp_path / "out", options=options)) as watched:
        drain(watched)
        drain(watched, at_end=True)
    same_as_one_analysis(files, tmp_path / "out", tmp_path, options)


def test_secrets_inside_a_file_open_its_tls(captures: Path, tmp_path: Path) -> None:
    file = captures / "c.pcapng"
    file.write_bytes((PCAPS / "clients_tls" / "with-secrets.pcapng").read_bytes())
    with closing(watch(captures, tmp_path / "out")) as watched:
        drain(watched, at_end=True)
    same_as_one_analysis([file], tmp_path / "out", tmp_path)
    assert pq.read_table(tmp_path / "out" / "tables" / "exchanges").num_rows


def test_a_key_log_that_grows_opens_its_tls(captures: Path, tmp_path: Path) -> None:
    """It is not there when the watch begins, and of one session there are no secrets."""
    out, key_log = tmp_path / "out", tmp_path / "keys"
    options = EngineOptions(session=SessionOptions(key_logs=(str(key_log),)))
    lines = KEY_LOG.read_text().splitlines(keepends=True)
    missing = lines[-1].split()[1]
    files: list[Path] = []
    with closing(watch(captures, out, options=options)) as watched:
        for file in write(captures, pieces(TLS, 3)):
            files.append(file)
            with key_log.open("a") as appended:
                appended.writelines(line for line in lines[: len(lines) * len(files) // 2] if missing not in line)
            drain(watched)
        drain(watched, at_end=True)
    same_as_one_analysis(files, out, tmp_path, options)
    opened = pq.read_table(out / "tables" / "connections")["tls_opened"].to_pylist()
    assert opened.count(True) > 15
    assert opened.count(False) > 0


def test_no_name_is_in_what_is_kept_or_said(captures: Path, tmp_path: Path) -> None:
    """Nor in parts that wait for the next renewal."""
    out, said, names = tmp_path / "out", list[str](), names_of("killed-silent")
    options = EngineOptions(tables=ALL_TABLES, pseudonyms=Pseudonyms("a key"))
    files: list[Path] = []
    with closing(watch(captures, out, said, options=options, layout=Layout(by_hour=True))) as watched:
        for file in write(captures, pieces(PCAPS / "killed-silent" / "capture.pcap", 3)):
            files.append(file)
            drain(watched)
        drain(watched, at_end=True)
        kept = watched._taken.rows._directory.path
        parts = [[*place.rglob("*.parquet")] for place in (kept, out)]
        assert all(parts)
        of_tables = [str(pq.read_table(part).to_pylist()) for place in parts for part in place]
    same_as_one_analysis(files, out, tmp_path, options)
    shown = "".join((*of_tables, *said, (out / "report.html").read_text(), (out / "summary.json").read_text()))
    assert [name for name in names if name in shown] == []
    assert [*(out / "tables" / "exchanges").glob("date=*/hour=*/*.parquet")]


def test_a_file_that_is_quiet_is_taken_and_what_it_has_later_too(captures: Path, tmp_path: Path) -> None:
    out, clock, said = tmp_path / "out", Clock(), list[str]()
    content = pieces(JOINS, 3)
    file = captures / "c.pcap"
    with closing(watch(captures, out, said, clock)) as watched:
        file.write_bytes(content[0])
        assert not watched.step()
        clock.now_s += QUIET_S
        drain(watched)
        same_as_one_analysis([file], out, tmp_path)
        whole = content[0] + content[1][HEADER:]
        file.write_bytes(whole[:-7])
        assert not watched.step()
        clock.now_s += QUIET_S
        assert not watched.step()
        assert said == [f"{file}: ends within a packet; it is taken when the rest, or a file behind it, is there"]
        file.write_bytes(whole)
        assert not watched.step()
        clock.now_s += QUIET_S
        drain(watched)
        same_as_one_analysis([file], out, tmp_path)
        later = captures / "c.pcap1"
        later.write_bytes(content[2])
        drain(watched, at_end=True)
    same_as_one_analysis([file, later], out, tmp_path)


def test_a_ring_of_files_is_one_capture(captures: Path, tmp_path: Path) -> None:
    """With -W names come again, with other content."""
    out, said = tmp_path / "out", list[str]()
    content = pieces(JOINS, 5)
    with closing(watch(captures, out, said)) as watched:
        for number, data in enumerate(content):
            (captures / f"c.pcap{number % 2}").write_bytes(data)
            drain(watched)
        drain(watched, at_end=True)
    assert not said
    all_at_once = tmp_path / "all"
    all_at_once.mkdir()
    files = [*write(all_at_once, content)]
    in_process.analyze([str(file) for file in files], str(tmp_path / "whole"))
    for name in ("exchanges", "rebalances", "group_events", "connections", "findings"):
        of_both = [pq.read_table(place / "tables" / name).drop_columns("run") for place in (tmp_path / "whole", out)]
        one, other = (comparable(name, t) for t in of_both)
        dropped = [column for column in ("file",) if column in one.column_names]
        assert one.drop_columns(dropped).equals(other.drop_columns(dropped)), name


def test_one_that_begins_again_goes_on_with_what_is_there(captures: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "out", list[str]()
    content = pieces(JOINS, 4)
    files = [*write(captures, content[:2])]
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
    files += write(captures, content[2:], first=2)
    clock = Clock()
    with closing(watch(captures, out, said, clock)) as watched:
        before = summary_of(out)
        clock.now_s += 2 * BETWEEN_RENEWALS_S  # OUT is due, but has more than what was taken again
        assert watched.step(at_end=True)
        assert summary_of(out) == before
        drain(watched, at_end=True)
    same_as_one_analysis(files, out, tmp_path)
    assert not said


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_files_that_are_gone_stay_a_run_of_their_own(when: str, captures: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "out", list[str]()
    content = pieces(JOINS, 4)
    files = [*write(captures, content[:3])]
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
    [first] = stored(str(out)).runs()
    files += write(captures, content[3:], first=3)
    if when == "before":
        files[1].unlink()
    with closing(watch(captures, out, said)) as watched:
        if when == "meanwhile":
            watched.step()
            files[1].unlink()
        drain(watched, at_end=True)
    runs = stored(str(out)).runs()
    assert runs[0].summary == first.summary
    assert [[Path(f["file"]) for f in run.summary["files"]] for run in runs] == [files[:3], files[3:]]
    assert sum(run.summary["packets"] for run in runs) == packets_of(content)
    assert len(said) == 1
    assert said[0].startswith(f"{files[1]}: not there any more, so run {first.summary['run']} in {out} stays as it is")
    with closing(watch(captures, out)) as watched:  # and once more: the last run goes on, the first stays
        drain(watched, at_end=True)
    assert [len(run.summary["files"]) for run in stored(str(out)).runs()] == [3, 1]


WITH_RECORDS = EngineOptions(tables=ALL_TABLES)
SMALL_RUNS = replace(WITH_RECORDS, session=SessionOptions(limits=Limits(run_bytes=300_000)))


def test_runs_that_are_full_follow_each_other_and_each_row_is_in_one(captures: Path, tmp_path: Path) -> None:
    """What is open when a run ends goes on in the next one: connections, requests, sessions."""
    out, said, whole = tmp_path / "out", list[str](), tmp_path / "whole"
    files: list[Path] = []
    kept: set[Path] = set()
    with closing(watch(captures, out, said, options=SMALL_RUNS)) as watched:
        for file in write(captures, pieces(JOINS, 8)):
            files.append(file)
            drain(watched)
            kept.add(watched._taken.rows._directory.path)
        drain(watched, at_end=True)
        assert sum(path.exists() for path in kept) <= 1 < len(kept)  # parts of runs that are over are not kept
    assert not said
    runs = [run.summary for run in stored(str(out)).runs()]
    assert 1 < len(runs) < len(files)
    assert [Path(file["file"]) for run in runs for file in run["files"]] == files
    in_process.analyze([str(file) for file in files], str(whole), options=WITH_RECORDS)
    assert sum(run["packets"] for run in runs) == summary_of(whole)["packets"]
    for name in ALL_SCHEMAS.keys() & OF_EXCHANGES:
        one, other = (comparable(name, pq.read_table(place / "tables" / name)) for place in (whole, out))
        assert one.equals(other), name


def test_old_runs_are_removed_and_their_files_not_taken_again(captures: Path, tmp_path: Path) -> None:
    limits = Limits(run_bytes=300_000, out_runs=2)
    options = replace(WITH_RECORDS, session=SessionOptions(limits=limits))
    out, said, content = tmp_path / "out", list[str](), pieces(JOINS, 8)
    files = [*write(captures, content[:7])]
    with closing(watch(captures, out, said, options=options)) as watched:
        drain(watched, at_end=True)
    runs = [run.summary for run in stored(str(out)).runs()]
    kept = [Path(file["file"]) for run in runs for file in run["files"]]
    assert not said
    assert len(runs) == 2
    assert len(kept) < len(files)
    assert kept == files[-len(kept) :]
    assert {run_of_part(file.name) for file in out.rglob("part-*")} == {run["run"] for run in runs}
    files += write(captures, content[7:], first=7)
    with closing(watch(captures, out, said, options=options)) as watched:
        drain(watched, at_end=True)
    again = [run.summary for run in stored(str(out)).runs()]
    assert again[0] == runs[1]
    assert [Path(file["file"]) for file in again[1]["files"]] == files[7:]
    old = "from before the runs that are kept (--limit out_runs), so not taken: "
    assert [text for text in said if text.startswith(old)] == [old + ", ".join(map(str, files[: 7 - len(kept)]))]


def test_a_run_that_goes_on_from_another_one_stays_when_the_watch_begins_again(captures: Path, tmp_path: Path) -> None:
    out, said, content = tmp_path / "out", list[str](), pieces(JOINS, 8)
    files = [*write(captures, content[:6])]
    with closing(watch(captures, out, options=SMALL_RUNS)) as watched:
        drain(watched, at_end=True)
    before = [run.summary for run in stored(str(out)).runs()]
    assert len(before) > 1
    files += write(captures, content[6:], first=6)
    with closing(watch(captures, out, said, options=SMALL_RUNS)) as watched:
        drain(watched, at_end=True)
    runs = [run.summary for run in stored(str(out)).runs()]
    assert runs[: len(before)] == before
    assert [Path(file["file"]) for run in runs for file in run["files"]] == files
    assert len(said) == 1
    why = "the last run goes on from the one before it"
    assert said[0].startswith(f"{why}, so run {before[-1]['run']} in {out} stays as it is")


def test_a_run_that_was_full_is_made_anew_with_all_its_files(captures: Path, tmp_path: Path) -> None:
    """As if the watch had been killed before another one began: OUT never has less than it had."""
    out, content = tmp_path / "out", pieces(JOINS, 3)
    files = [*write(captures, content)]
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
    full = EngineOptions(session=SessionOptions(limits=Limits(run_bytes=1 << 10)))
    with closing(watch(captures, out, options=full)) as watched:
        drain(watched, at_end=True)
    same_as_one_analysis(files, out, tmp_path)


def packets_of(content: Sequence[bytes]) -> int:
    count = 0
    for data in content:
        at = HEADER
        while at < len(data):
            at += RECORD + struct.unpack_from("<I", data, at + 8)[0]
            count += 1
    return count


def test_late_missing_and_cut_files_are_named(captures: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "out", list[str]()
    content = pieces(JOINS, 6)
    zero, one, two, three, four = (captures / f"c.pcap{number}" for number in ("", 1, 2, 3, 4))
    zero.write_bytes(content[0])
    three.write_bytes(content[3][:-5])  # it ends within a packet, and another one is behind it
    four.write_bytes(content[4])
    (captures / "notes.txt").write_text("no capture")
    with closing(watch(captures, out, said)) as watched:
        drain(watched, at_end=True)
        two.write_bytes(content[2])
        drain(watched, at_end=True)
    assert said.pop(0).startswith(f"not taken: {captures / 'notes.txt'} at offset 0: this is text, not a capture")
    assert [text.split(": ")[0] for text in said] == [str(three), str(three), str(two)]
    assert "numbers 1 to 2 are missing between c.pcap and it" in said[0]
    assert "ends at offset" in said[1]
    assert "came when files behind it had been taken" in said[2]
    issues = {row["kind"]: row["file"] for row in pq.read_table(out / "tables" / "issues").to_pylist()}
    assert issues["file_missing"] == issues["truncated_capture"] == str(three)
    assert issues["file_late"] == str(two)
    one.write_bytes(content[1])
    with closing(watch(captures, out, again := list[str]())) as watched:  # all are there now, so all are taken in order
        drain(watched, at_end=True)
    assert [text.split(": ")[0] for text in again] == ["not taken", str(three)]
    same_as_one_analysis([zero, one, two, three, four], out, tmp_path)


def test_a_file_that_overlaps_with_the_one_before_it_is_named(captures: Path, tmp_path: Path) -> None:
    said: list[str] = []
    content = pieces(JOINS, 3)
    (captures / "a.pcap").write_bytes(content[0] + content[2][HEADER:])
    (captures / "b.pcap").write_bytes(content[1])
    with closing(watch(captures, tmp_path / "out", said)) as watched:
        drain(watched, at_end=True)
    assert said == [f"{captures / 'b.pcap'}: begins before the packets of a.pcap end"]


def test_a_file_that_is_written_anew_while_it_is_read_ends_it(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    content = pieces(JOINS, 4)
    files = [*write(captures, content[:3])]
    feed = Engine.feed
    with closing(watch(captures, out)) as watched:
        drain(watched)
        before = summary_of(out)
        write_anew = [files[2]]

        def overtaken(self: Engine, segments: Segments) -> Iterator[Tables]:
            for file in write_anew:
                file.write_bytes(content[3])
            write_anew.clear()
            return feed(self, segments)

        monkeypatch.setattr(Engine, "feed", overtaken)
        with pytest.raises(SourceError, match=r"c.pcap2: .*than when it was first read|its content is not what"):
            drain(watched, at_end=True)
    assert summary_of(out) == before
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
    same_as_one_analysis(files, out, tmp_path)


KILLED = """
import os, signal, sys
from kafkascope import following
from kafkascope.engine import Engine, EngineOptions
from kafkascope.out.output import Output

captures, out, owner, name, count, when = sys.argv[1:]
owner = {"Engine": Engine, "Output": Output, "following": following}[owner]
whole, left = getattr(owner, name), [int(count)]

def killed(*arguments, **named):
    left[0] -= 1
    if when == "before" and not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    made = whole(*arguments, **named)
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return made

setattr(owner, name, killed)
following.BETWEEN_RENEWALS_S = 0
following.run(captures, out, options=EngineOptions(), once=True, remark=print)
"""


@pytest.mark.parametrize(
    ("owner", "name", "count", "when"),
    [
        ("Engine", "feed", 2, "after"),  # a file is half taken
        pytest.param("Output", "commit", 2, "before", marks=pytest.mark.deep),
        ("Output", "_move_parts", 2, "after"),  # amid a commit
        pytest.param("Output", "_end", 3, "before", marks=pytest.mark.deep),  # all is in place, staging still there
        pytest.param("Output", "_end", 3, "after", marks=pytest.mark.deep),
    ],
)
def test_killed_at_any_step_it_loses_and_doubles_nothing(
    owner: str, name: str, count: int, when: str, captures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    files = [*write(captures, pieces(JOINS, 3))]
    command = [sys.executable, "-c", KILLED, str(captures), str(out), owner, name, str(count), when]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with closing(watch(captures, out, said := list[str]())) as watched:
        drain(watched, at_end=True)
    assert not said
    same_as_one_analysis(files, out, tmp_path)
    assert {path.name for path in out.iterdir()} == {"tables", "report.html", "summary.json"}


def test_killed_while_what_was_there_is_aside(captures: Path, tmp_path: Path) -> None:
    """Tables are away, as they are between two renames of a commit."""
    out = tmp_path / "out"
    files = [*write(captures, pieces(JOINS, 3))]
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
    [run] = stored(str(out)).runs()
    staging = out / ".staging-20260101T000000Z-00000000"
    (staging / "replaced").mkdir(parents=True)
    (staging / "counted" / "tables").mkdir(parents=True)
    (staging / "owner").write_text("one that was killed")
    for name in ("summary.json", "report.html", "tables"):
        os.rename(out / name, staging / "replaced" / name)
    files[0].unlink()  # so what was taken of it is nowhere else
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
        [still] = stored(str(out)).runs()
    assert still.summary == run.summary


@pytest.mark.parametrize("moved", [0, 1, 2, 3])
def test_killed_amid_the_first_commit(moved: int, captures: Path, tmp_path: Path) -> None:
    """So many of its renames were done."""
    out = tmp_path / "out"
    files = [*write(captures, pieces(JOINS, 3))]
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
    staging = out / ".staging-20260101T000000Z-00000000"
    (staging / "replaced").mkdir(parents=True)
    (staging / "counted").mkdir()
    (staging / "owner").write_text("one that was killed")
    for name in ("tables", "report.html", "summary.json")[moved:]:
        os.rename(out / name, staging / ("counted" if name == "tables" else "") / name)
    with closing(watch(captures, out, said := list[str]())) as watched:
        drain(watched, at_end=True)
    assert not said
    same_as_one_analysis(files, out, tmp_path)


def test_killed_behind_its_last_rename_what_it_put_there_stays(captures: Path, tmp_path: Path) -> None:
    out, before = tmp_path / "out", tmp_path / "before"
    files = [*write(captures, pieces(JOINS, 3))]
    in_process.analyze([str(files[0])], str(before))
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
    [run] = stored(str(out)).runs()
    staging = out / ".staging-20260101T000000Z-00000000"
    (staging / "counted").mkdir(parents=True)
    (staging / "owner").write_text("one that was killed")
    before.rename(staging / "replaced")
    files[0].unlink()
    with closing(watch(captures, out)) as watched:
        drain(watched, at_end=True)
    assert [still.summary for still in stored(str(out)).runs()] == [run.summary]


def test_two_watches_do_not_renew_one_directory(captures: Path, tmp_path: Path) -> None:
    renewed = pytest.raises(OutputError, match="is being renewed by another watch")
    with closing(watch(captures, tmp_path / "out")), renewed:
        watch(captures, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_no_analysis_made_is_left_alone(captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    with pytest.raises(OutputError, match="has mine, which no analysis made"):
        watch(captures, out)
    assert [path.name for path in out.iterdir()] == ["mine"]


def test_the_command_takes_what_is_there_once(command: Command, captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    nothing = command("kafkascope", "watch", str(captures), "-o", str(out), "--once")
    assert nothing.returncode == 1
    assert "nothing was taken" in nothing.stderr
    assert not out.exists()
    files = [*write(captures, pieces(JOINS, 3))]
    done = command("kafkascope", "watch", str(captures), "-o", str(out), "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{out}: 3 files to {files[-1]}, {packets_of(pieces(JOINS, 3)):,} packets, ")
    same_as_one_analysis(files, out, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_what_was_taken_in_place(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    files = [*write(captures, pieces(JOINS, 3))]
    take = Watch._take

    def signalled(self: Watch, found: object) -> None:
        take(self, found)  # type: ignore[arg-type]
        os.kill(os.getpid(), number)
        stopped.wait(10)

    stopped = threading.Event()

    monkeypatch.setattr(Watch, "_take", signalled)
    said: list[str] = []

    def remark(text: str) -> None:
        said.append(text)
        stopped.set()

    assert following.run(str(captures), str(out), options=EngineOptions(), once=False, remark=remark) == 128 + number
    [only] = said
    assert only.startswith(f"{number.name}: ending after this file")
    same_as_one_analysis(files[:1], out, tmp_path)
