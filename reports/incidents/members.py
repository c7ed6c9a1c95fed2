"""Members of groups that were lost, work too slowly, or may not join: from rebalances and findings of groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers import Outage, out_at, outages
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import TENTH_NS, Row, Signs, between
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SURE = {certainty.value: certainty for certainty in Certainty}
_ADVICE_REVOCATION = (
    "Look at onPartitionsRevoked, and at what is committed there: it must end well within max.poll.interval.ms, "
    "which is the rebalance timeout too."
)
_QUIET = 0.3  # of the time from a member's last word to the end of its session: a host that is well says something


@dataclass(frozen=True, slots=True)
class Loss:
    """A member that its group lost, by one rebalance."""

    rebalance: Row
    client_id: str | None
    host: str | None
    last_word: int | None  # None: it is not known
    expelled: int

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


# --- lost ------------------------------------------------------------------------------------------------------------


def lost(signs: Signs) -> Iterator[Incident]:
    """Members that a broker heard nothing of for their session: dead, frozen or cut off. One host is one incident."""
    alike: dict[tuple[str, IncidentKind], list[tuple[Loss, Fate]]] = defaultdict(list)
    of_brokers = [one for one in outages(signs) if one.gone]
    for row in signs.rebalances:
        if row["trigger"] != Trigger.SESSION_TIMEOUT or row["started"] is None:
            continue
        if _by_coordinator(signs, of_brokers, row):
            continue
        loss = _loss(signs, row)
        fate = _fate(signs, loss)
        where = loss.host or loss.client_id or f"{row['group_id']} {row['trigger_member']}"
        alike[where, fate.kind].append((loss, fate))
    for _, of_host in sorted(alike.items()):
        for together in _runs(of_host):
            yield _lost(signs, together)


def _by_coordinator(signs: Signs, of_brokers: Sequence[Outage], row: Row) -> bool:
    """Whether the group's coordinator had just changed by an outage: then the session ended by that."""
    outage = out_at(of_brokers, row["started"], signs.end)
    if outage is None:
        return False
    moves = between(signs.group_events, outage.started, row["started"] + SECOND_NS)
    return any(event["event"] == "coordinator_moved" and event["group_id"] == row["group_id"] for event in moves)


def _loss(signs: Signs, row: Row) -> Loss:
    """Who was lost, where it ran, and when it was heard last: by member id, or by a client id that one host has."""
    client_id, member_id, at = row["trigger_client_id"], row["trigger_member"], row["started"]
    ran_at = signs.hosts_of.get(client_id or "", [])

    def is_it(one: Row) -> bool:
        if member_id is not None and one["member_id"] is not None:
            return bool(one["member_id"] == member_id)
        return client_id is not None and one["client_id"] == client_id and len(ran_at) == 1

    silence = next((one for one in reversed(signs.silences_of(row["group_id"], at)) if is_it(one)), None)
    host = silence["client"] if silence else None
    if host is None:
        before = reversed(signs.rebalances_of(row["group_id"], at))
        members = (member for one in before for member in one["members"] or () if member["host"])
        host = next((member["host"] for member in members if is_it(member)), ran_at[0] if len(ran_at) == 1 else None)
    return Loss(row, client_id, host, silence["at"] if silence else None, at)


def _runs(of_host: Sequence[tuple[Loss, Fate]]) -> Iterator[list[tuple[Loss, Fate]]]:
    """Losses of one host that belong to one trouble: of groups that lost it at once, or again soon."""
    run: list[tuple[Loss, Fate]] = []
    for one in sorted(of_host, key=lambda one: (one[0].expelled, one[0].rebalance["group_id"])):
        if run and one[0].expelled - run[-1][0].expelled > threshold("one_trouble") * SECOND_NS:
            yield run
            run = []
        run.append(one)
    if run:
        yield run


def _lost(signs: Signs, run: Sequence[tuple[Loss, Fate]]) -> Incident:
    losses = [loss for loss, _ in run]
    first = min(losses, key=lambda loss: loss.since)
    fate = min((fate for _, fate in run), key=lambda fate: not fate.settled)
    names = sorted({loss.client_id for loss in losses if loss.client_id})
    groups = sorted({loss.rebalance["group_id"] for loss in losses})
    returned = _returned(signs, losses)
    effects, cost_ms, rebalances = _cost(signs, groups, [loss.rebalance for loss in losses] + returned)
    who = f"{listed(names or ['a member'])}{f' ({first.host})' if first.host else ''}"
    what = (
        _FATE_WORDS[fate.kind] if fate.settled else "fell silent (dead, frozen or cut off: the capture leaves it open)"
    )
    silent = f" after {duration((first.expelled - first.since) / MILLISECOND_NS)} of silence" if first.last_word else ""
    again = f"; it was back at {clock(returned[0]['started'])}" if returned else ""
    last = losses[-1].rebalance
    over = returned[-1]["started"] if returned else last["recovered"] or last["stable"] or last["started"]
    sure = min(
        (_SURE.get(loss.rebalance["certainty"], Certainty.GUESSED) for loss in losses), key=list(Certainty).index
    )
    if fate.kind == IncidentKind.CLIENT_FROZEN and sure == Certainty.CERTAIN:
        sure = Certainty.LIKELY  # a cut behind the capture point may look the same
    return Incident(
        kind=fate.kind,
        severity=Severity.WARNING,
        certainty=sure if fate.settled else Certainty.GUESSED,
        subjects=(
            *(Subject(Role.CLIENT, name) for name in names),
            *((Subject(Role.HOST, first.host),) if first.host else ()),
            *(Subject(Role.GROUP, group) for group in groups),
        ),
        started=first.since,
        ended=over,
        headline=f"{who} {what} at {clock(first.since)}, and was taken out of "
        f"{'group' if len(groups) == 1 else 'groups'} {listed(groups)}{silent}{again}" + outcome(effects),
        evidence=fate.evidence,
        advice=_FATE_ADVICE[fate.kind],
        cost_ms=cost_ms,
        effects=effects,
        findings=_findings(
            signs,
            groups,
            {"member_lost", "commit_refused", "partition_unowned", "commits_stopped", "unanswered", "read_again"},
            first.since,
            over,
            names,
        ),
        rebalances=rebalances,
    )


_FATE_WORDS = {
    IncidentKind.CLIENT_DIED: "ended without leaving",
    IncidentKind.CLIENT_FROZEN: "froze",
    IncidentKind.CLIENT_UNREACHABLE: "was cut off from the network",
}
_FATE_ADVICE = {
    IncidentKind.CLIENT_DIED: "Find out why the process ended (kill, out of memory, crash: its log and the host's "
    "dmesg); close the consumer on shutdown, so that it leaves at once. A shorter session.timeout.ms finds a dead "
    "member sooner.",
    IncidentKind.CLIENT_FROZEN: "Look for what stopped the process at that moment: garbage collection, SIGSTOP, a host "
    "without CPU or memory, a virtual machine that was suspended. A longer session.timeout.ms bridges short pauses.",
    IncidentKind.CLIENT_UNREACHABLE: "Look at the network between this host and the brokers for that moment: link, "
    "switch port, firewall, routing. A longer session.timeout.ms, or static membership, bridges short ones.",
}


def _fate(signs: Signs, loss: Loss) -> Fate:
    """Which of the three it was."""
    if loss.host is None or loss.last_word is None:
        text = "the capture does not show where it ran, or when it was heard last"
        return Fate(IncidentKind.CLIENT_DIED, (Weighed(text, None, loss.since, 0.2),), False)
    mine = [] if loss.client_id is None else signs.connections_of(loss.host, loss.client_id)
    return _closed(loss, mine) or _silent(signs, loss, {row["connection"]: row for row in mine})


def _closed(loss: Loss, mine: Sequence[Row]) -> Fate | None:
    """A process that ended: its kernel closed its connections; None if it closed none."""
    by_itself = [
        row
        for row in mine
        if row["closed"] is not None
        and loss.since - SECOND_NS <= row["closed"] < loss.expelled
        and (row["how_closed"] == "fin" or row["reset_by"] == "client")
    ]
    if not by_itself:
        return None
    closed = min(by_itself, key=lambda row: (row["closed"], row["connection"]))
    how = "FIN" if closed["how_closed"] == "fin" else "RST"
    text = (
        f"its host closed {counted(len(by_itself), 'connection')} of it ({how}) without a LeaveGroup before: the "
        "process ended, and the kernel tidied up"
    )
    spoke = Weighed("its last word to the group", None, loss.since, 0.4)
    return Fate(IncidentKind.CLIENT_DIED, (spoke, Weighed(text, closed["connection"], closed["closed"], 0.9)), True)


def _silent(signs: Signs, loss: Loss, mine: Mapping[int, Row]) -> Fate:
    """A host without a sign of life, or a process without one on a host that has; mine are its connections."""
    sent = signs.health(loss.host or "", loss.since, loss.expelled)
    packets = sorted(at for life in sent for at in life.tenths("sent_in") if at < loss.expelled)
    own = [life for life in sent if life.row["connection"] in mine]
    data = [at for life in own for at in life.tenths("payload_in") if at < loss.expelled]
    last_packet, last_data = (max(times, default=loss.since) for times in (packets, data))
    quiet = max(SECOND_NS, int((loss.expelled - loss.since) * _QUIET))
    if loss.expelled - last_packet >= quiet:
        asked = sorted(
            at
            for broker in sorted({row["broker"] for row in mine.values()})
            for life in signs.health(broker, last_packet, loss.expelled)
            if life.row["connection"] in mine
            for at in life.tenths("sent_in")
            if last_packet + TENTH_NS < at < loss.expelled
        )
        spoke = Weighed("the last packet of its host", None, last_packet, 0.4)
        if asked:
            text = (
                f"brokers sent it packets in {counted(len(asked), 'tenth')} of a second after that, and nothing came "
                "back, not even an acknowledgement"
            )
            return Fate(IncidentKind.CLIENT_UNREACHABLE, (spoke, Weighed(text, None, asked[0], 0.8)), True)
        if (again := _same_connections(signs, loss, mine)) is not None:
            text = "it went on with the connections that it had, and nothing had been lost on them: it had stood still"
            return Fate(IncidentKind.CLIENT_FROZEN, (spoke, Weighed(text, None, again, 0.7)), True)
        text = "nothing at all came of its host, and nothing was sent to it: dead, frozen or cut off look alike"
        return Fate(IncidentKind.CLIENT_UNREACHABLE, (spoke, Weighed(text, None, None, 0.3)), False)
    spoke = Weighed("its last word to the group", None, loss.since, 0.4)
    if loss.expelled - last_data >= quiet:
        after = [at for life in own for at in life.tenths("sent_in") if last_data < at < loss.expelled]
        if after:
            text = (
                f"its host went on to acknowledge ({counted(len(after), 'tenth')} of a second with packets, none "
                "with data)"
            )
            return Fate(IncidentKind.CLIENT_FROZEN, (spoke, Weighed(text, None, min(after), 0.8)), True)
        text = "its host went on to send packets, but none on its connections"
        return Fate(IncidentKind.CLIENT_FROZEN, (spoke, Weighed(text, None, last_data, 0.4)), False)
    text = "it went on to send data on other connections: the member alone fell silent"
    return Fate(IncidentKind.CLIENT_FROZEN, (spoke, Weighed(text, None, last_data, 0.4)), False)


def _same_connections(signs: Signs, loss: Loss, mine: Mapping[int, Row]) -> int | None:
    """When a host sent data again on a connection that it had before, if it had to send nothing again; else None."""
    after = [
        life
        for life in signs.health(
            loss.host or "", loss.expelled, loss.expelled + int(threshold("one_trouble") * SECOND_NS)
        )
        if life.row["connection"] in mine and life.row["at"] + 10 * SECOND_NS > loss.expelled
    ]
    again = [
        at
        for life in after
        if (mine[life.row["connection"]]["opened"] or 0) <= loss.since
        for at in life.tenths("payload_in")
        if at >= loss.expelled
    ]
    if not again or any(life.row["timeout_retransmits"] for life in after):
        return None
    return min(again)


def _returned(signs: Signs, losses: Sequence[Loss]) -> list[Row]:
    """Rebalances by which the same clients came back."""
    groups, names = {loss.rebalance["group_id"] for loss in losses}, {loss.client_id for loss in losses}
    since = min(loss.expelled for loss in losses)
    until = since + int(threshold("one_trouble") * SECOND_NS)
    found = [
        row
        for group in groups
        for row in signs.rebalances_of(group, until, since)
        if row["trigger"] in (Trigger.MEMBER_JOINED, Trigger.MEMBER_REJOINED, Trigger.STATIC_MEMBER_REPLACED)
        and row["trigger_client_id"] in names
    ]
    return sorted(found, key=lambda row: (row["started"], row["group_id"]))


# --- slow ------------------------------------------------------------------------------------------------------------

_SLOW_FINDINGS = frozenset(
    {
        "poll_timeout",
        "leaving_and_returning",
        "rebalance_storm",
        "rebalance_timeout",
        "commits_stopped",
        "read_again",
        "session_timeout_tight",
        "partition_unowned",
        "commit_refused",
    }
)


def slow(signs: Signs) -> Iterator[Incident]:
    """Members that their own client took out because the application did not poll in time; one a group and cause."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in signs.findings:
        if row["kind"] in ("poll_timeout", "leaving_and_returning"):
            found[_group(row)].append(row)
    timed_out: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rebalances:
        contributing = [one["client_id"] for one in row["contributing"] or () if one["trigger"] == Trigger.POLL_TIMEOUT]
        if row["started"] is not None and (row["trigger"] == Trigger.POLL_TIMEOUT or contributing):
            timed_out[row["group_id"]].append(row)
    for group in sorted(found.keys() | timed_out.keys()):
        yield _slow(signs, group, found[group], timed_out[group])


def _poll_intervals(signs: Signs, group: str) -> dict[str, int]:
    """max.poll.interval.ms of the members of a group, by client id: they tell it as their rebalance timeout."""
    return {
        member["client_id"]: member["rebalance_timeout_ms"]
        for row in signs.rebalances_of(group, signs.end)
        for member in row["members"] or ()
        if member["rebalance_timeout_ms"]
    }


def _polled_last_in_rebalance(signs: Signs, group: str, intervals: Mapping[str, int]) -> tuple[int, int]:
    """How many polled last when a rebalance had begun, and how many not, of those that left by poll timeout.

    Who polls, is told of the rebalance, and then does not poll any more sits in the callback that gives partitions up.
    """
    told: dict[str, int] = {}
    inside = outside = 0
    for event in signs.events_of_group(group):
        name = event["client_id"]
        if name not in intervals:
            continue
        if event["event"] == "heartbeat_refused" and event["detail"] == Error.REBALANCE_IN_PROGRESS:
            told.setdefault(name, event["at"])
        elif event["event"] == "left":
            last_poll = event["at"] - intervals[name] * MILLISECOND_NS
            if "poll timeout" in (event["detail"] or ""):
                is_inside = name in told and last_poll >= told[name] - SECOND_NS // 2
                inside, outside = inside + is_inside, outside + (not is_inside)
            told.pop(name, None)
    return inside, outside


def _slow(signs: Signs, group: str, found: Sequence[Row], timed_out: Sequence[Row]) -> Incident:
    times: dict[str, int] = defaultdict(int)
    for row in timed_out:
        if row["trigger"] == Trigger.POLL_TIMEOUT and row["trigger_client_id"]:
            times[row["trigger_client_id"]] += 1
        for one in row["contributing"] or ():
            if one["trigger"] == Trigger.POLL_TIMEOUT and one["client_id"]:
                times[one["client_id"]] += 1
    for row in found:
        for name in _begins_with(signs, row["title"]):
            times.setdefault(name, 0)
    names = sorted(times, key=lambda name: (-times[name], name))
    since = min([row["since"] for row in found if row["since"]] + [row["started"] for row in timed_out])
    until = max(
        [row["until"] or row["since"] for row in found if row["since"]]
        + [row["recovered"] or row["stable"] or row["started"] for row in timed_out]
    )
    storm = any(row["kind"] == "rebalance_storm" and _group(row) == group for row in signs.findings)
    in_time = [
        row
        for row in signs.rebalances
        if row["group_id"] == group and row["started"] is not None and since <= row["started"] <= until + SECOND_NS
    ]
    effects, cost_ms, rebalances = _cost(signs, [group], in_time)
    told = {row["title"]: row for row in found}
    evidence = [Weighed(row["title"], _packet(row), row["since"], 0.9) for row in told.values()]
    if not told:
        evidence = [
            Weighed(f"{row['trigger_client_id']} left: its poll timeout had expired", None, row["started"], 0.9)
            for row in timed_out
        ]
    certain = any(row["trigger"] == Trigger.POLL_TIMEOUT and row["certainty"] == Certainty.CERTAIN for row in timed_out)
    intervals = _poll_intervals(signs, group)
    inside, outside = _polled_last_in_rebalance(signs, group, intervals)
    in_callback = inside > outside
    if in_callback:
        text = "each polled last when a rebalance had begun: it was giving up its partitions when its time ran out"
        evidence.append(Weighed(text, None, since, 0.7))
    limits = sorted({intervals[name] for name in names if name in intervals})
    allowed = f"max.poll.interval.ms ({' or '.join(map(duration, limits[:2]))}) allows" if limits else "it may"
    how_often = ", ".join(f"{name} {counted(times[name], 'time')}" if times[name] else name for name in names[:5])
    return Incident(
        kind=IncidentKind.SLOW_REVOCATION if in_callback else IncidentKind.SLOW_PROCESSING,
        severity=Severity.CRITICAL if storm else Severity.WARNING,
        certainty=Certainty.CERTAIN if certain and not in_callback else Certainty.LIKELY,
        subjects=(Subject(Role.GROUP, group), *signs.clients(names)),
        started=since,
        ended=until,
        headline=(
            f"members of group {group} take longer to give up their partitions than {allowed} "
            if in_callback
            else f"the application of group {group} takes longer over its records than {allowed} "
        )
        + f"({how_often}, from {clock(since)} to {clock(until)})"
        + outcome(effects),
        evidence=tuple(evidence),
        advice=_ADVICE_REVOCATION
        if in_callback
        else "Process records faster or outside the poll loop, lower max.poll.records, or raise "
        "max.poll.interval.ms above the longest batch.",
        cost_ms=cost_ms,
        effects=effects,
        findings=_findings(signs, [group], _SLOW_FINDINGS, since - SECOND_NS, until + SECOND_NS),
        rebalances=rebalances,
    )


def locks(signs: Signs) -> Iterator[Incident]:
    """Consumers of share groups that acknowledged records when their lock was over: others had got them meanwhile."""
    by_client: dict[str, list[Row]] = defaultdict(list)
    for row in signs.errors:
        if (
            row["error"] == Error.INVALID_RECORD_STATE
            and row["client_id"]
            and row["api"] in ("ShareFetch", "ShareAcknowledge")
        ):
            by_client[row["client_id"]].append(row)
    for name, rows in sorted(by_client.items()):
        groups = sorted({row["group_id"] for row in rows if row["group_id"]} or signs.groups_of.get(name, []))
        since, until = rows[0]["first"], max(row["last"] for row in rows)
        count = sum(row["count"] for row in rows)
        yield Incident(
            kind=IncidentKind.SLOW_PROCESSING,
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            subjects=(*signs.clients([name]), *(Subject(Role.GROUP, group) for group in groups)),
            started=since,
            ended=until,
            headline=f"{name} of share group {listed(groups)} keeps records longer than their lock: "
            f"{counted(count, 'acknowledgement')} refused from {clock(since)} on, as the records had gone to others",
            evidence=tuple(
                Weighed(
                    f"{row['api']} answered INVALID_RECORD_STATE for {row['topic']}-{row['partition']}",
                    row["first_packet"],
                    row["first"],
                    0.8,
                )
                for row in rows[:8]
            ),
            advice="Process records faster, take fewer at once (max.poll.records), or raise "
            "group.share.record.lock.duration.ms; what is refused is delivered again to somebody.",
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(
                Effect(
                    "records", f"{counted(count, 'acknowledgement')} refused: their records were delivered again", count
                ),
            ),
        )


def revoking(signs: Signs) -> Iterator[Incident]:
    """Members that do not come back, or do not give up their partitions, within the rebalance timeout; one a group."""
    late: dict[str, list[tuple[Row, str | None]]] = defaultdict(list)
    for row in signs.rebalances:
        if row["started"] is None:
            continue
        if row["trigger"] in (Trigger.REBALANCE_TIMEOUT, Trigger.SYNC_TIMEOUT):
            late[row["group_id"]].append((row, row["trigger_client_id"]))
        for one in row["contributing"] or ():
            if one["trigger"] in (Trigger.REBALANCE_TIMEOUT, Trigger.SYNC_TIMEOUT):
                late[row["group_id"]].append((row, one["client_id"]))
    slow_too = {
        (row["group_id"], row["trigger_client_id"])
        for row in signs.rebalances
        if row["trigger"] == Trigger.POLL_TIMEOUT
    }
    for group, of_group in sorted(late.items()):
        # A member whose application works too slowly comes late to rebalances as well: that is told with the cause.
        rows = [(row, name) for row, name in of_group if (group, name) not in slow_too]
        if not rows:
            continue
        names = sorted({name for _, name in rows if name})
        effects, cost_ms, rebalances = _cost(signs, [group], [row for row, _ in rows])
        since = min(row["started"] for row, _ in rows)
        until = max(row["recovered"] or row["stable"] or row["started"] for row, _ in rows)
        yield Incident(
            kind=IncidentKind.SLOW_REVOCATION,
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            subjects=(Subject(Role.GROUP, group), *signs.clients(names)),
            started=since,
            ended=until,
            headline=f"{listed(names or ['a member'])} of group {group} did not come back in time for the rebalance, "
            f"{counted(len(rows), 'time')} from {clock(since)} to {clock(until)}" + outcome(effects),
            evidence=tuple(
                Weighed(
                    f"{name or 'a member'} did not come back within its rebalance timeout", None, row["started"], 0.8
                )
                for row, name in rows
            ),
            advice=_ADVICE_REVOCATION,
            cost_ms=cost_ms,
            effects=effects,
            findings=_findings(
                signs,
                [group],
                {"slow_to_join", "partition_unowned", "rebalance_timeout", "rebalance_storm"},
                since,
                until,
            ),
            rebalances=rebalances,
        )


def refused(signs: Signs) -> Iterator[Incident]:
    """Clients that may not join, and cannot mend that by trying again; one a group."""
    kinds = ("join_refused", "no_common_assignor", "instance_id_shared")
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in signs.findings:
        if row["kind"] in kinds:
            by_group[_group(row)].append(row)
    for group, found in sorted(by_group.items()):
        names = sorted({name for row in found for name in _named(signs, row)})
        since, until = min(row["since"] for row in found), max(row["until"] or row["since"] for row in found)
        yield Incident(
            kind=IncidentKind.JOIN_REFUSED,
            severity=Severity.CRITICAL,
            certainty=Certainty.CERTAIN,
            subjects=(*signs.clients(names), Subject(Role.GROUP, group)),
            started=since,
            ended=until,
            headline=f"group {group} refuses {listed(names or ['clients'])} from {clock(since)} on: "
            + "; ".join(row["title"] for row in found),
            evidence=tuple(Weighed(row["title"], _packet(row), row["since"], 0.95) for row in found),
            advice=" ".join(dict.fromkeys(row["advice"] for row in found)),
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(Effect("members", f"{counted(len(names), 'client')} cannot work", len(names)),) if names else (),
            findings=frozenset(row["id"] for row in found),
        )


# --- what all have in common -----------------------------------------------------------------------------------------


def _begins_with(signs: Signs, title: str) -> list[str]:
    """The client id that a title begins with, the longest of them; none if it begins with no client of the capture."""
    return sorted((name for name in signs.hosts_of if title.startswith(f"{name} ")), key=len)[-1:]


def _named(signs: Signs, finding: Row) -> list[str]:
    """Client ids that a finding of a group names: words of its title that are client ids of the capture."""
    title = finding["title"].replace(",", " ").replace("(", " ").replace(":", " ").split()
    return [word for word in title if word in signs.hosts_of]


def _group(finding: Row) -> str:
    return str(finding["subject"]).removeprefix("group ")


def _packet(finding: Row) -> int | None:
    return next((one["packet"] for one in finding["evidence"] or () if one["packet"] is not None), None)


def _findings(
    signs: Signs, groups: Iterable[str], kinds: Iterable[str], since: int, until: int, clients: Iterable[str] = ()
) -> frozenset[str]:
    """Findings of these kinds about groups or clients that overlap a time."""
    wanted, about = frozenset(kinds), {f"group {group}" for group in groups}
    named = tuple(f"client {name} (" for name in clients)
    return frozenset(
        row["id"]
        for row in signs.findings
        if row["kind"] in wanted
        and (row["subject"] in about or (named and row["subject"].startswith(named)))
        and (row["since"] or 0) <= until + 10 * SECOND_NS
        and (row["until"] or row["since"] or until) >= since - 10 * SECOND_NS
    )


def _cost(
    signs: Signs, groups: Sequence[str], rows: Sequence[Row]
) -> tuple[tuple[Effect, ...], float, frozenset[tuple[str, int]]]:
    """What rebalances cost: effects, milliseconds that partitions had no owner, and which they are."""
    distinct = {(row["group_id"], row["to_generation"]): row for row in rows}
    effects = []
    if distinct:
        effects.append(Effect("rebalances", counted(len(distinct), "rebalance"), len(distinct)))
    unowned = {one["partition"]: one["ms"] for row in distinct.values() for one in row["unowned"] or () if one["ms"]}
    worst = max((row["unowned_ms"] or 0 for row in distinct.values()), default=0)
    total = sum(row["unowned_ms"] or 0 for row in distinct.values())
    if worst:
        text = f"nobody read {in_words(unowned, 6)} for up to {duration(worst)}"
        effects.append(Effect("partitions", text, len(unowned), worst))
    again = sum(row["reread_records"] or 0 for row in distinct.values())
    if again:
        effects.append(Effect("records", f"{again:,} records were read again", again))
    cost = sum(row["cost_ms"] or 0 for row in distinct.values())
    return (
        tuple(effects),
        float(max(total, cost)),
        frozenset((group, generation) for group, generation in distinct if generation is not None),
    )
