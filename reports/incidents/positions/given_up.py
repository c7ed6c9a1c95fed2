"""Records of share groups that nobody processed, and that are not delivered any more (KIP-932).

A member acknowledges what it is given: accepted, released (deliver it again), or rejected (nobody can process it). What
has been delivered group.share.delivery.count.limit times, five by default, is archived as if it were rejected; no error
tells either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.groups.body import body_of, rows
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS

OF_SHARE_GROUPS = ("ShareFetch", "ShareAcknowledge")  # whose bodies are read
_ACCEPTED, _RELEASED, _REJECTED = 1, 2, 3  # acknowledgeTypes of ShareFetch and ShareAcknowledge
_LIMIT = 5  # group.share.delivery.count.limit by default
_NOT_ACCEPTED = pc.match_substring_regex(pc.field("request"), r'"acknowledgeTypes": \[[^\]]*[23]')
_COLUMNS = (
    "connection",
    "number",
    "client_id",
    "group_id",
    "requested",
    "answered",
    "request_packet",
    "request",
    "response",
)


@dataclass
class _Acknowledged:
    """What the members of a group said of the records of a topic. Sums, whatever the order of exchanges."""

    records: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by type of acknowledgement
    released: dict[int, dict[int, int]] = field(  # by partition: how often more, or less, from an offset on
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    names: set[str] = field(default_factory=set)  # client ids of who did not accept
    first: tuple[int, int, str] | None = None  # of what was not accepted: when, packet, client id
    last: int = 0

    @cached_property
    def at_limit(self) -> int:
        """Records that were released as often as they are delivered by default."""
        found = 0
        for changes in self.released.values():
            times = 0
            for offset, following in pairwise(sorted(changes)):
                times += changes[offset]
                found += following - offset if times >= _LIMIT else 0
        return found

    @property
    def is_given_up(self) -> bool:
        """Whether so much is not processed that it is no single record which nobody can process."""
        not_accepted = self.records[_REJECTED] + self.at_limit
        said = not_accepted + self.records[_ACCEPTED]
        return not_accepted >= threshold("given_up") and 100 * not_accepted >= threshold("given_up_share") * said

    def add(self, row: Row, partition: int, batch: Mapping[str, Any]) -> None:
        """Count a range of records: one type for all of it, or one for each."""
        begin, end = batch["firstOffset"], batch["lastOffset"] + 1
        types = [one for one in batch.get("acknowledgeTypes") or () if isinstance(one, int)]
        if end <= begin or not types:
            return
        of_each = end - begin if len(types) == 1 else 1
        for place, kind in enumerate(types):
            self.records[kind] += of_each
            if kind == _RELEASED:
                self.released[partition][begin + place] += 1
                self.released[partition][begin + place + of_each] -= 1
        if not {_RELEASED, _REJECTED}.isdisjoint(types):
            mine = row["requested"], row["request_packet"] or 0, row["client_id"] or ""
            self.first = mine if self.first is None else min(self.first, mine)
            self.last = max(self.last, row["answered"] or row["requested"])
            self.names |= {row["client_id"]} - {None}


def given_up(signs: Signs) -> Iterator[Incident]:
    """Groups and topics of which a share of the records is rejected, or released until it is given up."""
    of_share = pc.field("api").isin(OF_SHARE_GROUPS) & pc.field("requested").is_valid()
    if not any(True for _ in signs.batches("exchanges", ["api"], of_share)):
        return  # without a look at requests, whose text is long
    if not any(True for _ in signs.batches("exchanges", ["api"], of_share & _NOT_ACCEPTED)):
        return
    found: dict[tuple[str, str], _Acknowledged] = defaultdict(_Acknowledged)
    about: dict[str, tuple[int, int]] = {}  # by topic id: an exchange whose answer is about that topic alone
    for exchanges in signs.batches("exchanges", _COLUMNS, of_share):
        for row in exchanges.to_pylist():
            for topic_id, partition, batch in _batches(row["request"], "topics", "acknowledgementBatches"):
                found[row["group_id"] or "?", topic_id].add(row, partition, batch)
            told = {topic_id for topic_id, *_ in _batches(row["response"], "responses", "acquiredRecords")}
            if len(told) == 1:
                topic_id, place = told.pop(), (row["connection"], row["number"])
                about[topic_id] = min(about.get(topic_id, place), place)
    names = _names(signs, about)
    for (group, topic_id), said in sorted(found.items()):
        if said.is_given_up and said.first is not None:
            yield _incident(signs, group, names.get(topic_id, topic_id), said, *said.first)


def _batches(text: str | None, topics: str, batches: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Ranges of offsets in a body, with topic id and partition; none of a body that was cut."""
    for topic in rows(body_of(text).get(topics)):
        for partition in rows(topic.get("partitions")):
            for batch in rows(partition.get(batches)):
                if isinstance(batch.get("firstOffset"), int) and isinstance(batch.get("lastOffset"), int):
                    yield str(topic.get("topicId")), int(partition.get("partitionIndex") or 0), batch


def _names(signs: Signs, about: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Names of topics by their ids, by what was sent in exchanges that are about one topic."""
    found: dict[tuple[int, int], set[str]] = defaultdict(set)
    columns = ("connection", "number", "topic")
    where = pc.field("connection").isin(sorted({connection for connection, _ in about.values()}))
    where &= pc.field("topic").is_valid() & (pc.field("api") == "ShareFetch")
    for batch in signs.batches("partitions", columns, where) if about else ():
        for one in batch.group_by(list(columns)).aggregate([]).to_pylist():
            found[one["connection"], one["number"]].add(one["topic"])
    return {topic_id: min(found[place]) for topic_id, place in about.items() if len(found[place]) == 1}


def _incident(
    signs: Signs, group: str, topic: str, said: _Acknowledged, since: int, packet: int, client_id: str
) -> Incident:
    names = sorted(said.names)
    rejected, at_limit = said.records[_REJECTED], said.at_limit
    effects = []
    if rejected:
        effects.append(Effect("records", f"{counted(rejected, 'record')} rejected", rejected))
    if at_limit:
        text = f"{counted(at_limit, 'record')} released {_LIMIT} times or more, after which none comes"
        effects.append(Effect("records", text, at_limit))
    accepted, released = said.records[_ACCEPTED], said.records[_RELEASED]
    counts = (("accepted", accepted), ("released", released), ("rejected", rejected))
    return Incident(
        kind=IncidentKind.RECORDS_GIVEN_UP,
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN if rejected >= at_limit else Certainty.LIKELY,
        subjects=(Subject(Role.GROUP, group), Subject(Role.TOPIC, topic), *signs.clients(names, signs.heard_of(group))),
        started=since,
        ended=said.last,
        headline=f"share group {group} gives records of {topic} up from {clock(since)} on: "
        f"{listed(names or ['its members'])} accepted {counted(accepted, 'record')}" + outcome(effects),
        evidence=(
            Weighed(f"the first that {client_id or 'a member'} did not accept", packet or None, since, 0.9),
            *(Weighed(f"{counted(count, 'record')} {what}", None, None, 0.7) for what, count in counts if count),
        ),
        advice="Look at the log of these members for why they cannot process the records; what a share group gives up "
        "is skipped without an error. Write what is rejected elsewhere first, and raise "
        "group.share.delivery.count.limit where failures pass by themselves.",
        cost_ms=(said.last - since) / MILLISECOND_NS,
        effects=tuple(effects),
    )
