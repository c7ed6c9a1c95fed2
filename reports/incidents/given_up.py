"""Records of share groups that nobody processed, and that are not delivered any more (KIP-932).

A member acknowledges what it is given: accepted, released (deliver it again), or rejected (nobody can process it). What
has been delivered group.share.delivery.count.limit times, five by default, is archived as if it were rejected; no error
tells either.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Row, Signs
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


@dataclass(slots=True)
class _Acknowledged:
    """What the members of a group said of the records of a topic."""

    records: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by type of acknowledgement
    at_limit: int = 0  # released though it was the last delivery that there is by default
    deliveries: int = 0  # the most of a record
    names: set[str] = field(default_factory=set)  # client ids of who did not accept
    first: Row | None = None  # of what was not accepted
    last: int = 0

    @property
    def is_given_up(self) -> bool:
        """Whether so much is not processed that it is no single record which nobody can process."""
        not_accepted = self.records[_REJECTED] + self.at_limit
        said = not_accepted + self.records[_ACCEPTED]
        return not_accepted >= threshold("given_up") and 100 * not_accepted >= threshold("given_up_share") * said


def given_up(signs: Signs) -> Iterator[Incident]:
    """Groups and topics of which a share of the records is rejected, or released until it is given up."""
    of_share = pc.field("api").isin(OF_SHARE_GROUPS) & pc.field("requested").is_valid()
    if not any(True for _ in signs.batches("exchanges", ["api"], of_share)):
        return  # without a look at requests, whose text is long
    if not any(True for _ in signs.batches("exchanges", ["api"], of_share & _NOT_ACCEPTED)):
        return
    delivered: dict[tuple[str, str, int, int], int] = {}  # deliveries by group, topic id, partition and first offset
    found: dict[tuple[str, str], _Acknowledged] = defaultdict(_Acknowledged)
    rows = signs.rows("exchanges", _COLUMNS, of_share)
    for row in sorted(rows, key=lambda row: (row["requested"], row["request_packet"] or 0)):
        for topic_id, partition, batch in _batches(row["request"], "topics", "acknowledgementBatches"):
            times = delivered.get((row["group_id"], topic_id, partition, batch["firstOffset"]), 0)
            _acknowledge(found[row["group_id"], topic_id], row, batch, times)
        for topic_id, partition, batch in _batches(row["response"], "responses", "acquiredRecords"):
            times = batch.get("deliveryCount") or 0
            delivered[row["group_id"], topic_id, partition, batch["firstOffset"]] = times
            of_topic = found[row["group_id"], topic_id]
            of_topic.deliveries = max(of_topic.deliveries, times)
    names = _names(signs, rows)
    for (group, topic_id), said in sorted(found.items(), key=str):
        if said.is_given_up and said.first is not None:
            yield _incident(signs, group, names.get(topic_id, topic_id), said, said.first)


def _batches(text: str | None, topics: str, batches: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Ranges of offsets in a body, with topic id and partition; none of a body that was cut."""
    try:
        body = json.loads(text or "{}")
    except ValueError:
        return
    for topic in _dicts(body, topics):
        for partition in _dicts(topic, "partitions"):
            for batch in _dicts(partition, batches):
                if isinstance(batch.get("firstOffset"), int) and isinstance(batch.get("lastOffset"), int):
                    yield str(topic.get("topicId")), int(partition.get("partitionIndex") or 0), batch


def _dicts(body: Any, name: str) -> Iterator[dict[str, Any]]:
    told = body.get(name) if isinstance(body, dict) else None
    yield from (one for one in told or () if isinstance(one, dict))


def _acknowledge(said: _Acknowledged, row: Row, batch: Mapping[str, Any], delivered: int) -> None:
    """Count a range of records that were delivered so many times: one type for all of it, or one for each."""
    types = [one for one in batch.get("acknowledgeTypes") or () if isinstance(one, int)]
    each = max(batch["lastOffset"] - batch["firstOffset"] + 1, 0) if len(types) == 1 else 1
    for kind in types:
        said.records[kind] += each
        said.at_limit += each if kind == _RELEASED and delivered >= _LIMIT else 0
    if not {_RELEASED, _REJECTED}.isdisjoint(types):
        said.first = said.first or row
        said.last = max(said.last, row["answered"] or row["requested"])
        said.names |= {row["client_id"]} - {None}


def _names(signs: Signs, rows: list[Row]) -> dict[str, str]:
    """Names of topics by their ids, out of answers that are about one topic."""
    ids: dict[tuple[int, int], str] = {}
    for row in rows:
        told = {topic_id for topic_id, *_ in _batches(row["response"], "responses", "acquiredRecords")}
        if len(told) == 1:
            ids[row["connection"], row["number"]] = told.pop()
    found: dict[tuple[int, int], set[str]] = defaultdict(set)
    columns = ("connection", "number", "topic")
    where = pc.field("connection").isin(sorted({connection for connection, _ in ids})) & pc.field("topic").is_valid()
    for batch in signs.batches("partitions", columns, where & (pc.field("api") == "ShareFetch")):
        for one in batch.group_by(list(columns)).aggregate([]).to_pylist():
            found[one["connection"], one["number"]].add(one["topic"])
    return {ids[place]: topics.pop() for place, topics in found.items() if place in ids and len(topics) == 1}


def _incident(signs: Signs, group: str, topic: str, said: _Acknowledged, first: Row) -> Incident:
    names = sorted(said.names)
    rejected, at_limit = said.records[_REJECTED], said.at_limit
    effects = []
    if rejected:
        effects.append(Effect("records", f"{counted(rejected, 'record')} rejected", rejected))
    if at_limit:
        text = f"{counted(at_limit, 'record')} released at the {said.deliveries}th delivery, after which none comes"
        effects.append(Effect("records", text, at_limit))
    accepted, released = said.records[_ACCEPTED], said.records[_RELEASED]
    counts = (("accepted", accepted), ("released", released), ("rejected", rejected))
    return Incident(
        kind=IncidentKind.RECORDS_GIVEN_UP,
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN if rejected >= at_limit else Certainty.LIKELY,
        subjects=(Subject(Role.GROUP, group), Subject(Role.TOPIC, topic), *signs.clients(names)),
        started=first["requested"],
        ended=said.last,
        headline=f"share group {group} gives records of {topic} up from {clock(first['requested'])} on: "
        f"{listed(names or ['its members'])} accepted {counted(accepted, 'record')}" + outcome(effects),
        evidence=(
            Weighed(
                f"the first that {first['client_id'] or 'a member'} did not accept",
                first["request_packet"],
                first["requested"],
                0.9,
            ),
            *(Weighed(f"{counted(count, 'record')} {what}", None, None, 0.7) for what, count in counts if count),
        ),
        advice="Look at the log of these members for why they cannot process the records; what a share group gives up "
        "is skipped without an error. Write what is rejected elsewhere first, and raise "
        "group.share.delivery.count.limit where failures pass by themselves.",
        cost_ms=(said.last - first["requested"]) / MILLISECOND_NS,
        effects=tuple(effects),
    )
