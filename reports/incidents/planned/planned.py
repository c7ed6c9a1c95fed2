"""Work that was planned, as far as the wire shows it: told, so that nobody looks for a fault in it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words as partitions_in_words
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.planned.changes import by_topic, changes_made, named_in, settings_in, topics_deleted
from kafkascope.reports.incidents.positions.forgotten import begun_anew
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_MOST_TIMES = 5  # at which one client changes something, that are told each for itself
_GONE = frozenset({Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID, Error.INCONSISTENT_TOPIC_ID})
_OF_GONE = ("error_loop", "idle_polling", "metadata_storm", "leader_changed", "sent_again")
_OF_TOPICS = ("CreateTopics", "DeleteTopics", "CreatePartitions")


def changes(signs: Signs) -> Iterator[Incident]:
    """What administrators changed, one client at a time; what somebody changed later is told for itself.

    Not what Streams applications do to topics of their own: that is nobody's work.
    """
    by_client: dict[tuple[str, str], list[Row]] = defaultdict(list)
    streams_at = _streams_at(signs)
    for row in signs.once(changes_made):
        if not _keeps_house(row, streams_at.get(row["host"])):
            by_client[row["client_id"] or "?", row["host"]].append(row)
    apart = threshold("one_trouble") * SECOND_NS
    for (client_id, host), of_client in sorted(by_client.items()):
        runs = list(in_runs(of_client, lambda run, row: row["requested"] - run[-1]["answered"] <= apart))
        if len(runs) > _MOST_TIMES:  # who does so again and again is no person
            runs = [of_client]
        yield from (_changes(signs, client_id, host, run) for run in runs)


def _streams_at(signs: Signs) -> dict[str, list[tuple[int, int]]]:
    """When Streams applications rebalanced, by the hosts of their members."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in signs.rebalances:
        for member in row["members"] or ():
            if member["host"] and (row["protocol"] == "streams" or "stream" in (member["assignors"] or ())):
                found[member["host"]].append((row["started"] or 0, row["stable"] or signs.end))
    return found


def _keeps_house(change: Row, rebalanced: Sequence[tuple[int, int]] | None) -> bool:
    """Whether a Streams application deletes what it has repartitioned and read, or makes its internal topics.

    It makes them as its leader assigns. Their names would tell, but captures may have pseudonyms.
    """
    if rebalanced is None or change["api"] not in ("CreateTopics", "DeleteRecords"):
        return False
    return change["api"] == "DeleteRecords" or any(since <= change["requested"] <= until for since, until in rebalanced)


def _changes(signs: Signs, client_id: str, host: str, made: Sequence[Row]) -> Incident:
    counts = Counter(row["api"] for row in made)
    since, until = made[0]["requested"], max(row["answered"] for row in made)
    about, altered = ({api: set[str]() for api in counts} for _ in range(2))
    subjects = set[Subject]()
    for row in made:
        for role, name in named_in(row["request"]):
            about[row["api"]].add(name)
            subjects |= {Subject(role, name)} if role is not None else set()
        altered[row["api"]] |= settings_in(row["request"])
    of_api = {api: ": ".join(listed(names) for names in (about[api], altered[api]) if names) for api in counts}
    what = ", ".join(
        f"{api} {counted(count, 'time')}{f' ({of_api[api]})' if of_api[api] else ''}" for api, count in counts.items()
    )
    missed, findings = _missed(signs, (row for row in made if row["api"] == "DeleteTopics"))
    costs, _, rebalances = of_rebalances(_rebalanced(signs, made))
    begun = {one.group: one for row in made for one in begun_anew(signs, row)}.values()
    effects = (*missed, *(one.effect for one in begun), *costs)
    return Incident(
        kind=IncidentKind.ADMIN_ACTION,
        severity=Severity.INFO,
        certainty=Certainty.CERTAIN,
        subjects=(Subject(Role.CLIENT, client_id), Subject(Role.HOST, host), *sorted(subjects)),
        started=since,
        ended=until,
        headline=f"{client_id} ({host}) changed something from {clock(since)} on: {what}" + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{row['api']} answered without an error",
                row["request_packet"],
                row["requested"],
                0.9,
            )
            for row in made
        ),
        advice="Nothing, if this was planned; else find out who runs this client."
        if not missed
        else "Find out who runs this client, and whether it was meant: all records of a topic that is deleted are "
        "gone, also where it is made again at once, and who read it begins anew.",
        cost_ms=0,
        effects=effects,
        findings=findings.union(*(one.findings(signs) for one in begun)),
        rebalances=rebalances,
    )


def _rebalanced(signs: Signs, made: Sequence[Row]) -> list[Row]:
    """Rebalances of groups that read topics which were made or changed before, as these became known to members."""
    changed = _since(made, _OF_TOPICS)
    there = _since(made, ("CreateTopics", "DeleteTopics"))
    gone = _since(made, ("DeleteTopics",))
    return [
        # Offsets of a topic that is made anew are those of other records.
        row | {"reread_records": None} if _asks_for(row, gone) else row
        for _, rows in groupby(signs.rebalances if changed else (), key=itemgetter("group_id"))
        for before, row in pairwise([{}, *rows])
        if _comes_of(before, row, changed, there)
    ]


def _since(made: Sequence[Row], which: Collection[str]) -> dict[str, int]:
    """When each topic was first changed by some APIs."""
    found: dict[str, int] = {}
    for row in made:
        for _, topic in named_in(row["request"]) if row["api"] in which else ():
            found.setdefault(topic, row["requested"])
    return found


def _comes_of(before: Row, row: Row, changed: Mapping[str, int], there: Mapping[str, int]) -> bool:
    """Whether a rebalance may come of topics that were changed, or came and went.

    A pattern of a member finds other topics only as these come and go: in all else it is the application that asks.
    """
    started = row["started"]
    if started is None:
        return False
    if row["trigger"] == Trigger.TOPIC_PARTITIONS_CHANGED:
        return _asks_for(row, changed)
    if row["trigger"] != Trigger.SUBSCRIPTION_CHANGED:
        return False
    earlier, later = (_subscribed(one, row["trigger_member"]) for one in (before, row))
    other = earlier ^ later if earlier and later else set()
    return bool(other) and all(there.get(topic, started) < started for topic in other)


def _asks_for(row: Row, since: Mapping[str, int]) -> bool:
    """Whether a member of a rebalance asks for a topic of which something is so since before."""
    asked = (topic for member in row["members"] or () for topic in member["subscription"] or ())
    return any(since.get(topic, row["started"]) < row["started"] for topic in asked)


def _subscribed(row: Row, member_id: str | None) -> set[str]:
    """The topics that a member of a rebalance asks for; none where they are not known."""
    return {
        topic
        for member in row.get("members") or ()
        if member["member_id"] == member_id
        for topic in member["subscription"] or ()
    }


def _missed(signs: Signs, made: Iterable[Row]) -> tuple[tuple[Effect, ...], frozenset[str]]:
    """What came of topics that were deleted while clients used them: errors, and the findings that these explain."""
    deleted = by_topic(made)
    rows = [
        row
        for row in (signs.errors if deleted else ())
        if row["client_id"]
        and not is_of_broker(row["client_id"])
        and any(comes_of(row, deletion) for deletion in deleted.get(row["topic"] or "", ()))
    ]
    if not rows:
        return (), frozenset()
    names = sorted({row["client_id"] for row in rows})
    since, until = min(row["first"] for row in rows), max(row["last"] for row in rows)
    count, lasted = sum(row["count"] for row in rows), (until - since) / MILLISECOND_NS
    whose = listed(sorted({row["topic"] for row in rows}))
    text = f"{counted(count, 'error')} of {listed(names)} about {whose}, which they used, for {duration(lasted)}"
    effects = [Effect("errors", text, count, lasted)]
    if lost := sorted(
        {f"{row['topic']}-{row['partition']}" for row in rows if row["error"] == Error.OFFSET_OUT_OF_RANGE}
    ):
        effects.append(Effect("partitions", f"positions lost in {partitions_in_words(lost)}", len(lost)))
    commits = signs.commits_refused(_GONE, names, since, until)
    return tuple(effects), signs.explained(_OF_GONE, since, until, clients=names) | commits


def asked_for_the_gone(signs: Signs) -> dict[tuple[str, str], list[int]]:
    """Some times at which clients, by address and client id, were told that a topic is not there: it was deleted."""
    deleted = signs.once(topics_deleted)
    told = [
        row
        for row in (signs.errors if deleted else ())
        if row["error"] in _GONE and any(comes_of(row, one) for one in deleted.get(row["topic"] or "", ()))
    ]
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    connections = signs.connections_by_number(sorted({row["first_connection"] for row in told}))
    for row in told:
        if (connection := connections.get(row["first_connection"])) is not None:
            found[connection["client"], row["client_id"]].append(row["first"])
    return found


def comes_of(error: Row, deletion: Row) -> bool:
    """Whether an error about a topic comes of its deletion. A position may be missed long after the topic was."""
    until = deletion["answered"] + int(threshold("one_trouble") * SECOND_NS)
    is_of_it = error["error"] == Error.OFFSET_OUT_OF_RANGE or (error["error"] in _GONE and error["first"] <= until)
    return bool(deletion["requested"] <= error["first"] and is_of_it)


def removals(signs: Signs) -> Iterator[Incident]:
    """Members that somebody else took out of their group."""
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rebalances:
        if row["trigger"] == Trigger.REMOVED_BY_ADMIN and row["started"] is not None:
            by_group[row["group_id"]].append(row)
    for group, rows in sorted(by_group.items()):
        names = sorted({row["trigger_client_id"] for row in rows if row["trigger_client_id"]})
        since, until = rows[0]["started"], max(row["stable"] or row["started"] for row in rows)
        yield Incident(
            kind=IncidentKind.ADMIN_ACTION,
            severity=Severity.INFO,
            certainty=Certainty.CERTAIN,
            subjects=(
                Subject(Role.GROUP, group),
                *signs.clients(names, signs.heard_of(group, {row["trigger_member"] for row in rows})),
            ),
            started=since,
            ended=until,
            headline=f"an administrator took {listed(names or ['members'])} out of group {group} from "
            f"{clock(since)} on; {counted(len(rows), 'rebalance')}",
            evidence=tuple(
                Weighed("a LeaveGroup that was not the member's own", None, row["started"], 0.9) for row in rows
            ),
            advice="Nothing, if this was planned; a member that is alive comes back by itself.",
            cost_ms=float(sum(row["unowned_ms"] or 0 for row in rows)),
            rebalances=frozenset((group, row["to_generation"]) for row in rows if row["to_generation"] is not None),
        )


def migrations(signs: Signs) -> Iterator[Incident]:
    """Groups that went from the classic protocol to that of KIP-848, or back."""
    for group, rows in groupby(signs.rebalances, key=lambda row: row["group_id"]):
        steps = [row for row in rows if row["started"] is not None and row["protocol"]]
        turns = [(before, after) for before, after in pairwise(steps) if before["protocol"] != after["protocol"]]
        if not turns:
            continue
        since, until = turns[0][1]["started"], max(after["stable"] or after["started"] for _, after in turns)
        path = " → ".join([turns[0][0]["protocol"], *(after["protocol"] for _, after in turns)])
        names = sorted(
            {member["client_id"] for _, after in turns for member in after["members"] or () if member["client_id"]}
        )
        yield Incident(
            kind=IncidentKind.GROUP_MIGRATED,
            severity=Severity.INFO,
            certainty=Certainty.CERTAIN,
            subjects=(Subject(Role.GROUP, group), *signs.clients(names, signs.heard_of(group))),
            started=since,
            ended=until,
            headline=f"group {group} changed its protocol from {clock(since)} on: {path}",
            evidence=tuple(
                Weighed(
                    f"{after['protocol']}: {'epoch' if after['protocol'] == 'consumer' else 'generation'} "
                    f"{after['to_generation']}, after {before['protocol']} {before['to_generation']}",
                    None,
                    after["started"],
                    0.9,
                )
                for before, after in turns
            ),
            advice="Nothing, if this was planned; while members of both protocols are in a group, it is up to the "
            "slower ones.",
            cost_ms=float(sum(after["unowned_ms"] or 0 for _, after in turns)),
            rebalances=frozenset(
                (group, after["to_generation"]) for _, after in turns if after["to_generation"] is not None
            ),
        )
