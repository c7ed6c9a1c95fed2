"""Where a delay that an answer tells is looked for: in it, or behind it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkascope.decoders import apis
from kafkascope.reports.measures.latency.parts import PARTS, THROTTLED
from kafkascope.reports.rows.builder import TableBuilder
from kafkascope.reports.views.latency import LatencyView
from tests.joined import joined
from tests.reports.ends import Ends
from tests.reports.written_exchanges import Written, exchanges

MILLISECOND = 1_000_000


def throttled(api_key: int, version: int, told_ms: int) -> list[tuple[int, int]]:
    """Number and milliseconds of what was throttled in two exchanges: each takes 4 ms, a second lies between."""
    body = {"throttleTimeMs": told_ms}
    made = exchanges(Written(api_key, version, {}, body), Written(api_key, version, {}, body))
    view = LatencyView()
    tables = joined(TableBuilder(view.needs).observe(made, {}))
    rows = view.observe(tables, {1: Ends()})
    assert isinstance(rows, pa.Table)
    part = sorted(PARTS).index(THROTTLED)
    cells = [cell for row in rows.to_pylist() for cell in row["cells"] if cell["part"] == part]
    return [(cell["count"], cell["sum_ns"] // MILLISECOND) for cell in cells]


@pytest.mark.parametrize(
    ("api_key", "version", "told_ms", "expected"),
    [
        (apis.PRODUCE, 9, 0, []),
        (apis.PRODUCE, 9, 3, [(1, 3)]),  # before the second request; nothing came after the second answer
        (apis.PRODUCE, 9, 300, [(1, 300)]),
        (apis.PRODUCE, 9, 5000, [(1, 994), (1, 4)]),  # the client did not wait, so the broker let its request lie
        (apis.PRODUCE, 3, 3, [(2, 6)]),  # a broker before 2.0 delays both answers
        (apis.PRODUCE, 3, 300, [(1, 300)]),  # a newer one delays what follows, as the answer was there sooner
        (apis.FETCH, 7, 3, [(2, 6)]),
        (apis.FETCH, 8, 3, [(1, 3)]),
        (apis.HEARTBEAT, 1, 3, [(2, 6)]),
        (apis.HEARTBEAT, 2, 3, [(1, 3)]),
        (apis.METADATA, 12, -5, []),
    ],
)
def test_where_the_delay_is(api_key: int, version: int, told_ms: int, expected: list[tuple[int, int]]) -> None:
    assert sorted(throttled(api_key, version, told_ms)) == sorted(expected)
