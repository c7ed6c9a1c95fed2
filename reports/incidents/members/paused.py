"""Members that stand still for a while and are not lost: nothing comes of them, though their hosts live."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import in_words as partitions_in_words
from kafkascope.reports.columns.tenths import TENTH_NS
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.holes.unseen import hides
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every, in_words
from kafkascope.reports.incidents.members.fates import may_be_busy
from kafkascope.reports.incidents.members.held_back import is_held_back
from kafkascope.reports.incidents.members.traces import Traces, Whereabouts, traces
from kafkascope.reports.incidents.signs import Signs, group_of
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_MOST = 100  # members that are looked at; that others paused is a finding
_SILENT = 0.75  # of a time without heartbeats: a process that stands still had sent others things first
_OF_ITS_OWN = frozenset({Trigger.MEMBER_LEFT, Trigger.POLL_TIMEOUT, Trigger.MEMBER_JOINED, Trigger.MEMBER_REJOINED})
_EXPLAINED = ("commits_stopped", "poll_timeout", "leaving_and_returning")


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which a client sent nothing on any connection, while its host acknowledged what it was sent."""

    begin: int
    end: int
    packet: int  # its first word after that
    acknowledged: int  # tenths of a second in which its host did

    @property
    def ms(self) -> float:
        """How long it was."""
        return (self.end - self.begin) / MILLISECOND_NS


def paused(signs: Signs) -> Iterator[Incident]:
    """An incident for each member that stood still, once or several times."""
    yield from (_incident(signs, row, host, of_host) for row, host, of_host in signs.once(pauses))


def pauses(signs: Signs) -> list[tuple[Row, str, list[Pause]]]:
    """Findings of members that paused with the host of the member, and its pauses."""
    of_kind = [row for row in signs.findings if row["kind"] == "member_paused"]
    found = sorted(of_kind, key=lambda row: (-row["weight"], row["id"]))[:_MOST]
    packets = sorted({seen["packet"] for row in found for seen in row["evidence"] or () if seen["packet"] is not None})
    if not packets:
        return []
    columns = ("connection", "requested", "request_packet")
    words = {
        row["request_packet"]: row for row in signs.rows("exchanges", columns, pc.field("request_packet").isin(packets))
    }
    connections = signs.connections_by_number(sorted({row["connection"] for row in words.values()}))
    silences = []  # each with the place of its finding, and the packet that ended it
    for n, row in enumerate(found):
        for seen in row["evidence"] or ():
            word = words.get(seen["packet"])
            host = None if word is None else connections.get(word["connection"], {}).get("client")
            if word is not None and host is not None and seen["at"] is not None:
                whose = Whereabouts(host, frozenset(row["client_ids"]), seen["at"], word["requested"])
                silences.append((n, seen["packet"], whose))
    by_host: dict[tuple[int, str], list[Pause]] = defaultdict(list)
    of_each = traces(signs, [whose for *_, whose in silences])
    for (n, packet, whose), left in zip(silences, of_each, strict=True):
        if (pause := _pause(signs, whose, packet, left)) is not None:
            by_host[n, whose.host].append(pause)
    return [(found[n], host, of_host) for (n, host), of_host in sorted(by_host.items())]


def _pause(signs: Signs, whose: Whereabouts, packet: int, left: Traces) -> Pause | None:
    """The longest silence of a client before a word to its coordinator; None if it did not stand still for long."""
    begin, word = whose.since, whose.until
    lives = [life for life in left.sent(begin, word) if life.row["connection"] in left.connections]
    data = {at for life in lives for at in life.tenths("payload_in") if begin < at < word - TENTH_NS}
    silences = pairwise([begin, *(at + TENTH_NS for at in sorted(data)), word])
    since, until = max(silences, key=lambda one: one[1] - one[0])
    if until - since < _SILENT * (word - begin) or hides(signs, since, until):
        return None
    if any(is_held_back(signs, whose.host, name, since, until) for name in whose.names):
        return None  # it does as a quota has it
    acknowledged = {at for life in lives for at in life.tenths("sent_in") if since < at < until - TENTH_NS}
    return Pause(since, until, packet, len(acknowledged)) if acknowledged else None


def _incident(signs: Signs, finding: Row, host: str, pauses: Sequence[Pause]) -> Incident:
    group, names = group_of(finding), finding["client_ids"]
    since, until = pauses[0].begin, pauses[-1].end
    longest = max(pause.ms for pause in pauses)
    owned = sorted({partition for pause in pauses for partition in _owned(signs, group, names, pause.begin)})
    left = [row for pause in pauses for row in _left_behind(signs, group, names, pause)]
    costs, _, rebalances = of_rebalances(left)
    costs = tuple(cost for cost in costs if cost.what != "partitions")  # which nobody read before, either
    did = "then it left, as its poll interval was over, and joined again" if left else "its session did not end"
    effects = (
        (Effect("partitions", f"nobody read {partitions_in_words(owned, 6)} meanwhile", len(owned), longest),)
        if owned
        else ()
    )
    busy = may_be_busy(signs, [group], names)
    often = f"{counted(len(pauses), 'time')} from {clock(since)} to {clock(until)}, for up to {duration(longest)}"
    return Incident(
        kind=IncidentKind.CLIENT_FROZEN,
        severity=Severity.WARNING,
        certainty=Certainty.GUESSED if busy else Certainty.LIKELY,
        subjects=(
            *every(Role.CLIENT, names),
            Subject(Role.HOST, host),
            Subject(Role.GROUP, group),
        ),
        started=since,
        ended=until,
        headline=f"{', '.join(names)} ({host}) of group {group} stood still{', or was busy,' if busy else ''} "
        + (often if len(pauses) > 1 else f"for {duration(longest)} from {clock(since)} on")
        + f": it sent nothing on any connection, while its host acknowledged what came; {did}"
        + in_words((*effects, *costs)),
        evidence=tuple(
            Weighed(
                f"nothing came of it for {duration(pause.ms)}, though its host acknowledged packets in "
                f"{counted(pause.acknowledged, 'tenth')} of a second; then it went on",
                pause.packet,
                pause.begin,
                0.8,
            )
            for pause in pauses
        )
        + ((busy.evidence,) if busy else ()),
        advice=f"{busy.advice} {finding['advice']}" if busy else finding["advice"],
        cost_ms=sum(pause.ms for pause in pauses),
        effects=(*effects, *costs),
        findings=frozenset({finding["id"]}) | signs.explained(_EXPLAINED, since, until, groups=[group], clients=names),
        rebalances=rebalances,
    )


def _left_behind(signs: Signs, group: str, names: Sequence[str], pause: Pause) -> Iterator[Row]:
    """The rebalances of a member that left behind a pause, and joined again."""
    for row in signs.rebalances_of(group, pause.end + SECOND_NS, pause.end):
        if row["trigger_client_id"] in names and row["trigger"] in _OF_ITS_OWN:
            yield row


def _owned(signs: Signs, group: str, names: Sequence[str], at: int) -> list[str]:
    """The partitions that a client had at a time."""
    before = signs.rebalances_of(group, at)
    members = before[-1]["members"] or () if before else ()
    return [partition for one in members if one["client_id"] in names for partition in one["assignment"] or ()]
