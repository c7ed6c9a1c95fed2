"""Topics that brokers make because a client asks for them, as they do by default: it may be a typing error."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.nearest import near_ones
from kafkascope.reports.columns.text import client_name
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Incident, Subject, Weighed
from kafkascope.reports.incidents.planned.changes import changes_made, named_in
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import SECOND_NS

_ON_DEMAND = '"allowAutoTopicCreation": true'
_AT_ONCE_NS = 10 * SECOND_NS  # brokers make a topic within a second or two; a person takes longer


def made(signs: Signs) -> Iterator[Incident]:
    """An incident for each: it was not there, its client let brokers make it, and it was used at once."""
    not_there = pc.field("error").isin([Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE])
    where = (pc.field("api") == "Metadata") & not_there & pc.field("topic").is_valid()
    columns = ("connection", "number", "at", "client_id", "topic")
    rows = sorted(signs.rows("errors", columns, where), key=lambda row: (row["at"], row["connection"], row["number"]))
    asked: dict[str, Row] = {}
    for row in rows:
        if not row["topic"].startswith("__") and row["client_id"] and not is_of_broker(row["client_id"]):
            asked.setdefault(row["topic"], row)
    for row in signs.once(changes_made):
        for _, topic in named_in(row["request"]) if row["api"] == "CreateTopics" else ():
            asked.pop(topic, None)
    used = _first_used(signs, asked)
    allowed = _allowed(signs, [row for topic, row in asked.items() if topic in used])
    for topic, row in asked.items():
        request = allowed.get((row["connection"], row["number"]))
        if request is not None and row["at"] <= used.get(topic, 0) <= row["at"] + _AT_ONCE_NS:
            unwritten = "" if topic in signs.used_topics else "; nothing is written to it"
            yield Incident(
                kind=IncidentKind.ADMIN_ACTION,
                severity=Severity.INFO,
                certainty=Certainty.LIKELY,
                subjects=(Subject(Role.TOPIC, topic), *signs.clients([row["client_id"]], signs.asked_from([row]))),
                started=row["at"],
                ended=used[topic],
                headline=f"brokers made topic {topic} at {clock(row['at'])} because "
                f"{client_name(row['client_id'])} asked for it: nobody in this capture created it"
                f"{near_ones(topic, signs.used_topics - asked.keys())}{unwritten}",
                evidence=(
                    Weighed(
                        f"Metadata of {client_name(row['client_id'])} said that it is not there, and may be made",
                        request,
                        row["at"],
                        0.8,
                    ),
                    Weighed("the first request that used it", None, used[topic], 0.6),
                ),
                advice="See whether the name is meant: a typing error makes a topic of its own, with the defaults of "
                "brokers (num.partitions, default.replication.factor). auto.create.topics.enable of brokers, and "
                "allow.auto.create.topics of consumers, say whether they do so.",
                cost_ms=0,
            )


def _first_used(signs: Signs, topics: Collection[str]) -> dict[str, int]:
    """When somebody first read, or wrote, some topics."""
    found: dict[str, int] = {}
    where = among("topic", topics) & pc.field("at").is_valid()
    for batch in signs.batches("partitions", ("topic", "at"), where) if topics else ():
        for row in batch.group_by("topic").aggregate([("at", "min")]).to_pylist():
            found[row["topic"]] = min(found.get(row["topic"], row["at_min"]), row["at_min"])
    return found


def _allowed(signs: Signs, rows: Sequence[Row]) -> dict[tuple[int, int], int | None]:
    """Which of these errors came of requests that let brokers make topics, with the packet of each."""
    wanted = {(row["connection"], row["number"]) for row in rows}
    where = (pc.field("api") == "Metadata") & pc.field("connection").isin(sorted({one for one, _ in wanted}))
    where &= pc.match_substring(pc.field("request"), _ON_DEMAND)
    columns = ("connection", "number", "request_packet")
    asked = signs.rows("exchanges", columns, where) if wanted else ()
    places = (((row["connection"], row["number"]), row["request_packet"]) for row in asked)
    return {place: packet for place, packet in places if place in wanted}
