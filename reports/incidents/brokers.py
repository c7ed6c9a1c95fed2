"""Brokers that went away, were shut down, stood still, or lost their address: from silences, and what clusters said."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kafkascope.reports.columns.name_lists import in_words, listed, named
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents import addresses, slow_brokers
from kafkascope.reports.incidents.apart import apart
from kafkascope.reports.incidents.away import gone_before, is_left_out, is_off, missed
from kafkascope.reports.incidents.blackouts import hides, hush
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.planned import changes_made
from kafkascope.reports.incidents.signs import REPLICA_ERRORS, Node, Row, Signs, Takeover, between
from kafkascope.reports.incidents.slow_brokers import SlowTime
from kafkascope.reports.incidents.uncoordinated import Uncoordinated, uncoordinated
from kafkascope.reports.incidents.vanished import Scope, Vanished, vanished
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

BACK = {
    "broker_back": "it is listed again",
    "broker_registered": "a process of it has told the controller that it is there",
    "broker_unfenced": "the controller has put it into service",
    "broker_found": "it answers at another address",
}
"""Events by which a broker is there again, and what they say."""

_LONGEST_PAUSE = 0.6  # of a time in which something is sent again, each time after twice as long as before
_ANNOUNCED = 0.9  # weight of what says by itself that a broker was shut down on request
_FOLLOWS_NS = 15 * SECOND_NS  # behind the end of another broker: until it is out of the sets of replicas in sync
_SOON_NS = 5 * SECOND_NS  # behind the return of a broker, or a choice of leaders: clients have learned what moved
_CHOOSE_LEADERS = ("ElectLeaders", "AlterPartitionReassignments")
_LEFT_OUT_NS = 5 * SECOND_NS  # behind the cluster's word that it is off, or its return: nobody waits for it any more
_EXPLAINED = frozenset(
    {
        "unanswered",
        "sent_again",
        "leader_changed",
        "coordinator_moved",
        "connection_churn",
        "heartbeat_held_up",
        "metadata_storm",
        "commit_refused",
        "partition_unowned",
        "commits_stopped",
        "consumer_stuck",
        "error_loop",
    }
)

_LEADERLESS = "leaderless"  # what an effect is called


@dataclass(frozen=True, slots=True)
class Outage:
    """A silence of a broker, and what is known of its cause."""

    silence: Row
    started: int
    ended: int | None
    gone: bool  # its connections ended, or connects failed
    orderly: list[Weighed]  # what shows that it was announced
    back: Row | None = None  # the event that tells it, where nothing came from its address again
    before: bool = False  # it was gone when the capture began; started is when somebody missed it
    taken: Takeover | None = None  # by whom, if another broker answers at its address since

    @property
    def host(self) -> str:
        """Its address; with its port where several brokers are at one."""
        return str(self.silence["host"])

    @property
    def address(self) -> str:
        """Its address without port."""
        return address_alone(self.host)

    @property
    def kind(self) -> IncidentKind:
        """Which of the four it is."""
        if self.taken is not None and self.taken.is_foreign:
            return IncidentKind.ADDRESS_TAKEN
        if not self.gone:
            return IncidentKind.BROKER_DOWN if self.is_cut_off else IncidentKind.BROKER_STALLED
        return IncidentKind.BROKER_RESTARTED if self.orderly else IncidentKind.BROKER_DOWN

    @property
    def is_cut_off(self) -> bool:
        """Whether not even acknowledgements came of its host: it is off, or the network to it broken."""
        silence = self.silence
        enough = threshold("cut_off") * 1000
        return (
            not self.gone and silence["duration_ms"] >= enough and silence["asked"] > 0 and not silence["acknowledged"]
        )

    def troubles(self, since: int, until: int) -> bool:
        """Whether it began or ended within a time, or shortly before: clients look for other brokers then."""
        after = int(threshold("outage_after") * SECOND_NS)
        turns = [self.started, *([] if self.ended is None else [self.ended])]
        return any(turn - SECOND_NS <= until and since <= turn + after for turn in turns)

    def covers(self, at: int, end: int) -> bool:
        """Whether a time is within it, or shortly after; end is that of the capture."""
        return self.started - SECOND_NS <= at <= self.until(end)

    def until(self, end: int) -> int:
        """When what it caused is over: clients find the new leaders within some seconds."""
        after = int(threshold("outage_after") * SECOND_NS)
        ended = self.taken.at if self.taken is not None else self.ended
        return (end if ended is None else ended) + after


def outages(signs: Signs) -> list[Outage]:
    """All of them, by time."""
    found = []
    for silence in signs.silences:
        failed = silence["refused"] + silence["unanswered"]
        away = (
            bool(silence["ended"])
            and not silence["kept"]
            and (bool(failed) or missed(signs, silence["host"], silence["since"]))
        )
        if not failed and silence["ended_clients"] < 2:
            away = False  # it may have been the other side that went
        if silence["until"] is None and not failed and not _taken_off(signs, silence):
            away = False  # nobody asked for it again
        gone = away or (bool(failed) and silence["until"] is None)
        if not gone and (silence["ended"] > silence["kept"] or not silence["waiting"]):
            continue  # connections that are closed because nobody needs them any more
        orderly = _announced(signs, silence) if gone else []
        back = _back(signs, silence) if gone and silence["until"] is None else None
        ended = silence["until"] if back is None else back["at"]
        found.append(Outage(silence, silence["since"], ended, gone, orderly, back))
    for silence in signs.once(gone_before):
        back = _back(signs, silence) if silence["until"] is None else None
        ended = silence["until"] if back is None else back["at"]
        found.append(Outage(silence, silence["since"], ended, True, [], back, before=True))
    found = [one for one in found if one.before or not hides(signs, one.started, one.ended or signs.end)]
    found.sort(key=lambda one: (one.started, one.host))
    found = _once(signs, found)
    by_host: dict[str, list[Outage]] = defaultdict(list)
    for one in found:
        by_host[one.host].append(one)
    out_of_reach = signs.once(vanished)
    return [
        _taken(signs, one, by_host[one.host])
        for one in found
        if one.gone
        or (
            _stands_still(signs, one, by_host[one.host])
            and not _follows(signs, one, by_host)
            and not _unheard(signs, one, out_of_reach)
        )
    ]


def _unheard(signs: Signs, stall: Outage, found: Sequence[Vanished]) -> bool:
    """Whether those who waited for a broker are those whose packets to it, or of it, vanished.

    Where all between two hosts vanished, others may have waited for them.
    """
    end = signs.end if stall.ended is None else stall.ended
    waited, explained = {*stall.silence["waiting_clients"]}, set[str]()
    for one in found:
        ends = {one.client, address_alone(one.broker)}
        if stall.address in ends and one.overlaps(stall.started, end):
            unheard = waited.intersection(signs.names_at(ends - {stall.address}))
            explained |= waited if one.scope == Scope.PATH and unheard else unheard
    return bool(waited) and waited <= explained


def _once(signs: Signs, found: Sequence[Outage]) -> list[Outage]:
    """Outages; of those of one broker at several addresses at once only that of which most is known."""
    latest: dict[tuple[Node, bool], int] = {}  # of each broker, gone or not: its place among these
    once: list[Outage] = []
    for one in found:
        node = signs.node(one.host, one.started)
        place = None if node is None else latest.get((node, one.gone))
        if (
            place is not None
            and once[place].host != one.host
            and one.started <= (once[place].ended or signs.end) + (_SOON_NS if one.gone else 0)
        ):
            once[place] = max(once[place], one, key=lambda each: (each.silence["ended"], each.silence["waiting"]))
            continue
        if node is not None:
            latest[node, one.gone] = len(once)
        once.append(one)
    return sorted(once, key=lambda one: (one.started, one.host))


def _taken(signs: Signs, outage: Outage, of_host: Sequence[Outage]) -> Outage:
    """The outage, if it was its broker's last, with who answers at the address since."""
    soon = int(threshold("one_trouble") * SECOND_NS)
    for takeover in signs.takeovers.get(outage.host, ()):
        last = max((one.started for one in of_host if one.gone and one.started <= takeover.at), default=None)
        if last == outage.started and (outage.ended is None or takeover.at <= outage.ended + soon):
            return replace(outage, ended=takeover.until, taken=takeover)
    return outage


def _stands_still(signs: Signs, stall: Outage, of_host: Sequence[Outage]) -> bool:
    """Whether it was the broker that stood still: for long, or again and again while its host was awake."""
    silence = stall.silence
    if signs.lacking(stall.address) >= threshold("answers_lacking"):
        return False
    if stall.is_cut_off:
        paused = hush(signs, stall.started, stall.ended or signs.end)
        sent_again = paused < _LONGEST_PAUSE * silence["duration_ms"] * MILLISECOND_NS
        return bool(silence["waiting_connections"] > 1) and sent_again
    if silence["timeouts"] or (silence["waiting"] == silence["waiting_replicas"] and not signs.has_one_broker):
        return False  # what it sent was lost on the way, or it may have waited for other brokers
    long = threshold("stall" if silence["waiting_connections"] > 1 else "stall_of_one")
    if silence["duration_ms"] >= long * 1000:
        return True
    if not silence["acknowledged"]:
        return False
    within = int(threshold("one_trouble") * SECOND_NS)
    low = bisect_left(of_host, stall.started - within, key=lambda one: one.started)
    near = of_host[low : bisect_right(of_host, stall.started + within, low, key=lambda one: one.started)]
    again = sum(not one.gone and bool(one.silence["acknowledged"]) for one in near)
    return again >= threshold("stalls")


def _follows(signs: Signs, stall: Outage, by_host: Mapping[str, Sequence[Outage]]) -> bool:
    """Whether a broker stands still because another one is gone, or stands still for longer: it waits for replicas."""
    least = max(stall.silence["duration_ms"], threshold("stall") * 1000)
    for host, of_host in by_host.items():
        before = bisect_right(of_host, stall.started + SECOND_NS, key=lambda one: one.started)
        for one in map(of_host.__getitem__, reversed(range(before if host != stall.host else 0))):
            until = _waited_for_until(signs, one)
            if until is None:  # nothing tells: who waits for a replica does not stand still as a whole for long
                until = one.started + int(threshold("one_trouble") * SECOND_NS)
            if until < stall.started:
                break  # and so had those before it: silences of one broker come one after the other
            is_it = one.gone or one.silence["duration_ms"] > least
            if is_it and not _of_two_clusters(signs, one.host, stall.host, stall.started):
                return True
    return False


def _waited_for_until(signs: Signs, outage: Outage) -> int | None:
    """When nobody waited any more for a broker as for a replica in sync: it was back, or left out; None: not known."""
    if outage.ended is not None:
        return max(outage.started + _FOLLOWS_NS, outage.ended + _LEFT_OUT_NS)
    node = signs.node(outage.host, outage.started)
    events = signs.events_of(node, outage.started, signs.end + 1)
    left_out = next((row["at"] for row in events if node is not None and is_left_out(row, node)), None)
    return None if left_out is None else left_out + _LEFT_OUT_NS


def incidents(signs: Signs) -> Iterator[Incident]:
    """An incident for each outage; those of one broker that stands still again and again are one."""
    stalls: dict[str, list[list[Outage]]] = defaultdict(list)
    found = signs.once(outages)
    for takeover in chain.from_iterable(signs.takeovers.values()):
        if takeover.is_foreign and all(outage.taken is not takeover for outage in found):
            yield addresses.taken(signs, takeover)
    slow = _slow_times(signs, found)
    for outage in found:
        if outage.kind != IncidentKind.BROKER_STALLED:
            yield _gone(signs, outage)
            continue
        if any(_is_part(outage, time) for time in slow):
            continue
        runs = stalls[outage.host]
        if not runs or outage.started - (runs[-1][-1].ended or 0) > threshold("one_trouble") * SECOND_NS:
            runs.append([])
        runs[-1].append(outage)
    for _, runs in sorted(stalls.items()):
        for run in runs:
            yield _stalled(signs, run)
    for time in slow:
        yield slow_brokers.incident(signs, time, [one.silence for one in found if _is_part(one, time)])


def _slow_times(signs: Signs, found: Sequence[Outage]) -> list[SlowTime]:
    """Times in which brokers were slow, but for those that are explained by what they stood still, or were away."""
    return [time for time in slow_brokers.slow_times(signs) if not _is_explained(signs, time, found)]


def _is_explained(signs: Signs, time: SlowTime, found: Sequence[Outage]) -> bool:
    still = 0
    if time.host is None and any(
        row["error"] in REPLICA_ERRORS for row in between(signs.errors, time.since - _FOLLOWS_NS, time.until, "first")
    ):
        return True
    if time.host is None and any(time.overlaps(*one) for one in signs.once(apart)):
        return True
    for one in found:
        end = signs.end if one.ended is None else one.ended
        if time.host is None and one.started <= time.until:
            left_out = None if one.ended is not None else _waited_for_until(signs, one)
            if time.since <= (end + _FOLLOWS_NS if left_out is None else left_out):
                return True  # that is whom writes waited for
        if one.host == time.host and one.gone and one.started <= time.until and time.since <= one.until(signs.end):
            return True  # it was about to go, or has just begun
        if one.host == time.host and one.kind == IncidentKind.BROKER_STALLED:
            still += max(min(end, time.until) - max(one.started, time.since), 0)
    return 2 * still >= time.until - time.since


def _is_part(stall: Outage, time: SlowTime) -> bool:
    """Whether a broker stood still while it was slow anyway."""
    if stall.host != time.host or stall.kind != IncidentKind.BROKER_STALLED:
        return False
    return time.since <= stall.started <= time.until or (
        stall.ended is not None and time.since <= stall.ended <= time.until
    )


def _taken_off(signs: Signs, silence: Row) -> bool:
    """Whether the cluster took a broker off its list when it fell silent."""
    node, since = signs.node(silence["host"], silence["since"]), silence["since"]
    return node is not None and any(
        is_off(row, node) for row in signs.events_of(node, since - SECOND_NS, since + 60 * SECOND_NS)
    )


def _back(signs: Signs, silence: Row) -> Row | None:
    """What tells that a broker is back, maybe at another address: with names, that changes with each start."""
    node = signs.node(silence["host"], silence["since"])
    return next(
        (
            row
            for row in signs.events_of(node, silence["since"], signs.end + 1)
            if row["event"] in BACK and node is not None and str(row["node_id"]) == node.id
        ),
        None,
    )


def _announced(signs: Signs, silence: Row) -> list[Weighed]:
    """What shows that a broker prepared to go: it gave up its leaders while it still answered, or said so."""
    node, since = signs.node(silence["host"], silence["since"]), silence["since"]
    takes = int(threshold("shutdown_takes") * SECOND_NS)
    moved_otherwise = _moved_otherwise(signs, silence["host"], since)
    seen = []
    for row in signs.events_of(node, since - takes, since + SECOND_NS):
        if row["event"] == "shutdown_announced" and Node(row["cluster_id"], str(row["node_id"])) == node:
            seen.append(Weighed("it asked for an orderly shutdown", row["packet"], row["at"], _ANNOUNCED))
        elif row["event"] != "leader_changed" or row["at"] >= since or moved_otherwise(row["at"]):
            continue
        elif node is not None and row["before"] == node.id:
            text = f"leaders moved from it to {row['after']} before it fell silent"
            seen.append(Weighed(text, row["packet"], row["at"], 0.6))
    for row in between(signs.stale_leaders, since - takes, since + SECOND_NS + 1, "last"):
        if signs.where(row["broker"]) != silence["host"] or moved_otherwise(row["last"]):
            continue
        if not _coordinated_later(signs, row, since):
            text = (
                f"it answered {row['client_id']} {row['error']}: it had given up its leaders while it was still there"
            )
            seen.append(Weighed(text, row["first_packet"], row["first"], 0.6))
    return seen


def _moved_otherwise(signs: Signs, host: str, since: int) -> Callable[[int], bool]:
    """Whether what moved from a broker at a time did so as it was silent before, or as somebody chose its leaders."""
    least = 1000 * threshold("stall_of_one")
    times = [
        (row["since"], row["until"])
        for row in signs.silences
        if row["host"] == host
        and row["until"] is not None
        and row["until"] <= since
        and (row["refused"] or row["unanswered"] or row["duration_ms"] >= least)
    ]
    times += [(row["requested"], row["answered"]) for row in signs.once(changes_made) if row["api"] in _CHOOSE_LEADERS]
    return lambda at: any(begin <= at <= end + _SOON_NS for begin, end in times)


def _coordinated_later(signs: Signs, error: Row, until: int) -> bool:
    """Whether a broker that said that it is not the coordinator of a group was it later, and led it to a rebalance."""
    group = error["group_id"]
    if group is None or not signs.coordinates(signs.where(error["broker"]), group, until):
        return False
    return any(error["last"] < (row["stable"] or 0) < until for row in signs.rebalances_of(group, until, error["last"]))


def _gone(signs: Signs, outage: Outage) -> Incident:
    silence, host, end = outage.silence, outage.host, outage.until(signs.end)
    name, planned = signs.broker_words(host, outage.started), bool(outage.orderly)
    known = signs.node(host, outage.started) is not None
    told = known and not planned  # else nobody would have said that it prepared to go
    announced = any(seen.weight == _ANNOUNCED for seen in outage.orderly)
    last = f"the last data of it; {counted(silence['ended'], 'connection')} with it ended" + (
        f", {silence['reset']} of them by RST" if silence["reset"] else ""
    )
    if outage.before:
        last = "the first connect to it that failed; the capture has no data of it from before"
    evidence = [Weighed(last, silence["failed_packet"] if outage.before else None, outage.started, 0.6)]
    if silence["refused"]:
        text = f"{counted(silence['refused'], 'connect')} to it refused: its host is there, and nobody listens"
        evidence.append(Weighed(text, silence["failed_packet"], silence["first_failed"], 0.9))
    if outage.is_cut_off:
        text = (
            f"what it was sent in {counted(silence['asked'], 'tenth')} of a second was not acknowledged: its host "
            "was off, or cut off"
        )
        evidence.append(Weighed(text, silence["first_packet"], outage.started, 0.8))
    if silence["unanswered"]:
        text = f"{counted(silence['unanswered'], 'connect')} to it without an answer: its host is off, or cut off"
        evidence.append(Weighed(text, silence["failed_packet"], silence["first_failed"], 0.9))
    evidence += [*outage.orderly, *_came_back(outage)]
    if not planned and not outage.before:
        evidence.append(
            Weighed(
                "a shutdown on request: nothing in the capture announced it, nor moved its leaders before",
                None,
                None,
                0.3,
                True,
            )
        )
    effects, explained, rebalances, waited_ms = _effects(signs, outage, end)
    still = outage.ended is None
    lasted = (signs.end if outage.ended is None else outage.ended) - outage.started
    at = clock(outage.started)
    what = f"was shut down in an orderly way at {at}" if planned else f"went away without notice at {at}"
    if outage.before:
        what = f"was gone when the capture began, and missed at {at},"
    elif outage.is_cut_off:
        what = f"could not be reached from {at} on"
    back = "has not come back" if still else f"was back after {duration(lasted / MILLISECOND_NS)}"
    if outage.back is not None and (moved := signs.moved_to(host, outage.started)) is not None:
        back += f" at another address ({moved})"
    foreign = outage.kind == IncidentKind.ADDRESS_TAKEN
    if outage.taken is not None:
        back += f": {addresses.words(outage.taken)}"
        evidence += addresses.evidence(outage.taken)
        effects += addresses.met(signs, outage.taken, silence["until"])
    out_of_reach = still and any(effect.what == _LEADERLESS for effect in effects)
    if out_of_reach:
        evidence += _alone(signs, outage)
    of_plan = Severity.CRITICAL if out_of_reach else Severity.WARNING if still else Severity.INFO
    headline = f"{name} {what} and {back}{outcome(effects)}"
    return Incident(
        kind=outage.kind,
        severity=of_plan if planned and not foreign else Severity.CRITICAL,
        certainty=Certainty.CERTAIN if announced or (silence["refused"] and told) else Certainty.LIKELY,
        subjects=signs.broker(host, outage.started),
        started=outage.started,
        ended=outage.ended,
        headline=headline,
        evidence=tuple(evidence),
        advice=_advice(outage, out_of_reach),
        cost_ms=waited_ms,
        effects=effects,
        findings=explained,
        rebalances=rebalances,
    )


def _advice(outage: Outage, out_of_reach: bool) -> str:
    if outage.kind == IncidentKind.ADDRESS_TAKEN:
        return addresses.ADVICE
    if out_of_reach:
        return (
            "Bring this broker back: what has a replica on it alone, or no other one in sync, is out of reach until "
            "then. An election of a replica that is not in sync (kafka-leader-election.sh, unclean) loses what was "
            "confirmed. For the next time: replication.factor 3 with min.insync.replicas 2."
        )
    if outage.orderly:
        return "Nothing, if this was planned: give each broker time to be in sync again before the next one is stopped."
    return (
        "Look at the broker's log and the host's (out of memory, kill, disk) for that moment. To ride it out: "
        "replication.factor 3 with min.insync.replicas 2, and clients that have all brokers in bootstrap.servers."
    )


def _stalled(signs: Signs, run: Sequence[Outage]) -> Incident:
    """Stalls of one broker, one soon after the other."""
    worst = max(run, key=lambda one: (one.silence["duration_ms"], -one.started))
    lasted = worst.silence["duration_ms"]
    acknowledged = any(one.silence["acknowledged"] for one in run)
    unheard = not acknowledged and any(one.silence["asked"] for one in run)
    evidence = []
    for one in run:
        silence = one.silence
        text = (
            f"nothing from it on any connection of the capture for {duration(silence['duration_ms'])}, while "
            f"{counted(silence['waiting'], 'request')} of {listed(silence['waiting_clients'])} waited on "
            f"{counted(silence['waiting_connections'], 'connection')}"
        )
        evidence.append(Weighed(text, silence["first_packet"], one.started, 0.7))
    evidence += _came_back(worst)
    if acknowledged:
        text = "its host acknowledged what it was sent meanwhile: the network and the kernel were well"
        evidence.append(Weighed(text, None, worst.started, 0.9))
        evidence.append(Weighed("the network: nothing would have been acknowledged", None, None, 0.1, True))
    elif unheard:
        evidence.append(Weighed("the network: what was sent to it was not acknowledged either", None, None, 0.5, True))
    quiet = hush(signs, worst.started, worst.ended or signs.end)
    alone = quiet < threshold("all_quiet") * SECOND_NS
    if not alone:
        text = (
            f"nobody else sent anything for {duration(quiet / MILLISECOND_NS)} of it either: all may be on one "
            "machine, which slept, or the clock of the capture was set"
        )
        evidence.append(Weighed(text, None, None, 0.5, True))
    made = [_effects(signs, one, one.until(signs.end)) for one in run]
    times = "" if len(run) == 1 else f" {len(run)} times, the longest"
    loud = lasted >= threshold("stall") * 1000
    sure = acknowledged and alone and worst.silence["waiting_connections"] > 1
    host_was = ", though its host acknowledged what it was sent" if acknowledged else ""
    if unheard:
        host_was = ", nor acknowledged what it was sent: it stood still with its host, or was cut off"
    effects = made[run.index(worst)][0]
    return Incident(
        kind=IncidentKind.BROKER_STALLED,
        severity=Severity.WARNING if loud else Severity.INFO,
        certainty=Certainty.CERTAIN if sure else Certainty.GUESSED if unheard or not alone else Certainty.LIKELY,
        subjects=signs.broker(worst.host),
        started=run[0].started,
        ended=run[-1].ended,
        headline=f"{signs.broker_words(worst.host)} answered nobody{times} for {duration(lasted)} from "
        f"{clock(worst.started)} on{host_was}" + outcome(effects),
        evidence=tuple(evidence),
        advice="Look at that moment on the broker: a pause of garbage collection, a disk that stalled (iostat, "
        "dmesg), a virtual machine that was stopped or moved. If it lasts longer than broker.session.timeout.ms, "
        "the broker loses its leaders.",
        cost_ms=sum(cost for *_, cost in made),
        effects=effects,
        findings=frozenset().union(*(findings for _, findings, _, _ in made)),
        rebalances=frozenset().union(*(rebalances for _, _, rebalances, _ in made)),
    )


_BACK_WORDS = {
    "kept": "data on a connection from before",
    "opened": "data on a connection that was opened meanwhile",
    "as_client": "data that it sent to another broker, as a client of it",
}


def _came_back(outage: Outage) -> list[Weighed]:
    """What came of a broker first when its silence was over."""
    by, connection = outage.silence["back_by"], outage.silence["back_connection"]
    if (row := outage.back) is not None:
        return [Weighed(f"{BACK[row['event']]} (told by {row['told_by']})", row["packet"], row["at"], 0.6)]
    if by is None or outage.ended is None:
        return []
    text = f"what came of it first again: {_BACK_WORDS[by]} (connection {connection})"
    return [Weighed(text, None, outage.ended, 0.3)]


def _effects(
    signs: Signs, outage: Outage, end: int
) -> tuple[tuple[Effect, ...], frozenset[str], frozenset[tuple[str, int]], float]:
    """What came of an outage: effects, findings and rebalances that it explains, and how long work stood still."""
    silence, host = outage.silence, outage.host
    node = signs.node(host, outage.started)
    effects = []
    waited = silence["duration_ms"] if outage.ended is None else (outage.ended - outage.started) / MILLISECOND_NS
    if silence["waiting"]:
        who = listed(silence["waiting_clients"])
        text = f"{counted(silence['waiting'], 'request')} of {who} waited for up to {duration(waited)}"
        effects.append(Effect("requests", text, silence["waiting"], waited))
    near = signs.events_of(node, outage.started - int(threshold("shutdown_takes") * SECOND_NS), end)
    moved_otherwise = _moved_otherwise(signs, host, outage.started)
    from_it = [
        row
        for row in near
        if node is not None
        and row["before"] == node.id
        and (row["at"] >= outage.started or not moved_otherwise(row["at"]))
    ]
    moved = [row for row in from_it if row["event"] == "leader_changed"]
    if moved:
        count = sum(row["count"] or 1 for row in moved)
        after = max(0, max(row["at"] for row in moved) - outage.started) / MILLISECOND_NS
        text = f"{counted(count, 'leader')} moved to other brokers"
        if after and not outage.orderly:
            text += f", which clients learned within {duration(after)}"
        effects.append(Effect("leaders", text, count, after))
    if lost := [row for row in from_it if row["event"] in ("leader_lost", "leader_missing")]:
        effects.append(leaderless(signs, node, lost))
    groups = sorted(
        {
            row["group_id"]
            for row in from_it
            if row["event"] == "coordinator_moved" and row["group_id"] and row["detail"] != "of a transactional id"
        }
    )
    if groups:
        text = f"the coordinator of {named('group', groups)} moved"
        effects.append(Effect("coordinators", text, len(groups)))
    if away := uncoordinated_by(signs, outage):
        longest = max(time.lasted for time in away) / MILLISECOND_NS
        told = sorted({group for time in away for group in time.groups})
        text = f"{named('group', told)} had no coordinator for up to {duration(longest)}"
        effects.append(Effect("coordinators", text, len(told), longest))
    coordinated = signs.coordinated_by(host, outage.started) | {*groups}
    settled = max([outage.started, *(row["at"] for row in from_it if row["event"] == "coordinator_moved")])
    settled += int(threshold("one_trouble") * SECOND_NS)
    rebalances = frozenset(
        (group, row["to_generation"])
        for group in coordinated
        for row in signs.rebalances_of(group, min(end, settled), outage.started)
        if row["to_generation"] is not None
        and row["trigger"] in (Trigger.COORDINATOR_MOVED, Trigger.SESSION_TIMEOUT, Trigger.MEMBER_REJOINED)
    )
    if rebalances:
        effects.append(Effect("rebalances", counted(len(rebalances), "rebalance"), len(rebalances)))
    if not effects and (failed := silence["refused"] + silence["unanswered"]):  # nobody else took its place
        effects.append(
            Effect("connects", f"{counted(failed, 'connect')} to it failed in {duration(waited)}", failed, waited)
        )
    begin = outage.started - int(threshold("shutdown_takes") * SECOND_NS)
    about = _spoke_with(signs, host) | {f"group {group}" for group in coordinated}
    findings = frozenset(row["id"] for row in signs.findings_in(_EXPLAINED, begin, end) if row["subject"] in about)
    return tuple(effects), findings, rebalances, float(waited)


def uncoordinated_by(signs: Signs, outage: Outage) -> list[Uncoordinated]:
    """When groups had no coordinator because it is the broker that went away."""
    return [
        time
        for time in (signs.once(uncoordinated) if outage.gone else ())
        if outage.covers(time.since, signs.end) and time.is_of(signs, outage.host, outage.started)
    ]


def leaderless(signs: Signs, node: Node | None, lost: Sequence[Row]) -> Effect:
    """Partitions that had no leader: which, and for how long at most."""
    since = {partition: row["at"] for row in reversed(lost) for partition in row["partitions"] or ()}
    found: dict[str, int] = {}
    for row in signs.events_of(node, lost[0]["at"], signs.end + 1):
        if row["event"] == "leader_elected":
            for partition in row["partitions"] or ():
                found.setdefault(partition, row["at"])
    longest = max((found.get(partition, signs.end) - at for partition, at in since.items()), default=0)
    lasted = duration(longest / MILLISECOND_NS)
    still = "" if found.keys() >= since.keys() else ", to the end of the capture"
    count = sum(row["count"] or 1 for row in lost)
    which = in_words(since, 6) or counted(count, "partition")
    text = f"{which} had no leader for up to {lasted}{still}: nobody could write or read there"
    return Effect(_LEADERLESS, text, count, longest / MILLISECOND_NS)


def _alone(signs: Signs, outage: Outage) -> Iterator[Weighed]:
    """What shows that nobody else may lead a broker's partitions: it was the last of their replicas in sync."""
    node = signs.node(outage.host, outage.started)
    since: dict[str, Row] = {}
    for row in signs.events_of(node, 0, outage.started + 1):
        for partition in row["partitions"] or () if row["event"] in ("isr_shrunk", "isr_grown") else ():
            since.pop(partition, None)
            if node is not None and row["after"] == node.id:
                since[partition] = row
    if since:
        first = min(since.values(), key=lambda row: row["at"])
        text = f"it alone was in sync of {in_words(since, 6)} before: replicas on others may not lead"
        yield Weighed(text, first["packet"], first["at"], 0.5)


def _spoke_with(signs: Signs, host: str) -> set[str]:
    """Clients that spoke with a broker, and their groups, as findings name them."""
    at = address_alone(host)
    clients = {(client_id, client) for client, broker, client_id, _ in signs.parties if broker == at and client_id}
    groups = {group for client_id, _ in clients for group in signs.groups_of.get(client_id, ())}
    return {f"client {client_id} ({client})" for client_id, client in clients} | {f"group {group}" for group in groups}


def out_at(signs: Signs, found: Iterable[Outage], at: int, broker: str) -> Outage | None:
    """The latest outage in whose time, or shortly after, something happened at a broker of the same cluster."""
    return next(
        (
            one
            for one in sorted(found, key=lambda one: one.started, reverse=True)
            if one.covers(at, signs.end) and not _of_two_clusters(signs, one.host, broker, at)
        ),
        None,
    )


def _of_two_clusters(signs: Signs, host: str, other: str, at: int) -> bool:
    """Whether two brokers are of different clusters, as far as these are known."""
    nodes = [signs.node(signs.where(one), at) for one in (host, other)]
    clusters = {node.cluster_id for node in nodes if node is not None and node.cluster_id is not None}
    return len(clusters) == len(nodes)
