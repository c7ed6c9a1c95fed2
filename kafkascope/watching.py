"""``sniff --groups``: what happens to groups, as lines on the terminal or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.reading import Batch, BatchSource
from kafkascope.reports.columns.views import Known
from kafkascope.reports.groups.history import GroupHistory
from kafkascope.reports.groups.live import LiveGroups
from kafkascope.reports.show import group_lines
from kafkascope.reports.views.clusters import ClustersView
from kafkascope.reports.views.groups import GroupsView

ROWS = GroupsView.name
"""The rows of a batch that are looked at."""
VIEWS = frozenset({ROWS, ClustersView.name})
"""The views that make them, and that learn what is needed to understand them."""


def histories(source: BatchSource, wanted: frozenset[str], limits: Limits = DEFAULT) -> Iterator[GroupHistory]:
    """What happened to the groups wanted (none: all), as soon as it is settled."""
    groups = LiveGroups(hurry=source.is_stream, limits=limits)
    for batch in source.batches():
        yield feed(groups, _of(wanted, batch), source)
    yield finish(groups, source)


def feed(groups: LiveGroups, rows: pa.Table | None, source: BatchSource) -> GroupHistory:
    """What became settled with these rows of a source, to which the groups' issues go."""
    history = groups.feed(rows, Names(source), source.now(), source.topic_names.of_clusters.of_broker)
    source.note(groups.take_issues())
    return history


def finish(groups: LiveGroups, source: BatchSource) -> GroupHistory:
    """What only the end of the source makes sure."""
    history = groups.finish(Names(source))
    source.note(groups.take_issues())
    return history


def lines(history: GroupHistory, as_json: bool, colour: bool) -> list[bytes]:
    """What happened as lines, each with its end."""
    texts = group_lines.json_lines(history) if as_json else group_lines.lines(history, colour)
    return [f"{text}\n".encode(errors="surrogateescape") for text in texts]


class Names(Mapping[str, str]):
    """Names of topics by id as bodies write it; of files also those that only a later part of them tells."""

    def __init__(self, source: BatchSource) -> None:
        self._source = source

    def __getitem__(self, identity: str) -> str:
        name = self._source.topic_names.name(identity)
        if name is None:
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
