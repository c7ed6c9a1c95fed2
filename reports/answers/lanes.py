"""The picture of a group: which member is drawn in which lane, and from when to when it owned partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.groups.history import Member, Rebalance


@dataclass(frozen=True, slots=True)
class Bar:
    """One member in one generation. Times are nanoseconds; None: it never had its assignment."""

    rebalance: int  # index of the rebalance that made the generation
    member: int  # index among its members
    lane: int
    begin: int | None  # when it had its assignment
    end: int | None  # when it gave it up; None: not within the capture


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes in the order in which members first came, and the bars in them, in order of time."""

    names: list[str]  # as they are shown to people
    bars: list[Bar]


def lanes(rebalances: Sequence[Rebalance]) -> Lanes:
    """Lanes of the rebalances of one group, which are in order of time.

    A process that comes back gets another member id, but is the same to people: a lane is an instance id or client id
    as long as no two members of one generation share it; then the host, and then the member id tells them apart.
    """
    name_of = _names(rebalances)
    numbers: dict[str, int] = {}
    for row in rebalances:
        for member in row.members:
            numbers.setdefault(name_of[member.member_id], len(numbers))
    bars = []
    for i, row in enumerate(rebalances):
        after = rebalances[i + 1] if i + 1 < len(rebalances) else None
        rejoining = {name_of[m.member_id]: m for m in after.members} if after else {}
        for k, member in enumerate(row.members):
            name = name_of[member.member_id]
            begin = member.synced if member.synced is not None else row.stable
            if member.synced is None and member.assignment is None:
                begin = None
            bars.append(Bar(i, k, numbers[name], begin, _end(member, begin, rejoining.get(name), after)))
    return Lanes(list(numbers), bars)


def _end(member: Member, begin: int | None, again: Member | None, after: Rebalance | None) -> int | None:
    if after is None:
        return None
    if again is not None and again.synced is not None and _keeps(member, again, after):
        return again.synced
    joined = again.joined if again is not None else None
    if joined is not None and begin is not None and joined < begin:
        joined = None  # it is in the group since then: members of epoch protocols join once
    known = next((at for at in (joined, after.started, after.joined, after.stable) if at is not None), None)
    # The next one may have begun before this one was over.
    return known if known is None or begin is None else max(known, begin)


def _keeps(member: Member, again: Member, after: Rebalance) -> bool:
    """Whether a member went on with some of its partitions through the next rebalance."""
    kept = set(member.assignment or ()) & set(again.assignment or ())
    return bool(kept - {one.partition for one in after.unowned})


def _names(rebalances: Sequence[Rebalance]) -> dict[str, str]:
    """Name of the lane of each member id."""
    members = {member.member_id: member for row in rebalances for member in row.members}
    for row in rebalances:  # what is known of a member later or earlier holds
        for member in row.members:
            known = members[member.member_id]
            if not (known.client_id and known.host) and (member.client_id or member.host):
                members[member.member_id] = member
    names = {i: shown_text(m.instance_id or m.client_id or i) for i, m in members.items()}
    hosts = {i: f" {shown_text(m.host)}" if m.host else "" for i, m in members.items()}
    names = _apart(rebalances, names, {i: names[i] + hosts[i] for i in members})
    ends = {i: "" if names[i] == i else f" …{shown_text(i[-8:])}" for i in members}
    return _apart(rebalances, names, {i: names[i] + ends[i] for i in members})


def _apart(rebalances: Sequence[Rebalance], names: dict[str, str], finer: dict[str, str]) -> dict[str, str]:
    """The finer names where members of one generation have the same."""
    shared: set[str] = set()
    for row in rebalances:
        seen: dict[str, str] = {}
        for member in row.members:
            name = names[member.member_id]
            if seen.setdefault(name, member.member_id) != member.member_id:
                shared.add(name)
    return {member_id: finer[member_id] if name in shared else name for member_id, name in names.items()}
