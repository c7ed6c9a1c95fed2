"""How right incidents are: every recorded story of pcaps/ against what was done in it (``incidents`` of truth.json).

    python -m tools.incident_accuracy [--markdown | --cut BYTES | --damaged] [STORY…]

Of each story: what was wrong in it, how much of that was found, what was missed, false alarms (above "info", and
nothing of the kind was done), and whether the first incident is what was wrong. An incident is found if one has its
kind (or one that looks the same from outside), names one of those it was done to, and overlaps it in time, with five
seconds of grace. Stories whose truth does not tell are left out. Exit status 1 if anything is missed, alarmed or not
first; with packets that are cut, as tcpdump -s does, only if there is a false alarm.

--damaged: recordings damaged as real captures are (damage.py), some 30 times each, which takes a quarter of an hour.
Of these it is right as well to leave open what they do not show (`_ALSO`), and to guess which broker it is that others
wait for. Exit status 1 if more than one of a hundred has a false alarm.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import kafkascope
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.incidents.incident import Incident, incident_of
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.units import MILLISECOND_NS
from tools import damage

PCAPS = Path(__file__).parent.parent / "pcaps"
_GRACE_MS = 5_000
_PROCESSES = 2  # side by side
_FALSE = 0.01  # of the damaged captures may have a false alarm
_GONE = (IncidentKind.CLIENT_DIED, IncidentKind.CLIENT_FROZEN, IncidentKind.CLIENT_UNREACHABLE)
# What a damaged capture may leave open: which of these it was, who answers in the place of a broker that has gone, or
# whether all packets between two hosts vanish, as with one of them alone.
_ALSO = dict.fromkeys(_GONE, _GONE) | {
    IncidentKind.ADDRESS_TAKEN: (IncidentKind.BROKER_DOWN,),
    IncidentKind.PATH_BLOCKED: (IncidentKind.NETWORK_LOSS,),
}
_COLUMNS = ("recording", "wrong", "found", "missed", "false alarms", "first right")

Truth = Mapping[str, Any]


@dataclass(slots=True)
class Score:
    """What was compared, and what came out."""

    truth: int = 0
    found: int = 0
    missed: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    first: bool = True
    by_kind: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # truth, found, false alarms

    def count(self, kind: str, truth: int = 0, found: int = 0, alarms: int = 0) -> None:
        """Add to the counts of a kind."""
        before = self.by_kind.get(kind, (0, 0, 0))
        self.by_kind[kind] = before[0] + truth, before[1] + found, before[2] + alarms


def matches(one: Incident, truth: Truth) -> bool:
    """Whether an incident is what was done."""
    if one.kind not in {truth["kind"], *truth.get("also", [])}:
        return False
    any_subject = truth.get("any_subject") or (truth.get("any_if_guessed") and one.certainty == Certainty.GUESSED)
    if not any_subject and not {subject.name for subject in one.subjects} & {*truth["who"]}:
        return False
    ended = float("inf") if one.ended is None else one.ended / MILLISECOND_NS
    until = float("inf") if truth["ended_ms"] is None else truth["ended_ms"]
    return bool((truth["started_ms"] or 0) - _GRACE_MS <= ended and one.started / MILLISECOND_NS <= until + _GRACE_MS)


def compared(found: Sequence[Incident], truth: Sequence[Truth]) -> Score:
    """Incidents against what was done."""
    score = Score(len(truth))
    for each in truth:
        hit = any(matches(one, each) for one in found)
        score.found += hit
        score.count(each["kind"], 1, hit)
        if not hit:
            score.missed.append(f"{each['kind']} of {', '.join(map(str, each['who'][:2]))}")
    for one in found:
        if one.severity != Severity.INFO and not any(matches(one, each) for each in truth):
            score.alarms.append(f"{one.kind}: {one.headline}")
            score.count(one.kind, alarms=1)
    unplanned = [each for each in truth if not each.get("planned")]
    main = [each for each in unplanned if each.get("main")] or unplanned
    score.first = any(matches(found[0], each) for each in main) if main and found else not main and not score.alarms
    return score


def truth_of(story: Path) -> Truth:
    """What is known of a story."""
    return dict(json.loads((story / "truth.json").read_text()))


def files_of(story: Path, truth: Truth) -> list[str]:
    """The files of its capture."""
    named = truth.get("analyse")
    if named:
        return [str(story / name) for name in named]
    return [str(path) for path in (story / "capture.pcap", story / "capture.pcap.gz") if path.exists()][:1]


def stories() -> list[Path]:
    """Recordings whose truth tells what was wrong, or that nothing was."""
    return [path.parent for path in sorted(PCAPS.glob("*/truth.json")) if "incidents" in truth_of(path.parent)]


def score(story: Path, cut: int | None = None) -> Score:
    """One story; of each packet the first bytes alone, if cut says how many."""
    truth = truth_of(story)
    files = files_of(story, truth)
    if cut is None:
        return scored(kafkascope.read(files), truth)
    with open_capture(files) as capture:
        left = (replace(packets, captured=np.minimum(packets.captured, np.int32(cut))) for packets in capture)
        return scored(damage.read_back(left), truth)


def scores_where_damaged(story: Path) -> list[tuple[str, Score]]:
    """One story, damaged as real captures are: each kind of damage, and what is told of what it left."""
    truth = dict(truth_of(story))
    truth["incidents"] = [
        one
        | {"also": (*one.get("also", ()), *_ALSO.get(one["kind"], ()))}
        | {"any_if_guessed": one["kind"] == IncidentKind.BROKER_STALLED}  # for which broker others wait
        for one in truth["incidents"]
    ]
    with open_capture(files_of(story, truth)) as capture:
        damages = damage.damaged_packets(list(capture), story.name)
        return [(kind, scored(damage.read_back(left), truth)) for kind, left in damages]


def scored(capture: kafkascope.Capture, truth: Truth) -> Score:
    """What a capture tells against what was done."""
    rows = numbered(capture.arrow("incidents")).to_pylist()
    found = [incident_of(row) for row in sorted(rows, key=lambda row: int(row["rank"]))]
    return compared(found, truth["incidents"])


def rows_of(scores: Mapping[str, Score]) -> list[list[str]]:
    """The rows of the table: a story with something in it each, those in which nothing was wrong together, and all."""
    told = {name: one for name, one in scores.items() if one.truth}
    healthy = [one for name, one in scores.items() if not one.truth]
    rows = [_cells(name, [one]) for name, one in told.items()]
    if healthy:
        rows.append(_cells(f"{len(healthy)} recordings in which nothing was wrong", healthy))
    return [*rows, _cells("all", list(scores.values()))]


def _cells(name: str, of: Sequence[Score]) -> list[str]:
    sums = [
        sum(numbers) for numbers in zip(*((s.truth, s.found, len(s.missed), len(s.alarms)) for s in of), strict=True)
    ]
    return [name, *map(str, sums), f"{sum(s.first for s in of)} of {len(of)}"]


def kinds_of(scores: Mapping[str, Score]) -> list[list[str]]:
    """The same by kind: done, found, false alarms."""
    total = Score()
    for one in scores.values():
        for kind, counts in one.by_kind.items():
            total.count(kind, *counts)
    return [[kind, *map(str, counts)] for kind, counts in sorted(total.by_kind.items())]


def print_damaged(console: Console, found: Mapping[str, Sequence[tuple[str, Score]]]) -> int:
    """Print what is told of recordings by the kind of damage, and each false alarm; the exit status."""
    by_kind: dict[str, list[Score]] = defaultdict(list)
    alarms: dict[tuple[str, str, str], int] = defaultdict(int)
    for story, scores in found.items():
        for kind, one in scores:
            by_kind[kind].append(one)
            for alarm in one.alarms:
                alarms[story, kind, alarm] += 1
    table = Table("damage", "captures", "with false alarms", *_COLUMNS[1:])
    captures = [one for scores in by_kind.values() for one in scores]
    for kind, of_kind in (*by_kind.items(), ("all", captures)):
        alarmed = sum(bool(one.alarms) for one in of_kind)
        table.add_row(kind, str(len(of_kind)), str(alarmed), *_cells(kind, of_kind)[1:])
    console.print(table)
    for (story, kind, alarm), count in alarms.items():
        print(f"{story}, {kind}: {count} × {alarm}")
    return 1 if sum(bool(one.alarms) for one in captures) > _FALSE * len(captures) else 0


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The table for the README."""
    lines = [" | ".join(_COLUMNS), "|".join(["--", *["--:"] * (len(_COLUMNS) - 1)]), *(" | ".join(row) for row in rows)]
    return "".join(f"| {line} |\n" for line in lines)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stories", nargs="*", type=Path, metavar="STORY", help="directories; default: all of pcaps/")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--markdown", action="store_true", help="print the table for the README")
    ways.add_argument("--cut", type=int, metavar="BYTES", help="so much of each packet")
    ways.add_argument("--damaged", action="store_true", help="print what is told where recordings are damaged")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console(width=None if sys.stdout.isatty() else 120)
    if arguments.damaged:
        which = arguments.stories or stories()
        with ProcessPoolExecutor(_PROCESSES) as processes:
            found = zip((story.name for story in which), processes.map(scores_where_damaged, which), strict=True)
            return print_damaged(console, dict(found))
    scores = {story.name: score(story, arguments.cut) for story in arguments.stories or stories()}
    if arguments.markdown:
        print(markdown(rows_of(scores)), end="")
    else:
        for columns, rows in (
            (_COLUMNS, rows_of(scores)),
            (("kind", "done", "found", "false alarms"), kinds_of(scores)),
        ):
            table = Table(*columns)
            for row in rows:
                table.add_row(*row)
            console.print(table)
        for name, one in scores.items():
            for case in [f"missed: {text}" for text in one.missed] + [f"false alarm: {text}" for text in one.alarms]:
                print(f"{name}: {case}")
    if arguments.cut is not None:
        return 1 if any(one.alarms for one in scores.values()) else 0
    return 0 if all(not one.missed and not one.alarms and one.first for one in scores.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
