"""Damage and oddities met while reading: values that are counted and shown, never exceptions that end a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Issue:
    """One kind of damage at one place: the first occurrence in full, the others as a count."""

    kind: str  # a word of its own, such as tcp_gap or unknown_link_type
    detail: str  # of the first occurrence: what was expected, what was found
    connection: int | None = None
    at: int | None = None  # nanoseconds since 1970 UTC
    packet: int | None = None
    count: int = 1


class IssueLog:
    """Issues by connection and kind; memory is bounded by their number, not by how often each occurs."""

    def __init__(self, issues: Iterable[Issue] = ()) -> None:
        self._issues: dict[tuple[int | None, str], Issue] = {}
        for issue in issues:
            self.add(issue)

    def add(self, issue: Issue) -> None:
        """Count an issue; of two of one kind and connection the one with the lower packet number tells the detail."""
        key = (issue.connection, issue.kind)
        known = self._issues.get(key)
        if known is None:
            self._issues[key] = issue
            return
        first = min(known, issue, key=lambda i: (i.packet is None, i.packet or 0))
        self._issues[key] = replace(first, count=known.count + issue.count)

    def take(self, connection: int) -> list[Issue]:
        """Remove and return the issues of one connection (when it has ended)."""
        keys = [key for key in self._issues if key[0] == connection]
        return [self._issues.pop(key) for key in keys]

    def __iter__(self) -> Iterator[Issue]:
        return iter(list(self._issues.values()))

    def __len__(self) -> int:
        return len(self._issues)
