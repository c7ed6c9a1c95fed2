"""Hosts of which nothing comes, not even acknowledgements, while brokers send to them again and again: of clients, and
of brokers of whom nobody wanted anything, as they lead nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.holes.unseen import hides
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every, in_words
from kafkascope.reports.incidents.members import awaited
from kafkascope.reports.incidents.members.losses import losses
from kafkascope.reports.incidents.network.vanished import ON_ITS_WAY_NS, Unheard, heard_at_last, sent_again, vanished
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Life, Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SAME_NS = int(threshold("one_trouble") * SECOND_NS)
_SHORTEST_NS = int(threshold("cut_off") * SECOND_NS)
_AT_ONCE_NS = SECOND_NS  # in which a host that is back does what was waited for
_MOST = 100  # hosts that are looked at: those to which most was sent again
_SENT = ("client", "at", "sent_in")
_EXPLAINED = ("unanswered", "sent_again", "connection_churn")


@dataclass(frozen=True, slots=True)
class CutOff:
    """A time in which nothing came of a host."""

    host: str
    unheard: tuple[Unheard, ...]  # what brokers sent it, by time
    since: int  # its last packet before
    back: int | None  # its first one after; None: it is not in the capture


def hosts_cut_off(signs: Signs) -> Iterator[Incident]:
    """One for a host and what befalls it within a minute, and one for hosts that are cut off at once.

    None of members that their group lost by it, or still waits for.
    """
    known = [(loss.host, loss.since, loss.expelled) for loss in signs.once(losses)]
    known += [(one.loss.host, one.since, signs.end) for one in signs.once(awaited.found)]
    untold = []
    for one in signs.once(cut_off):
        until = signs.end if one.back is None else one.back
        if not any(host == one.host and since <= until and one.since <= lost for host, since, lost in known):
            untold.append(one)
    of_hosts = in_runs(
        untold, lambda run, one: one.host == run[-1].host and one.since - (run[-1].back or one.since) <= _SAME_NS
    )
    begins = sorted(of_hosts, key=lambda times: (times[0].since, times[0].host))
    apart = threshold("crashes_apart") * SECOND_NS
    for run in in_runs(begins, lambda run, times: times[0].since - run[-1][0].since <= apart):
        together = [one for times in run for one in times]
        if len(run) >= threshold("hosts_in_turn"):
            yield _incident(signs, together)
        else:
            yield from (_incident(signs, times) for times in run)


def brokers_cut_off(signs: Signs) -> Iterator[Incident]:
    """Brokers that hear nothing of what others answer them, where nothing else is told of them at that time."""
    of_host: dict[str, list[Outage]] = defaultdict(list)
    for outage in signs.once(outages):
        of_host[outage.address].append(outage)
    for one in _cut_off(signs, of_brokers=True):
        until = signs.end if one.back is None else one.back
        gone = any(
            each.started <= until and (each.ended is None or one.since <= each.ended + _AT_ONCE_NS)
            for each in of_host[one.host]
        )
        if not gone and not any(
            each.overlaps(one.since, until) for each in signs.once(vanished) if one.host in (each.client, each.broker)
        ):
            yield _broker(signs, one)


def cut_off(signs: Signs) -> list[CutOff]:
    """All of clients."""
    return _cut_off(signs, of_brokers=False)


def _cut_off(signs: Signs, *, of_brokers: bool) -> list[CutOff]:
    """By host and time. That others were heard by these brokers meanwhile shows who it is.

    Of a host that had closed its connection it means nothing: a container that ends is gone when its FIN is answered.
    When it is back, the next try may still be due: each comes twice as late, and is the last packet that is known.
    """
    by_host: dict[str, list[Unheard]] = defaultdict(list)
    for one in chain(signs.once(sent_again), heard_at_last(signs)):
        is_open = one.sender == "broker" and one.connect is None and one.again > one.to_closed
        if is_open and (address_alone(one.client) in signs.brokers) == of_brokers:
            by_host[one.client].append(one)
    hosts = sorted(sorted(by_host), key=lambda host: -sum(one.again for one in by_host[host]))[:_MOST]
    sent = _sent(signs, hosts)
    found = []
    for host in sorted(hosts):
        in_order = sorted(by_host[host], key=lambda one: (one.since, one.connection))
        for run in in_runs(in_order, lambda run, one: one.since <= max(each.last for each in run)):
            since, last = run[0].since, max(one.last for one in run)
            before = [at for at in sent[host] if at <= since + ON_ITS_WAY_NS]
            back = min((at for at in sent[host] if at > since + ON_ITS_WAY_NS), default=None)
            until = last if back is None else min(last, back)
            is_silent = before and until - since >= max(_SHORTEST_NS, (last - since) // 2)
            if is_silent and not hides(signs, since, until) and _others_heard(signs, run, until):
                unheard = tuple(replace(one, last=min(one.last, until)) for one in run)
                found.append(CutOff(host, unheard, max(before), back))
    return found


def _sent(signs: Signs, hosts: Sequence[str]) -> dict[str, list[int]]:
    """When hosts sent something, by tenths of a second, in order."""
    times: dict[str, set[int]] = defaultdict(set)
    where = among("host", hosts) & pc.field("at").is_valid()
    for row in signs.rows("tcp_health", ("host", *_SENT), where) if hosts else ():
        times[row["host"]].update(Life(row).tenths("sent_in"))
    return defaultdict(list, {host: sorted(of_host) for host, of_host in times.items()})


def _others_heard(signs: Signs, run: Sequence[Unheard], last: int) -> bool:
    """Whether other hosts sent something to one of these brokers while this one said nothing."""
    since = run[0].since + ON_ITS_WAY_NS
    brokers = sorted({one.place for one in run})
    where = (
        (pc.field("sender") == "client")
        & among("broker", brokers)
        & (pc.field("client") != run[0].client)
        & (pc.field("at") > moment(since - 10 * SECOND_NS))
        & (pc.field("at") <= moment(last))
    )
    return any(
        since < at < last
        for batch in signs.batches("tcp_health", _SENT, where)
        for row in batch.to_pylist()
        for at in Life(row).tenths("sent_in")
    )


def _held_up(signs: Signs, together: Sequence[CutOff]) -> Iterator[tuple[Row, Weighed]]:
    """Rebalances that were over when a host was back: it had to join last, or to say who gets which partitions."""
    backs = [one.back for one in together if one.back is not None]
    begun, over = min(one.since for one in together), max(backs, default=0) + _AT_ONCE_NS
    for row in signs.rebalances:
        if row["started"] is None or row["started"] > over or (row["stable"] or over) < begun:
            continue
        for wait in _waits(row):
            if any(_is_waited_for(one, wait) for one in together):
                waited = duration((wait.until - wait.since) / MILLISECOND_NS)
                text = f"group {row['group_id']} waited {waited} for it {wait.what}, until it was back"
                yield row, Weighed(text, None, wait.until, 0.8)


class _Wait(NamedTuple):
    """A step of a rebalance that is over when one host has done something."""

    host: str
    what: str
    since: int
    until: int


def _waits(row: Row) -> Iterator[_Wait]:
    """For the last one that joined, and for the leader's assignment."""
    members = [member for member in row["members"] or () if member["joined"] is not None]
    last = max((member["joined"] for member in members), default=None)
    for member in members:
        if member["joined"] == last:
            yield _Wait(member["host"], "to join", row["started"], last)
        if member["member_id"] == row["leader"] and None not in (row["joined"], row["stable"]):
            yield _Wait(member["host"], "to say who gets which partitions", row["joined"], row["stable"])


def _is_waited_for(one: CutOff, wait: _Wait) -> bool:
    """Whether a host was cut off over a step, and back as that was over."""
    return (
        one.host == wait.host
        and one.back is not None
        and wait.since + _AT_ONCE_NS <= one.back <= wait.until + ON_ITS_WAY_NS
        and one.since < wait.until <= one.back + _AT_ONCE_NS
    )


def _incident(signs: Signs, together: Sequence[CutOff]) -> Incident:
    """Of times of one host, or of several that begin at once."""
    since = min(one.since for one in together)
    backs = [one.back for one in together if one.back is not None]
    back = max(backs) if len(backs) == len(together) else None
    unheard = [each for one in together for each in one.unheard]
    again = sum(each.again for each in unheard)
    hosts = sorted({one.host for one in together})
    brokers = listed([signs.who(host) for host in sorted({each.broker for each in unheard})])
    names = signs.names_at(hosts)
    end = signs.end if back is None else back
    when = f"from {clock(since)} {'on' if back is None else f'to {clock(back)}'}"
    if len(hosts) == 1 and len(together) > 1:
        when = f"{len(together):,} times {when}"
    several = f"{len(hosts):,} hosts{' and more' if len(hosts) == _MOST else ''}"
    who = signs.who(hosts[0]) if len(hosts) == 1 else f"{several} ({listed(names or hosts)})"
    what = (
        "it was cut off, or its host stood still or went down"
        if len(hosts) == 1
        else "what they have in common on their way was cut, or stood still or went down"
    )
    held_up = [*_held_up(signs, together)]
    groups = sorted({row["group_id"] for row, _ in held_up})
    of_groups, _, rebalances = of_rebalances([row for row, _ in held_up])
    effects = (Effect("packets", f"{counted(again, 'packet')} of {brokers} sent again in vain", again), *of_groups)
    waited = f"; {named('group', groups)} waited for it meanwhile" if groups else ""
    return Incident(
        kind=IncidentKind.CLIENT_UNREACHABLE,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(
            *every(Role.CLIENT, names),
            *every(Role.HOST, hosts),
            *every(Role.GROUP, groups),
        ),
        started=since,
        ended=back,
        headline=f"nothing comes of {who} {when}, not even acknowledgements: {what}{waited}" + in_words(effects),
        evidence=(*(seen for one in together for seen in _evidence(one)), *(seen for _, seen in held_up)),
        advice="See whether this host ran at that time (its log, its hypervisor), and look at the network between it "
        "and the brokers: link, switch port, firewall, routing."
        if len(hosts) == 1
        else "Look at what these hosts have in common on their way to the brokers, for that moment: a switch, a "
        "router, a firewall, a tunnel; or at what they run on.",
        cost_ms=sum(((signs.end if one.back is None else one.back) - one.since) / MILLISECOND_NS for one in together),
        effects=effects,
        findings=signs.explained(_EXPLAINED, since, end, clients=names),
        rebalances=rebalances,
    )


def _broker(signs: Signs, one: CutOff) -> Incident:
    """A broker that leads nothing, or of which nobody wanted anything meanwhile."""
    again = sum(each.again for each in one.unheard)
    others = listed([signs.who(host) for host in sorted({each.broker for each in one.unheard})])
    end = signs.end if one.back is None else one.back
    back = "has not come back" if one.back is None else f"was back after {duration((end - one.since) / MILLISECOND_NS)}"
    effects = (Effect("packets", f"{counted(again, 'packet')} of {others} sent again in vain", again),)
    return Incident(
        kind=IncidentKind.BROKER_DOWN,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=signs.broker(one.host, one.since),
        started=one.since,
        ended=one.back,
        headline=f"{signs.broker_words(one.host, one.since)} could not be reached from {clock(one.since)} on and "
        f"{back}, while nobody is seen to wait for it{in_words(effects)}",
        evidence=tuple(_evidence(one)),
        advice="See whether this host ran at that time (its log, its hypervisor), and look at the network between it "
        "and the other brokers: link, switch port, firewall, routing. Its replicas are behind until it has caught up.",
        cost_ms=(end - one.since) / MILLISECOND_NS,
        effects=effects,
    )


def _evidence(one: CutOff) -> Iterator[Weighed]:
    yield Weighed("the last packet of its host", None, one.since, 0.4)
    for each in one.unheard:
        lasted = duration((each.last - each.since) / MILLISECOND_NS)
        text = f"what {address_alone(each.broker)} sent it was not acknowledged, and was sent again "
        text += f"{counted(each.again, 'time')} in {lasted} (connection {each.connection})"
        yield Weighed(text, None, each.since, 0.8)
    yield Weighed("others sent packets to the same brokers meanwhile", None, None, 0.6)
