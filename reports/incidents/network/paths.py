"""Paths that are blocked between two hosts that live, connections that something in between forgot, hosts cut off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.replication import held_up_between
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.members.fates import Loss
from kafkascope.reports.incidents.members.losses import cut_off_by, losses
from kafkascope.reports.incidents.members.members import returned, without_others
from kafkascope.reports.incidents.network.network import by_common_host
from kafkascope.reports.incidents.network.vanished import ON_ITS_WAY_NS, Scope, Unheard, Vanished, vanished
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SIZES = ("connection", "request_done", "response_done", "request_bytes", "response_bytes", "outcome")
_EXPLAINED = (
    "unanswered",
    "sent_again",
    "commits_stopped",
    "commit_refused",
    "connection_churn",
    "metadata_storm",
    "member_lost",
    "partition_unowned",
    "consumer_stuck",
    "error_loop",
)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What got through beside what did not, in bytes with length prefix: it is the size that matters."""

    what: str  # requests, answers
    most: int  # of those that got through
    least: int  # of those that did not


def blocked(signs: Signs) -> Iterator[Incident]:
    """Incidents of packets that vanish: of hosts that have trouble with others, one for each time of it."""
    found = signs.once(vanished)
    lost = signs.once(losses) if found else []
    sizes = _by_size(signs, [one for one in found if one.scope == Scope.CONNECTIONS])
    forgotten: list[Vanished] = []
    by_pair: dict[Scope, dict[tuple[str, str], list[Vanished]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        if one.scope != Scope.CONNECTIONS:
            by_pair[one.scope][one.client, one.broker].append(one)
        elif one in sizes:
            yield _large(signs, one, sizes[one], lost)
        else:
            forgotten.append(one)
    for together in _at_once(forgotten):
        yield _forgotten(signs, together, lost)
    for scope, pairs in by_pair.items():
        for host, with_host in by_common_host(pairs):
            for together in _at_once(one for pair in with_host for one in pairs[pair]):
                if scope == Scope.PATH:
                    yield _path(signs, host, together, lost)
                elif not any(cut_off_by(signs, together, loss) for loss in lost):
                    yield _cut_off(signs, together)


def _at_once(found: Iterable[Vanished]) -> Iterator[list[Vanished]]:
    """Those that are one trouble: that begin while others are not over, or soon after."""
    apart = threshold("one_trouble") * SECOND_NS
    in_order = sorted(found, key=lambda one: (one.since, one.client, one.broker))
    return in_runs(in_order, lambda run, one: one.since - max(each.last for each in run) <= apart)


def _path(signs: Signs, host: str, together: Sequence[Vanished], lost: Sequence[Loss]) -> Incident:
    """All that goes from one host to another vanishes, or all connects are refused."""
    since, until = _times(together)
    from_to = f"from {clock(since)} {'on' if until is None else f'to {clock(until)}'}"
    unheard = [each for one in together for each in one.unheard]
    data = [each for each in unheard if each.connect is None]
    connects = sum(each.again + 1 if each.connect == "refused" else 1 for each in unheard if each.connect)
    tried = f"{counted(sum(each.again for each in data), 'packet')} sent again in vain" if data else ""
    shown = " and ".join(filter(None, (tried, f"{counted(connects, 'connect')} in vain" if connects else "")))
    left, right = _ends(signs, together, host)
    if all(each.connect == "refused" for each in unheard):
        what = f"connects of {left} to {right} are refused {from_to}, though others reach it: {shown}"
    else:
        what = f"packets between {left} and {right} vanish {from_to}, though both hear others: {shown}"
    return _incident(
        signs,
        together,
        lost,
        until,
        kind=IncidentKind.PATH_BLOCKED,
        certainty=Certainty.CERTAIN if data else Certainty.LIKELY,
        what=what,
        evidence=_evidence(signs, together, "to others"),
        advice="Look for what is between these hosts and not between others: a rule of a firewall or security group, a "
        "network policy, a route. Capture at both ends to see where packets vanish.",
    )


def _large(signs: Signs, one: Vanished, sizes: _Sizes, lost: Sequence[Loss]) -> Incident:
    """What is large vanishes."""
    left, right = _ends(signs, [one], one.client)
    text = f"{sizes.what} of up to {sizes.most:,} bytes got through, none of {sizes.least:,} bytes and more did"
    return _incident(
        signs,
        [one],
        lost,
        None,
        kind=IncidentKind.PATH_BLOCKED,
        certainty=Certainty.CERTAIN,
        what=f"large packets between {left} and {right} vanish from {clock(one.since)} on: {sizes.what} of "
        f"{sizes.least:,} bytes and more were never acknowledged, those of up to {sizes.most:,} bytes got through",
        evidence=[Weighed(text, None, one.since, 0.9), *_evidence(signs, [one], "on other connections")],
        advice="The path takes smaller packets than the hosts believe, and what says so (ICMP, fragmentation needed) "
        "does not arrive: set the MTU of the interface, or clamp the MSS, where the tunnel or overlay on the way "
        "begins; let ICMP type 3 code 4 (ICMPv6 type 2) through; net.ipv4.tcp_mtu_probing=1 helps meanwhile. "
        "ping -M do -s SIZE finds the largest that passes.",
    )


def _forgotten(signs: Signs, together: Sequence[Vanished], lost: Sequence[Loss]) -> Incident:
    """Connections that do not work any more, while others do."""
    since, until = _times(together)
    dead = [each for one in together for each in one.unheard]
    left, right = _ends(signs, together, together[0].client)
    return _incident(
        signs,
        together,
        lost,
        until,
        kind=IncidentKind.CONNECTION_DROPPED,
        certainty=Certainty.LIKELY,
        what=f"{counted(len(dead), 'connection')} between {left} and {right} went dead without a word at "
        f"{clock(since)}{_idle(dead)}, while others between them work: "
        f"{counted(sum(each.again for each in dead), 'packet')} sent again in vain",
        evidence=_evidence(signs, together, "on other connections"),
        advice="Look for what forgets connections on the way: a firewall, NAT or load balancer with an idle timeout, "
        "or that was restarted or failed over. Clients should close idle connections before it does "
        "(connections.max.idle.ms below its timeout); a shorter request.timeout.ms shortens the wait. Where several "
        "hosts or pods are behind one address, one of them may have gone instead.",
    )


def _incident(
    signs: Signs,
    together: Sequence[Vanished],
    lost: Sequence[Loss],
    until: int | None,
    *,
    kind: IncidentKind,
    certainty: Certainty,
    what: str,
    evidence: Iterable[Weighed],
    advice: str,
) -> Incident:
    """Of what vanished between clients and brokers, with the members that were lost by it."""
    of_members = [loss for loss in lost if cut_off_by(signs, together, loss)]
    back = returned(signs, of_members) if of_members else []
    rows = without_others(signs, [loss.rebalance for loss in of_members] + back, of_members)
    of_groups, cost_ms, rebalances = of_rebalances(rows)
    since, end = together[0].since, signs.end if until is None else until
    hosts = sorted({host for one in together for host in (one.client, one.broker)})
    names = sorted({name for one in together for name in signs.names_at([one.client], address_alone(one.broker))})
    held = held_up_between(signs, hosts, since, end)
    effects = (*_unanswered(signs, together), *of_groups, *held.effects)
    return Incident(
        kind=kind,
        severity=Severity.CRITICAL if until is None and kind == IncidentKind.PATH_BLOCKED else Severity.WARNING,
        certainty=certainty,
        subjects=(
            *every(Role.CLIENT, names),
            *(subject for host in hosts for subject in signs.subjects_at(host)),
        ),
        started=since,
        ended=until,
        headline=what + outcome(effects),
        evidence=tuple(evidence),
        advice=advice,
        cost_ms=max(cost_ms, (end - since) / MILLISECOND_NS) + held.cost_ms,
        effects=effects,
        findings=held.findings
        | signs.explained(_EXPLAINED, since, end, groups=sorted({group for group, _ in rebalances}), clients=names),
        rebalances=rebalances | held.rebalances,
    )


def _cut_off(signs: Signs, together: Sequence[Vanished]) -> Incident:
    """Of a host that no broker heard, and that was no member of a group, or came back in time."""
    since, until = _times(together)
    host = together[0].client
    brokers = sorted({one.broker for one in together})
    others = {(host, one) for one in signs.brokers - {*map(address_alone, brokers)}}
    # The capture may be that of one broker's host, or have one direction alone.
    is_partial = bool(others) and not any(row["packets_down"] for row in signs.connections_between(others))
    broker = listed([signs.who(one) for one in brokers])
    off = f"{broker}, or from the network" if is_partial else "the network"
    there = "there was acknowledged, and whether others heard it is not in the capture"
    return _incident(
        signs,
        together,
        (),
        until,
        kind=IncidentKind.CLIENT_UNREACHABLE,
        certainty=Certainty.GUESSED if is_partial else Certainty.LIKELY,
        what=f"{signs.who(host)} was cut off from {off} from {clock(since)} "
        f"{'on' if until is None else f'to {clock(until)}'}: nothing that it sent "
        f"{there if is_partial else 'was acknowledged'}",
        evidence=_evidence(signs, together, "to others"),
        advice="Look at the network between this host and the brokers for that moment: link, switch port, firewall, "
        "routing.",
    )


def _ends(signs: Signs, together: Sequence[Vanished], host: str) -> tuple[str, str]:
    """Between whom: clients and brokers; of brokers among each other one, and the others."""
    clients, brokers = {one.client for one in together}, {one.broker for one in together}
    if clients & brokers:
        clients, brokers = {host}, (clients | brokers) - {host}
    return listed([signs.who(one) for one in clients]), listed([signs.who(one) for one in brokers])


def _idle(dead: Sequence[Unheard]) -> str:
    """How long connections had been idle before, if all of them had for long."""
    idle = [0 if one.idle_since is None else one.since - one.idle_since for one in dead]
    shortest = min(idle)
    return (
        f", idle for {duration(shortest / MILLISECOND_NS)} before" if shortest >= threshold("idle") * SECOND_NS else ""
    )


def _times(together: Sequence[Vanished]) -> tuple[int, int | None]:
    """From when to when, as far as it ended."""
    ends = [one.until for one in together if one.until is not None]
    return min(one.since for one in together), max(ends) if len(ends) == len(together) else None


def _evidence(signs: Signs, together: Sequence[Vanished], said: str) -> Iterator[Weighed]:
    """What was sent in vain; and that who did not hear it said something meanwhile, to others or elsewhere."""
    for one in together:
        for each in one.unheard:
            lasted = duration((each.last - each.since) / MILLISECOND_NS)
            source, target = (address_alone(place) for place in (each.source, each.target))
            if each.connect is not None:
                how = "not answered" if each.connect == "unanswered" else each.connect
                text = f"connect of {source} to {each.place} {how}, tried {each.again + 1} times in {lasted}"
            else:
                before = "" if each.idle_since is None else duration((each.since - each.idle_since) / MILLISECOND_NS)
                text = (
                    f"what {source} sent to {target} was not acknowledged, and was sent again "
                    f"{counted(each.again, 'time')} in {lasted} (connection {each.connection}"
                    f"{f', {before} after its last packet' if before else ''})"
                )
            yield Weighed(text, each.connection if each.connect else None, each.since, 0.8)
    who = listed([signs.who(host) for host in sorted({each.target for one in together for each in one.unheard})])
    yield Weighed(f"{who} sent data {said} meanwhile: it is not the host that is off", None, None, 0.7)


def _unanswered(signs: Signs, together: Sequence[Vanished]) -> tuple[Effect, ...]:
    """Requests on these connections that nobody answered."""
    numbers = sorted({each.connection for one in together for each in one.unheard})
    where = pc.field("connection").isin(numbers) & (pc.field("outcome") == "unanswered")
    count = sum(batch.num_rows for batch in signs.batches("exchanges", ["connection"], where))
    if not count:
        return ()
    verb = "was" if count == 1 else "were"
    return (Effect("requests", f"{counted(count, 'request')} {verb} never answered", count),)


def _by_size(signs: Signs, found: Sequence[Vanished]) -> dict[Vanished, _Sizes]:
    """Those of which it is what is large that vanishes, on each new connection."""
    again = [one for one in found if len(one.unheard) >= threshold("sizes_seen")]
    rows = {row["connection"]: row for row in signs.connections_between({_pair(one) for one in again})} if again else {}
    before = min((one.since for one in again), default=0) - threshold("one_trouble") * SECOND_NS  # long polls wait
    where = pc.field("connection").isin(sorted(rows)) & (pc.field("request_done") >= moment(int(before)))
    of_pair: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in signs.rows("exchanges", _SIZES, where) if rows else ():
        connection = rows[row["connection"]]
        of_pair[connection["client"], connection["broker"]].append(row)
    made = {one: _sizes(one, of_pair[_pair(one)], _begun(one, rows)) for one in again}
    return {one: sizes for one, sizes in made.items() if sizes is not None}


def _pair(one: Vanished) -> tuple[str, str]:
    return one.client, address_alone(one.broker)


def _begun(one: Vanished, connections: Mapping[int, Row]) -> int:
    """From when on what got through counts: when the first connection was opened, if it was as good as new."""
    opened = connections.get(one.unheard[0].connection, {}).get("opened")
    return opened if opened is not None and one.since - opened <= ON_ITS_WAY_NS else one.since


def _sizes(one: Vanished, exchanges: Sequence[Row], begun: int) -> _Sizes | None:
    """What got through and what did not, if it differs by size; None if not, or if it cannot be told."""
    senders = {each.sender for each in one.unheard}
    if len(senders) != 1:
        return None
    by_client = senders == {"client"}
    size, sent = ("request_bytes", "request_done") if by_client else ("response_bytes", "response_done")
    dead = {each.connection: each for each in one.unheard}
    stuck: dict[int, tuple[int, int]] = {}  # by connection: the first that did not get through, with its size
    through: list[int] = []
    for row in exchanges:
        each = dead.get(row["connection"])
        if row[sent] is None or row[sent] < begun:
            continue
        if each is None or row[sent] < each.since:
            if row["outcome"] == "answered" and row[size]:
                through.append(row[size])
        elif row["connection"] not in stuck or (row[sent], row[size]) < stuck[row["connection"]]:
            stuck[row["connection"]] = row[sent], row[size]
    sizes = [size for _, size in stuck.values()]
    if min(len(sizes), len(through)) < threshold("sizes_seen") or min(sizes) <= max(through):
        return None
    return _Sizes("requests" if by_client else "answers", max(through), min(sizes))
