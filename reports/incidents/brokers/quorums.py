"""Quorums that are lost: several controllers are gone at once, and those that are left say that they do not lead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, in_words
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.broker_client_ids import is_of_quorum, quorum_node
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_ASKED = ("BrokerHeartbeat", "Fetch")  # of who leads the quorum, all the time
_AGAIN_NS = 2 * SECOND_NS  # who looks for a leader asks again sooner (controller.quorum.retry.backoff.ms, heartbeats)
_DOES_NOT_LEAD = frozenset({Error.NOT_CONTROLLER, Error.NOT_LEADER_OR_FOLLOWER})


@dataclass(frozen=True, slots=True)
class Leaderless:
    """A time in which nobody led a quorum: controllers were asked, and none answered as its leader."""

    outages: Sequence[Outage]
    since: int
    until: int
    refused: Sequence[Row]  # what controllers answered that were left

    @property
    def lasted_ms(self) -> float:
        """Milliseconds."""
        return (self.until - self.since) / MILLISECOND_NS


def leaderless(signs: Signs, found: Sequence[Outage]) -> Iterator[Leaderless]:
    """Those in which several controllers were gone; of outages one after the other that overlap, the longest one."""
    gone = [one for one in found if not one.stands_still and one.taken is None and signs.is_of_quorum(one.host)]
    gone.sort(key=lambda one: (one.started, one.host))
    for run in in_runs(gone, lambda run, one: one.started <= max(_until(signs, each) for each in run)):
        if len({one.host for one in run}) > 1 and (one := _longest(signs, run)) is not None:
            yield one


def _until(signs: Signs, outage: Outage) -> int:
    return signs.end if outage.ended is None else outage.ended


def _longest(signs: Signs, run: Sequence[Outage]) -> Leaderless | None:
    """The longest time without a leader in which two were gone, if others were asked until it was long enough."""
    since, until = run[0].started, max(_until(signs, one) for one in run)
    enough = int(threshold("leaderless_quorum") * SECOND_NS)
    answers = _answers(signs, since - enough, until + enough)
    led = [row["answered"] for row in answers if row["error"] == Error.NONE]
    turns = [since, *(at for at in led if since < at < until), until]
    spans = sorted(pairwise(turns), key=lambda span: (span[0] - span[1], span))
    refused = [row for row in answers if row["error"] in _DOES_NOT_LEAD]
    for begun, over in spans:
        gone = [one for one in run if min(_until(signs, one), over) - max(one.started, begun) >= enough]
        within = (row for row in refused if begun < row["answered"] <= over)
        looked_on = max(in_runs(within, _goes_on), key=_lasted, default=[])  # who has found one asks no more
        if len({one.host for one in gone}) > 1 and looked_on and _lasted(looked_on) >= enough:
            first, last = looked_on[0]["answered"], looked_on[-1]["answered"]
            begun = begun if first - begun <= _AGAIN_NS else first
            return Leaderless(gone, begun, over if over - last <= _AGAIN_NS else last, looked_on)
    return None


def _goes_on(run: Sequence[Row], row: Row) -> bool:
    return int(row["answered"]) - int(run[-1]["answered"]) <= _AGAIN_NS


def _lasted(run: Sequence[Row]) -> int:
    return int(run[-1]["answered"] - run[0]["answered"])


def _answers(signs: Signs, since: int, until: int) -> list[Row]:
    """What controllers answered to who looked for their leader, by time."""
    where = among("api", _ASKED) & (pc.field("answered") >= moment(since)) & (pc.field("answered") <= moment(until))
    columns = ("connection", "client_id", "api", "answered", "error", "response_packet")
    rows = [
        row
        for row in signs.rows("exchanges", columns, where)
        if is_of_quorum(row["client_id"])
        or (row["api"] == "BrokerHeartbeat" and quorum_node(row["client_id"]) is not None)
    ]
    return sorted(rows, key=lambda row: (row["answered"], row["connection"]))


def lost(signs: Signs, one: Leaderless, told: Sequence[Incident]) -> Incident:
    """One incident of those of each controller: what is lost is the quorum."""
    started = min(each.started for each in told)
    ends = [each.ended for each in told]
    ended = None if None in ends else max(end for end in ends if end is not None)
    of_connections = signs.connections_by_number(sorted({row["connection"] for row in one.refused}))
    places = sorted(
        {signs.broker_words(signs.where(address(row["broker"], row["broker_port"]))) for row in of_connections.values()}
    )
    led = f"no controller led for {duration(one.lasted_ms)}: those that were left are too few to elect one"
    effects = (
        Effect("quorum", led, len(one.outages), one.lasted_ms),
        *dict.fromkeys(effect for each in told for effect in each.effects if effect.what != "connects"),
    )
    text = (
        f"{counted(len(one.refused), 'answer')} of {listed(places)} from {clock(one.since)} to {clock(one.until)}: it "
        "does not lead; and none of anybody who does"
    )
    return Incident(
        kind=min((each.kind for each in told), key=lambda kind: kind != IncidentKind.BROKER_DOWN),
        severity=Severity.CRITICAL,
        certainty=max((each.certainty for each in told), key=list(Certainty).index),
        subjects=tuple(dict.fromkeys(subject for each in told for subject in each.subjects)),
        started=started,
        ended=ended,
        headline=" and ".join(each.what for each in told) + in_words(effects),
        evidence=(
            Weighed(text, one.refused[0]["response_packet"], one.refused[0]["answered"], 0.9),
            *(seen for each in told for seen in each.evidence),
        ),
        advice="Bring them back: without a majority of its controllers no leader of a cluster moves, no topic changes "
        "and no broker starts. Look at their logs and their hosts' (out of memory, kill, disk) for that moment. Of "
        "three controllers one may be away, of five two: stop one only when the one before is back.",
        cost_ms=max(one.lasted_ms, *(each.cost_ms for each in told)),
        effects=effects,
        findings=frozenset().union(*(each.findings for each in told)),
        rebalances=frozenset().union(*(each.rebalances for each in told)),
    )
