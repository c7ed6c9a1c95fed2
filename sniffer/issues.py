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
    file: str | None = None  # ``sources.places.origin_name``; None: that of the packet


class IssueLog:
    """Issues by connection and kind; memory is bounded by their number, not by how often each occurs."""

    def __init__(self, issues: Iterable[Issue] = (), *, file: str | None = None) -> None:
        """With file, what is added was met in this one."""
        self._file = file
        self._issues: dict[int | None, dict[str, Issue]] = {}  # by connection, then by kind
        for issue in issues:
            self.add(issue)

    def add(self, issue: Issue) -> None:
        """Count an issue; of two of one kind and connection the one with the lower packet number tells the detail."""
        if self._file is not None:
            issue = replace(issue, file=self._file)
        kinds = self._issues.setdefault(issue.connection, {})
        known = kinds.get(issue.kind)
        if known is None:
            kinds[issue.kind] = issue
            return
        first = min(known, issue, key=lambda i: (i.packet is None, i.packet or 0))
        kinds[issue.kind] = replace(first, count=known.count + issue.count)

    def of(self, connection: int | None) -> list[Issue]:
        """The issues of one connection, or those of none."""
        return list(self._issues.get(connection, {}).values())

    def take(self, connection: int) -> list[Issue]:
        """Remove and return the issues of one connection (when it has ended)."""
        return list(self._issues.pop(connection, {}).values())

    def __iter__(self) -> Iterator[Issue]:
        return iter([issue for kinds in self._issues.values() for issue in kinds.values()])

    def __len__(self) -> int:
        return sum(map(len, self._issues.values()))
