from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.columns.name_lists import by_topic, in_words, listed, named, ranges


def test_partitions_are_ranges_by_topic() -> None:
    assert in_words(["b-1", "a-0", "a-2", "a-1", "a-7"]) == "a 0-2,7 · b 1"
    assert in_words(["0_1", "t-x"]) == "0_1 · t-x"
    assert in_words([]) == ""


@given(st.sets(st.integers(0, 60)))
def test_ranges_name_every_number_once(numbers: set[int]) -> None:
    named: list[int] = []
    for part in filter(None, ranges(sorted(numbers)).split(",")):
        first, _, last = part.partition("-")
        named += range(int(first), int(last or first) + 1)
    assert named == sorted(numbers)


@given(st.sets(st.tuples(st.sampled_from(["a", "b-c", "id:x"]), st.integers(0, 9))))
def test_the_order_of_partitions_does_not_matter(partitions: set[tuple[str, int]]) -> None:
    names = [f"{topic}-{number}" for topic, number in partitions]
    assert by_topic(names) == by_topic(sorted(names, reverse=True))
    assert {topic for topic, _ in by_topic(names)} == {topic for topic, _ in partitions}


def test_one_or_several_of_a_noun() -> None:
    assert named("group", {"a"}) == "group a"
    assert named("group", {"b", "a"}) == "groups a, b"


def test_names_that_are_only_counted() -> None:
    assert listed(["b", "a"], 5, unnamed=3) == "a, b and 3 more"
    assert listed(["b", "a", "c"], 2, unnamed=3) == "a, b and 4 more"
