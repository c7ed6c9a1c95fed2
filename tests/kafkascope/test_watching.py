"""Groups watched: what is told while it happens is what is known at the end."""

from __future__ import annotations

import gzip
import json
import random
import re
import struct
import subprocess
import sys
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kafkascope
from kafkascope import sniff_options, watching
from kafkascope.reading import Reading
from kafkascope.reports.columns.views import Known
from kafkascope.reports.groups import by_cluster, live
from kafkascope.reports.groups.history import Event, GroupHistory, GroupLog, Rebalance, event_table, rebalance_table
from kafkascope.reports.groups.live import LiveGroups
from kafkascope.reports.groups.one_group import analyze_group
from kafkascope.reports.views.groups import histories
from tests.kafkascope.conftest import Command
from tests.kafkascope.groups_of_captures import rows_of
from tests.paths import PCAPS

STORIES = (
    "connect",
    "cooperative-sticky",
    "eager-three-joins",
    "killed-silent",
    "kip848",
    "max-poll-exceeded",
    "migration",
    "rebalance-storm",
    "removed-and-timeouts",
    "share-group",
    "static-members",
    "streams-kip1071",
)
SECOND = 1_000_000_000
ENDED = re.compile("its connection (had )?ended")
OPTIONS = sniff_options.engine_options(sniff_options.SniffOptions(display=sniff_options.Display(groups=True)))
SNIFF = str(Path(sys.executable).parent / "sniff")


def known_at_end(story: str) -> GroupHistory:
    rows, topics = rows_of(story)
    whole = GroupHistory()
    for _, history in histories(rows, Known(topics)):
        whole.events += history.events
        whole.rebalances += history.rebalances
    return whole


def watched(story: str, seed: int, hurry: bool = True, took_s: int = 0) -> list[tuple[int, GroupHistory]]:
    """What is told, and how many rows had been fed by then. took_s: how long each analysis takes by the clock."""
    rows, topics = rows_of(story)
    groups, told, fed = LiveGroups(hurry, count(step=took_s).__next__), [], 0
    chance = random.Random(seed)
    while fed < len(rows):
        size = chance.randrange(1, 30)
        told.append((fed + size, groups.feed(rows.slice(fed, size), topics)))
        fed += size
    told.append((fed, groups.finish(topics)))
    return told


def generation(rebalance: Rebalance) -> tuple[object, ...]:
    return rebalance.group_id, rebalance.to_generation, rebalance.protocol


def what(row: Event | Rebalance) -> str:
    """The row without what is known later: how long a silence lasts, and that a connection ended.

    The end of a connection is sure a minute after, when no packet of it can come any more.
    """
    if isinstance(row, Rebalance):
        return repr(replace(row, evidence=[each for each in row.evidence if not ENDED.match(each.text)]))
    return repr(replace(row, detail=None) if row.event == "silence_begun" else row)


@pytest.mark.no_cover  # the same ways, many times
@pytest.mark.parametrize(("hurry", "took_s", "seed"), [(True, 0, 1), (True, 10, 2), (False, 0, 1), (False, 0, 2)])
@pytest.mark.parametrize("story", STORIES)
def test_what_is_told_as_it_comes_is_what_is_known_at_the_end(story: str, hurry: bool, took_s: int, seed: int) -> None:
    end = known_at_end(story)
    assert end.rebalances
    told = watched(story, seed, hurry, took_s)
    events = [event for _, history in told for event in history.events]
    rebalances = [rebalance for _, history in told for rebalance in history.rebalances]
    assert sorted(map(what, rebalances)) == sorted(map(what, end.rebalances))
    assert sorted(map(what, events)) == sorted(map(what, end.events))


@pytest.mark.parametrize("story", STORIES)
def test_rebalances_are_told_while_the_group_goes_on(story: str) -> None:
    rows, _ = rows_of(story)
    told = watched(story, 3)
    before_end = [rebalance for fed, history in told if fed < len(rows) for rebalance in history.rebalances]
    assert len(before_end) >= len(known_at_end(story).rebalances) // 2


def test_at_most_half_of_the_time_goes_into_analyses(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, topics = rows_of("rebalance-storm")
    now = 0.0
    begun: list[float] = []

    def slow(log: GroupLog) -> GroupHistory:
        nonlocal now
        begun.append(now)
        now += 10
        return analyze_group(log)

    monkeypatch.setattr(by_cluster, "analyze_group", slow)
    groups = LiveGroups(clock=lambda: now)
    for fed in range(0, len(rows), 10):
        groups.feed(rows.slice(fed, 10), topics)
        now += 1
    assert len(begun) > 2
    assert {later - before for before, later in pairwise(begun)} == {20}


def test_memory_is_bounded_and_what_was_told_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_MESSAGES", 120)
    monkeypatch.setattr(live, "THINNED_AFTER", 10 * SECOND)
    groups = LiveGroups(hurry=False)
    rows, topics = rows_of("rebalance-storm")
    told = GroupHistory()
    for fed in range(0, len(rows), 20):
        history = groups.feed(rows.slice(fed, 20), topics)
        told.events += history.events
        told.rebalances += history.rebalances
        assert all(len(group.messages) <= 120 + 60 for group in groups._groups.values())
    told.rebalances += groups.finish(topics).rebalances
    end = [generation(rebalance) for rebalance in known_at_end("rebalance-storm").rebalances]
    mine = [generation(rebalance) for rebalance in told.rebalances]
    assert len({*mine}) == len(mine)
    assert {*mine} <= {*end}
    assert len(mine) > len(end) * 0.9
    assert len({*map(what, told.events)}) == len(told.events)


def test_groups_that_were_silent_longest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, topics = rows_of("eager-three-joins")
    messages = rows.filter(pc.is_valid(rows["message"]))
    monkeypatch.setattr(live, "MOST_IN_ALL", 4 * len(messages))
    groups = LiveGroups(clock=lambda: 0.0)
    told: list[str] = []
    for number in range(6):
        told += [rebalance.group_id for rebalance in groups.feed(named(rows, f"group-{number}"), topics).rebalances]
    assert list(groups._groups) == ["group-2", "group-3", "group-4", "group-5"]
    ends = rows.filter(pc.is_valid(rows["connection"]))
    assert len(ends)
    groups.feed(named(ends, "group-0"), topics)
    assert "group-0" not in groups._groups
    told += [rebalance.group_id for rebalance in groups.finish(topics).rebalances]
    assert {told.count(f"group-{number}") for number in range(6)} == {5}


def named(rows: pa.Table, group: str) -> pa.Table:
    """The rows as those of another group."""
    place = rows.schema.get_field_index("group_id")
    return rows.set_column(place, "group_id", pa.repeat(pa.scalar(group), len(rows)))


def test_a_group_in_which_nothing_new_happens_is_not_analyzed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, topics = rows_of("killed-silent")
    analyzed: list[int] = []

    def counted(log: GroupLog) -> GroupHistory:
        analyzed.append(len(log.messages))
        return analyze_group(log)

    monkeypatch.setattr(by_cluster, "analyze_group", counted)
    groups = LiveGroups(clock=lambda: 0.0)
    for fed in range(len(rows)):
        groups.feed(rows.slice(fed, 1), topics)
    heartbeats = rows.filter(pc.equal(pc.struct_field(rows["message"], "api"), "Heartbeat"))
    assert 0 < len(analyzed) < len(heartbeats) // 2
    patient, analyzed[:] = LiveGroups(hurry=False), []
    for fed in range(len(rows)):
        patient.feed(rows.slice(fed, 1), topics)
    assert all(later >= before * 5 // 4 for before, later in pairwise(analyzed))


def told_of(line: str) -> str:
    """What a line is about."""
    row = json.loads(line)
    names = ("group_id", "at", "event", "packet", "from_generation", "to_generation", "stable", "trigger", "certainty")
    return " ".join(str(row.get(name)) for name in names)


def test_groups_of_a_file_are_the_rows_of_read(command: Command) -> None:
    file = PCAPS / "max-poll-exceeded" / "capture.pcap"
    done = command("sniff", "-r", str(file), "--groups", "--json")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    capture = kafkascope.read(file)
    for table in ("group_events", "rebalances"):
        mine = [row for row in map(json.loads, lines) if row["table"] == table]
        arrow = capture.arrow(table)
        assert len(mine) == len(arrow) > 0
        assert list(mine[0]) == ["table", *arrow.schema.names]
        for name in ("group_id", "event", "to_generation", "trigger", "certainty", "detail", "packet", "moved"):
            if name in arrow.schema.names:
                assert sorted(str(row[name]) for row in mine) == sorted(map(str, arrow[name].to_pylist()))
    times = [row.get("at") or row["started"] for row in map(json.loads, lines)]
    assert times == sorted(times)
    piping, data = [SNIFF, "-r", "-", "--groups", "--json"], gzip.compress(file.read_bytes())
    piped = subprocess.run(piping, input=data, capture_output=True, check=True).stdout.decode().splitlines()
    assert sorted(map(told_of, piped)) == sorted(map(told_of, lines))


def with_noise(file: Path, to: Path) -> Path:
    """The capture with twice 12 MB of something else in it, so that it is read in several parts."""
    data = file.read_bytes()
    order = "<" if data[0] in (0xD4, 0x4D) else ">"
    noise = b"\xff" * 12 + b"\x88\xb5" + bytes(60_000)  # an experimental EtherType
    out, at, packets = [data[:24]], 24, 0
    while at < len(data):
        length = struct.unpack_from(f"{order}I", data, at + 8)[0]
        out.append(data[at : at + 16 + length])
        packets += 1
        if packets in (500, 1000):
            out += [data[at : at + 8] + struct.pack(f"{order}II", len(noise), len(noise)) + noise] * 200
        at += 16 + length
    assert packets > 1500
    to.write_bytes(b"".join(out))
    return to


def test_groups_of_a_file_are_told_while_it_is_read(tmp_path: Path) -> None:
    file = with_noise(PCAPS / "max-poll-exceeded" / "capture.pcap", tmp_path / "large.pcap")
    with Reading([str(file)], OPTIONS, names_ahead=True) as source:
        told = list(watching.histories(source, frozenset()))
    early = sum(len(history.rebalances) for history in told[:-1])
    assert 0 < early < sum(len(history.rebalances) for history in told)
    capture = kafkascope.read(file)
    mine = GroupHistory()
    for history in told:
        mine.events += history.events
        mine.rebalances += history.rebalances
    for table, rows in (("group_events", event_table(mine.events)), ("rebalances", rebalance_table(mine.rebalances))):
        later = (
            ["reread_records"] if table == "rebalances" else []
        )  # counted from fetches, which are not looked at here
        known, seen = (each.drop_columns(later).to_pylist() for each in (capture.arrow(table), rows))
        assert sorted(map(repr, seen)) == sorted(map(repr, known))


@pytest.mark.parametrize("ahead", [True, False])
def test_names_of_topics_are_looked_for_in_what_a_file_has_still_to_come(ahead: bool) -> None:
    _, topics = rows_of("kip848")
    told = {identity: name for identity, name in topics.items() if name != "__cluster_metadata"}
    assert told
    with Reading([str(PCAPS / "kip848" / "capture.pcap")], OPTIONS, names_ahead=ahead) as source:
        names = watching.Names(source)
        assert [names.get(identity) for identity in told] == [name if ahead else None for name in told.values()]
        assert names.get("nowhere") is None


def test_groups_as_lines_for_people(command: Command) -> None:
    def lines_of(*flags: str) -> list[str]:
        done = command("sniff", "-r", str(PCAPS / "max-poll-exceeded" / "capture.pcap"), "--groups", *flags)
        assert done.returncode == 0
        return done.stdout.splitlines()

    lines = lines_of()
    rebalances = [line for line in lines if "→" in line]
    assert len(rebalances) == 6
    assert any("REBALANCE 1→2 poll_timeout of c2 (certain); took 0.4" in line for line in rebalances)
    assert not any("\x1b" in line for line in lines)
    assert "\x1b" in lines_of("--colour", "-c", "1")[0]
    assert lines_of("-c", "3") == lines[:3]
    assert lines_of("--group", "workers") == lines
    assert lines_of("--group", "nobody") == []


@pytest.mark.parametrize("flags", [["-V"], ["--records"], ["--api", "Fetch"], ["--fields", "api"]])
def test_options_that_make_no_sense_with_groups_are_refused(command: Command, flags: list[str]) -> None:
    done = command("sniff", "-r", str(PCAPS / "net_vlan" / "capture.pcap"), "--groups", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--groups" in done.stderr
