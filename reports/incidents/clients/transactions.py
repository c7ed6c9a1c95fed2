"""Transactions that stay open: while readers of committed records wait, and until their coordinator aborts them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.clients.open_transactions import (
    Held,
    Overdue,
    Producer,
    any_left_open,
    held_back,
    held_by,
    held_by_producer,
    left_open,
    overdues,
)
from kafkascope.reports.incidents.incident import Incident, Weighed, every
from kafkascope.reports.incidents.members.members import with_fates
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_ADVICE_HUNG = (
    "Find out why the producer neither commits nor aborts in time (a slow step in the midst of the transaction, a "
    "process that stopped); kafka-transactions.sh find-hanging and abort end one by hand, transaction.timeout.ms "
    "says when the coordinator does."
)


def hung(signs: Signs) -> Iterator[Incident]:
    """Transactions that stay open while records behind them wait: by the producer, where its records were seen.

    Not those of which it is told that they were open for longer than their timeout, or that a lost member left open.
    """
    _, of_lost = signs.once(_left_by_lost)
    for producer, all_of_it in sorted(signs.once(held_by_producer).items(), key=str):
        found = [one for one in all_of_it if one not in of_lost]
        told = [one for one in signs.once(overdues) if one.client_id == producer.client_id]
        times = _times([one for one in found if not any(one.overlaps(*other.time) for other in told)])
        for some in [times] if producer.client_id and times else [[one] for one in times]:
            yield _hung(signs, some, producer)


def _left_by_lost(signs: Signs) -> tuple[list[Overdue], list[Held]]:
    """What members that were lost left open."""
    late: list[Overdue] = []
    held: list[Held] = []
    if any_left_open(signs):
        for loss, fate in signs.once(with_fates):
            left = left_open(signs, loss.host, fate.at(loss), loss.expelled)
            late += left.overdues
            held += left.held
    return late, held


def _times(found: Sequence[Held]) -> list[list[Held]]:
    """What overlaps in time together: a producer has one transaction after the other."""
    times: list[list[Held]] = []
    until = 0
    for one in sorted(found):
        if not times or one.first > until:
            times.append([])
        times[-1].append(one)
        until = max(until, one.last)
    return times


def _hung(signs: Signs, times: Sequence[Sequence[Held]], producer: Producer) -> Incident:
    """Transactions of one producer, one after the other."""
    client_id = producer.client_id
    found = list(chain.from_iterable(times))
    since, until = found[0].first, max(one.last for one in found)
    spans = [(max(one.last for one in some) - some[0].first) / MILLISECOND_NS for some in times]
    longest = max(spans)
    partitions = in_words(dict.fromkeys(one.place for one in found))
    who = f"of {client_id}" if client_id else "(its producer is not in the capture)"
    waited = f"readers of committed records of {partitions} saw nothing new"
    headline = f"a transaction {who} stayed open: {waited} for {duration(longest)} from {clock(since)} on"
    if len(times) > 1:
        headline = f"{len(times)} transactions {who}, one after the other, stayed open from {clock(since)} on: "
        headline += f"{waited} for up to {duration(longest)} each time"
    return Incident(
        kind=IncidentKind.HUNG_TRANSACTION,
        severity=Severity.CRITICAL if len(times) == 1 else Severity.WARNING,
        certainty=Certainty.CERTAIN if client_id else Certainty.LIKELY,
        subjects=(
            *(signs.clients([client_id]) if client_id else ()),
            *every(Role.TOPIC, sorted({one.topic for one in found})),
        ),
        started=since,
        ended=until,
        headline=headline,
        evidence=tuple(
            Weighed(
                f"{one.place}: the last stable offset stays at {one.offset}, below the high watermark, for "
                f"{duration((one.last - one.first) / MILLISECOND_NS)}",
                one.connection,
                one.first,
                0.9,
            )
            for one in found
        ),
        advice=_ADVICE_HUNG,
        cost_ms=sum(span * len({one.place for one in some}) for span, some in zip(spans, times, strict=True)),
        effects=(held_back(found, longest, "up to " if len(times) > 1 else ""),),
        findings=_findings(signs, found, since, until),
    )


def _findings(signs: Signs, found: Sequence[Held], since: int, until: int) -> frozenset[str]:
    """Those about what is held, as they begin their title or what they saw."""
    places = tuple(f"{one.place}: " for one in found)
    return frozenset(
        row["id"]
        for row in signs.findings_in(("hanging_transaction", "commits_stopped"), since, until)
        if any(text.startswith(places) for text in (row["title"], *(seen["text"] for seen in row["evidence"] or ())))
    )


def overdue(signs: Signs) -> Iterator[Incident]:
    """Transactions with which a producer wanted to go on when the coordinator had aborted them for their age.

    Those of one transactional id, one soon after the other, are one incident. What was left open by a member that was
    lost is told with that.
    """
    of_lost, _ = signs.once(_left_by_lost)
    by_producer: dict[tuple[str, str], list[Overdue]] = defaultdict(list)
    for one in sorted(signs.once(overdues), key=lambda one: one.time):
        if one not in of_lost:
            by_producer[one.client_id, one.name].append(one)
    apart = threshold("one_trouble") * SECOND_NS
    for _, found in sorted(by_producer.items()):
        for run in in_runs(found, lambda run, one: one.time[0] - run[-1].time[1] <= apart):
            yield _overdue(signs, run)


def _overdue(signs: Signs, run: Sequence[Overdue]) -> Incident:
    """Transactions of one producer, one after the other."""
    since, until = run[0].time[0], run[-1].time[1]
    client_id, name, timeout = run[0].client_id, run[0].name, duration(run[0].timeout_ms)
    held = [held_by(signs, one) for one in run]
    times = [(one.last - one.first) / MILLISECOND_NS for of_one in held for one in of_one]
    longest = duration(max(one.lasted_ms for one in run))
    how = f"for {longest} from {clock(since)} on"
    if len(run) > 1:
        how = f"in time, {len(run)} times from {clock(since)} to {clock(until)}, the longest for {longest}"
    it = "it" if len(run) == 1 else "it each time"
    what = "the commit" if all(one.end["api"] == "EndTxn" for one in run) else "what it sent next"
    return Incident(
        kind=IncidentKind.HUNG_TRANSACTION,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN if all(one.is_sure for one in run) else Certainty.LIKELY,
        subjects=tuple(signs.clients([client_id])),
        started=since,
        ended=until,
        headline=f"{client_id} did not end transaction {name} {how}; its timeout is {timeout}, so the coordinator "
        f"aborted {it}, and {what} was refused",
        evidence=tuple(seen for one in run for seen in _seen_overdue(one)),
        advice=_ADVICE_HUNG,
        # Where nobody is seen to wait, it is the time for which the transactions were open for certain.
        cost_ms=sum(times) or float(sum(one.timeout_ms for one in run)),
        effects=(held_back([*chain.from_iterable(held)], max(times), "at least "),) if times else (),
        findings=_findings(signs, [*chain.from_iterable(held)], since, until)
        | signs.explained(("error_loop",), since, until, clients=[client_id]),
    )


def _seen_overdue(one: Overdue) -> Iterator[Weighed]:
    first, end = one.first, one.end
    of_it = "end" if one.is_sure else "go on with"
    told = f"{end['api']} answered {end['error']}: there was nothing to {of_it} any more"
    yield Weighed("the first request of the transaction", first["request_packet"], one.time[0], 0.7)
    yield Weighed(told, end["request_packet"], one.time[1], 0.95 if one.is_sure else 0.8)
    if not one.is_sure:
        text = "another process with its transactional id: none in the capture asked for it meanwhile"
        yield Weighed(text, None, None, 0.2, True)
