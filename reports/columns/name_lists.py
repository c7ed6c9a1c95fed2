"""Lists of names as people read them: some of them and how many more; partitions by topic, with ranges of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def by_topic(partitions: Iterable[str]) -> list[tuple[str, str]]:
    """Partitions written topic-number, as (topic, ranges of its partition numbers), in order."""
    numbers: dict[str, list[int]] = {}
    for partition in partitions:
        topic, dash, number = partition.rpartition("-")
        if dash and number.isdecimal():
            numbers.setdefault(topic, []).append(int(number))
        else:  # not a partition (a Connect task, or damage): kept as it is
            numbers.setdefault(partition, [])
    return [(topic, ranges(sorted(set(found)))) for topic, found in sorted(numbers.items())]


def ranges(ascending: Iterable[int]) -> str:
    """``0-3,7`` of 0, 1, 2, 3, 7."""
    spans: list[list[int]] = []
    for number in ascending:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def in_words(partitions: Iterable[str], most: int = 20) -> str:
    """Partitions as people read them, at most so many ranges: ``orders 0-3,7 · payments 0``."""
    words = list[str]()
    for topic, numbers in by_topic(partitions):
        if most <= 0:
            words.append("…")
            break
        found = numbers.split(",")
        shown = ",".join([*found[:most], *["…"][: len(found) > most]])
        words.append(f"{topic} {shown}".rstrip())
        most -= len(found)
    return " · ".join(words)


def listed(names: Iterable[str], most: int = 5, unnamed: int = 0) -> str:
    """Names in order: ``a, b, c, d, e and 7 more``, among which so many that are not among the names."""
    names = sorted(names)
    more = max(len(names) - most, 0) + unnamed
    return ", ".join(names[:most]) + (f" and {more} more" if more else "") or "nothing"


def named(noun: str, names: Collection[str]) -> str:
    """``group a``, ``groups a, b``: what they are and who, as `listed` has it."""
    return f"{noun if len(names) == 1 else noun + 's'} {listed(names)}"
