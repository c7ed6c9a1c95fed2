"""How right the answers are: every recorded story of pcaps/ against what its brokers logged (truth.json).

    python -m tools.accuracy [--markdown | --damaged] [STORY…]

Of each story: rebalances of the broker's log, those found, missed, and invented; among those with a known cause the
triggers that are right, tolerated (a weaker claim, where the wire does not tell more), unknown, and wrong though called
certain; clients, members and assignments that are wrong; how far begin and end are from the broker's clock
(milliseconds, half of them and 95 %); error counts that are wrong; groups of which the log has nothing, so that nothing
of them was compared. Exit status 1 if anything is missed, invented or wrong.

--damaged: how far certainties can be relied on where a capture lacks much. The stories are damaged as real captures are
(damage.py), and claims of each certainty are counted that are right: trigger and client as the broker logged them.
Exit status 1 if anything is invented, or a certainty is right less often than it should be.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Column, Table

import kafkascope
from kafkascope.reports.answers.groups import rebalances_of
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS
from tools import damage

PCAPS = Path(__file__).parent.parent / "pcaps"

# What only the broker or the client knows (cause and protocol), and the weaker claim that the wire allows: a member of
# an epoch protocol that leaves gives no reason.
_TOLERATED = {("poll_timeout", "consumer"): Trigger.MEMBER_LEFT}

_PROCESSES = 2  # side by side: each holds a recording and its decoded messages

Truth = dict[str, Any]
_One = TypeVar("_One")


@dataclass(slots=True)
class Score:
    """What was compared, and what came out."""

    truth: int = 0
    found: int = 0
    missed: list[str] = field(default_factory=list)
    not_on_the_wire: int = 0  # the last member's expiry
    invented: list[str] = field(default_factory=list)
    with_cause: int = 0
    trigger_right: int = 0
    tolerated: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    trigger_wrong: list[str] = field(default_factory=list)
    wrong_though_certain: int = 0
    client_wrong: list[str] = field(default_factory=list)
    members_wrong: list[str] = field(default_factory=list)
    assignments_wrong: list[str] = field(default_factory=list)
    start_ms: list[float] = field(default_factory=list)
    end_ms: list[float] = field(default_factory=list)
    errors_wrong: list[str] = field(default_factory=list)
    without_truth: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Take in the other's counts."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def wrong(self) -> dict[str, list[str]]:
        """What is wrong, case by case, by kind."""
        kinds = ("missed", "invented", "trigger_wrong", "client_wrong", "members_wrong", "assignments_wrong")
        return self._cases(*kinds, "errors_wrong")

    @property
    def notable(self) -> dict[str, list[str]]:
        """What is not wrong and yet no proof that answers are right, case by case, by kind."""
        return self._cases("tolerated", "unknown", "without_truth")

    def _cases(self, *kinds: str) -> dict[str, list[str]]:
        return {kind: cases for kind in kinds if (cases := getattr(self, kind))}


@dataclass(slots=True)
class Claims:
    """What was said of the triggers of rebalances, by certainty, and what of it is right."""

    said: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)

    def add(self, other: Claims) -> None:
        """Take in the other's counts."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def too_sure(self) -> list[Certainty]:
        """Certainties that are right less often than they should be."""
        return [each for each, share in _RIGHT.items() if self.right[each] < share * self.said[each]]


def stories() -> list[Path]:
    """Directories of pcaps/ whose brokers logged rebalances."""
    return sorted(path.parent for path in PCAPS.glob("*/truth.json") if json.loads(path.read_text()).get("rebalances"))


def score(story: Path) -> Score:
    """Analyze a story, and compare."""
    truth = json.loads((story / "truth.json").read_text())
    capture = kafkascope.read(_files_of(story, truth))
    end = capture.exchanges.response_done.max().value / MILLISECOND_NS
    result = compare_rebalances(_logged_until(end, truth), rebalances_of(capture.arrow("rebalances")))
    result.errors_wrong = compare_errors(truth, capture.arrow("errors").select(["api", "error"]).to_pylist())
    return result


def _files_of(story: Path, truth: Truth) -> list[Path]:
    return [story / name for name in truth.get("analyse") or ()] or sorted(story.glob("capture.pcap*"))[:1]


def _logged_until(end_ms: float, truth: Truth) -> list[Truth]:
    """What the broker logged when the recording had ended is no part of the story."""
    return [one for one in truth["rebalances"] if (one.get("started_ms") or one["empty_ms"]) <= end_ms]


def claims_where_damaged(story: Path, kinds: Container[str] = damage.KINDS) -> dict[str, Claims]:
    """What is said of a story's rebalances where the capture is damaged, by the kind of damage."""
    truth = json.loads((story / "truth.json").read_text())
    batches = damage.segments_of(_files_of(story, truth))
    end = max(int(batch.at[-1]) for batch in batches if len(batch.at)) / MILLISECOND_NS
    logged = {_key(one): one for one in _logged_until(end, truth)}
    groups = {group for group, _ in logged}
    found: dict[str, Claims] = {}
    if any("@" in group for group in groups):
        return found  # of several clusters: what is left may tell of one alone, whose groups have other names then
    for kind, left in damage.damaged(batches, story.name, kinds):
        claims = found.setdefault(kind, Claims())
        for log, history in damage.histories_in(left):
            for mine in history.rebalances if log.group_id in groups else ():
                key = mine.group_id, mine.to_generation
                if key not in logged:
                    claims.invented.append(_name(key))
                elif "cause" in logged[key]:
                    _judge(logged[key], mine, claims)
    return found


def _judge(one: Truth, mine: Rebalance, claims: Claims) -> None:
    result = Score()
    _compare_trigger(one, mine, result)
    if mine.trigger == Trigger.UNKNOWN:
        claims.unknown += 1
        return
    claims.said[mine.certainty] += 1
    # Where the capture does not show a client's name, the trigger alone is claimed.
    if result.trigger_wrong or (result.client_wrong and mine.trigger_client_id is not None):
        claims.wrong += [f"{mine.certainty}: {case}" for case in (*result.trigger_wrong, *result.client_wrong)]
    else:
        claims.right[mine.certainty] += 1


def compare_rebalances(logged: Sequence[Truth], answered: Sequence[Rebalance]) -> Score:
    """What the broker logged against what the capture told."""
    result = Score(truth=len(logged))
    by_key = _by_turn(answered, lambda one: (one.group_id, one.to_generation))
    keys = _by_turn(logged, _key)
    for key, one in keys.items():
        mine = by_key.get(key)
        if mine is not None:
            result.found += 1
            _compare(one, mine, result)
        elif _may_be_unseen(one):
            result.not_on_the_wire += 1
        else:
            result.missed.append(_name(key[:2]))
    groups = {group for group, *_ in keys}
    result.invented = [_name(key[:2]) for key in by_key if key[0] in groups and key not in keys]
    result.without_truth = sorted({group for group, *_ in by_key} - groups)
    return result


def _by_turn(rebalances: Sequence[_One], key: Callable[[_One], tuple[str, Any]]) -> dict[tuple[str, Any, int], _One]:
    """By group, generation, and how often it came before: a group that was deleted begins anew."""
    turns = Counter[tuple[str, Any]]()
    found: dict[tuple[str, Any, int], _One] = {}
    for one in rebalances:
        of = key(one)
        found[*of, turns[of]] = one
        turns[of] += 1
    return found


def _compare(one: Truth, mine: Rebalance, result: Score) -> None:
    name = _name(_key(one))
    for logged, answered, errors in (
        (one.get("started_ms"), mine.started, result.start_ms),
        (one.get("stabilized_ms"), mine.stable, result.end_ms),
    ):
        if logged and answered is not None:
            errors.append(abs(answered / MILLISECOND_NS - logged))
    clients = sorted(member.client_id or "" for member in mine.members)
    if "cause" not in one:
        if one.get("members") is not None and len(clients) != one["members"]:
            result.members_wrong.append(f"{name}: {len(clients)} for {one['members']}")
        return
    result.with_cause += 1
    _compare_trigger(one, mine, result)
    if clients != sorted(one["members"]):
        result.members_wrong.append(f"{name}: {clients} for {sorted(one['members'])}")
    if one["assignments"] and one.get("stabilized_ms"):
        got = {member.client_id: sorted(member.assignment or []) for member in mine.members}
        wrong = [c for c, partitions in one["assignments"].items() if got.get(c) != sorted(partitions)]
        result.assignments_wrong += [f"{name}: {c} {got.get(c)} for {one['assignments'][c]}" for c in wrong]


def _compare_trigger(one: Truth, mine: Rebalance, result: Score) -> None:
    name, cause = _name(_key(one)), one["cause"]
    case = f"{name}: {mine.trigger} ({mine.certainty}) for {cause}"
    if mine.trigger == Trigger.UNKNOWN:
        result.unknown.append(case)
        return
    if mine.trigger == cause:
        result.trigger_right += 1
    elif mine.trigger == _TOLERATED.get((cause, _protocol(one))):
        result.tolerated.append(case)
    else:
        result.trigger_wrong.append(case)
        result.wrong_though_certain += mine.certainty == Certainty.CERTAIN
        return
    if one.get("client_id") and mine.trigger_client_id != one["client_id"]:
        result.client_wrong.append(f"{name}: {mine.trigger_client_id} for {one['client_id']} ({cause})")


def compare_errors(truth: Truth, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Error counts that are not what brokers and clients logged."""
    have = Counter(f"{row['api']} {row['error']}" for row in rows)
    exact = truth.get("errors_expected") or {}
    least = dict(truth.get("errors_at_least_by_client_logs") or {})
    if isinstance(exact, list):  # of calls, by the error's name; what the client itself threw was never on the wire
        have += Counter(row["error"] for row in rows)
        named = {str(one.get("error_name") or one["error"]).split()[0] for one in exact}
        least |= dict.fromkeys(named - {"UNKNOWN_SERVER_ERROR"}, 1)
        exact = {}
    wrong = [f"{name}: {have[name]} for {n}" for name, n in exact.items() if have[name] != n]
    return wrong + [f"{name}: {have[name]} for at least {n}" for name, n in least.items() if have[name] < n]


def _key(one: Truth) -> tuple[str, int]:
    return one["group"], one["generation_or_epoch"] if "generation_or_epoch" in one else one["generation"]


def _name(key: tuple[str, int]) -> str:
    return f"{key[0]} {key[1]}"


def _protocol(one: Truth) -> str:
    return str(one.get("protocol", "classic")).split()[0]


def _may_be_unseen(one: Truth) -> bool:
    """Whether nobody is left to whom the broker could tell it."""
    return not one.get("members") and one.get("cause") == Trigger.SESSION_TIMEOUT


# What part of the claims of each certainty should be right, however damaged the captures are.
_RIGHT = {Certainty.CERTAIN: 1.0, Certainty.LIKELY: 0.95, Certainty.GUESSED: 0.6}

_COLUMNS = (
    "story",
    "rebalances found",
    "missed",
    "invented",
    "triggers right",
    "tolerated",
    "unknown",
    "wrong though certain",
    "clients / members / assignments wrong",
    "start ms p50 / p95",
    "end ms p50 / p95",
    "errors wrong",
    "groups without truth",
)


def _cells(name: str, one: Score) -> list[str]:
    wrong = (one.client_wrong, one.members_wrong, one.assignments_wrong)
    return [
        name,
        f"{one.found} of {one.truth - one.not_on_the_wire}",
        str(len(one.missed)),
        str(len(one.invented)),
        f"{one.trigger_right} of {one.with_cause}" if one.with_cause else "-",
        *(str(len(cases)) if one.with_cause else "-" for cases in (one.tolerated, one.unknown)),
        str(one.wrong_though_certain),
        " / ".join(str(len(cases)) for cases in wrong),
        _spread(one.start_ms),
        _spread(one.end_ms),
        str(len(one.errors_wrong)),
        str(len(one.without_truth)),
    ]


def _spread(errors: Sequence[float]) -> str:
    if not errors:
        return "-"
    return f"{statistics.median(errors):.0f} / {sorted(errors)[int(len(errors) * 0.95)]:.0f}"


def rows_of(scores: Mapping[str, Score]) -> list[list[str]]:
    """The rows of the table: a story each, those whose causes nobody logged together, and all."""
    rows = [_cells(name, one) for name, one in scores.items() if one.with_cause]
    others, total = Score(), Score()
    without = [one for one in scores.values() if not one.with_cause]
    for one in without:
        others.add(one)
    for one in scores.values():
        total.add(one)
    if without:
        rows.append(_cells(f"{len(without)} recordings without logged causes", others))
    return [*rows, _cells("all", total)]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The table for the README."""
    lines = [" | ".join(_COLUMNS), "|".join(["--", *["--:"] * (len(_COLUMNS) - 1)]), *(" | ".join(row) for row in rows)]
    return "".join(f"| {line} |\n" for line in lines)


def _right(claims: Claims, certainty: Certainty) -> str:
    said, right = claims.said[certainty], claims.right[certainty]
    return f"{right} of {said} ({right / said:.1%})" if said else "-"


def damaged_stories(which: Sequence[Path]) -> dict[str, dict[str, Claims]]:
    """What is said of damaged stories, by story and kind of damage."""
    with ProcessPoolExecutor(_PROCESSES) as processes:
        return {
            story.name: found for story, found in zip(which, processes.map(claims_where_damaged, which), strict=True)
        }


def print_damaged(console: Console, found: Mapping[str, Mapping[str, Claims]]) -> int:
    """Print how often each certainty is right, and each claim that is wrong; the exit status."""
    table = Table("damage", *(f"{certainty} and right" for certainty in Certainty), "unknown", "invented")
    total = Claims()
    by_kind = {kind: Claims() for kind in damage.KINDS}
    for kinds in found.values():
        for kind, claims in kinds.items():
            by_kind[kind].add(claims)
            total.add(claims)
    for kind, claims in (*by_kind.items(), ("all", total)):
        shares = [_right(claims, certainty) for certainty in Certainty]
        table.add_row(kind, *shares, str(claims.unknown), str(len(claims.invented)))
    console.print(table)
    for name, kinds in found.items():
        for kind, claims in kinds.items():
            for case in [*claims.wrong, *(f"invented: {each}" for each in claims.invented)]:
                print(f"{name}, {kind}: {case}")
    return 1 if total.too_sure or total.invented else 0


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stories", nargs="*", type=Path, metavar="STORY", help="directories; default: all of pcaps/")
    style = parser.add_mutually_exclusive_group()
    style.add_argument("--markdown", action="store_true", help="print the table for the README")
    style.add_argument("--damaged", action="store_true", help="print how right certainties are on damaged captures")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console(width=None if sys.stdout.isatty() else 200)
    if arguments.damaged:
        return print_damaged(console, damaged_stories(arguments.stories or stories()))
    scores = {story.name: score(story) for story in arguments.stories or stories()}
    rows = rows_of(scores)
    if arguments.markdown:
        print(markdown(rows), end="")
    else:
        table = Table(Column(_COLUMNS[0], min_width=20), *_COLUMNS[1:])
        for row in rows:
            table.add_row(*row)
        console.print(table)
        for name, one in scores.items():
            for kind, cases in (one.wrong | one.notable).items():
                for case in cases:
                    print(f"{name}: {kind.replace('_', ' ')}: {case}")
    return 1 if any(one.wrong for one in scores.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
