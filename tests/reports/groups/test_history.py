"""Events and rebalances as rows."""

from __future__ import annotations

import pytest

from kafkascope.reports.groups.history import Event, Rebalance, event_table, rebalance_table
from kafkascope.reports.vocabulary.tables import GROUP_EVENTS, REBALANCES


@pytest.mark.parametrize(
    ("generation", "told"), [(None, None), (2**31 - 2, 2**31 - 2), (2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1)]
)
def test_a_generation_after_the_largest_is_the_largest(generation: int | None, told: int | None) -> None:
    events = event_table([Event("g", 1, "joined", generation=3), Event("g", 2, "joined", generation=generation)])
    assert events.schema == GROUP_EVENTS
    assert events["generation"].to_pylist() == [3, told]
    rebalances = rebalance_table([Rebalance("g", "classic", generation or 1, from_generation=generation)])
    assert rebalances.schema == REBALANCES
    assert rebalances["from_generation"].to_pylist() == [told]
    assert rebalances["inferred"].to_pylist() == [False]
