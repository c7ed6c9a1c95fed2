"""Members that end in an orderly way and are started anew, again and again, while others are in their group."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

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
    """An incident for each of them."""
    for loop in signs.once(loops):
        since, until = loop.turns[0][0]["at"], loop.turns[-1][1]["at"]
        lived = sorted(
            (left["at"] - came["at"]) / MILLISECOND_NS
            for (_, came), (left, _) in zip(loop.turns[:-1], loop.turns[1:], strict=True)
        )
        effects, cost_ms, rebalances = of_rebalances(signs.rebalances_of(loop.group, until, since))
        yield Incident(
            kind=IncidentKind.CLIENT_RESTARTING,
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            subjects=(
                Subject(Role.GROUP, loop.group),
                Subject(Role.CLIENT, loop.client_id),
                Subject(Role.HOST, loop.client),
            ),
            started=since,
            ended=until if until < signs.end - threshold("one_trouble") * SECOND_NS else None,
            headline=f"{loop.client_id} ({loop.client}) of group {loop.group} left and came anew "
            f"{counted(len(loop.turns), 'time')} from {clock(since)} to {clock(until)}, half of the times after "
            f"{duration(lived[len(lived) // 2])}: a process that ends and is started again and again"
            + in_words(effects),
            evidence=tuple(
                Weighed(
                    f"it left{_said(left)}, and came on a new connection "
                    f"{duration((came['at'] - left['at']) / MILLISECOND_NS)} later",
                    left["packet"],
                    left["at"],
                    0.7,
                )
                for left, came in loop.turns
            ),
            advice="Look at the log of this application for why it ends (an exception after which it closes its "
            "consumer, a failing health check, a job that is scheduled too often), and at who starts it again. Static "
            "membership (group.instance.id) lets restarts within session.timeout.ms pass without a rebalance.",
            cost_ms=cost_ms,
            effects=effects,
            findings=signs.explained(_EXPLAINED, since, until, groups=[loop.group], clients=[loop.client_id]),
            rebalances=rebalances,
        )


def _said(left: Row) -> str:
    return f' with the reason "{left["detail"]}"' if left["detail"] else ""
