"""Groups of which only a part was captured: the analysis says less, and never fails."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.registry import VIEWS
from kafkascope.reports.vocabulary.tables import GROUP_ROWS, RESULTS
from tests.kafkascope.groups_of_captures import ROWS, rows_of

STORIES = ("eager-three-joins", "kip848", "streams-kip1071", "connect", "share-group", "static-members")
_NUMBERS = (0, -1, 1, 2**31 - 1, -(2**31))


def cut_short(body: Any, random: Random) -> Any:
    """A body of which fields behind some place are not there; numbers may be any."""
    if isinstance(body, dict):
        fields = list(body.items())
        kept = fields if random.random() < 0.8 else fields[: random.randrange(len(fields) + 1)]
        return {name: cut_short(value, random) for name, value in kept}
    if isinstance(body, list):
        kept = body if random.random() < 0.9 else body[: random.randrange(len(body) + 1)]
        return [cut_short(value, random) for value in kept]
    if isinstance(body, int) and not isinstance(body, bool) and random.random() < 0.02:
        return random.choice(_NUMBERS)
    return None if isinstance(body, str) and random.random() < 0.02 else body


def damaged(rows: pa.Table, random: Random) -> pa.Table:
    """Some of the rows, from some place on, in another order, with less in them."""
    kept = []
    begin, share = random.choice([0, 0, random.randrange(len(rows))]), random.choice([0.3, 0.9, 1.0])
    for row in rows.slice(begin).to_pylist():
        if random.random() > share:
            continue
        if (message := row["message"]) is not None:
            for side in ("request", "response"):
                chance = random.random()
                if message[side] is not None and chance < 0.1:
                    message[side] = None if chance < 0.03 else json.dumps(cut_short(json.loads(message[side]), random))
            if random.random() < 0.03:
                message |= {"client_id": None, "answered": None, "response_packet": None, "outcome": "unanswered"}
        kept.append(row)
    random.shuffle(kept)
    return pa.Table.from_pylist(kept, schema=GROUP_ROWS)


@pytest.mark.parametrize("story", STORIES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_part_of_a_group_can_be_analyzed(story: str, seed: int) -> None:
    rows, topics = rows_of(story)
    rows = damaged(rows, Random(seed))
    for name, table in VIEWS[ROWS]().result(rows, Known(topics if seed % 2 else {})).items():
        table.validate(full=True)
        assert table.schema == RESULTS[name]


@pytest.mark.parametrize("story", STORIES)
def test_the_order_of_rows_makes_no_difference(story: str) -> None:
    rows, topics = rows_of(story)
    shuffled = rows.take(pa.array(Random(5).sample(range(len(rows)), len(rows))))
    expected, got = (VIEWS[ROWS]().result(table, Known(topics)) for table in (rows, shuffled))
    assert expected.keys() == got.keys()
    for name in expected:
        assert got[name].equals(expected[name]), name
