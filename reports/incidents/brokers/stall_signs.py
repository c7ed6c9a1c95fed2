"""Whether it was a broker that stood still while others waited for it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.text import address_alone
from kafkascope.reports.incidents.brokers.followers import asking, unfetched
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.holes.blackouts import hush
from kafkascope.reports.incidents.holes.unseen import first_in
from kafkascope.reports.incidents.network.vanished import Scope, Vanished
from kafkascope.reports.incidents.signs import Life, Signs
from kafkascope.reports.incidents.table_rows import SPAN_NS
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_LONGEST_PAUSE = 0.6  # of a time in which something is sent again, each time after twice as long as before


def with_fetches(signs: Signs, found: Sequence[Outage]) -> list[Outage]:
    """Outages; those in which all may have waited for replicas with how long their broker did not fetch any."""
    unsure = {
        place: one.silence
        for place, one in enumerate(found)
        if not one.gone
        and one.ended is not None
        and one.silence["acknowledged"] != 0
        and may_wait_for_others(signs, one)
    }
    longest = dict(zip(unsure, unfetched(signs, [*unsure.values()]), strict=True))
    return [replace(one, unfetched=longest.get(place, 0)) for place, one in enumerate(found)]


def may_wait_for_others(signs: Signs, stall: Outage, but: int = 0) -> bool:
    """Whether all that waited at a broker, but for so many requests, may have waited for replicas on others."""
    return stall.silence["waiting"] - stall.silence["waiting_replicas"] <= but and not signs.has_one_broker


def lost_on_the_way(signs: Signs, stall: Outage, found: Sequence[Vanished]) -> bool:
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


def stands_still(signs: Signs, stall: Outage, of_host: Sequence[Outage]) -> bool:
    """Whether it was the broker that stood still: for long, or again and again while its host was awake."""
    silence = stall.silence
    if signs.lacking(stall.address) >= threshold("answers_lacking"):
        return False
    if stall.is_cut_off:
        paused = hush(signs, stall.started, stall.ended or signs.end)
        sent_again = paused < _LONGEST_PAUSE * silence["duration_ms"] * MILLISECOND_NS
        return bool(silence["waiting_connections"] > 1) and sent_again
    if silence["timeouts"] or (may_wait_for_others(signs, stall) and not stall.unfetched):
        return False  # what it sent was lost on the way, or it waited itself
    # Of one request the capture may lack the answer.
    by_one = (silence["waiting_connections"] <= 1 or may_wait_for_others(signs, stall, 1)) and not stall.unfetched
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
