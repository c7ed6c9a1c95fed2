"""What members are told that their group has committed."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.groups.body import body_of, committed_offsets, rows
from kafkascope.reports.incidents.signs import Signs


class ToldCommit(NamedTuple):
    """What an answer to OffsetFetch says of a partition."""

    requested: int
    connection: int
    answered: int | None
    partition: int
    offset: int  # -1: nothing is committed
    packet: int | None  # of the answer


def told_commits(signs: Signs, connections: Collection[int], topic: str, since: int = 0) -> list[ToldCommit]:
    """What answers say of a topic on some connections, to requests from a time on, in their order."""
    if not connections:
        return []
    where = pc.field("connection").isin(sorted(connections))
    asked = where & (pc.field("api") == "OffsetFetch") & (pc.field("requested") >= moment(since))
    columns = ("requested", "connection", "answered", "response", "response_packet")
    answers = signs.rows("exchanges", columns, asked)
    names = {topic} | _ids(signs, where, topic) if answers else set()
    return sorted(
        ToldCommit(row["requested"], row["connection"], row["answered"], partition, offset, row["response_packet"])
        for row in answers
        for name, partition, offset in committed_offsets(body_of(row["response"]))
        if name in names
    )


def _ids(signs: Signs, where: pc.Expression, topic: str) -> set[str]:
    """Ids of a topic, which OffsetFetch has from version 10 on, by the metadata that some connections asked for."""
    batches = signs.batches("exchanges", ["response"], where & (pc.field("api") == "Metadata"))
    answers = {text for batch in batches for text in batch["response"].unique().to_pylist()}
    told = (one for text in answers for one in rows(body_of(text).get("topics")) if one.get("name") == topic)
    return {one["topicId"] for one in told if isinstance(one.get("topicId"), str)}
