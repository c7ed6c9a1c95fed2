"""Facts as they were told: answers in order of time, and what their units say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.cluster.facts import FACT_COLUMNS, Fact, FactKind
from kafkascope.reports.columns.topics import ID_PREFIX

Units = Mapping[int, list[Fact]]
"""Facts by the number of the unit that they make; see ``tables.CLUSTER_FACTS``."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One side of an exchange, and the numbers of the units that it tells; at is nanoseconds."""

    at: int
    packet: int | None
    connection: int
    number: int
    part: str
    broker: str
    told_by: str
    client_id: str | None
    told: tuple[int, ...]


def units_of(rows: pa.Table, topics: Mapping[str, str]) -> dict[int, list[Fact]]:
    """The facts that rows of ``CLUSTER_FACTS`` have, each once though several tasks gave it; topics are names by id."""
    found: dict[int, dict[int, Fact]] = defaultdict(dict)
    for row in rows.filter(pc.is_valid(rows["unit"])).select(["unit", "place", *FACT_COLUMNS]).to_pylist():
        unit, place = row.pop("unit"), row.pop("place")
        row["kind"] = FactKind(row["kind"])
        if row["topic"] is not None and row["topic"].startswith(ID_PREFIX):
            row["topic"] = topics.get(row["topic"].removeprefix(ID_PREFIX), row["topic"])
        row |= {name: tuple(row[name]) for name in ("nodes", "offline") if row[name] is not None}
        found[unit][place] = Fact(**row)
    return {unit: [facts[place] for place in sorted(facts)] for unit, facts in found.items()}


def answers_of(rows: pa.Table) -> Iterator[Answer]:
    """The answers in order of time, but for those that say what the one before on their connection said."""
    rows = rows.filter(pc.and_(pc.is_valid(rows["connection"]), pc.is_valid(rows["at"])))
    rows = rows.select([field.name for field in fields(Answer)])
    rows = rows.set_column(0, "at", rows["at"].cast(pa.int64()))
    answers = [Answer(**row | {"told": tuple(row["told"])}) for row in rows.to_pylist()]
    answers.sort(key=lambda one: (one.at, one.packet or 0, one.connection, one.number, one.part))
    last: dict[tuple[int, str], tuple[int, ...]] = {}
    for answer in answers:
        if last.get((answer.connection, answer.part)) != answer.told:
            last[answer.connection, answer.part] = answer.told
            yield answer
