"""What moved, and what nobody owned."""

from __future__ import annotations

from kafkascope.reports.groups.cost import Ownership, last_of, moved_partitions, unowned_spans

MS = 1_000_000


def test_partitions_move_from_one_owner_to_another() -> None:
    before = {"a": ["t-0", "t-1"], "b": ["t-2"]}
    after = {"a": ["t-0"], "c": ["t-1", "t-2", "t-3"]}
    assert moved_partitions(before, after) == ["t-1", "t-2"]  # nobody had t-3


def test_span_between_two_owners() -> None:
    owned = [Ownership("t-0", "a", 0, 10 * MS), Ownership("t-0", "b", 25 * MS)]
    (span,) = unowned_spans(owned, 0, 30 * MS)
    assert (span.partition, span.since, span.ms) == ("t-0", 10 * MS, 15.0)


def test_no_span_where_somebody_owned_it_all_along() -> None:
    kept = [Ownership("t-0", "a", 0), Ownership("t-0", "a", 25 * MS)]
    overlapping = [Ownership("t-1", "a", 0, 30 * MS), Ownership("t-1", "b", 25 * MS)]
    never_taken = [Ownership("t-2", "a", 0, 10 * MS)]
    first_owner = [Ownership("t-3", "a", 20 * MS)]
    assert unowned_spans(kept + overlapping + never_taken + first_owner, 0, 30 * MS) == []


def test_only_spans_that_end_in_the_window_count() -> None:
    owned = [Ownership("t-0", "a", 0, 10 * MS), Ownership("t-0", "b", 25 * MS)]
    assert unowned_spans(owned, 0, 20 * MS) == []
    assert unowned_spans(owned, 25 * MS, 30 * MS) == []
    assert len(unowned_spans(owned, 24 * MS, 25 * MS)) == 1


def test_of_spans_that_are_as_long_the_first_counts() -> None:
    owned = [Ownership("t-0", "a", 0, 10), Ownership("t-0", "b", 12, 20), Ownership("t-0", "c", 22)]
    assert [span.since for span in unowned_spans(owned, 0, 30)] == [10]


def test_longest_of_several_spans() -> None:
    owned = [
        Ownership("t-0", "a", 0, 10 * MS),
        Ownership("t-0", "b", 12 * MS, 20 * MS),
        Ownership("t-0", "c", 29 * MS),
    ]
    (span,) = unowned_spans(owned, 0, 30 * MS)
    assert (span.since, span.ms) == (20 * MS, 9.0)


def test_who_was_last() -> None:
    assert last_of({}) is None
    assert last_of({"a": 5 * MS}) == ("a", None)
    assert last_of({"a": 5 * MS, "b": 7 * MS, "c": MS}) == ("b", 2.0)
    assert last_of({"a": 5 * MS, "b": 7 * MS}) == ("b", 2.0)
    assert last_of({"b": 7 * MS, "a": 7 * MS}) == ("b", 0.0)  # always the same one
