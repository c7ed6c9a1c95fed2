"""What a rebalance cost: which partitions changed hands, and how long nobody owned them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkascope.reports.groups.history import Unowned
from kafkascope.sniffer.units import MILLISECOND_NS


@dataclass(frozen=True, slots=True)
class Ownership:
    """A member had a partition from one moment to another (ns); until None: it still has it."""

    partition: str
    owner: str
    since: int
    until: int | None = None


def moved_partitions(before: Mapping[str, Iterable[str]], after: Mapping[str, Iterable[str]]) -> list[str]:
    """Partitions whose owner is another than before, sorted; those that had or have none are not among them.

    Keys are owners: take what stays the same when a process joins anew (client or instance id) or the member id.
    """
    owner_before = {partition: owner for owner, partitions in before.items() for partition in partitions}
    owner_after = {partition: owner for owner, partitions in after.items() for partition in partitions}
    return sorted(
        partition
        for partition, owner in owner_after.items()
        if partition in owner_before and owner_before[partition] != owner
    )


def unowned_spans(ownerships: Sequence[Ownership], begin: int, end: int) -> list[Unowned]:
    """For each partition the longest time between its owners that ended within (begin, end], by partition.

    A partition that nobody owned before its first owner is no such span, nor is one that nobody has taken yet.
    """
    held: dict[str, list[Ownership]] = {}
    for ownership in ownerships:
        held.setdefault(ownership.partition, []).append(ownership)
    spans = []
    for partition, owners in sorted(held.items()):
        owners.sort(key=lambda each: (each.since, each.owner))
        longest: Unowned | None = None
        covered: int | None = owners[0].since  # up to when somebody had it; None: for good
        for each in owners:
            if covered is None:
                break
            if covered < each.since and begin < each.since <= end:
                ms = (each.since - covered) / MILLISECOND_NS
                if longest is None or ms > longest.ms:
                    longest = Unowned(partition, covered, ms)
            covered = None if each.until is None else max(covered, each.until)
        if longest is not None:
            spans.append(longest)
    return spans


def last_of(times: Mapping[str, int]) -> tuple[str, float | None] | None:
    """Who was last, and by how many milliseconds behind the last but one (None without one); None of nobody."""
    if not times:
        return None
    order = sorted(times.items(), key=lambda item: (item[1], item[0]))
    behind = (order[-1][1] - order[-2][1]) / MILLISECOND_NS if len(order) > 1 else None
    return order[-1][0], behind
