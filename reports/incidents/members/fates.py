"""What became of members that fell silent: their process ended, stood still, or was cut off."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.tenths import TENTH_NS
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import duration
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.costs import leader_before
from kafkascope.reports.incidents.incident import Cause, Effect, Weighed
from kafkascope.reports.incidents.members.traces import Traces, Whereabouts, traces
from kafkascope.reports.incidents.network.vanished import Vanished
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.measures.client_facts import NO_NAME
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

ENDS_SESSION = r'"sessionId": [1-9-]\d*, "sessionEpoch": -1,'
"""What a fetch request says by which a client ends its session (KIP-227)."""
_QUIET = 0.3  # of the time from a member's last word to the end of its session: a host that is well says something


@dataclass(frozen=True, slots=True)
class Loss:
    """A member that its group lost, by one rebalance."""

    rebalance: Row
    client_id: str | None
    host: str | None
    last_word: int | None  # None: it is not known
    expelled: int
    sure: Certainty  # that it was lost
    by_end: bool = False  # its last word is when its connection ended: how long its session was is not known

    @property
    def since(self) -> int:
        """From when on it was silent, as far as that is known."""
        return self.expelled if self.last_word is None else self.last_word


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a lost member, what shows it, and whether that tells it from the others."""

    kind: IncidentKind
    evidence: tuple[Weighed, ...]
    settled: bool
    ended: int | None = None  # when its process did, or when it was heard last; None: it was its last word
    closed: bool = False  # its client was closed, so the process did not die
    lived: bool = False  # it is not settled, but its process went on

    def at(self, loss: Loss) -> int:
        """When it befell a member: when its process ended, or when it was heard last, on whatever connection."""
        return loss.since if self.ended is None else self.ended


def fates(signs: Signs, losses: Sequence[Loss], of_brokers: Sequence[Outage]) -> list[Fate]:
    """What became of each, in their order."""
    found: list[Fate] = []
    sessions = _ended_sessions(signs, losses)
    for loss, left in zip(losses, traces(signs, [whereabouts(loss) for loss in losses]), strict=True):
        if loss.host is None or loss.last_word is None:
            text = "the capture does not show where it ran, or when it was heard last"
            found.append(Fate(IncidentKind.CLIENT_DIED, (Weighed(text, None, loss.since, 0.2),), False))
        else:
            fate = _closed(loss, left, sessions, of_brokers, signs.end) or _silent(loss, left)
            if left.connections and not any(row["packets_down"] for row in left.connections.values()):
                text = "what brokers sent it is not in the capture, nor who ended its connections"
                seen = *fate.evidence, Weighed(text, None, None, 0.2)
                fate = replace(fate, evidence=seen, settled=False, closed=False)
            found.append(fate)
    return found


def whereabouts(loss: Loss) -> Whereabouts:
    """From before its last word until it must be back, to be the same process still.

    A session begins anew with the answer to a JoinGroup, for which a member that died meanwhile waited.
    """
    names = frozenset() if loss.client_id is None else frozenset({loss.client_id})
    return Whereabouts(loss.host or "", names, loss.since - _back_within(), loss.expelled + _back_within())


def _back_within() -> int:
    return int(threshold("one_trouble") * SECOND_NS)


def fate_unheard(by: Vanished) -> Fate:
    """A host that went on to send, and that no broker heard."""
    lost = max(by.unheard, key=lambda one: (one.again, -one.since))
    lasted = duration((lost.last - lost.since) / MILLISECOND_NS)
    text = f"what it sent was not acknowledged, and sent again {counted(lost.again, 'time')} in {lasted}"
    return Fate(IncidentKind.CLIENT_UNREACHABLE, (Weighed(text, None, lost.since, 0.9),), True)


def _ended_sessions(signs: Signs, losses: Sequence[Loss]) -> dict[int, tuple[int, int]]:
    """When clients that were lost ended their fetch sessions (KIP-227), and the packets of that, by connection.

    They do when they are closed, and not when they are killed; static members, and Streams with the classic protocol,
    do not leave their group then.
    """
    names = sorted({loss.client_id for loss in losses if loss.client_id and loss.last_word is not None})
    if not names:
        return {}
    where = (
        (pc.field("api_key") == apis.FETCH)
        & among("client_id", names)
        & (pc.field("requested") >= moment(min(loss.since for loss in losses)))
        & (pc.field("requested") < moment(max(loss.expelled for loss in losses)))
    )
    found: dict[int, tuple[int, int]] = {}
    for batch in signs.batches("exchanges", ("connection", "requested", "request_packet", "request"), where):
        ends = batch.filter(pc.match_substring_regex(batch["request"], ENDS_SESSION))  # of few rows: it takes long
        for row in ends.drop_columns(["request"]).to_pylist():
            found[row["connection"]] = row["requested"], row["request_packet"]
    return found


def _closed(
    loss: Loss, left: Traces, sessions: Mapping[int, tuple[int, int]], of_brokers: Sequence[Outage], end: int
) -> Fate | None:
    """A process that ended: its kernel closed its connections; None if it closed none, or one of several alone."""
    mine = left.connections.values()
    by_itself = [
        row
        for row in mine
        if row["closed"] is not None
        and loss.since - SECOND_NS <= row["closed"] < loss.expelled
        and row["closed_by"] == "client"
        and not any(one.address == row["broker"] and one.covers(row["closed"], end) for one in of_brokers)
    ]
    lived_on = any(
        row["exchanges"] and (row["opened"] or 0) < loss.since and (row["closed"] or loss.expelled) >= loss.expelled
        for row in mine
    )
    if len(by_itself) <= lived_on:
        return None
    closed = min(by_itself, key=lambda row: (row["closed"], row["connection"]))
    how = "FIN" if closed["how_closed"] == "fin" else "RST"
    text = (
        f"its host closed {counted(len(by_itself), 'connection')} of it ({how}) without a LeaveGroup before: the "
        "process ended, and the kernel tidied up"
    )
    spoke = Weighed("its last word to the group", None, loss.since, 0.4)
    seen = spoke, Weighed(text, closed["connection"], closed["closed"], 0.9)
    died = _died(loss, left, closed["closed"])
    ended = [sessions[row["connection"]] for row in by_itself if row["connection"] in sessions]
    orderly = [(at, packet) for at, packet in ended if loss.since <= at < loss.expelled]
    if not orderly:
        return Fate(IncidentKind.CLIENT_DIED, seen, True, died)
    text = "it ended its fetch sessions, as a client does that is closed, and none that is killed"
    at, packet = min(orderly)
    evidence = *seen, Weighed(text, packet, at, 0.8)
    return Fate(IncidentKind.CLIENT_DIED, evidence, True, died, closed=True)


def _died(loss: Loss, left: Traces, closed: int) -> int:
    """When a process ended that closed a connection at a time.

    One on which it waited may be reset much later, as the broker answers: then it ended when it closed all others. Of
    several, as with a broker that stands still, its host sent something without data as it closed the first: FIN.
    """
    mine = left.connections.values()
    sent = left.sent(loss.since - _back_within(), closed)
    own = [life for life in sent if life.row["connection"] in left.connections]
    data = [at for life in own for at in life.tenths("payload_in") if at <= closed]
    bare = [
        (life.row["connection"], at)
        for life in own
        for at in {*life.tenths("sent_in")}.difference(life.tenths("payload_in"))
    ]
    for at in sorted(row["closed"] for row in mine if row["closed"] is not None and row["closed_by"] == "client"):
        later = [row for row in mine if (row["opened"] or 0) <= at and (row["closed"] or closed) > at + SECOND_NS]
        if not data or not max(data) <= at < closed:
            continue
        # When the broker closed its side as well is a little later than the first FIN.
        with_it = {number for number, tenth in bare if tenth <= at < tenth + 2 * TENTH_NS}
        at_once = all(row["closed_by"] == "client" and row["connection"] in with_it for row in later)
        if [row["how_closed"] for row in later] == ["rst"] or (later and at_once):
            return int(at)
    # Who waited for the group hears its answer, its last word, as it is dead: its host resets that connection at once.
    rest = [
        row for row in mine if (row["opened"] or 0) <= closed and (row["closed"] or loss.expelled) > closed + TENTH_NS
    ]
    lives = [life for life in left.sent(closed, loss.since) if life.row["connection"] in left.connections]
    spoke = any(closed < at <= loss.since for life in lives for at in life.tenths("payload_in"))
    was_reset = [(row["how_closed"], row["closed_by"]) for row in rest] == [("rst", "client")]
    if was_reset and not spoke and 0 <= rest[0]["closed"] - loss.since <= TENTH_NS:
        return closed
    return max(closed, loss.since)


def _silent(loss: Loss, left: Traces) -> Fate:
    """A host without a sign of life, or a process without one on a host that has."""
    sent = left.sent(loss.since, loss.expelled)
    packets = [at for life in sent for at in life.tenths("sent_in") if at < loss.expelled]
    own = [life for life in sent if life.row["connection"] in left.connections]
    data = [at for life in own for at in life.tenths("payload_in") if at < loss.expelled]
    last_packet, last_data = (max([loss.since, *times]) for times in (packets, data))  # a tenth begins before its word
    quiet = max(SECOND_NS, int((loss.expelled - loss.since) * _QUIET))
    if loss.expelled - last_packet >= quiet:
        asked = sorted(
            at
            for life in left.received(last_packet, loss.expelled)
            for at in life.tenths("sent_in")
            if last_packet + TENTH_NS < at < loss.expelled
        )
        spoke = Weighed("the last packet of its host", None, last_packet, 0.4)
        if asked:
            text = (
                f"brokers sent it packets in {counted(len(asked), 'tenth')} of a second after that, and nothing came "
                "back, not even an acknowledgement"
            )
            return Fate(IncidentKind.CLIENT_UNREACHABLE, (spoke, Weighed(text, None, asked[0], 0.8)), True, last_packet)
        if (again := _same_connections(loss, left)) is not None:
            # Who is answered asks for more at once, unless it stands still already, which before a cut is by chance.
            answered = [at for life in own for at in life.tenths("sent_in") if last_data < at < loss.expelled]
            went_on = (
                "it went on with the connections that it had, and nothing is seen to be lost on them: it stood still"
            )
            if answered:
                text = "its host acknowledged what it was sent after its last request, and it asked for no more"
                stopped = Weighed(text, None, min(answered), 0.5)
                back = Weighed(went_on, None, again, 0.7)
                return Fate(IncidentKind.CLIENT_FROZEN, (spoke, stopped, back), True, last_packet)
            back = Weighed(f"{went_on}, or was cut off before where the capture was made", None, again, 0.5)
            return Fate(IncidentKind.CLIENT_FROZEN, (spoke, back), False, last_packet, lived=True)
        text = "nothing at all came of its host, and nothing was sent to it: dead, frozen or cut off look alike"
        return Fate(IncidentKind.CLIENT_UNREACHABLE, (spoke, Weighed(text, None, None, 0.3)), False, last_packet)
    spoke = Weighed("its last word to the group", None, loss.since, 0.4)
    if loss.expelled - last_data >= quiet:
        after = [at for life in own for at in life.tenths("sent_in") if last_data < at < loss.expelled]
        if after:
            text = (
                f"its host went on to acknowledge ({counted(len(after), 'tenth')} of a second with packets, none "
                "with data)"
            )
            return Fate(IncidentKind.CLIENT_FROZEN, (spoke, Weighed(text, None, min(after), 0.8)), True, last_data)
        text = "its host went on to send packets, but none on its connections"
        return Fate(IncidentKind.CLIENT_FROZEN, (spoke, Weighed(text, None, last_data, 0.4)), False, last_data)
    text = "it went on to send data on other connections: the member alone fell silent"
    return Fate(IncidentKind.CLIENT_FROZEN, (spoke, Weighed(text, None, last_data, 0.4)), False)


def _same_connections(loss: Loss, left: Traces) -> int | None:
    """When a host sent data again on a connection that it had before, if it had to send nothing again; else None.

    What brokers may have had to send again, the capture must have as well.
    """
    mine = left.connections
    after = [
        life for life in left.sent(loss.expelled, loss.expelled + _back_within()) if life.row["connection"] in mine
    ]
    again = [
        at
        for life in after
        if (mine[life.row["connection"]]["opened"] or 0) <= loss.since and mine[life.row["connection"]]["packets_down"]
        for at in life.tenths("payload_in")
        if at >= loss.expelled
    ]
    if not again or any(life.row["timeout_retransmits"] for life in after):
        return None
    return min(again)


@dataclass(frozen=True, slots=True)
class Beside:
    """Who else was on hosts that were cut off."""

    names: list[str]
    effects: tuple[Effect, ...]


def cut_off_beside(signs: Signs, hosts: Sequence[str], names: Collection[str], at: int) -> Beside:
    """Clients other than some that had connections on these hosts as they were cut off, such as producers."""
    others = {name for name in signs.names_at(hosts) if name not in names and name != NO_NAME}
    where = among("client", hosts) & among("client_id", others)
    where &= pc.field("opened").is_null() | (pc.field("opened") <= moment(at))
    where &= pc.field("closed").is_null() | (pc.field("closed") > moment(at))
    rows = signs.connections(where) if others else []
    found = sorted({row["client_id"] for row in rows if not signs.is_broker(row["client"], row["client_id"])})
    if not found:
        return Beside([], ())
    on = "host" if len(hosts) == 1 else "hosts"
    text = f"{listed(found)} on the same {on} {'was' if len(found) == 1 else 'were'} cut off as well"
    return Beside(found, (Effect("clients", text, len(found)),))


def left_open(of_fates: Iterable[Fate]) -> tuple[str, str]:
    """What is said of members of whom it is not known what became of them, and what to do about that."""
    return (_OPEN_ALIVE, _ADVICE_ALIVE) if all(one.lived for one in of_fates) else (OPEN, ADVICE_OPEN)


def fate_words(kind: IncidentKind, names: Collection[str], *, closed: bool = False) -> str:
    """What became of some members."""
    return (_CLOSED if closed else _FATE_WORDS[kind]).format(were="was" if len(names) <= 1 else "were")


def fate_advice(signs: Signs, kind: IncidentKind, groups: Collection[str], *, closed: bool = False) -> str:
    """What to do about members of which that became."""
    if closed:
        return _ADVICE_CLOSED
    advice = with_session_of(signs, _FATE_ADVICE[kind], groups)
    of_streams = kind == IncidentKind.CLIENT_DIED and all(is_of_streams(signs, group) for group in groups)
    return f"{_ADVICE_STREAMS} {advice}" if of_streams else advice


def with_session_of(signs: Signs, advice: str, groups: Collection[str]) -> str:
    """The same advice, with the setting that holds in these groups for the length of a session."""
    protocols = {row["protocol"] for group in groups for row in signs.rebalances_of(group, signs.end)}
    if len(protocols) == 1 and (protocol := protocols.pop()) in SESSION_OF_GROUP:
        return advice.replace(_SESSION, f"{protocol}.{_SESSION} of the group (kafka-configs --entity-type groups)")
    return advice


def evidence_of(lost: Iterable[tuple[Loss, Fate]]) -> tuple[Weighed, ...]:
    """What shows what became of members; of several it is told whose it is."""
    seen = [(loss.client_id or loss.host, one) for loss, fate in lost for one in fate.evidence]
    if len({who for who, _ in seen}) > 1:
        seen = [(who, replace(one, text=f"{who}: {one.text}") if who else one) for who, one in seen]
    return tuple(dict.fromkeys(one for _, one in seen))


def refused_before(signs: Signs, names: Collection[str], at: int) -> Cause | None:
    """How members that ended at a time had been refused by their group shortly before; None if they were not."""
    near = int(threshold("outage_after") * SECOND_NS)
    refused = {
        row["api"]
        for row in signs.errors
        if row["error"] == Error.GROUP_AUTHORIZATION_FAILED
        and row["client_id"] in names
        and row["first"] <= at + SECOND_NS
        and at - near <= row["last"]
    }
    words = f", after {Error.GROUP_AUTHORIZATION_FAILED} for {listed(refused)}"
    return Cause(IncidentKind.AUTHORIZATION_FAILED, words) if refused else None


@dataclass(frozen=True, slots=True)
class Busy:
    """That members who say nothing may be at work: why, what to do about that, and at what."""

    evidence: Weighed
    advice: str
    words: str = "was busy"


def may_be_busy(signs: Signs, groups: Collection[str], names: Collection[str]) -> Busy | None:
    """Whether some members may be silent while they work; None of libraries that send heartbeats by themselves.

    So do those that tell their names (KIP-511); librdkafka with the consumer protocol for max.poll.interval.ms only.
    """
    members = [
        (row["protocol"], member)
        for group in groups
        for row in signs.rebalances_of(group, signs.end)
        for member in row["members"] or ()
        if member["client_id"] in names
    ]
    if not members or not all(member["software"] for _, member in members):
        return _OF_UNKNOWN
    if any(protocol == "consumer" and _is_librdkafka(member) for protocol, member in members):
        return _OF_LIBRDKAFKA
    return None


def in_assignor(signs: Signs, losses: Sequence[Loss]) -> Busy | None:
    """Whether lost members may have been busy with the assignment: each led a generation that never had one.

    Java clients, and librdkafka, send nothing at all meanwhile, not even heartbeats.
    """
    return _IN_ASSIGNOR if all(_was_to_assign(signs, loss) for loss in losses) else None


def _was_to_assign(signs: Signs, loss: Loss) -> bool:
    """Whether a member led the generation before, and had said nothing since it was told who is in it."""
    row = loss.rebalance
    leader = leader_before(signs, row)
    if leader is None or leader["client_id"] != loss.client_id or leader["host"] not in (None, loss.host):
        return False
    before = signs.rebalances_of(row["group_id"], row["started"] - 1)[-1]
    if before["stable"] is not None or leader["joined"] is None or leader["join_ms"] is None:
        return False
    told = leader["joined"] + (leader["join_ms"] + 1) * MILLISECOND_NS  # its session begins with that
    return loss.last_word is not None and loss.last_word <= told


def _is_librdkafka(member: Row) -> bool:
    """Whether a member's library is librdkafka, or built on it: these have it in their versions."""
    return "rdkafka" in f"{member['software']} {member['software_version']}"


def is_of_streams(signs: Signs, group: str) -> bool:
    """Whether a group of the classic protocol is that of a Streams application, by its assignor's name."""
    rows = signs.rebalances_of(group, signs.end)
    return any("stream" in (member["assignors"] or ()) for row in rows for member in row["members"] or ())


_ADVICE_STREAMS = (
    "A Streams application with the classic protocol does not leave when it is closed, or shuts down by itself (unless "
    "it asks for that: KIP-812): see in its log whether it was."
)
_ADVICE_CLOSED = (
    "Nothing, if it was stopped on purpose: static members, and Streams applications with the classic protocol, do not "
    "leave when they are closed, and their group waits for their session. A Streams application that is not to come "
    "back may leave (CloseOptions.leaveGroup, KIP-812); a static member is taken out by "
    "removeMembersFromConsumerGroup of the admin client."
)
ADVICE_REFUSED = (
    "Give its principal Read on the group back: clients end where they may not reach their group, and may not leave it "
    "either, so that it waits for their session."
)
"""What to do about members that ended as their group refused them."""
_OF_UNKNOWN = Busy(
    Weighed(
        "its library is not known: one that sends heartbeats between records alone (kafkajs), or whose thread the "
        "application holds up (aiokafka), says nothing either while it works on a record",
        weight=0.4,
        rejected=True,
    ),
    "See how long the application takes over a record: with kafkajs call heartbeat() meanwhile, with aiokafka give "
    "what takes long to a thread, or raise session.timeout.ms.",
)
_OF_LIBRDKAFKA = Busy(
    Weighed(
        "librdkafka with group.protocol=consumer says nothing either once its application has worked on a record for "
        "max.poll.interval.ms",
        weight=0.4,
        rejected=True,
    ),
    "See how long the application takes over a record: it has to call poll() within max.poll.interval.ms.",
)
_IN_ASSIGNOR = Busy(
    Weighed(
        "it was told who is in the group, and was to say who gets which partitions: a client that is busy with that "
        "(its assignor, or what Streams asks for before) sends no heartbeats meanwhile, and looks alike",
        weight=0.4,
        rejected=True,
    ),
    "See in its log how long its assignor takes (partition.assignment.strategy): longer than session.timeout.ms, and "
    "the leader is taken out; raise that.",
    "was busy in its assignor",
)
OPEN = "fell silent (dead, frozen or cut off: the capture leaves it open)"
"""What is said of members of whom it is not known which."""
_ADVICE_ALIVE = (
    "See whether its process stood still (garbage collection, SIGSTOP, a host without processor time), or was cut off "
    "(link, switch port, firewall, routing)."
)
_OPEN_ALIVE = "fell silent (frozen or cut off: the capture leaves it open)"
ADVICE_OPEN = (
    "See whether its process still runs (its log; kill, out of memory, crash), stood still (garbage collection, "
    "SIGSTOP, a host without processor time), or was cut off (link, switch port, firewall, routing)."
)
"""What to do about these."""
_CLOSED = "{were} closed without leaving"
_FATE_WORDS = {
    IncidentKind.CLIENT_DIED: "ended without leaving",
    IncidentKind.CLIENT_FROZEN: "froze",
    IncidentKind.CLIENT_UNREACHABLE: "{were} cut off from the network",
}
_SESSION = "session.timeout.ms"
SESSION_OF_GROUP = ("consumer", "share", "streams")
"""Protocols with which not members set their session's length, but brokers and groups (KIP-848, KIP-932, KIP-1071)."""
_FATE_ADVICE = {
    IncidentKind.CLIENT_DIED: "Find out why the process ended (kill, out of memory, crash: its log and the host's "
    "dmesg); close the consumer on shutdown, so that it leaves at once. A shorter session.timeout.ms finds a dead "
    "member sooner.",
    IncidentKind.CLIENT_FROZEN: "Look for what stopped the process at that moment: garbage collection, SIGSTOP, a host "
    "without CPU or memory, a virtual machine that was suspended. A longer session.timeout.ms bridges short pauses.",
    IncidentKind.CLIENT_UNREACHABLE: "Look at the network between this host and the brokers for that moment: link, "
    "switch port, firewall, routing. A longer session.timeout.ms bridges short ones.",
}
