"""Transactional ids that several processes use: each that starts takes it over, and fences the one before.

Once is how one replaces another that hangs: then it is told by whom, and whether the other one was at work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.clients.open_transactions import FENCED, OF_TRANSACTIONS, requests_of
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_TAKEN = (Error.NONE, Error.CONCURRENT_TRANSACTIONS)  # the latter: as soon as the other's transaction is aborted


_Who: TypeAlias = tuple[str, str]
"""Client id and host."""
_ADVICE = (
    "Give each process a transactional.id of its own, that it keeps when it is started again (with the name of the pod "
    "or a number); let nothing run twice that is meant to run once."
)

_LOOKED_AT = 20  # ids: who is at work with one is at work


class Takeover(NamedTuple):
    """A process that got a transactional id which another one had, and how that one was refused then."""

    by: _Who
    before: _Who
    taken: Row  # the InitProducerId
    refused: list[Row]  # errors


def shared(signs: Signs) -> Iterator[Incident]:
    """Ids that processes take from each other again and again."""
    for name, takeovers in signs.once(_in_turns).items():
        yield _shared(signs, name, takeovers)


def _in_turns(signs: Signs) -> dict[str, list[Takeover]]:
    """The same, by id."""
    refused = [row for row in signs.errors if row["error"] in FENCED or _ends_in_vain(row)]
    if not refused:
        return {}
    taken = signs.once(_taken)
    found = {name: _takeovers(rows, refused, signs.end) for name, rows in taken.items()}
    return {name: takeovers for name, takeovers in found.items() if len(takeovers) >= threshold("takeovers")}


def _taken(signs: Signs) -> dict[str, list[tuple[_Who, Row]]]:
    """Who got which transactional id, by id and time."""
    found: dict[str, list[tuple[_Who, Row]]] = defaultdict(list)
    rows = [row for row in requests_of(signs, pc.field("api") == "InitProducerId") if row["error"] in _TAKEN]
    for who, row in zip(_whose(signs, rows), rows, strict=True):
        found[row["name"]].append((who, row))
    return dict(sorted(found.items()))


def _whose(signs: Signs, rows: Sequence[Row]) -> list[_Who]:
    """Whose requests these are."""
    hosts = signs.connections_by_number(sorted({row["connection"] for row in rows}))
    return [(row["client_id"] or "a client", hosts.get(row["connection"], {}).get("client", "")) for row in rows]


def fenced(signs: Signs) -> Iterator[Incident]:
    """Producers whose ids another process took once, as they were refused since."""
    refused = requests_of(signs, among("error", sorted(FENCED)) & among("api", OF_TRANSACTIONS))
    taken = signs.once(_taken)
    first: dict[tuple[str, _Who], Row] = {}
    for who, row in zip(_whose(signs, refused), refused, strict=True):
        if row["name"] not in signs.once(_in_turns):
            first.setdefault((row["name"], who), row)
    by_pair: dict[tuple[_Who, _Who], list[Takeover]] = defaultdict(list)
    for (name, who), row in first.items():
        before = [each for each in taken.get(name, ()) if each[1]["requested"] <= row["requested"]]
        *_, latest = [[], *in_runs(before, lambda run, each: run[-1][0] == each[0])]
        if latest and latest[0][0] != who:
            by_pair[latest[0][0], who].append(Takeover(latest[0][0], who, latest[0][1], [row]))
    for _, of_pair in sorted(by_pair.items()):
        yield _fenced(signs, of_pair)


def _fenced(signs: Signs, takeovers: Sequence[Takeover]) -> Incident:
    """One process that took ids of another."""
    (by, host_by), (client_id, host), taken, (row,) = takeovers[0]
    ids = sorted({one.taken["name"] for one in takeovers})
    since = min(one.taken["requested"] for one in takeovers)
    until = max(one.refused[0]["requested"] for one in takeovers)
    worked = _worked_last(signs, takeovers)
    at_work = "" if worked is None else ", which was at work,"
    goes_on = _goes_on(signs, takeovers[0].by, ids, since)
    unused = "" if goes_on else f"; {by} is not seen to use it, as with an administrator's request (fenceProducers)"
    closed = [each["closed"] for each in signs.connections_of({(host, client_id)})]
    gone = f"; it went away at {clock(max(closed))}" if closed and None not in closed else ""
    errors = listed({one.refused[0]["error"] for one in takeovers})
    what = named("transactional id", ids)
    work = (
        ()
        if worked is None
        else (Weighed(f"{worked['api']} of {client_id} answered", worked["request_packet"], worked["requested"], 0.6),)
    )
    return Incident(
        kind=IncidentKind.PRODUCER_FENCED,
        severity=Severity.INFO,  # what fencing is for; who does it again and again shares the id (`_shared`)
        certainty=Certainty.CERTAIN,
        subjects=(
            *every(Role.CLIENT, dict.fromkeys((client_id, by))),
            *every(Role.HOST, filter(None, (host, host_by))),
        ),
        started=since,
        ended=until,
        headline=f"{by} ({host_by}) took {what} over from {client_id} ({host}){at_work} at {clock(since)}: "
        f"that one was refused ({row['api']}: {errors}) at {clock(row['requested'])}{gone}{unused}",
        evidence=(
            *work,
            Weighed(f"{by} ({host_by}) asked for {taken['name']}", taken["request_packet"], taken["requested"], 0.9),
            *(
                Weighed(
                    f"{each['api']} of {client_id} answered {each['error']}",
                    each["request_packet"],
                    each["requested"],
                    0.9,
                )
                for one in takeovers
                for each in one.refused
            ),
        ),
        advice=_advice(worked is not None, goes_on),
        cost_ms=0.0,
        findings=signs.explained(("error_loop", "sent_again"), since, until, clients=[client_id, by]),
    )


def _advice(at_work: bool, goes_on: bool) -> str:
    if not goes_on:
        return "Nothing, if that was meant; else find out who asks for this id."
    if at_work:
        return f"{_ADVICE} A rollout has to stop the one before the other starts."
    return "Nothing, if one replaced the other that hung or was cut off, as fencing is for; else see what started it."


def _goes_on(signs: Signs, who: _Who, ids: Sequence[str], since: int) -> bool:
    """Whether who took ids sends anything else for one of them."""
    apis = [api for api in OF_TRANSACTIONS if api != "InitProducerId"]
    where = among("api", apis) & among("client_id", [who[0]]) & (pc.field("requested") >= moment(since))
    rows = [row for row in requests_of(signs, where) if row["name"] in ids]
    return who in _whose(signs, rows)


def _worked_last(signs: Signs, takeovers: Sequence[Takeover]) -> Row | None:
    """The last request for a transaction before its producer was fenced, if that was answered, and shortly before."""
    before = takeovers[0].before
    found = None
    for one in takeovers[:_LOOKED_AT]:
        until = one.taken["requested"]
        where = pc.field("requested") >= moment(until - int(threshold("at_work") * SECOND_NS))
        where &= (pc.field("requested") < moment(until)) & (pc.field("error") == Error.NONE)
        where &= (pc.field("client_id") == before[0]) & among("api", OF_TRANSACTIONS)
        rows = [row for row in requests_of(signs, where) if row["name"] == one.taken["name"]]
        found = next((row for row, who in zip(rows, _whose(signs, rows), strict=True) if who == before), found)
    return found


def _ends_in_vain(error: Row) -> bool:
    """Whether the end of a transaction was refused as brokers do while another process takes the id over.

    So Kafka 4.1 answers clients that know no other word for it (librdkafka), with that other's abort under way.
    """
    return bool(error["api"] == "EndTxn" and error["error"] == Error.UNKNOWN_SERVER_ERROR)


def _takeovers(rows: Sequence[tuple[_Who, Row]], refused: Sequence[Row], end: int) -> list[Takeover]:
    """Those after which the one before was refused, until it took the id itself again."""
    taken: list[tuple[_Who, Row]] = []
    for by, row in rows:
        if not taken or taken[-1][0] != by:
            taken.append((by, row))
    found = []
    for place in range(1, len(taken)):
        (before, _), (by, row) = taken[place - 1 : place + 1]
        until = next((later["requested"] for other, later in taken[place + 1 :] if other == before), end)
        mine = [one for one in refused if one["client_id"] == before[0] and row["requested"] <= one["last"] <= until]
        if mine:
            found.append(Takeover(by, before, row, mine))
    return found


def _shared(signs: Signs, name: str, takeovers: Sequence[Takeover]) -> Incident:
    who = sorted({party for one in takeovers for party in (one.by, one.before)})
    errors = {id(row): row for one in takeovers for row in one.refused}
    since = takeovers[0].taken["requested"]
    until = max(row["last"] for row in errors.values())
    count = sum(row["count"] for row in errors.values())
    effects = (Effect("errors", f"{counted(count, 'request')} of who had it before refused", count),)
    return Incident(
        kind=IncidentKind.PRODUCER_FENCED,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(
            *every(Role.CLIENT, sorted({client_id for client_id, _ in who})),
            *every(Role.HOST, sorted({host for _, host in who if host})),
        ),
        started=since,
        ended=until,
        headline=f"{listed([f'{client_id} ({host})' for client_id, host in who])} use one transactional id, {name}: "
        f"{counted(len(takeovers), 'time')} one fenced the other, from {clock(since)} to {clock(until)}"
        + outcome(effects),
        evidence=tuple(
            Weighed(
                f"{one.by[0]} ({one.by[1]}) took it over; {one.before[0]} was answered "
                f"{listed({row['error'] for row in one.refused})}",
                one.taken["request_packet"],
                one.taken["requested"],
                0.9,
            )
            for one in takeovers
        ),
        advice=_ADVICE,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=effects,
        findings=signs.explained(
            ("error_loop", "sent_again"), since, until, clients=[client_id for client_id, _ in who]
        ),
    )
