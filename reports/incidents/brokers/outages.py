"""When brokers were gone, or stood still, and what is known of the cause: from silences, and what clusters said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.tenths import TENTH_NS
from kafkascope.reports.columns.text import address, address_alone
from kafkascope.reports.incidents.brokers.away import gone_before, is_left_out, is_off, missed
from kafkascope.reports.incidents.brokers.departed import announced, departed
from kafkascope.reports.incidents.brokers.followers import stood_still
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.brokers.replica_waits import FOLLOWS_NS, Waits
from kafkascope.reports.incidents.brokers.returns import with_return
from kafkascope.reports.incidents.brokers.shutdowns import SOON_NS, shutdown_signs
from kafkascope.reports.incidents.brokers.slow_brokers import held_up
from kafkascope.reports.incidents.brokers.stall_signs import (
    lost_on_the_way,
    may_wait_for_others,
    stands_still,
    with_fetches,
)
from kafkascope.reports.incidents.holes.unseen import hides
from kafkascope.reports.incidents.network.vanished import vanished
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS


def outages(signs: Signs) -> list[Outage]:
    """All of them, by time."""
    found = [one for one in map(partial(_outage, signs), signs.silences) if one is not None]
    for silence in signs.once(gone_before):
        found.append(with_return(signs, Outage(silence, silence["since"], silence["until"], True, [], before=True)))
    found += _departed(signs, found)
    found = _with_times(signs, found)
    found += _on_request(signs, found)
    found += _stood_still(signs, found)
    found = [one for one in found if one.before or not hides(signs, one.started, one.ended or signs.end)]
    found = with_fetches(signs, _once(signs, sorted(found, key=lambda one: (one.started, one.host))))
    # Of whom all that waited may have waited for others: they are waited for by nobody, as far as is known.
    waited_for = [
        one for one in found if one.gone or one.is_cut_off or one.unfetched or not may_wait_for_others(signs, one)
    ]
    follows, out_of_reach = Waits(signs, waited_for).explain, signs.once(vanished)
    found = [one for one in found if one.gone or one.unfetched or not follows(one)]
    by_host: dict[str, list[Outage]] = defaultdict(list)
    for one in found:
        by_host[one.host].append(one)
    return [
        _taken(signs, one, by_host[one.host])
        for one in found
        if one.gone or (stands_still(signs, one, by_host[one.host]) and not lost_on_the_way(signs, one, out_of_reach))
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
            orderly = shutdown_signs(signs, silence)
            one = Outage(silence, silence["since"], silence["until"], True, orderly, by_its_own=True)
            yield with_return(signs, one)


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
            orderly = shutdown_signs(signs, silence)
            yield with_return(signs, Outage(silence, since, None, True, orderly, by_its_own=True))


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
    orderly = shutdown_signs(signs, silence) if gone else []
    one = Outage(silence, silence["since"], silence["until"], gone, orderly)
    overdue = silence["overdue_ms"]
    if one.stands_still and overdue is not None:  # a broker of which nothing is due yet may be silent
        late = silence["duration_ms"] - overdue
        one = replace(one, started=one.started + round(late * MILLISECOND_NS))
    return with_return(signs, one)


_TAKES_NS = SECOND_NS
"""For how long a process that ends may be seen to take connections: its kernel closes one socket after the other."""


def taken_by_proxy(signs: Signs, silence: Row) -> list[Row]:
    """Those that were turned away, if that went on: a process resets some as it ends.

    Not where connects are refused as well: then nothing takes them.
    """
    found = turned_away(signs, silence)
    ended = silence["since"] + TENTH_NS + _TAKES_NS
    later = sum((row["opened"] or 0) > ended for row in found)
    return found if later >= threshold("turned_away") and not silence["refused"] else []


def turned_away(signs: Signs, silence: Row) -> list[Row]:
    """Connections that something took in the place of a broker, and closed at once, as a proxy with nothing behind it.

    Only if its side had ended one on which it spoke before: who closes each new one may just not like its client.
    """
    if silence["turned_away"] < threshold("turned_away"):
        return []
    until = signs.end if silence["until"] is None else silence["until"]
    where = (pc.field("closed") >= moment(silence["since"] - 2 * TENTH_NS)) & (pc.field("closed") <= moment(until))
    where &= (pc.field("closed_by") == "broker") & pc.field("how_closed").isin(["fin", "rst"])
    rows = _connections_to(signs, silence, where)
    before = [row for row in rows if (row["opened"] or 0) < silence["since"]]
    spoken = signs.served({address(row["broker"], row["broker_port"]) for row in before})
    numbers = {row["connection"] for of_place in spoken.values() for row in of_place}
    if not any(row["connection"] in numbers for row in before):
        return []
    return [row for row in rows if (row["opened"] or 0) >= silence["since"]]


def _connections_to(signs: Signs, silence: Row, where: pc.Expression) -> list[Row]:
    """Some connections to the broker that was silent: others may be at its address."""
    of_address = signs.connections(where & (pc.field("broker") == address_alone(silence["host"])))
    return [row for row in of_address if signs.where(address(row["broker"], row["broker_port"])) == silence["host"]]


def _outlived(signs: Signs, silence: Row) -> bool:
    """Whether connections of before a broker's silence were there behind it, as its process was then.

    It closed its side as the client did, or those of several clients at once. Of one alone the client may just have
    been late to close its own.
    """
    if silence["until"] is None or silence["first_packet"] is None:
        return False
    where = (pc.field("protocol") == "kafka") & (pc.field("how_closed") == "fin")
    where &= (pc.field("closed") > moment(silence["until"])) & (pc.field("connection") < silence["first_packet"])
    mine = sorted(_connections_to(signs, silence, where), key=lambda row: int(row["closed"]))
    return any(row["closed_by"] == "client" for row in mine) or any(
        later["closed"] - row["closed"] <= TENTH_NS and later["client"] != row["client"]
        for row, later in pairwise(mine)
    )


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
            and one.started <= (once[place].ended or signs.end) + (SOON_NS if one.gone else 0)
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


def _taken_off(signs: Signs, silence: Row) -> bool:
    """Whether the cluster took a broker off its list when it fell silent."""
    node, since = signs.node(silence["host"], silence["since"]), silence["since"]
    return node is not None and any(
        is_off(row, node) for row in signs.events_of(node, since - SECOND_NS, since + 60 * SECOND_NS)
    )
