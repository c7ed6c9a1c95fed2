"""What captures of pcaps/ say of groups, as rows of the view of groups."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from kafkascope.engine import Engine, EngineOptions, Tables
from kafkascope.reports.columns.views import Known
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.watching import ROWS
from tests.paths import PCAPS


@cache
def rows_of(story: str) -> tuple[pa.Table, dict[str, str]]:
    """The rows in the order in which they become known, and the names of topics by id."""
    engine = Engine(EngineOptions(tables=frozenset(), views=frozenset()).with_views_at_once(frozenset({ROWS})))
    tables: list[Tables] = []
    (file,) = (PCAPS / story).glob("capture.pcap*")
    with open_capture([str(file)], batch_bytes=20_000) as capture:
        for packets in capture:
            tables += engine.feed(dissect(packets).segments)
    tables += engine.finish()
    names = dict(Known.of(engine.topic_names.learned()).topics)
    return pa.concat_tables([batch[ROWS] for batch in tables if ROWS in batch]), names


__all__ = ["ROWS", "rows_of"]
