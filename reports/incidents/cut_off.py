"""Hosts of clients of which nothing comes, not even acknowledgements, while brokers send to them again and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents import awaited
from kafkascope.reports.incidents.blackouts import hides
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.members import losses
from kafkascope.reports.incidents.signs import Life, Signs
from kafkascope.reports.incidents.vanished import ON_ITS_WAY_NS, Unheard, sent_again
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SAME_NS = int(threshold("one_trouble") * SECOND_NS)
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
    """One for a host and what befalls it within a minute; none of members that their group lost, or still waits for."""
    known = [(loss.host, loss.since) for loss in signs.once(losses)]
    known += [(one.loss.host, one.since) for one in signs.once(awaited.found)]
    together: list[CutOff] = []
    for one in signs.once(cut_off):
        until = signs.end if one.back is None else one.back
        if any(host == one.host and one.since - SECOND_NS <= at <= until for host, at in known):
            continue
        if together and (together[-1].host != one.host or one.since - (together[-1].back or one.since) > _SAME_NS):
            yield _incident(signs, together)
            together = []
        together.append(one)
    if together:
        yield _incident(signs, together)


def cut_off(signs: Signs) -> list[CutOff]:
    """All of them, by host and time. That others were heard by these brokers meanwhile shows who it is."""
    by_host: dict[str, list[Unheard]] = defaultdict(list)
    for one in signs.once(sent_again):
        if one.sender == "broker" and one.connect is None and address_alone(one.client) not in signs.brokers:
            by_host[one.client].append(one)
    found = []
    for host, of_host in sorted(by_host.items()):
        of_host.sort(key=lambda one: (one.since, one.connection))
        for run in _runs(of_host):
            since, last = run[0].since, max(one.last for one in run)
            sent = _sent(signs.health(host, since - _SAME_NS, last + _SAME_NS))
            before = [at for at in sent if at <= since + ON_ITS_WAY_NS]
            meanwhile = [at for at in sent if since + ON_ITS_WAY_NS < at < last]
            if before and not meanwhile and not hides(signs, since, last) and _others_heard(signs, run, last):
                back = min((at for at in sent if at >= last), default=None)
                found.append(CutOff(host, tuple(run), max(before), back))
    return found


def _runs(of_host: Sequence[Unheard]) -> Iterator[list[Unheard]]:
    """What overlaps in time."""
    run: list[Unheard] = []
    for one in of_host:
        if run and one.since > max(each.last for each in run):
            yield run
            run = []
        run.append(one)
    yield run


def _sent(lives: Sequence[Life]) -> list[int]:
    return sorted({at for life in lives for at in life.tenths("sent_in")})


def _others_heard(signs: Signs, run: Sequence[Unheard], last: int) -> bool:
    """Whether other hosts sent something to one of these brokers while this one said nothing."""
    since = run[0].since + ON_ITS_WAY_NS
    brokers = sorted({one.place for one in run})
    where = (
        (pc.field("sender") == "client")
        & pc.field("broker").isin(brokers)
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


def _incident(signs: Signs, together: Sequence[CutOff]) -> Incident:
    """Of times of one host."""
    first, last = together[0], together[-1]
    unheard = [each for one in together for each in one.unheard]
    again = sum(each.again for each in unheard)
    brokers = listed([signs.who(host) for host in sorted({each.broker for each in unheard})])
    names = signs.names_at([first.host])
    end = signs.end if last.back is None else last.back
    when = f"from {clock(first.since)} {'on' if last.back is None else f'to {clock(last.back)}'}"
    effects = (Effect("packets", f"{counted(again, 'packet')} of {brokers} sent again in vain", again),)
    return Incident(
        kind=IncidentKind.CLIENT_UNREACHABLE,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(*(Subject(Role.CLIENT, name) for name in names), Subject(Role.HOST, first.host)),
        started=first.since,
        ended=last.back,
        headline=f"nothing comes of {signs.who(first.host)} "
        f"{when if len(together) == 1 else f'{len(together):,} times {when}'}, not even acknowledgements: it was cut "
        "off, or its host stood still or went down" + in_words(effects),
        evidence=tuple(seen for one in together for seen in _evidence(one)),
        advice="See whether this host ran at that time (its log, its hypervisor), and look at the network between it "
        "and the brokers: link, switch port, firewall, routing.",
        cost_ms=sum(((signs.end if one.back is None else one.back) - one.since) / MILLISECOND_NS for one in together),
        effects=effects,
        findings=signs.explained(_EXPLAINED, first.since, end, clients=names),
    )


def _evidence(one: CutOff) -> Iterator[Weighed]:
    yield Weighed("the last packet of its host", None, one.since, 0.4)
    for each in one.unheard:
        lasted = duration((each.last - each.since) / MILLISECOND_NS)
        text = f"what {address_alone(each.broker)} sent it was not acknowledged, and was sent again "
        text += f"{counted(each.again, 'time')} in {lasted} (connection {each.connection})"
        yield Weighed(text, None, each.since, 0.8)
    yield Weighed("others sent packets to the same brokers meanwhile", None, None, 0.6)
