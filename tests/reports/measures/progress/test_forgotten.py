"""Commits that were there and are gone, told one message at a time."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.progress import ProgressView
from kafkascope.reports.vocabulary.tables import FORGOTTEN_COMMITS
from tests.reports.measures.progress.test_lag import SECOND, commit, fetch, nanoseconds, rows

AGAIN: dict[str, Any] = {"connection": 2}


def nothing(at: float, group: str = "g", **more: Any) -> dict[str, Any]:
    """A member is told that nothing is committed."""
    return commit(at, None, group, kind="nothing_committed", **AGAIN | more)


def forgotten(*given: dict[str, Any]) -> list[tuple[Any, ...]]:
    """When it was told so, what had been committed and when, where it read on, and what it passed over."""
    table = ProgressView().result(rows(*given), Known()).get("forgotten_commits", FORGOTTEN_COMMITS.empty_table())
    assert table.schema == FORGOTTEN_COMMITS
    columns = ("committed_offset", "read_from", "passed_over")
    return [
        (
            row["at"] / SECOND,
            None if row["committed_at"] is None else row["committed_at"] / SECOND,
            *(row[name] for name in columns),
        )
        for row in nanoseconds(table)
    ]


def test_what_nobody_was_sent_is_counted() -> None:
    """From the furthest that was read or committed to where the group reads on."""
    read = [fetch(1, 0, 10, 10), fetch(2, 10, 30, 40)]
    assert forgotten(*read, commit(3, 20), nothing(60), fetch(61, 90, 95, 99, **AGAIN)) == [(60, 3, 20, 90, 60)]
    assert forgotten(commit(3, 20), nothing(60), fetch(61, 90, 95, 99, **AGAIN), commit(62, 95, **AGAIN)) == [
        (60, 3, 20, 90, 70)
    ]


def test_who_reads_again_from_the_beginning_passes_nothing_over() -> None:
    assert forgotten(commit(3, 20), nothing(60), fetch(61, 0, 95, 99, **AGAIN)) == [(60, 3, 20, 0, 0)]


def test_where_it_reads_on_may_not_be_seen() -> None:
    assert forgotten(commit(3, 20), nothing(60)) == [(60, 3, 20, None, None)]
    # One that goes on reading is put elsewhere in the midst of a row.
    reads_on = fetch(59, 20, 22, 99, last_at=62 * SECOND) | AGAIN
    assert forgotten(commit(3, 20), reads_on, nothing(60), fetch(66, 90, 95, 99, **AGAIN)) == [(60, 3, 20, None, None)]


def test_it_is_told_once_for_each_commit() -> None:
    asked = [nothing(60), nothing(70, connection=3), commit(75, 50, connection=3), nothing(99, connection=4)]
    assert [row[:3] for row in forgotten(commit(3, 20), *asked)] == [(60, 3, 20), (99, 75, 50)]


def test_what_the_coordinator_told_counts_as_committed() -> None:
    assert forgotten(commit(3, 20, kind="committed"), nothing(60)) == [(60, 3, 20, None, None)]


@pytest.mark.parametrize(
    "before",
    [
        [],  # a new group, or one that committed before the capture
        [commit(61, 20, **AGAIN)],
        [commit(3, 20, "other")],
        [commit(3, 20, partition=1)],
        [commit(3, 20, topic="u")],
        [commit(3, 20, kind="txn_commit")],  # the transaction may have been aborted
        [commit(3, None)],
        [fetch(3, 10, 20, 20)],
    ],
)
def test_of_whom_nothing_was_known_nothing_is_gone(before: list[dict[str, Any]]) -> None:
    assert forgotten(*before, nothing(60), fetch(65, 0, 5, 99, **AGAIN)) == []


def test_a_topic_that_was_made_again_had_no_commits() -> None:
    assert forgotten(commit(3, 20), nothing(60), fetch(61, 0, 5, 19, **AGAIN)) == []
    assert len(forgotten(commit(3, 20), nothing(60), fetch(61, 0, 5, 20, **AGAIN))) == 1


def test_who_never_commits_passes_over_what_is_written_while_it_is_away() -> None:
    read = [fetch(1, 0, 10, 10), fetch(2, 10, 30, 40)]
    begins = [
        nothing(60),
        fetch(61, 90, 95, 99, **AGAIN),
        nothing(99, connection=3),
        fetch(99.5, 120, 125, 130, connection=3),
    ]
    assert forgotten(*read, *begins) == [(60, None, None, 90, 60), (99, None, None, 120, 25)]
    asked_again = nothing(60.5, connection=2)
    assert forgotten(*read, begins[0], asked_again, begins[1]) == [(60, None, None, 90, 60)]


@pytest.mark.parametrize(
    "later",
    [
        [fetch(61, 30, 95, 99, **AGAIN)],  # it goes on where it was
        [fetch(61, 0, 95, 99, **AGAIN)],  # it reads again
        [fetch(61, 90, 95, 99, partition=1, **AGAIN)],
        [],
    ],
)
def test_who_never_commits_and_passes_nothing_over_is_not_told(later: list[dict[str, Any]]) -> None:
    assert forgotten(fetch(1, 0, 30, 30), nothing(60), *later) == []
