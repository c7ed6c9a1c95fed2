"""Groups watched: what is told while it happens is what is known at the end."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kafkascope
from reports.groups import live
from reports.groups.history import Event, GroupHistory, Rebalance
from reports.groups.live import LiveGroups
from reports.groups.view import histories
from reports.views import Known
from tests.kafkascope.conftest import Command
from tests.kafkascope.groups_of_captures import PCAPS, rows_of

STORIES = ("eager-three-joins", "max-poll-exceeded", "killed-silent", "kip848", "rebalance-storm", "connect")
SECOND = 1_000_000_000
SNIFF = str(Path(sys.executable).parent / "sniff")


def known_at_end(story: str) -> GroupHistory:
    rows, topics = rows_of(story)
    whole = GroupHistory()
    for _, history in histories(rows, Known(topics)):
        whole.events += history.events
        whole.rebalances += history.rebalances
    return whole


def by_time(rows: pa.Table) -> pa.Table:
    """In the order in which a live capture gives them: by the answer. Ends of connections come last."""
    known = pc.coalesce(rows["answered"], rows["at"])
    return rows.take(pc.sort_indices(known))


def watched(story: str, seed: int) -> tuple[LiveGroups, list[tuple[int, GroupHistory]]]:
    """What is told, and how many rows had been fed by then."""
    rows, topics = rows_of(story)
    rows = by_time(rows)
    groups, told, fed = LiveGroups(), [], 0
    chance = random.Random(seed)
    while fed < len(rows):
        size = chance.randrange(1, 30)
        told.append((fed + size, groups.feed(rows.slice(fed, size), lambda: topics)))
        fed += size
    told.append((fed, groups.finish(lambda: topics)))
    return groups, told


def generation(rebalance: Rebalance) -> tuple[object, ...]:
    return rebalance.group_id, rebalance.to_generation, rebalance.protocol


def what(event: Event) -> tuple[object, ...]:
    return event.group_id, event.at, event.event, event.member_id, event.packet


@pytest.mark.parametrize("story", STORIES)
def test_what_is_told_live_is_what_is_known_at_the_end(story: str) -> None:
    end = known_at_end(story)
    assert end.rebalances
    for seed in (1, 2):
        _, told = watched(story, seed)
        events = [event for _, history in told for event in history.events]
        rebalances = [rebalance for _, history in told for rebalance in history.rebalances]
        assert sorted(map(generation, rebalances)) == sorted(map(generation, end.rebalances)), seed
        assert len({*map(what, events)}) == len(events), "nothing is told twice"
        assert {*map(what, end.events)} <= {*map(what, events)}, seed
        triggers = {generation(rebalance): rebalance.trigger for rebalance in end.rebalances}
        different = [one for one in rebalances if one.trigger != triggers[generation(one)]]
        assert not different, seed


@pytest.mark.parametrize("story", STORIES)
def test_rebalances_are_told_while_the_group_goes_on(story: str) -> None:
    rows, _ = rows_of(story)
    _, told = watched(story, 3)
    before_end = [rebalance for fed, history in told if fed < len(rows) for rebalance in history.rebalances]
    assert len(before_end) >= len(known_at_end(story).rebalances) // 2


def test_memory_is_bounded_and_what_was_told_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_MESSAGES", 120)
    monkeypatch.setattr(live, "THINNED_AFTER", 10 * SECOND)
    groups = LiveGroups()
    rows, topics = rows_of("rebalance-storm")
    rows = by_time(rows)
    told = GroupHistory()
    for fed in range(0, len(rows), 20):
        history = groups.feed(rows.slice(fed, 20), lambda: topics)
        told.events += history.events
        told.rebalances += history.rebalances
        assert all(len(group.messages) <= 120 + 60 for group in groups._groups.values())
    told.rebalances += groups.finish(lambda: topics).rebalances
    end = [generation(rebalance) for rebalance in known_at_end("rebalance-storm").rebalances]
    mine = [generation(rebalance) for rebalance in told.rebalances]
    assert len({*mine}) == len(mine)
    assert {*mine} <= {*end}
    assert len(mine) > len(end) * 0.9
    assert len({*map(what, told.events)}) == len(told.events)


def test_groups_that_were_silent_longest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_GROUPS", 3)
    rows, topics = rows_of("eager-three-joins")
    groups = LiveGroups()
    place = rows.schema.get_field_index("group_id")
    told: list[str] = []
    for number in range(6):
        named = rows.set_column(place, "group_id", pa.repeat(pa.scalar(f"group-{number}"), len(rows)))
        told += [rebalance.group_id for rebalance in groups.feed(named, lambda: topics).rebalances]
    assert list(groups._groups) == ["group-3", "group-4", "group-5"]
    told += [rebalance.group_id for rebalance in groups.finish(lambda: topics).rebalances]
    assert {told.count(f"group-{number}") for number in range(6)} == {5}


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
