"""Rows of views come with each batch, or some batches later: what is made of them is the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from kafkascope import engine
from kafkascope.engine import Engine, EngineOptions, Tables, all_views
from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.guarded import results
from kafkascope.reports.views.registry import VIEWS
from kafkascope.sniffer.columns import Segments
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.files import open_capture
from tests.paths import PCAPS

AT_ONCE = EngineOptions().with_views_at_once(all_views())


def segments() -> list[Segments]:
    with open_capture([str(PCAPS / "eager-three-joins/capture.pcap")], batch_bytes=20_000) as capture:
        return [dissect(packets).segments for packets in capture]


def fed(taker: Engine, batches: Iterable[Segments]) -> Iterator[Tables]:
    for batch in batches:
        yield from taker.feed(batch)


def answers(taker: Engine, pieces: list[Tables]) -> dict[str, dict[str, list[dict[str, object]]]]:
    known, found = Known.of(taker.topic_names.learned()), {}
    for name, view in VIEWS.items():
        made = results(view(), pa.concat_tables([tables[name] for tables in pieces if name in tables]), known)
        found[name] = {table: rows.to_pylist() for table, rows in made.items()}
    return found


@pytest.mark.parametrize(
    ("bytes_at_once", "some", "fewer"), [(0, True, False), (100_000, True, True), (1 << 30, False, True)]
)
def test_of_rows_that_come_late_the_same_is_made(
    monkeypatch: pytest.MonkeyPatch, bytes_at_once: int, some: bool, fewer: bool
) -> None:
    prompt = Engine(AT_ONCE)
    rows = [*fed(prompt, segments()), *prompt.finish()]
    monkeypatch.setattr(engine, "VIEW_BYTES", bytes_at_once)
    late = Engine(EngineOptions())
    pieces = [*fed(late, segments())]
    batches = sum("latency_counts" in tables for tables in pieces)
    assert (batches > 0, batches < sum("latency_counts" in tables for tables in rows)) == (some, fewer)
    pieces += late.finish()
    assert answers(late, pieces) == answers(prompt, rows)


def test_who_asks_between_is_told_all_so_far_and_nothing_changes_by_it() -> None:
    half = len(segments()) // 2
    prompt, late = Engine(AT_ONCE), Engine(EngineOptions())
    first, told = [*fed(prompt, segments()[:half])], [*fed(late, segments()[:half])]
    assert not late.topic_names.of_clusters.of_broker
    so_far = [*late.so_far()]
    assert late.topic_names.of_clusters.of_broker == prompt.topic_names.of_clusters.of_broker != {}
    assert answers(late, told + so_far) == answers(prompt, [*first, *prompt.so_far()])
    told += [*fed(late, segments()[half:]), *late.finish()]
    first += [*fed(prompt, segments()[half:]), *prompt.finish()]
    assert answers(late, told) == answers(prompt, first)


def test_the_rest_of_views_is_that_of_all_tables_so_far() -> None:
    late = Engine(EngineOptions())
    pieces = [*fed(late, segments())]
    assert not any(name in tables for tables in pieces for name in VIEWS)
    assert late.rest_of_views().keys() & VIEWS.keys() > {"group_rows", "latency_counts"}
    assert not late.rest_of_views()
