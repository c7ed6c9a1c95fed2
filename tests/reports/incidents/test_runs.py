"""Things in order as runs."""

from __future__ import annotations

import pytest

from kafkascope.reports.incidents.runs import in_runs


@pytest.mark.parametrize(
    ("items", "runs"),
    [
        ([], []),
        ([1], [[1]]),
        ([1, 3, 5, 8, 9], [[1, 3, 5], [8, 9]]),
        ([1, 4, 7], [[1], [4], [7]]),
    ],
)
def test_what_is_near_the_last_one_belongs_to_its_run(items: list[int], runs: list[list[int]]) -> None:
    assert list(in_runs(items, lambda run, item: item - run[-1] <= 2)) == runs


def test_the_whole_run_may_decide() -> None:
    assert list(in_runs([5, 1, 4, 9, 2], lambda run, item: item <= max(run))) == [[5, 1, 4], [9, 2]]
