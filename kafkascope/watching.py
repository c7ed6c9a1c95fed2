"""``sniff --groups``: what happens to groups, as lines on the terminal or as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.engine import EngineOptions
from kafkascope.reading import Batch, Listening, Reading
from kafkascope.spool import Spool
from reports.groups import lines, view
from reports.groups.history import GroupHistory
from reports.groups.live import LiveGroups
from reports.views import Known
from sniffer.session import SessionOptions

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
    """What happened to the groups wanted (none: all).

    Of what goes on, as soon as it is settled; of files when they are read, for then all is known.
    """
    going_on = isinstance(source, Listening) or source.is_stream
    return _as_they_come(source, wanted) if going_on else _at_end(source, wanted)


def write(history: GroupHistory, as_json: bool, colour: bool, limit: int | None, out: BinaryIO) -> int:
    """Write lines, no more than a limit; returns how many."""
    texts = lines.json_lines(history) if as_json else lines.lines(history, colour)
    texts = texts[:limit]
    out.writelines(f"{text}\n".encode(errors="surrogateescape") for text in texts)
    return len(texts)


def _as_they_come(source: Reading | Listening, wanted: frozenset[str]) -> Iterator[GroupHistory]:
    groups = LiveGroups()
    live = isinstance(source, Listening)

    def topics() -> Mapping[str, str]:
        return Known.of(source.topic_names.learned()).topics

    for batch in source.batches():
        yield groups.feed(_of(wanted, batch), topics, time.time_ns() if live else 0)
    yield groups.finish(topics)


def _at_end(source: Reading | Listening, wanted: frozenset[str]) -> Iterator[GroupHistory]:
    spool = Spool()
    for batch in source.batches():
        rows = _of(wanted, batch)
        if rows is not None and rows.num_rows:
            spool.write({ROWS: rows})
    spool.finish()
    found = GroupHistory()
    for _, history in view.histories(spool.table(ROWS), Known.of(source.topic_names.learned())):
        found.events += history.events
        found.rebalances += history.rebalances
    yield found


def _of(wanted: frozenset[str], batch: Batch) -> pa.Table | None:
    rows = batch.tables.get(ROWS)
    if rows is None or not wanted:
        return rows
    return rows.filter(pc.is_in(rows["group_id"], pa.array(sorted(wanted))))
