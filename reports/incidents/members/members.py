"""Members that their group lost: dead, frozen or cut off, by what became of their connections and hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.clients.credentials import failures
from kafkascope.reports.incidents.clients.open_transactions import left_behind
from kafkascope.reports.incidents.costs import assigned, members_before, of_rebalances
from kafkascope.reports.incidents.holes.unseen import hides, lacks_packets, since_when, touches
from kafkascope.reports.incidents.incident import Incident, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.members.fates import (
    ADVICE_REFUSED,
    OPEN,
    SESSION_OF_GROUP,
    Fate,
    Loss,
    cut_off_beside,
    evidence_of,
    fate_advice,
    fate_unheard,
    fate_words,
    fates,
    in_assignor,
    left_open,
    may_be_busy,
    refused_before,
    with_session_of,
)
from kafkascope.reports.incidents.members.held_back import is_held_back
from kafkascope.reports.incidents.members.losses import SHORTEST_SESSION, cut_off_by, least_silence, losses
from kafkascope.reports.incidents.members.stuck import AT_THE_RECORD, Beginning, beginnings, in_offsets
from kafkascope.reports.incidents.network.vanished import Scope, vanished
from kafkascope.reports.incidents.planned.planned import asked_for_the_gone
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row, between
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_AT_ONCE = SECOND_NS  # what stops a host, or a process, stops all that it does
_SPEAKS_AFTER = 1 / 3  # of a session, at the latest (heartbeat.interval.ms): until then nobody is seen to be silent
_REJOINS = frozenset({Trigger.MEMBER_REJOINED})
_RETURNS = _REJOINS | {Trigger.MEMBER_JOINED, Trigger.STATIC_MEMBER_REPLACED}

_Run: TypeAlias = list[tuple[Loss, Fate]]
"""Losses that are one incident."""


def lost(signs: Signs) -> Iterator[Incident]:
    """Members that a broker heard nothing of for their session: dead, frozen or cut off. One host is one incident.

    Processes of several hosts that end one after the other are one as well: what rolls out new ones kills the old. So
    are hosts that are cut off at once, and what befell several alike that one rebalance takes out: it is paid once.
    """
    alike: dict[tuple[str, IncidentKind], _Run] = defaultdict(list)
    for loss, fate in signs.once(with_fates):
        where = loss.host or loss.client_id or f"{loss.rebalance['group_id']} {loss.rebalance['trigger_member']}"
        alike[where, fate.kind].append((loss, fate))
    runs = [run for _, of_host in sorted(alike.items()) for run in _runs(of_host)]
    for together in _by_one_rebalance([*_put_together(runs)]):
        yield _lost(signs, together)


def with_fates(signs: Signs) -> _Run:
    """Those of the lost members that nothing else explains, with what became of them."""
    out_of_reach = signs.once(vanished)
    found: _Run = []
    silent = []
    for loss in signs.once(losses):
        by = cut_off_by(signs, out_of_reach, loss)
        if by is None:
            lives = loss.last_word is not None and loss.expelled - loss.last_word < least_silence(signs, loss)
            silent += [] if lives else [loss]  # what it says comes to its broker
        elif by.scope == Scope.CLIENT and not hides(signs, loss.since, loss.expelled):
            found.append((replace(loss, last_word=by.since), fate_unheard(by)))
        # Else the incident of the path tells it, or the capture has nothing of anybody.
    of_brokers = [one for one in signs.once(outages) if one.gone]
    for loss, fate in zip(silent, fates(signs, silent, of_brokers), strict=True):
        if not _is_hidden(signs, loss, fate) and not tries_on(signs, loss, fate):
            found.append((loss, fate))
    settled: dict[str | None, _Run] = defaultdict(list)
    for loss, fate in found:
        # A process that ends says nothing of another one.
        if (fate.settled or fate.lived) and fate.kind != IncidentKind.CLIENT_DIED:
            settled[loss.host].append((loss, fate))
    return [(loss, fate if fate.settled else _by_its_host(loss, fate, settled[loss.host])) for loss, fate in found]


def _by_its_host(loss: Loss, fate: Fate, of_host: _Run) -> Fate:
    """What became of a member that is as silent as one that its host lost at that moment, of which it is known."""
    apart = threshold("crashes_apart") * SECOND_NS
    known = (
        (other, one)
        for other, one in of_host
        if other is not loss
        and (one.settled or not fate.lived)
        and abs(one.at(other) - fate.at(loss)) <= _AT_ONCE
        and abs(other.since - loss.since) <= apart
    )
    if loss.host is None or (beside := next(known, None)) is None:
        return fate
    other, one = beside
    text = f"it fell silent with {other.client_id or 'another member'}, on the same host, of which more is known"
    return replace(one, evidence=(Weighed(text, None, fate.at(loss), 0.6), *one.evidence), ended=fate.ended)


def tries_on(signs: Signs, loss: Loss, fate: Fate) -> bool:
    """Whether a client lives, and cannot speak to its group.

    It asked on for a topic that was deleted (kafkajs, which sends no heartbeat then), authenticates in vain, or does as
    a quota has it (franz-go, which sends that broker nothing then).
    """
    may_wait = not fate.settled or fate.kind == IncidentKind.CLIENT_FROZEN
    if may_wait and is_held_back(signs, loss.host, loss.client_id, loss.since, loss.expelled):
        return True
    who = loss.host or "", loss.client_id or ""
    since = fate.at(loss) if fate.kind == IncidentKind.CLIENT_DIED else loss.since
    told = (signs.once(asked_for_the_gone), signs.once(failures))
    return any(since < at < loss.expelled for of_clients in told for at in of_clients.get(who, ()))


def held_back(signs: Signs) -> list[Loss]:
    """Members that were lost as a quota held them back, for longer than their session."""
    of_their_own = {id(loss.rebalance) for loss, _ in signs.once(with_fates)}
    return [
        loss
        for loss in signs.once(losses)
        if id(loss.rebalance) not in of_their_own
        and is_held_back(signs, loss.host, loss.client_id, loss.since, loss.expelled)
    ]


def may_have_spoken(signs: Signs, loss: Loss) -> bool:
    """Whether a member that was lost may have left, or spoken on, where the capture has holes."""
    return _lacks_packets(signs, loss) or hides(signs, loss.since, loss.expelled)


def _lacks_packets(signs: Signs, loss: Loss) -> bool:
    """Whether the capture lacks so much of a member's host that its silence says nothing."""
    return loss.host is not None and lacks_packets(signs, loss.host)


def _is_hidden(signs: Signs, loss: Loss, fate: Fate) -> bool:
    """Whether a member may have left, or spoken on, where the capture has holes, for all that is known of its fate.

    It may have left before it was seen to be silent, or its process to have ended, unless the rebalance shows that its
    group waited for it. Who acknowledges nothing that it is sent had not left; if that is seen at all. And of others
    the end of the session must be seen, too.
    """
    if loss.sure == Certainty.CERTAIN:
        return False
    inferred, since, expelled = loss.rebalance["inferred"], loss.since, loss.expelled
    if fate.settled and fate.kind == IncidentKind.CLIENT_DIED:
        return inferred and touches(signs, since, max(since, fate.at(loss)))
    if fate.settled and fate.kind == IncidentKind.CLIENT_UNREACHABLE:
        unseen = hides(signs, since, expelled) and touches(signs, expelled - SHORTEST_SESSION, expelled)
        return unseen or _lacks_packets(signs, loss)
    silent_at = since + int(_SPEAKS_AFTER * (expelled - since))
    events = between(signs.events_of_group(loss.rebalance["group_id"]), since, expelled)
    moved = any(event["event"] == EventKind.COORDINATOR_MOVED for event in events)  # it may seek the new one
    may_live = (inferred or moved) and touches(signs, since, silent_at)
    return may_live or touches(signs, expelled, expelled) or may_have_spoken(signs, loss)


def _runs(of_host: _Run) -> Iterator[_Run]:
    """Losses of one host that belong to one trouble: of groups that lost it at once, or again soon."""
    apart = threshold("one_trouble") * SECOND_NS
    in_order = sorted(of_host, key=lambda one: (one[0].expelled, one[0].rebalance["group_id"]))
    return in_runs(in_order, lambda run, one: one[0].expelled - run[-1][0].expelled <= apart)


def _put_together(runs: Sequence[_Run]) -> Iterator[_Run]:
    """The same, but those as one by which several hosts' processes of one group ended, one soon after another.

    So with hosts that were cut off at one moment, whatever groups they are in.
    """
    ended: dict[str, list[_Run]] = defaultdict(list)
    closed: dict[str, list[_Run]] = defaultdict(list)
    cut_off: list[_Run] = []
    for run in runs:
        groups = {loss.rebalance["group_id"] for loss, _ in run}
        kinds = {fate.kind for _, fate in run if fate.settled}
        settled = all(fate.settled for _, fate in run)
        if settled and kinds == {IncidentKind.CLIENT_DIED} and len(groups) == 1:
            of_kind = closed if all(fate.closed for _, fate in run) else ended
            of_kind[groups.pop()].append(run)
        elif settled and kinds == {IncidentKind.CLIENT_UNREACHABLE}:
            cut_off.append(run)
        else:
            yield run
    for _, of_group in sorted(ended.items()):
        yield from _in_turn(of_group, "one_trouble", "hosts_in_turn", lambda run: run[-1][0].expelled)
    for _, of_group in sorted(closed.items()):
        yield from _in_turn(of_group, "deployed_after", "deployed_members", lambda run: run[-1][0].expelled)
    yield from _in_turn(cut_off, "crashes_apart", "hosts_in_turn", lambda run: run[0][0].since)


def _by_one_rebalance(runs: Sequence[_Run]) -> Iterator[_Run]:
    """The same, but those as one whose members ended alike, and were taken out by the same rebalances."""
    alike: dict[Hashable, list[_Run]] = defaultdict(list)
    for place, run in enumerate(runs):
        fates = {(fate.kind, fate.settled, fate.closed) for _, fate in run}
        by = frozenset((loss.rebalance["group_id"], loss.rebalance["to_generation"]) for loss, _ in run)
        known = len(fates) == 1 and all(loss.host and loss.client_id for loss, _ in run)
        alike[(fates.pop(), by) if known else place].append(run)
    for together in alike.values():
        yield [one for run in together for one in run]


def _in_turn(runs: Sequence[_Run], within: str, least: str, over: Callable[[_Run], int]) -> Iterator[_Run]:
    """Runs of several hosts as one, each of which begins within a time (threshold) after the one before was over."""
    apart = threshold(within) * SECOND_NS
    in_order = sorted(runs, key=lambda run: (run[0][0].since, run[0][0].host or ""))
    for together in in_runs(in_order, lambda before, run: run[0][0].since - over(before[-1]) <= apart):
        if len(together) >= threshold(least):
            yield [one for run in together for one in run]
        else:
            yield from together


def _lost(signs: Signs, run: _Run) -> Incident:
    of_run = [loss for loss, _ in run]
    first = min(of_run, key=lambda loss: loss.since)
    hosts = sorted({loss.host for loss in of_run if loss.host})
    names = sorted({loss.client_id for loss in of_run if loss.client_id})
    groups = sorted({loss.rebalance["group_id"] for loss in of_run})
    fate = min((fate for _, fate in run), key=lambda fate: not fate.settled)
    times = [fate.at(loss) for loss, fate in run]
    course = _course(signs, of_run, times, hosts, fate)
    unheard = all(loss.last_word is None for loss in of_run)  # since when they were silent is not known
    closed = all(fate.closed for _, fate in run) and not course.again and not course.places
    what, advice = left_open(one for _, one in run)
    if fate.settled:
        what = fate_words(fate.kind, names, closed=closed)
        advice = fate_advice(signs, fate.kind, groups, closed=closed)
    when = course.when
    if unheard and course.at_once:
        what, when = f"had {OPEN.replace('fell', 'fallen')}", f"by {clock(min(times))}"
    advice = advice if closed else course.advice or advice
    has_ended = fate.settled and fate.kind == IncidentKind.CLIENT_DIED
    if refused := refused_before(signs, names, min(times)) if has_ended else None:
        when, advice = when + refused.words, ADVICE_REFUSED
    evidence = fate.evidence if len(hosts) <= 1 else evidence_of(run)
    evidence += tuple(seen for place in course.places for seen in place.evidence)
    sure = _how_sure(signs, run, fate)
    frozen = fate.kind == IncidentKind.CLIENT_FROZEN and fate.settled
    if frozen and (busy := in_assignor(signs, of_run) or may_be_busy(signs, groups, names)):
        sure, what, advice = Certainty.GUESSED, f"froze, or {busy.words},", f"{busy.advice} {advice}"
        evidence += (busy.evidence,)
    back = returned(signs, of_run)
    rows = [loss.rebalance for loss in of_run] + [*_given_out(signs, of_run)] + back
    effects, cost_ms, rebalances = of_rebalances(without_others(signs, rows, of_run))
    is_cut_off = fate.settled and fate.kind == IncidentKind.CLIENT_UNREACHABLE
    beside = cut_off_beside(signs, hosts if is_cut_off else [], names, min(times))
    left, held_ms = left_behind(signs, [(loss.host, fate.at(loss), loss.expelled) for loss, fate in run])
    effects += beside.effects + left
    last = max(of_run, key=lambda loss: loss.expelled).rebalance
    is_back = bool(back) and back[-1]["started"] >= max(loss.since for loss in of_run)
    over = back[-1]["started"] if is_back else last["recovered"] or last["stable"] or last["started"]
    restarted = closed and {*names} <= {row["trigger_client_id"] for row in back}
    in_turn = restarted and len(names) >= threshold("deployed_members")
    who = f"{listed(names or ['a member'])}{f' ({listed(hosts)})' if hosts else ''}"
    were = "was" if len(names) <= 1 else "were"
    return Incident(
        kind=IncidentKind.CLIENT_DEPLOY if in_turn else fate.kind,
        severity=Severity.INFO if restarted else Severity.WARNING,
        certainty=sure,
        subjects=(
            *every(Role.CLIENT, [*names, *beside.names]),
            *every(Role.HOST, hosts),
            *every(Role.GROUP, groups),
        ),
        started=min(times),
        ended=over,
        headline=f"{who} {what} {when}, and {were} taken out of {named('group', groups)}"
        + (
            _silence_and_return(first, min(times), back, names)
            if course.at_once
            else ", and came back"
            if restarted
            else ""
        )
        + outcome(effects),
        evidence=evidence,
        advice=advice,
        cost_ms=cost_ms + held_ms,
        effects=effects,
        findings=signs.explained(_FINDINGS, first.since, over, groups=groups, clients=[*names, *beside.names]),
        rebalances=rebalances,
        cause=refused,
    )


def _how_sure(signs: Signs, run: _Run, fate: Fate) -> Certainty:
    """How sure it is that members were lost so; fate is one that is not settled, if any is."""
    if not fate.settled:
        return Certainty.GUESSED
    sure = min((loss.sure for loss, _ in run), key=list(Certainty).index)
    if fate.kind == IncidentKind.CLIENT_FROZEN and sure == Certainty.CERTAIN:
        return Certainty.LIKELY  # a cut behind the capture point may look the same
    ended = all(one.kind == IncidentKind.CLIENT_DIED for _, one in run)
    if ended and sure == Certainty.GUESSED and not any(may_have_spoken(signs, loss) for loss, _ in run):
        return Certainty.LIKELY  # how long its session is may not be known, but it ended, and had not left
    return sure


def _given_out(signs: Signs, of_run: Sequence[Loss]) -> Iterator[Row]:
    """The rebalances in which Connect gave out what lost workers had run, if they had not come back in time."""
    for loss in of_run:
        later = signs.rebalances_of(loss.rebalance["group_id"], signs.end, loss.expelled)
        yield from [row for row in later if row["trigger"] == Trigger.SCHEDULED_DELAY][:1]


@dataclass(frozen=True, slots=True)
class _Course:
    """How losses followed each other."""

    when: str
    advice: str | None  # what to do about this course; None: it depends on what became of the members
    at_once: bool  # one loss, or several at once: how long they were silent, and when they were back, says something
    again: bool  # one client again and again
    places: Sequence[Beginning]  # where they began again and again


def _course(signs: Signs, of_run: Sequence[Loss], times: Sequence[int], hosts: Sequence[str], fate: Fate) -> _Course:
    """The course of losses that befell members at these times."""
    since, latest = min(times), max(times)
    is_in_turn = latest - since >= threshold("crashes_apart") * SECOND_NS
    has_ended = fate.settled and fate.kind == IncidentKind.CLIENT_DIED  # that is seen
    fell_silent = f"at {clock(since)}" if has_ended else since_when(signs, since)
    when, advice, at_once = fell_silent, None, len(hosts) <= 1 or not is_in_turn
    often = _times(signs, of_run) if fate.kind == IncidentKind.CLIENT_DIED else 1
    if often >= threshold("crashes"):
        at_once = False
        when = f"{often} times, from {clock(since)} to {clock(latest)}, each time started anew"
    elif len(hosts) <= 1 and (apart := _apart(of_run)) > 1:
        at_once, several = False, len({loss.client_id for loss in of_run}) > 1
        how = "one after the other" if several else f"{apart} times"
        when = f"{how}, from {clock(since)} to {clock(latest)}"
    if len(hosts) > 1 and fate.kind == IncidentKind.CLIENT_UNREACHABLE:
        groups = {loss.rebalance["group_id"] for loss in of_run}
        when, advice, at_once = f"at once, {fell_silent}", with_session_of(signs, _CUT_OFF_ADVICE, groups), False
    elif len(hosts) > 1 and is_in_turn:
        when = f"one after the other, from {clock(since)} to {clock(latest)}"
        if len(hosts) >= threshold("hosts_in_turn") and fate.kind == IncidentKind.CLIENT_DIED:
            advice = ROLLOUT_ADVICE
    if places := _places(signs, of_run):
        when, advice = f"{when}, and began again and again at {in_offsets(places)}", AT_THE_RECORD
    return _Course(when, advice, at_once, often >= threshold("crashes"), places)


def _apart(of_run: Sequence[Loss]) -> int:
    """How often clients fell silent, each in one group or several, or all at once."""
    apart = threshold("crashes_apart") * SECOND_NS
    return len([*in_runs(sorted(loss.since for loss in of_run), lambda run, since: since - run[-1] <= apart)])


def _silence_and_return(first: Loss, ended: int, back: Sequence[Row], names: Sequence[str]) -> str:
    """How long a member was silent before it was taken out, and who came back when; ended is when its process was."""
    lasted = duration((first.expelled - min(first.since, ended)) / MILLISECOND_NS)
    # Members that are not told the session's length: the others see only some time later that it was over.
    up_to = "up to " if first.rebalance["protocol"] in SESSION_OF_GROUP else ""
    silent = f" after {up_to}{lasted} of silence" if first.last_word and not first.by_end else ""
    if not back:
        return silent
    came = {row["trigger_client_id"] for row in back}
    all_came = ("it was" if len(names) <= 1 else "they were") if came >= {*names} else None
    who_came = all_came or f"{listed(came)} {'was' if len(came) == 1 else 'were'}"
    first_of: dict[tuple[str, str], int] = {}  # by group and client
    for row in back:
        first_of.setdefault((row["group_id"], row["trigger_client_id"]), row["started"])
    return f"{silent}; {who_came} back at {clock(max(first_of.values()))}"


def _places(signs: Signs, of_run: Sequence[Loss]) -> list[Beginning]:
    """Where lost members began again and again, in the time of these losses."""
    since = min(loss.since for loss in of_run)
    until = max(loss.expelled for loss in of_run) + threshold("one_trouble") * SECOND_NS
    members = {(loss.client_id, loss.host) for loss in of_run}
    return [
        place
        for group in sorted({loss.rebalance["group_id"] for loss in of_run})
        for place in signs.once(beginnings).get(group, [])
        if since <= place.rows[0]["at"] <= until and members & {(row["client_id"], row["client"]) for row in place.rows}
    ]


def without_others(signs: Signs, rows: Sequence[Row], of_run: Sequence[Loss]) -> list[Row]:
    """Rebalances without the partitions of others that these took out too: their incidents tell those."""
    mine = {(loss.client_id, loss.host) for loss in of_run}
    had = signs.once(_had)
    found = []
    for row in rows:
        of_whom = had.get((row["group_id"], row["to_generation"]), {})
        of_others = {partition for who, held in of_whom.items() if who not in mine for partition in held}
        left = [one for one in row["unowned"] or () if one["partition"] not in of_others]
        longest = max((one["ms"] for one in left if one["ms"]), default=None)
        found.append(row | {"unowned": left, "unowned_ms": longest} if of_others else row)
    return found


def _had(signs: Signs) -> dict[tuple[str, int | None], dict[tuple[str | None, str | None], list[str]]]:
    """By rebalance, and by client id and host, what each that it took out had before, as far as one client is that."""
    found: dict[tuple[str, int | None], dict[tuple[str | None, str | None], list[str]]] = defaultdict(dict)
    for loss in signs.once(losses):
        who = (loss.client_id, loss.host)
        before = [one for one in members_before(signs, loss.rebalance) if (one["client_id"], one["host"]) == who]
        if len(before) == 1:
            found[loss.rebalance["group_id"], loss.rebalance["to_generation"]][who] = assigned(before)
    return found


def _times(signs: Signs, of_run: Sequence[Loss]) -> int:
    """How many members of one client fell silent in the time of these losses; 1 if at once, as in one process."""
    since, until = min(loss.since for loss in of_run), max(loss.expelled for loss in of_run)
    most = 1
    for group, host, client_id in {(loss.rebalance["group_id"], loss.host, loss.client_id) for loss in of_run}:
        silences = [row for row in signs.silences_of(group, until) if row["at"] >= since]
        mine = [row for row in silences if (row["client"], row["client_id"]) == (host, client_id)]
        apart = sum(b["at"] - a["at"] > threshold("crashes_apart") * SECOND_NS for a, b in pairwise(mine))
        if apart + 1 >= threshold("crashes"):
            most = max(most, len({row["member_id"] for row in mine}))
    return most


_FINDINGS = (
    "member_lost",
    "commit_refused",
    "partition_unowned",
    "commits_stopped",
    "unanswered",
    "read_again",
    "connection_churn",
)
ROLLOUT_ADVICE = (
    "See what ended them in turn. A rollout has to let each process close its consumer (on SIGTERM, within "
    "terminationGracePeriodSeconds), so that it leaves at once and nobody waits for its session; static membership "
    "(group.instance.id) spares the rebalances altogether."
)
"""What to do about members that ended in turn without being closed."""
_CUT_OFF_ADVICE = (
    "Look at what these hosts have in common on their way to the brokers, for that moment: a switch, a router, a "
    "firewall, a tunnel. A longer session.timeout.ms bridges short ones."
)


def returned(signs: Signs, of_run: Sequence[Loss]) -> list[Row]:
    """The rebalances by which these clients came back, by time: the first of each loss, and those in which it rejoined.

    Who joins as a new member once more was gone again.
    """
    within = int(threshold("one_trouble") * SECOND_NS)
    found: dict[tuple[str, int], Row] = {}
    for loss in of_run:
        group, is_back = loss.rebalance["group_id"], False
        since = min(loss.rebalance["started"], loss.expelled)  # the new process may have begun the rebalance
        for row in signs.rebalances_of(group, loss.expelled + within, since):
            if row["trigger_client_id"] == loss.client_id and row["trigger"] in (_REJOINS if is_back else _RETURNS):
                found[group, row["to_generation"]] = row
                is_back = True
    return sorted(found.values(), key=lambda row: (row["started"], row["group_id"]))
