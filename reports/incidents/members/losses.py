"""Members that a broker heard nothing of for their session, and that no broker's end explains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.members.fates import Loss, fates, whereabouts
from kafkascope.reports.incidents.members.traces import Traces, traces
from kafkascope.reports.incidents.network.vanished import Vanished
from kafkascope.reports.incidents.signs import Signs, group_of
from kafkascope.reports.incidents.table_rows import Row, between
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SURE = {certainty.value: certainty for certainty in Certainty}
SHORTEST_SESSION = SECOND_NS
"""That anybody has: brokers take none below group.min.session.timeout.ms, 6 s by default."""
_FINDS_IT_NS = 5 * SECOND_NS  # a member finds its new coordinator by then, if it can
_MOST_OF_A_SESSION = 0.8  # the rest is for the broker's time and that of the capture point
_REFUSED = EventKind.HEARTBEAT_REFUSED


def losses(signs: Signs) -> list[Loss]:
    """Members that a broker heard nothing of for their session; also while their group rebalanced for another reason.

    As with a process that is killed, and replaced at once. Not those whose coordinator had gone away, unless that does
    not explain it (`_by_themselves`); nor those that did nothing but join again meanwhile
    (`shared_groups.clusters_of_connect`): they live; nor those that had said that they go.
    """
    of_brokers = signs.once(outages)
    joins_on = {
        (group_of(finding), name): finding["since"]
        for finding in signs.findings
        if finding["kind"] == "configurations_apart"
        for name in finding["client_ids"]
    }
    found: list[Loss] = []
    beside: list[Loss] = []
    for row in signs.rebalances:
        if row["started"] is None:
            continue
        of_row = []
        if row["trigger"] == Trigger.SESSION_TIMEOUT:
            sure = _SURE.get(row["certainty"], Certainty.GUESSED)
            of_row.append(_loss(signs, row, row["trigger_client_id"], row["trigger_member"], row["started"], sure))
        for also in row["contributing"] or ():
            if also["trigger"] == Trigger.SESSION_TIMEOUT and also["at"] is not None:
                loss = _loss(signs, row, also["client_id"], None, also["at"], Certainty.LIKELY, also["packet"])
                if loss.last_word is not None and (loss.host, loss.last_word) not in {
                    (one.host, one.last_word) for one in of_row
                }:
                    of_row.append(loss)
        for one in of_row:
            if joins_on.get((row["group_id"], one.client_id), one.expelled) < one.expelled or _stepped_out(signs, one):
                continue
            (beside if _by_coordinator(signs, of_brokers, one) else found).append(one)
    return [*found, *_by_themselves(signs, beside, of_brokers)]


def _by_themselves(signs: Signs, beside: Sequence[Loss], of_brokers: Sequence[Outage]) -> Iterator[Loss]:
    """Those of members lost beside an outage that it does not explain.

    Those whose processes ended: they had not been closed, and did nothing more. Who lives closes connections as well,
    and opens others; who is closed cannot leave while its coordinator is away. Those that stood still, or were cut off:
    who lives asks other brokers where its coordinator is.
    """
    gone = [one for one in of_brokers if one.gone]
    known = [loss for loss in beside if loss.host and loss.last_word is not None]
    left = traces(signs, [whereabouts(loss) for loss in known])
    for loss, fate, mine in zip(known, fates(signs, known, gone), left, strict=True):
        if fate.settled and fate.kind == IncidentKind.CLIENT_DIED:
            ended = fate.at(loss)
            soon = ended + int(_MOST_OF_A_SESSION * (loss.expelled - ended))  # later it may be what came in its place
            again = any(ended < (row["opened"] or 0) < soon for row in mine.connections.values())
            if not fate.closed and not again:
                yield loss
        elif (fate.settled or fate.lived) and _said_nothing(loss, mine, of_brokers, signs.end):
            yield loss


def _said_nothing(loss: Loss, left: Traces, of_brokers: Sequence[Outage], end: int) -> bool:
    """Whether a client had a connection to a broker that was there, and sent data on none, for most of its session."""
    away = {one.address for one in of_brokers if one.started <= loss.expelled and loss.since <= one.until(end)}
    to_others = any(
        row["exchanges"]
        and row["broker"] not in away
        and (row["opened"] or 0) <= loss.since
        and (row["closed"] or loss.expelled) >= loss.expelled
        for row in left.connections.values()
    )
    since = loss.expelled - int(_MOST_OF_A_SESSION * (loss.expelled - loss.since))
    own = (life for life in left.sent(since, loss.expelled) if life.row["connection"] in left.connections)
    return to_others and not any(since < at < loss.expelled for life in own for at in life.tenths("payload_in"))


def _stepped_out(signs: Signs, loss: Loss) -> bool:
    """Whether a static member had said that it goes (KIP-848), and did not come back in time: it was stopped."""
    if loss.last_word is not None:
        return False
    events = reversed(signs.events_of_group(loss.rebalance["group_id"]))
    member = loss.rebalance["trigger_member"]
    last = next((row for row in events if row["member_id"] == member and row["at"] <= loss.expelled), None)
    return last is not None and last["event"] == EventKind.LEFT


def least_silence(signs: Signs, loss: Loss) -> float:
    """Nanoseconds that a member must have said nothing to be lost: most of its session, if that is what began it.

    Of what else happened in a rebalance the time is when that was told.
    """
    if loss.rebalance["trigger"] != Trigger.SESSION_TIMEOUT or loss.expelled != loss.rebalance["started"]:
        return SHORTEST_SESSION
    return max(SHORTEST_SESSION, _MOST_OF_A_SESSION * _session(signs, loss))


def _session(signs: Signs, loss: Loss) -> int:
    """Nanoseconds that a member's session lasted; 0 if that is not known."""
    rows = reversed(signs.rebalances_of(loss.rebalance["group_id"], loss.expelled))
    members = (member for row in rows for member in row["members"] or () if member["client_id"] == loss.client_id)
    session = next((one["session_timeout_ms"] for one in members if one["session_timeout_ms"]), 0)
    return int(session * MILLISECOND_NS)


def cut_off_by(signs: Signs, found: Sequence[Vanished], loss: Loss) -> Vanished | None:
    """What vanished between a lost member and its coordinator, until it was lost; None if nothing is known to have.

    What it said meanwhile, in vain, is no silence: then it was for its session, by what its group did.
    """
    since = loss.since if loss.last_word is not None else loss.expelled - _session(signs, loss)
    return next(
        (
            one
            for one in found
            if one.client == loss.host
            and one.overlaps(since, loss.expelled)
            and signs.coordinates(one.broker, loss.rebalance["group_id"], loss.expelled)
        ),
        None,
    )


def _by_coordinator(signs: Signs, of_brokers: Sequence[Outage], loss: Loss) -> bool:
    """Whether a coordinator that was away ended a session: a member was not heard since it had gone, or had changed."""
    group, at = loss.rebalance["group_id"], loss.rebalance["started"]
    for outage in of_brokers:
        if outage.covers(at, signs.end):
            since = outage.started - (loss.last_word or outage.started)  # it spoke last, when it went
            if -SECOND_NS <= since <= _FINDS_IT_NS and signs.coordinates(outage.host, group, outage.started):
                return True
            for event in between(signs.events_of_group(group), outage.started, at + SECOND_NS):
                was_heard_since = loss.last_word is not None and loss.last_word > event["at"] + _FINDS_IT_NS
                if (
                    event["event"] == EventKind.COORDINATOR_MOVED
                    and not was_heard_since
                    and not _joined_since(signs, loss, event["at"])
                ):
                    return True
    return False


def _joined_since(signs: Signs, loss: Loss, at: int) -> bool:
    """Whether a member that was lost had joined its group since a time: it had found its coordinator."""
    return any(
        (member["client_id"], member["host"]) == (loss.client_id, loss.host) and (member["joined"] or 0) > at
        for row in signs.rebalances_of(loss.rebalance["group_id"], loss.rebalance["started"] - 1, at)
        for member in row["members"] or ()
    )


def _loss(
    signs: Signs,
    row: Row,
    client_id: str | None,
    member_id: str | None,
    at: int,
    sure: Certainty,
    last_packet: int | None = None,
) -> Loss:
    """Who was lost, where it ran, and when it was heard last: by member id, by its last packet, or by a client id that
    one host of the group has.

    One that is started again and again has several members of one client id, each with its own last packet.
    """
    hosts, of_group = signs.hosts_of.get(client_id or "", []), signs.heard_of(row["group_id"])
    ran_at = [host for host in hosts if host in of_group] or hosts

    def is_it(one: Row) -> bool:
        if member_id is not None and one["member_id"] is not None:
            return bool(one["member_id"] == member_id)
        return client_id is not None and one["client_id"] == client_id and len(ran_at) == 1

    silences = signs.silences_of(row["group_id"], at)[::-1]
    with_it = (one for one in silences if last_packet is not None and one["packet"] == last_packet)
    silence = next((one for one in with_it if one["client_id"] == client_id), next(filter(is_it, silences), None))
    by_end = silence is None
    if silence is None:  # the capture may lack how long its session is
        silence = next((one for one in reversed(signs.ends_of(row["group_id"], at)) if is_it(one)), None)
    host = silence["client"] if silence else None
    if host is None:
        before = reversed(signs.rebalances_of(row["group_id"], at))
        members = (member for one in before for member in one["members"] or () if member["host"])
        host = next((member["host"] for member in members if is_it(member)), ran_at[0] if len(ran_at) == 1 else None)
    if silence is None:
        at = _known_by(signs, row, member_id, at)
    return Loss(row, client_id, host, silence["at"] if silence else None, at, sure, by_end)


def _known_by(signs: Signs, row: Row, member_id: str | None, begun: int) -> int:
    """When it is known that a member had been lost whose session nobody knows.

    Its rebalance may have begun as soon as nobody was told of any; it had when somebody was, or the member that it is
    none.
    """
    if row["trigger"] != Trigger.SESSION_TIMEOUT or begun != row["started"]:
        return begun
    group, until = row["group_id"], (row["stable"] or signs.end) + 1
    told = [one["at"] for one in between(signs.events_of_group(group), begun, until) if one["event"] == _REFUSED]
    told += [at for at in signs.once(_fenced).get((group, member_id), ()) if begun <= at < until]
    return min(told, default=begun)


def _fenced(signs: Signs) -> dict[tuple[str, str | None], list[int]]:
    """When members were told that they are none, by group and member id."""
    found: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    where = pc.field("event") == EventKind.FENCED
    for row in signs.rows("group_events", ("group_id", "member_id", "at"), where):
        found[row["group_id"], row["member_id"]].append(row["at"])
    return found
