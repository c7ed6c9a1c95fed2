"""What the tables of a capture that was read lack of what filters ask for: both ends of exchanges, and their topics."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.filters.expressions import Expression, columns, passing
from kafkascope.filters.fields import ENDS, fields_of_bodies, leaves
from kafkascope.reports.columns.arrow import one_array
from kafkascope.reports.columns.text import address
from kafkascope.reports.columns.topics import ID_PREFIX, NO_ID
from kafkascope.reports.rows.topic_mentions import TOPICS
from kafkascope.sniffer.columns import Bool

END_COLUMNS = ("client", "client_port", "broker", "broker_port")
"""Of the table of connections."""


def with_ends(exchanges: pa.Table, connections: pa.Table) -> pa.Table:
    """Exchanges with client and broker: addresses with ports, out of the table of connections."""
    place = pc.index_in(exchanges["connection"], connections["connection"])
    for side in ENDS:
        hosts, ports = connections[side].to_pylist(), connections[f"{side}_port"].to_pylist()
        texts = pa.array([address(host, port) for host, port in zip(hosts, ports, strict=True)], pa.string())
        exchanges = exchanges.append_column(side, texts.take(one_array(place)))
    return exchanges


def passing_of(expression: Expression, exchanges: pa.Table, names: Mapping[str, str]) -> Bool:
    """Which exchanges pass, which have both ends if these are asked for; names of topics are by id as written."""
    if TOPICS.name in columns(expression):
        exchanges = exchanges.append_column(TOPICS, pa.array(list(_topics(exchanges, names)), TOPICS.type))
    return passing(expression, exchanges)


def _topics(exchanges: pa.Table, names: Mapping[str, str]) -> Iterator[list[str]]:
    """The topics that each exchange names, as `rows.topic_mentions` has them."""
    for rows in exchanges.select(["api", "request", "response"]).to_batches():
        for api, *bodies in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            found: dict[str, None] = {}
            for side, text in zip(("request", "response"), bodies, strict=True):
                paths = _topic_paths()[api, side] if text else ()
                body = json.loads(text) if paths else None
                for path, is_id in paths:
                    for topic in leaves(body, path):
                        if isinstance(topic, str) and not (is_id and topic == NO_ID):
                            written = f"{ID_PREFIX}{topic}" if is_id else topic
                            found[names.get(written, written)] = None
            yield list(found)


@cache
def _topic_paths() -> Mapping[tuple[str, str], list[tuple[tuple[str, ...], bool]]]:
    """Where bodies name topics, and whether by id: by API and side (`rows.roles` has the same of their tapes)."""
    found: defaultdict[tuple[str, str], list[tuple[tuple[str, ...], bool]]] = defaultdict(list)
    for api, name, field in fields_of_bodies():
        is_id = field.type == "uuid" and field.name == "topicId"
        if is_id or (field.type == "string" and field.entity_type == "topicName"):
            side, *path = name.split(".")
            if (place := (tuple(path), is_id)) not in found[api, side]:
                found[api, side].append(place)
    return found
