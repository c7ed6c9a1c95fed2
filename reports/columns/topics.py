"""Topics that messages know by id: which name belongs to which id, and the ids of a table replaced by names.

A topic that is known by id alone is written as ``id:`` and the id as Kafka prints it (URL-safe base64, 22 characters;
a colon cannot be in a topic's name), until some message of the capture, earlier or later, told the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.payloads import CLUSTER_METADATA_ID, CLUSTER_METADATA_TOPIC
from kafkascope.reports.columns.arrow import dictionary_codes
from kafkascope.reports.columns.told_clusters import ToldClusters
from kafkascope.reports.columns.told_members import ToldMembers

ID_PREFIX = "id:"
NO_ID = "A" * 22
_BY_ID = re.compile(rf"{ID_PREFIX}[\w-]{{22}}", re.ASCII)
# The one id that is the same in every cluster.
RESERVED = {ID_PREFIX + CLUSTER_METADATA_ID: CLUSTER_METADATA_TOPIC}


class TopicNames:
    """What connections tell that others need: names of topics by id; and beside them of clusters, and of members."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names: dict[str, str] = dict(RESERVED)
        self.of_clusters = ToldClusters()
        self.of_members = ToldMembers()
        self.merge(names or {})

    def learn(self, topics_by_id: Iterable[tuple[str, str]]) -> None:
        """Take in pairs of a topic written by id, and its name."""
        for by_id, name in topics_by_id:
            known = self._names.get(by_id)
            # An id never gets another name (KIP-516); if bytes say so all the same, the choice must not hang on order.
            if known is None or name < known:
                self._names[by_id] = name

    def name(self, identity: str) -> str | None:
        """The name of a topic by its id as Kafka prints it; None if no message told it."""
        return self._names.get(ID_PREFIX + identity)

    def names_of(self, topics: Iterable[str]) -> dict[str, str]:
        """Names by topic, of those that are written by id and known by now."""
        return {topic: self._names[topic] for topic in topics if topic in self._names}

    def learned(self) -> dict[str, str]:
        """All names by topic as written by id, and what is told beside: what `merge` and the constructor take."""
        return self._names | self.of_clusters.learned() | self.of_members.learned()

    def merge(self, other: TopicNames | Mapping[str, str]) -> None:
        """Take in what another part of the capture knew."""
        names = other.learned() if isinstance(other, TopicNames) else other
        for key, name in names.items():
            if not self.of_clusters.take(key, name) and not self.of_members.take(key, name):
                self.learn([(key, name)])

    def in_text(self, text: str) -> str:
        """A text with names for those ids in it that are known by now."""
        return _BY_ID.sub(lambda found: self._names.get(found[0], found[0]), text)

    def resolve(self, table: pa.Table) -> pa.Table:
        """The table with names for those ids in its topic column that are known by now."""
        place = table.schema.get_field_index("topic")
        if place < 0 or not self._names or not table.num_rows:
            return table
        return table.set_column(place, table.schema.field(place), self.resolve_topics(table.column(place)))

    def resolve_topics(self, topics: pa.Array) -> pa.Array:
        """Topics with names for those ids that are known by now."""
        if not pc.any(pc.starts_with(topics, ID_PREFIX)).as_py():
            return topics
        codes, distinct = dictionary_codes(topics)
        written = distinct.to_pylist()
        names = [self._names.get(topic, topic) for topic in written]
        if names == written:
            return topics
        return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0))


def written_by_id(ids: pa.Array) -> pa.Array:
    """Topics as written by id; null for the id that is all zero and means none."""
    there = pc.not_equal(ids, NO_ID)
    return pc.if_else(there, pc.binary_join_element_wise(pa.scalar(ID_PREFIX), ids, ""), pa.scalar(None, pa.string()))


def topics(names: pa.Array, by_id: pa.Array) -> pa.Array:
    """Each topic by its name where the message has one that is not empty, else by id, else null."""
    return pc.coalesce(pc.if_else(pc.equal(names, ""), pa.scalar(None, pa.string()), names), by_id)
