"""When brokers were gone, or stood still, and what is known of the cause: from silences, and what clusters said."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.tenths import TENTH_NS
from kafkascope.reports.columns.text import address, address_alone, client_name
from kafkascope.reports.incidents.away import gone_before, is_left_out, is_off, missed
from kafkascope.reports.incidents.blackouts import hush
from kafkascope.reports.incidents.changes import changes_made
from kafkascope.reports.incidents.departed import announced, departed
from kafkascope.reports.incidents.followers import asking, stood_still, unfetched
from kafkascope.reports.incidents.incident import Weighed
from kafkascope.reports.incidents.signs import Life, Signs
from kafkascope.reports.incidents.slow_brokers import held_up
from kafkascope.reports.incidents.table_rows import SPAN_NS, Row, between
from kafkascope.reports.incidents.unseen import first_in, hides
from kafkascope.reports.incidents.vanished import Scope, Vanished, vanished
from kafkascope.reports.incidents.who_is_who import Node, Takeover
from kafkascope.reports.vocabulary.broker_client_ids import OF_NODES, follower_node, quorum_node
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_ASKS = "asks"
BACK = {
    "broker_back": "it is listed again",
    "broker_registered": "a process of it has told the controller that it is there",
    "broker_unfenced": "the controller has put it into service",
    "broker_found": "it answers at another address",
    _ASKS: "it asks other brokers",
}
"""Events by which a broker is there again, and what they say; and what it does itself."""
_BEGINS = ("broker_registered", "broker_unfenced")
ANNOUNCED = 0.9
"""The weight of what says by itself that a broker was shut down on request."""
FOLLOWS_NS = 15 * SECOND_NS
"""Behind the end of another broker: until it is out of the sets of replicas in sync."""

_LONGEST_PAUSE = 0.6  # of a time in which something is sent again, each time after twice as long as before
_SOON_NS = 5 * SECOND_NS  # behind the return of a broker, or a choice of leaders: clients have learned what moved
_CHOOSE_LEADERS = ("ElectLeaders", "AlterPartitionReassignments")
_LEFT_OUT_NS = 5 * SECOND_NS  # behind the cluster's word that it is off, or its return: nobody waits for it any more


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
    by_its_own: bool = False  # its own connections to other brokers tell it, and nobody else
    missed: int | None = None  # nobody asked it until then, so it went at some time since it started; None: it is known
    unfetched: int = 0  # for how long (ns) it did not ask other brokers for what it replicates, as it should have

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
    def stands_still(self) -> bool:
        """Whether it was there, and answered nobody."""
        return self.kind == IncidentKind.BROKER_STALLED

    @property
    def is_cut_off(self) -> bool:
        """Whether not even acknowledgements came of its host: it is off, or the network to it broken."""
        silence = self.silence
        enough = threshold("cut_off") * 1000
        unheard = silence["asked"] > 0 and silence["acknowledged"] == 0
        return not self.gone and silence["duration_ms"] >= enough and unheard

    @property
    def lasted_ms(self) -> float:
        """Milliseconds from its begin to its end, or that of the capture."""
        end = self.silence["since"] + self.silence["duration_ms"] * MILLISECOND_NS
        return float(end - self.started) / MILLISECOND_NS

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
    found = [one for one in map(partial(_outage, signs), signs.silences) if one is not None]
    for silence in signs.once(gone_before):
        found.append(_with_return(signs, Outage(silence, silence["since"], silence["until"], True, [], before=True)))
    found += _departed(signs, found)
    found = _with_times(signs, found)
    found += _on_request(signs, found)
    found += _stood_still(signs, found)
    found = [one for one in found if one.before or not hides(signs, one.started, one.ended or signs.end)]
    found = _with_fetches(signs, _once(signs, sorted(found, key=lambda one: (one.started, one.host))))
    # Of whom all that waited may have waited for others: they are waited for by nobody, as far as is known.
    waited_for = [
        one for one in found if one.gone or one.is_cut_off or one.unfetched or not _may_wait_for_others(signs, one)
    ]
    follows, out_of_reach = _Waits(signs, waited_for).explain, signs.once(vanished)
    found = [one for one in found if one.gone or one.unfetched or not follows(one)]
    by_host: dict[str, list[Outage]] = defaultdict(list)
    for one in found:
        by_host[one.host].append(one)
    return [
        _taken(signs, one, by_host[one.host])
        for one in found
        if one.gone or (_stands_still(signs, one, by_host[one.host]) and not _unheard(signs, one, out_of_reach))
    ]


def _departed(signs: Signs, known: Sequence[Outage]) -> Iterator[Outage]:
    """Those that only the broker's own connections tell."""
    for address_of_it, silence in departed(signs):
        since, until = silence["since"] - SECOND_NS, silence["since"] + SECOND_NS
        if not any(
            one.gone
            and one.host in (silence["host"], address_of_it)
            and one.started <= until
            and since <= (one.ended or signs.end)
            for one in known
        ):
            orderly = _announced(signs, silence)
            one = Outage(silence, silence["since"], silence["until"], True, orderly, by_its_own=True)
            yield _with_return(signs, one)


def _on_request(signs: Signs, known: Sequence[Outage]) -> Iterator[Outage]:
    """Those that only the broker's own word tells, and that of the cluster."""
    takes = int(threshold("shutdown_takes") * SECOND_NS)
    told: list[tuple[str, int]] = []
    for host, silence in announced(signs):
        since = silence["since"]
        is_known = any(
            one.gone and one.host == host and one.started - takes <= since <= (one.ended or signs.end) for one in known
        )
        if not is_known and (host, since) not in told:
            told.append((host, since))
            yield _with_return(signs, Outage(silence, since, None, True, _announced(signs, silence), by_its_own=True))


def _stood_still(signs: Signs, known: Sequence[Outage]) -> Iterator[Outage]:
    """Likewise, of stalls: those that writes waited for, as nobody else would have noticed."""
    for address_of_it, silence in stood_still(signs):
        since, until = silence["since"], silence["until"]
        if not any(
            one.host in (silence["host"], address_of_it)
            and one.started <= until + SECOND_NS
            and since - SECOND_NS <= (one.ended or signs.end)
            for one in known
        ) and _was_missed(signs, silence):
            yield Outage(silence, since, until, False, [], by_its_own=True)


def _was_missed(signs: Signs, stall: Row) -> bool:
    """Whether writes waited for a broker that stood still, or it fell out of sync."""
    since, until = stall["since"], stall["until"]
    node = signs.node(stall["host"], since)
    events = signs.events_of(node, since, until + FOLLOWS_NS)
    left_out = node is not None and any(is_left_out(row, node) for row in events)
    return left_out or held_up(signs, since, until).longest >= threshold("long_answer")


def _outage(signs: Signs, silence: Row) -> Outage | None:
    """What a silence was; None if nobody knows of anything that was wrong."""
    failed = silence["refused"] + silence["unanswered"] + len(turned_away(signs, silence))
    # Requests that are not answered even when it is back: the capture lacks how their connections ended.
    is_anew = silence["until"] is not None and silence["back_by"] in ("opened", "as_client")
    left = silence["waiting"] and (silence["refused"] or is_anew) and not (silence["ended"] or silence["kept"])
    away = (
        bool(silence["ended"] or (left and (silence["refused"] or not _outlived(signs, silence))))
        and not silence["kept"]
        and (bool(failed) or missed(signs, silence["host"], silence["since"]))
    )
    if not failed and silence["ended_clients"] < 2 and not left:
        away = False  # it may have been the other side that went
    if silence["until"] is None and not failed and not _taken_off(signs, silence):
        away = False  # nobody asked for it again
    gone = away or (bool(failed) and silence["until"] is None)
    if not gone and (silence["ended"] > silence["kept"] or not silence["waiting"] or left):
        return None  # connections that are closed because nobody needs them any more, or nothing tells how
    orderly = _announced(signs, silence) if gone else []
    one = Outage(silence, silence["since"], silence["until"], gone, orderly)
    overdue = silence["overdue_ms"]
    if one.stands_still and overdue is not None:  # a broker of which nothing is due yet may be silent
        late = silence["duration_ms"] - overdue
        one = replace(one, started=one.started + round(late * MILLISECOND_NS))
    return _with_return(signs, one)


def turned_away(signs: Signs, silence: Row) -> list[Row]:
    """Connections that something took in the place of a broker, and closed at once, as a proxy with nothing behind it.

    Only if its side had ended one on which it spoke before: who closes each new one may just not like its client.
    """
    if silence["turned_away"] < threshold("turned_away"):
        return []
    until = signs.end if silence["until"] is None else silence["until"]
    where = (pc.field("broker") == address_alone(silence["host"])) & (pc.field("closed_by") == "broker")
    where &= (pc.field("closed") >= moment(silence["since"] - 2 * TENTH_NS)) & (pc.field("closed") <= moment(until))
    rows = [
        row
        for row in signs.connections(where)
        if signs.where(address(row["broker"], row["broker_port"])) == silence["host"]
    ]
    before = [row for row in rows if (row["opened"] or 0) < silence["since"]]
    spoken = signs.served({address(row["broker"], row["broker_port"]) for row in before})
    numbers = {row["connection"] for of_place in spoken.values() for row in of_place}
    return [row for row in rows if row not in before] if any(row["connection"] in numbers for row in before) else []


def _outlived(signs: Signs, silence: Row) -> bool:
    """Whether connections of before a broker's silence were there behind it, as its process was then.

    It closed its side as the client did, or those of several clients at once. Of one alone the client may just have
    been late to close its own.
    """
    if silence["until"] is None or silence["first_packet"] is None:
        return False
    where = (pc.field("broker") == address_alone(silence["host"])) & (pc.field("protocol") == "kafka")
    where &= (pc.field("closed") > moment(silence["until"])) & (pc.field("how_closed") == "fin")
    where &= pc.field("connection") < silence["first_packet"]
    mine = [
        row
        for row in signs.connections(where)
        if signs.where(address(row["broker"], row["broker_port"])) == silence["host"]
    ]
    mine.sort(key=lambda row: int(row["closed"]))
    return any(row["closed_by"] == "client" for row in mine) or any(
        later["closed"] - row["closed"] <= TENTH_NS and later["client"] != row["client"]
        for row, later in pairwise(mine)
    )


def _with_return(signs: Signs, outage: Outage) -> Outage:
    """The outage, with what tells that its broker is back where nothing came from its address again."""
    back = _back(signs, outage) if outage.gone and outage.ended is None else None
    return outage if back is None else replace(outage, ended=back["at"], back=back)


def _with_times(signs: Signs, found: Sequence[Outage]) -> list[Outage]:
    """Outages; of those that nobody asked for anything when they went the time at which they did, if anything tells.

    On a client's host, and at another broker, the last data of it may be from long before: it was there until its host
    closed a connection.
    """
    idle = [_was_idle(signs, one) for one in found]
    hosts = {one.address for one, is_idle in zip(found, idle, strict=True) if is_idle}
    where = among("broker", hosts) & pc.field("closed").is_valid() & (pc.field("closed_by") == "broker")
    closed: dict[str, list[Row]] = defaultdict(list)
    for row in signs.connections(where) if hosts else ():
        if row["protocol"] == "kafka":
            closed[signs.where(address(row["broker"], row["broker_port"]))].append(row)
    return [
        _timed(one, closed[one.host], signs.end) if is_idle else one for one, is_idle in zip(found, idle, strict=True)
    ]


def _was_idle(signs: Signs, outage: Outage) -> bool:
    """Whether nobody asked a broker that went away for anything, nor missed it, soon after its last data.

    But for one request: the capture may lack the answer.
    """
    silence = outage.silence
    if not outage.gone or outage.before or outage.by_its_own or silence["waiting"] > 1 or silence["asked"] > 1:
        return False
    return bool((silence["first_failed"] or signs.end) - outage.started > SECOND_NS)


def _timed(outage: Outage, closed: Sequence[Row], end: int) -> Outage:
    """An outage with when its broker's side closed a connection first, or else with when somebody missed it.

    If a request waited, when it closed those of several clients at once: as its process ended.
    """
    until = end if outage.ended is None else outage.ended
    waits = outage.silence["waiting"] or outage.silence["asked"]
    then = sorted((row["closed"], row["client"]) for row in closed if outage.started <= row["closed"] <= until)
    if waits:
        then = [one for one, other in pairwise(then) if other[0] - one[0] <= TENTH_NS and other[1] != one[1]]
    if not then:
        return outage if waits else replace(outage, missed=outage.silence["first_failed"])
    went = then[0][0]
    return replace(outage, started=went) if went - outage.started > SECOND_NS else outage


def _with_fetches(signs: Signs, found: Sequence[Outage]) -> list[Outage]:
    """Outages; those in which all may have waited for replicas with how long their broker did not fetch any."""
    unsure = {
        place: one.silence
        for place, one in enumerate(found)
        if not one.gone
        and one.ended is not None
        and one.silence["acknowledged"] != 0
        and _may_wait_for_others(signs, one)
    }
    longest = dict(zip(unsure, unfetched(signs, [*unsure.values()]), strict=True))
    return [replace(one, unfetched=longest.get(place, 0)) for place, one in enumerate(found)]


def _may_wait_for_others(signs: Signs, stall: Outage, but: int = 0) -> bool:
    """Whether all that waited at a broker, but for so many requests, may have waited for replicas on others."""
    return stall.silence["waiting"] - stall.silence["waiting_replicas"] <= but and not signs.has_one_broker


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
    if silence["timeouts"] or (_may_wait_for_others(signs, stall) and not stall.unfetched):
        return False  # what it sent was lost on the way, or it waited itself
    # Of one request the capture may lack the answer.
    by_one = (silence["waiting_connections"] <= 1 or _may_wait_for_others(signs, stall, 1)) and not stall.unfetched
    if by_one and _asks_on(signs, stall):
        return False
    if _seen_waiting(signs, stall) >= threshold("stall_of_one" if by_one else "stall") * 1000:
        return True
    if not silence["acknowledged"]:
        return False
    within = int(threshold("one_trouble") * SECOND_NS)
    low = bisect_left(of_host, stall.started - within, key=lambda one: one.started)
    near = of_host[low : bisect_right(of_host, stall.started + within, low, key=lambda one: one.started)]
    again = sum(not one.gone and bool(one.silence["acknowledged"]) for one in near)
    return again >= threshold("stalls")


def _seen_waiting(signs: Signs, stall: Outage) -> float:
    """Milliseconds for which somebody is seen to wait for a broker.

    What nobody asked again it may have answered while the capture stood still.
    """
    ended = signs.end if stall.ended is None else stall.ended
    dark = None if stall.silence["asked"] else first_in(signs, stall.started, ended)
    return stall.lasted_ms if dark is None else (dark.since - stall.started) / MILLISECOND_NS


def _asks_on(signs: Signs, stall: Outage) -> bool:
    """Whether a broker went on to ask others as a broker does, such as its controller, all the time that one waited."""
    ended = signs.end if stall.ended is None else stall.ended
    by_host = signs.once(asking).values()
    numbers = [row["connection"] for hosts in by_host for row in hosts.get(stall.address, ())]
    where = pc.field("connection").isin(numbers) & (pc.field("sender") == "client")
    where &= (pc.field("at") > moment(stall.started - SPAN_NS)) & (pc.field("at") <= moment(ended))
    rows = signs.rows("tcp_health", ("connection", "at", "payload_in"), where) if numbers else ()
    spoke = sorted({at for row in rows for at in Life(row).tenths("payload_in") if stall.started < at < ended})
    least = min(threshold("stall") * SECOND_NS, ended - stall.started)  # of a shorter one once is enough
    return all(later - earlier < least for earlier, later in pairwise([stall.started, *spoke, ended]))


class _Waits:
    """For which brokers others waited as for replicas, and until when."""

    def __init__(self, signs: Signs, found: Sequence[Outage]) -> None:
        self._signs = signs
        self._found = found  # by time
        self._untils = [self._until(one) for one in found]
        self._latest = [*accumulate(self._untils, max)]

    def _until(self, outage: Outage) -> int:
        until = waited_for_until(self._signs, outage)
        if until is None:  # nothing tells: who waits for a replica does not stand still as a whole for long
            return outage.started + int(threshold("one_trouble") * SECOND_NS)
        return until

    def explain(self, stall: Outage) -> bool:
        """Whether a broker stands still because another one is gone, or stands still for longer."""
        least = max(stall.silence["duration_ms"], threshold("stall") * 1000)
        first = bisect_left(self._latest, stall.started)
        behind = bisect_right(self._found, stall.started + SECOND_NS, key=lambda one: one.started)
        return any(
            one.host != stall.host
            and self._untils[place] >= stall.started
            and (one.gone or one.silence["duration_ms"] > least)
            and not _of_two_clusters(self._signs, one.host, stall.host, stall.started)
            for place, one in enumerate(self._found[first:behind], first)
        )


def waited_for_until(signs: Signs, outage: Outage) -> int | None:
    """When nobody waited any more for a broker as for a replica in sync: it was back, or left out; None: not known."""
    if outage.ended is not None:
        return max(outage.started + FOLLOWS_NS, outage.ended + _LEFT_OUT_NS)
    node = signs.node(outage.host, outage.started)
    events = signs.events_of(node, outage.started, signs.end + 1)
    left_out = next((row["at"] for row in events if node is not None and is_left_out(row, node)), None)
    return None if left_out is None else left_out + _LEFT_OUT_NS


def _taken_off(signs: Signs, silence: Row) -> bool:
    """Whether the cluster took a broker off its list when it fell silent."""
    node, since = signs.node(silence["host"], silence["since"]), silence["since"]
    return node is not None and any(
        is_off(row, node) for row in signs.events_of(node, since - SECOND_NS, since + 60 * SECOND_NS)
    )


def _back(signs: Signs, outage: Outage) -> Row | None:
    """What tells that a broker is back, maybe at another address: with names, that changes with each start."""
    node = signs.node(outage.host, outage.started)
    if node is None:
        return None
    told = (
        row
        for row in signs.events_of(node, outage.started, signs.end + 1)
        if row["event"] in BACK and str(row["node_id"]) == node.id
    )
    asks = _asks(signs, outage, node) if outage.host != outage.address else None
    return min(filter(None, (next(told, None), asks)), key=lambda row: int(row["at"]), default=None)


def _asks(signs: Signs, outage: Outage, node: Node) -> Row | None:
    """The first connection on which a broker of several at one address asks others again, in the form of an event."""
    for row in signs.once(_asking).get((outage.address, node.id), ()):
        asked = signs.node(signs.where(address(row["broker"], row["broker_port"])), row["opened"])
        is_later = row["opened"] > outage.started + SECOND_NS
        if is_later and asked is not None and asked.cluster_id == node.cluster_id:
            return {"event": _ASKS, "at": row["opened"], "packet": row["connection"], "told_by": row["client_id"]}
    return None


def _asking(signs: Signs) -> dict[tuple[str, str], list[Row]]:
    """Connections of brokers that share an address, by that and by their node id, in order of time."""
    hosts = {address_alone(row["host"]) for row in signs.silences if address_alone(row["host"]) != row["host"]}
    where = among("client", hosts) & pc.match_substring_regex(pc.field("client_id"), OF_NODES)
    where &= (pc.field("exchanges") > 0) & pc.field("opened").is_valid()
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(signs.connections(where) if hosts else (), key=lambda row: int(row["opened"])):
        found[row["client"], follower_node(row["client_id"]) or quorum_node(row["client_id"]) or ""].append(row)
    return found


def _announced(signs: Signs, silence: Row) -> list[Weighed]:
    """What shows that a broker prepared to go: it gave up its leaders while it still answered, or said so."""
    node, since = signs.node(silence["host"], silence["since"]), silence["since"]
    takes = int(threshold("shutdown_takes") * SECOND_NS)
    otherwise = moved_otherwise(signs, silence["host"], since)
    seen = []
    events = signs.events_of(node, since - takes, since + SECOND_NS)
    begun = max((row["at"] for row in events if _begins(row, node) and row["at"] < since), default=0)
    for row in events:
        if row["at"] < begun:
            continue  # of the process before
        if row["event"] == "shutdown_announced" and Node(row["cluster_id"], str(row["node_id"])) == node:
            seen.append(Weighed("it asked for an orderly shutdown", row["packet"], row["at"], ANNOUNCED))
        elif row["event"] != "leader_changed" or row["at"] >= since or otherwise(row["at"]):
            continue
        elif node is not None and row["before"] == node.id:
            text = f"leaders moved from it to {row['after']} before it fell silent"
            seen.append(Weighed(text, row["packet"], row["at"], 0.6))
    for row in between(signs.stale_leaders, max(since - takes, begun), since + SECOND_NS + 1, "last"):
        if signs.where(row["broker"]) != silence["host"] or otherwise(row["last"]):
            continue
        if not _coordinated_later(signs, row, since):
            who = client_name(row["client_id"])
            text = f"it answered {who} {row['error']}: it had given up its leaders while it was still there"
            seen.append(Weighed(text, row["first_packet"], row["first"], 0.6))
    return seen


def _begins(event: Row, node: Node | None) -> bool:
    """Whether an event is of a process of a broker that has just begun."""
    return event["event"] in _BEGINS and Node(event["cluster_id"], str(event["node_id"])) == node


def moved_otherwise(signs: Signs, host: str, since: int) -> Callable[[int], bool]:
    """Whether what moved from a broker at a time did so as it was silent before, or as somebody chose its leaders."""
    least = 1000 * threshold("stall_of_one")
    times = [
        (row["since"], row["until"])
        for row in signs.silences_at(host, since - int(threshold("shutdown_takes") * SECOND_NS) - _SOON_NS, since)
        if row["until"] is not None
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
