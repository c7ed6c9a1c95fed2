"""Which word of several brokers is news."""

from __future__ import annotations

from kafkascope.reports.cluster.words import _MOST_REMEMBERED, CACHE_LAG_NS, Words


def changes(*said: tuple[str, str, int]) -> list[tuple[str, str, int]]:
    words = Words()
    return [one for one in said if words.tell(*one)]


def test_the_first_word_of_all_is_no_change_and_a_word_that_goes_on_is_none() -> None:
    assert changes(("A", "x", 0), ("B", "x", 1), ("A", "x", 2)) == []


def test_a_change_is_claimed_once_by_who_tells_it_first() -> None:
    assert changes(("A", "x", 0), ("B", "x", 0), ("A", "y", 5), ("B", "y", 6), ("C", "y", 7)) == [("A", "y", 5)]


def test_caches_that_lag_make_no_change_back() -> None:
    said = [("A", "x", 0), ("B", "x", 0), ("A", "y", 5), ("A", "x", 6)]
    late = [("B", "x", 7), ("B", "y", 8), ("B", "x", 9)]  # what A has told long ago
    assert changes(*said, *late) == [("A", "y", 5), ("A", "x", 6)]
    assert changes(*said, *late, ("B", "z", 10)) == [("A", "y", 5), ("A", "x", 6), ("B", "z", 10)]


def test_who_is_heard_first_may_lag_so_long_and_no_longer() -> None:
    before = [("A", "x", 0), ("A", "y", 5)]
    assert changes(*before, ("B", "x", 5 + CACHE_LAG_NS - 1)) == [("A", "y", 5)]
    late = ("B", "x", 5 + CACHE_LAG_NS)
    assert changes(*before, late) == [("A", "y", 5), late]


def test_who_never_heard_of_a_change_tells_none_back_however_late() -> None:
    assert changes(("A", "x", 0), ("B", "x", 0), ("A", "y", 5), ("B", "x", 9 * CACHE_LAG_NS)) == [("A", "y", 5)]


def test_what_is_certain_counts_whoever_says_it() -> None:
    words = Words()
    assert not words.put("A", "x", 0)
    assert words.put("B", "y", 1)
    assert not words.put("A", "y", 2)
    assert words.last == "y"


def test_few_values_are_remembered() -> None:
    words = Words()
    said = [words.tell("A", str(value), value) for value in range(3 * _MOST_REMEMBERED)]
    assert sum(said) == len(said) - 1
    assert len(words.values) == _MOST_REMEMBERED == len(words.until) + 1
    assert words.place == {"A": _MOST_REMEMBERED - 1}
