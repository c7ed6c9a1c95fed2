"""``sniff --groups``: what happens to groups, as lines on the terminal or as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.engine import EngineOptions
from kafkascope.reading import Batch, Listening, Reading
from kafkascope.reports.columns.views import Known
from kafkascope.reports.groups.history import GroupHistory
from kafkascope.reports.groups.live import LiveGroups
from kafkascope.reports.show import group_lines as lines
from kafkascope.reports.views import groups as view
from kafkascope.sniffer.session import SessionOptions

ROWS = view.GroupsView.name
"""The rows of a batch that are looked at."""


def options(ports: frozenset[int], decode_as: frozenset[int], show_secrets: bool) -> EngineOptions:
    """No tables, only what the view of groups gives."""
    return EngineOptions(
        tables=frozenset(),
        exchange_columns=frozenset(),
        session=SessionOptions(ports=ports, decode_as=decode_as),
        reveal_secrets=show_secrets,
        views=frozenset({ROWS}),
    )


def histories(source: Reading | Listening, wanted: frozenset[str]) -> Iterator[GroupHistory]:
    """What happened to the groups wanted (none: all), as soon as it is settled."""
    groups = LiveGroups(hurry=isinstance(source, Listening) or source.is_stream)
    names = Names(source)
    for batch in source.batches():
        history = groups.feed(_of(wanted, batch), names, time.time_ns() if isinstance(source, Listening) else 0)
        source.note(groups.take_issues())
        yield history
    history = groups.finish(names)
    source.note(groups.take_issues())
    yield history


def write(history: GroupHistory, as_json: bool, colour: bool, limit: int | None, out: BinaryIO) -> int:
    """Write lines, no more than a limit; returns how many."""
    texts = lines.json_lines(history) if as_json else lines.lines(history, colour)
    texts = texts[:limit]
    out.writelines(f"{text}\n".encode(errors="surrogateescape") for text in texts)
    return len(texts)


class Names(Mapping[str, str]):
    """Names of topics by id as bodies write it; of files also those that only a later part of them tells."""

    def __init__(self, source: Reading | Listening) -> None:
        self._source = source

    def __getitem__(self, identity: str) -> str:
        name = self._source.topic_names.name(identity)
        if name is None and isinstance(self._source, Reading):
            self._source.look_ahead()
            name = self._source.topic_names.name(identity)
        if name is None:
            raise KeyError(identity)
        return name

    def __iter__(self) -> Iterator[str]:
        return iter(Known.of(self._source.topic_names.learned()).topics)

    def __len__(self) -> int:
        return len(self._source.topic_names.learned())


def _of(wanted: frozenset[str], batch: Batch) -> pa.Table | None:
    rows = batch.tables.get(ROWS)
    if rows is None or not wanted:
        return rows
    return rows.filter(pc.is_in(rows["group_id"], pa.array(sorted(wanted))))
