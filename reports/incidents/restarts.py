"""Members that end in an orderly way and are started anew, again and again, while others are in their group."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.signs import Row, Signs
from kafkascope.reports.incidents.stuck import beginnings
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_COMES = frozenset({EventKind.MEMBER_ID_GIVEN, EventKind.JOINED, EventKind.EPOCH_SEEN})
_EXPLAINED = (
    "rebalance_storm",
    "leaving_and_returning",
    "connection_churn",
    "api_versions_storm",
    "metadata_storm",
    "uneven_assignment",
    "partition_unowned",
    "read_again",
)


@dataclass(frozen=True, slots=True)
class Loop:
    """A member of a group that came again and again, each time on connections that it opened after it had left."""

    group: str
    client_id: str
    client: str  # its host
    turns: list[tuple[Row, Row]]  # events: it left, it came


_Who = tuple[str, str, str]
"""Group, client id, and address."""


def loops(signs: Signs) -> list[Loop]:
    """All of them. Jobs that are alone in their group disturb nobody; those at one record are told as stuck."""
    left: dict[_Who, list[Row]] = defaultdict(list)
    for row in signs.group_events:
        if row["event"] == EventKind.LEFT and row["packet"] is not None and row["client_id"]:
            left[_who(row)].append(row)
    often = {who: rows for who, rows in left.items() if len(rows) >= threshold("crashes")}
    groups = {group for group, *_ in often} - signs.once(beginnings).keys()
    where = pc.field("group_id").isin(sorted(groups)) & pc.field("event").isin(sorted(_COMES))
    came: dict[_Who, list[Row]] = defaultdict(list)
    last: dict[str, dict[_Who, int]] = defaultdict(dict)
    rows_of_groups = signs.rows("group_events", where=where) if groups else []
    for row in sorted(rows_of_groups, key=lambda row: (row["at"], row["packet"] or 0)):
        came[_who(row)].append(row)
        last[row["group_id"]][_who(row)] = row["at"]
    found = []
    for who, rows in sorted(often.items()):
        turns = list(_turns(rows, came[who])) if who[0] in groups else []
        if len(turns) >= threshold("crashes"):
            since = turns[0][0]["at"]
            if any(at >= since for other, at in last[who[0]].items() if other != who):
                found.append(Loop(*who, turns))
    return found


def _who(row: Row) -> _Who:
    return row["group_id"], row["client_id"] or "", row["client"] or ""


def _turns(left: Sequence[Row], came: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Each time that a member left, with how it came again soon, on a connection that it had not opened before."""
    within = threshold("one_trouble") * SECOND_NS
    ends = [*(row["at"] for row in left[1:]), left[-1]["at"] + within]
    for gone, following in zip(left, ends, strict=True):
        place = bisect_left(came, gone["at"], key=lambda row: row["at"])
        if place == len(came) or came[place]["at"] > min(following, gone["at"] + within):
            continue
        if came[place]["connection"] > gone["packet"]:
            yield gone, came[place]


def restarting(signs: Signs) -> Iterator[Incident]:
    """An incident for each of them; many alike are one, and have one cause."""
    found = signs.once(loops)
    if len(found) >= threshold("alike"):
        yield _restarting(signs, found)
        return
    for loop in found:
        yield _restarting(signs, [loop])


def _restarting(signs: Signs, alike: Sequence[Loop]) -> Incident:
    turns = sorted((turn for loop in alike for turn in loop.turns), key=lambda turn: (turn[0]["at"], turn[0]["packet"]))
    since, until = turns[0][0]["at"], max(came["at"] for _, came in turns)
    lived = sorted(
        (left["at"] - came["at"]) / MILLISECOND_NS for loop in alike for (_, came), (left, _) in pairwise(loop.turns)
    )
    groups = sorted({loop.group for loop in alike})
    names = sorted({loop.client_id for loop in alike})
    whose = f"group {groups[0]}" if len(groups) == 1 else f"groups {listed(groups)}"
    who = f"{names[0]} ({alike[0].client})" if len(alike) == 1 else f"{len(alike):,} members alike ({listed(names)})"
    what = "a process that ends and is" if len(alike) == 1 else "processes that end and are"
    rows = [row for group in groups for row in signs.rebalances_of(group, until, since)]
    effects, cost_ms, rebalances = of_rebalances(rows)
    return Incident(
        kind=IncidentKind.CLIENT_RESTARTING,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(
            *(Subject(Role.GROUP, group) for group in groups),
            *(Subject(Role.CLIENT, name) for name in names),
            *(Subject(Role.HOST, host) for host in sorted({loop.client for loop in alike})),
        ),
        started=since,
        ended=until if until < signs.end - threshold("one_trouble") * SECOND_NS else None,
        headline=f"{who} of {whose} left and came anew {counted(len(turns), 'time')} from {clock(since)} to "
        f"{clock(until)}, half of the times after {duration(lived[len(lived) // 2])}: {what} started again and again"
        + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{'it' if len(alike) == 1 else left['client_id']} left{_said(left)}, and came on a new connection "
                f"{duration((came['at'] - left['at']) / MILLISECOND_NS)} later",
                left["packet"],
                left["at"],
                0.7,
            )
            for left, came in turns
        ),
        advice="Look at the log of this application for why it ends (an exception after which it closes its "
        "consumer, a failing health check, a job that is scheduled too often), and at who starts it again. Static "
        "membership (group.instance.id) lets restarts within session.timeout.ms pass without a rebalance.",
        cost_ms=cost_ms,
        effects=effects,
        findings=signs.explained(_EXPLAINED, since, until, groups=groups, clients=names),
        rebalances=rebalances,
    )


def _said(left: Row) -> str:
    return f' with the reason "{left["detail"]}"' if left["detail"] else ""
