"""What rebalances cost, and what brokers lost, as effects of an incident."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import duration
from kafkascope.reports.groups.assignments import EAGER
from kafkascope.reports.incidents.incident import Effect
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import Node


def of_rebalances(rows: Sequence[Row]) -> tuple[tuple[Effect, ...], float, frozenset[tuple[str, int]]]:
    """What rebalances cost: effects, milliseconds that partitions had no owner, and which they are."""
    distinct = {(row["group_id"], row["to_generation"]): row for row in rows}
    effects = []
    if distinct:
        effects.append(Effect("rebalances", counted(len(distinct), "rebalance"), len(distinct)))
    unowned = {one["partition"]: one["ms"] for row in distinct.values() for one in row["unowned"] or () if one["ms"]}
    worst = max((row["unowned_ms"] or 0 for row in distinct.values()), default=0)
    total = sum(row["unowned_ms"] or 0 for row in distinct.values())
    if worst:
        text = f"nobody {_did(unowned)} {in_words(unowned, 6)} for up to {duration(worst)}"
        effects.append(Effect("partitions", text, len(unowned), worst))
    again = sum(row["reread_records"] or 0 for row in distinct.values())
    if again:
        were = "was" if again == 1 else "were"
        effects.append(Effect("records", f"{counted(again, 'record')} {were} read again", again))
    whole = sum(row["cost_ms"] or 0 for row in distinct.values())
    known = frozenset((group, generation) for group, generation in distinct if generation is not None)
    return tuple(effects), float(max(total, whole)), known


def _did(partitions: Collection[str]) -> str:
    """What is done with partitions, or with what Connect gives its workers."""
    work = sum(name.startswith(("connector:", "task:")) for name in partitions)
    return "read or ran" if 0 < work < len(partitions) else "ran" if work else "read"


def members_before(signs: Signs, row: Row) -> Sequence[Row]:
    """The members of the generation before a rebalance."""
    rows = signs.rebalances_of(row["group_id"], row["started"] - 1)
    return rows[-1]["members"] or () if rows else ()


def leader_before(signs: Signs, row: Row) -> Row | None:
    """The leader of the generation before a rebalance, which had to send its assignment."""
    rows = signs.rebalances_of(row["group_id"], row["started"] - 1)
    members = members_before(signs, row)
    return next((member for member in members if member["member_id"] == rows[-1]["leader"]), None)


def assigned(members: Iterable[Row]) -> list[str]:
    """The partitions of some members of a rebalance."""
    return sorted({partition for member in members for partition in member["assignment"] or ()})


def held_up(members: Sequence[Row]) -> list[str]:
    """Partitions that members give up as they join again, if all of them do."""
    return assigned(members) if all(map(is_eager, members)) else []


def is_eager(member: Row) -> bool:
    """Whether a member gives up all that it has as it joins again."""
    return bool(member["assignors"]) and {*member["assignors"]} <= EAGER


def unread(partitions: Collection[str], ms: float, why: str = "") -> Effect:
    """That nobody read some partitions for a time."""
    text = f"nobody {_did(partitions)} {in_words(partitions, 6)} for {duration(ms)}{why}"
    return Effect("partitions", text, len(partitions), ms)


def lost_by(signs: Signs, node: Node | None, since: int, until: int) -> tuple[int, set[str]]:
    """How many leaders moved away from a broker in a time, and of which partitions it is no in-sync replica since."""
    moved, partitions = 0, set[str]()
    for row in signs.events_of(node, since, until):
        before, after = ((row[name] or "").split(",") for name in ("before", "after"))
        if row["event"] == "leader_changed" and node is not None and node.id in before:
            moved += row["count"] or 1
        elif row["event"] == "isr_shrunk" and node is not None and node.id in {*before} - {*after}:
            partitions |= {*row["partitions"]}
    return moved, partitions
