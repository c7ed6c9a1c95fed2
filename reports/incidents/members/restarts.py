"""Members that end in an orderly way and are started anew, again and again."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.groups.body import body_of, committed_offsets
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Incident, Weighed, every, in_words
from kafkascope.reports.incidents.members.stuck import beginnings
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
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
_NO_PLACE = (
    "; its group has no offset of what it is given, and it neither reads nor asks where the logs begin or end: "
    "auto.offset.reset is none"
)
_ADVICE_NO_PLACE = (
    "Set auto.offset.reset to earliest or latest, or give the group offsets to begin with (kafka-consumer-groups.sh "
    "--reset-offsets --to-earliest --execute, with its members stopped). What had been committed before may have "
    "expired (offsets.retention.minutes)."
)


@dataclass(frozen=True, slots=True)
class Loop:
    """A member of a group that came again and again, each time on connections that it opened after it had left."""

    group: str
    client_id: str
    client: str  # its host
    turns: list[tuple[Row, Row]]  # events: it left, it came
    has_no_place: bool  # to begin at: its group has no offset of what it is given, and it does not look for any


_Who = tuple[str, str, str]
"""Group, client id, and address."""


def loops(signs: Signs) -> list[Loop]:
    """All of them. Jobs that are alone in their group disturb nobody, but for those that find no place to begin.

    Those at one record are told as stuck.
    """
    left: dict[_Who, list[Row]] = defaultdict(list)
    for row in signs.group_events:
        if row["event"] == EventKind.LEFT and row["packet"] is not None and row["client_id"]:
            left[_who(row)].append(row)
    often = {who: rows for who, rows in left.items() if len(rows) >= threshold("crashes")}
    groups = {group for group, *_ in often} - signs.once(beginnings).keys()
    where = among("group_id", groups) & pc.field("event").isin(sorted(_COMES))
    came: dict[_Who, list[Row]] = defaultdict(list)
    last: dict[str, dict[_Who, int]] = defaultdict(dict)
    rows_of_groups = signs.rows("group_events", where=where) if groups else []
    for row in sorted(rows_of_groups, key=lambda row: (row["at"], row["packet"] or 0)):
        came[_who(row)].append(row)
        last[row["group_id"]][_who(row)] = row["at"]
    in_turns = {who: list(_turns(rows, came[who])) for who, rows in sorted(often.items()) if who[0] in groups}
    in_turns = {who: turns for who, turns in in_turns.items() if len(turns) >= threshold("crashes")}
    lost = _without_place(signs, in_turns)
    return [
        Loop(*who, turns, who in lost)
        for who, turns in in_turns.items()
        if who in lost or any(at >= turns[0][0]["at"] for other, at in last[who[0]].items() if other != who)
    ]


def _without_place(signs: Signs, whose: Collection[_Who]) -> set[_Who]:
    """Those who were told that there is no offset for what they were given, and never read, nor asked where logs end.

    So it is with auto.offset.reset=none.
    """
    names = among("client_id", sorted({client_id for _, client_id, _ in whose}))
    told: dict[tuple[str, str | None], list[bool]] = defaultdict(list)  # by client: whether there was none
    for row in _of_clients(signs, ("response",), names & (pc.field("api") == "OffsetFetch")) if whose else ():
        offsets = {offset for *_, offset in committed_offsets(body_of(row["response"]))}
        told[row["client_id"], row["client"]] += [offsets == {-1}] if offsets else []
    lost = {who for who, none in told.items() if all(none) and len(none) >= threshold("crashes")}
    for row in _of_clients(signs, (), names & pc.field("api").isin(["ListOffsets", "Fetch"])) if lost else ():
        lost.discard((row["client_id"], row["client"]))
    return {who for who in whose if who[1:] in lost}


def _of_clients(signs: Signs, columns: Sequence[str], where: pc.Expression) -> Iterator[Row]:
    """Exchanges, each with the address of its client, without those that are alike in all that is asked for."""
    for batch in signs.batches("exchanges", ("connection", "client_id", *columns), where):
        hosts = signs.connections_by_number(batch["connection"].unique().to_pylist())
        for row in batch.group_by(batch.column_names).aggregate([]).to_pylist():
            yield row | {"client": hosts.get(row["connection"], {}).get("client")}


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
    whose = named("group", groups)
    who = f"{names[0]} ({alike[0].client})" if len(alike) == 1 else f"{len(alike):,} members alike ({listed(names)})"
    what = "a process that ends and is" if len(alike) == 1 else "processes that end and are"
    no_place = all(loop.has_no_place for loop in alike)
    rows = [row for group in groups for row in signs.rebalances_of(group, until, since)]
    effects, cost_ms, rebalances = of_rebalances(rows)
    return Incident(
        kind=IncidentKind.CLIENT_RESTARTING,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(
            *every(Role.GROUP, groups),
            *every(Role.CLIENT, names),
            *every(Role.HOST, sorted({loop.client for loop in alike})),
        ),
        started=since,
        ended=until if until < signs.end - threshold("one_trouble") * SECOND_NS else None,
        headline=f"{who} of {whose} left and came anew {counted(len(turns), 'time')} from {clock(since)} to "
        f"{clock(until)}, half of the times after {duration(lived[len(lived) // 2])}: {what} started again and again"
        + (_NO_PLACE if no_place else "")
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
        advice=_ADVICE_NO_PLACE
        if no_place
        else "Look at the log of this application for why it ends (an exception after which it closes its "
        "consumer, a failing health check, a job that is scheduled too often), and at who starts it again. Static "
        "membership (group.instance.id) lets restarts within session.timeout.ms pass without a rebalance.",
        cost_ms=cost_ms,
        effects=effects,
        findings=signs.explained(_EXPLAINED, since, until, groups=groups, clients=names),
        rebalances=rebalances,
    )


def _said(left: Row) -> str:
    return f' with the reason "{left["detail"]}"' if left["detail"] else ""
