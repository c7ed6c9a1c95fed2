"""What the output lacks, told while it happens, in the output too: lines that say so."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime

from kafkascope.reports.columns.text import counted
from kafkascope.sniffer.units import SECOND_NS

LEAST_S, MOST_S = 1, 60
"""Between two lines about what goes on to be lost: hours of it are to leave room for what else is said."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that is missing from here on, or was until here."""

    kind: str  # of issues, see ``reports.vocabulary.issue_kinds``
    at: int  # nanoseconds since 1970 UTC, when it was noticed
    count: int  # since this was told last
    in_all: int
    text: str

    def line(self, as_json: bool) -> bytes:
        """A line among others: an object with ``issue``, or a text behind ``#``."""
        seconds, rest = divmod(self.at, SECOND_NS)
        when = datetime.fromtimestamp(seconds, UTC)
        if as_json:
            at = f"{when:%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
            found = {"issue": self.kind, "at": at, "count": self.count, "in_all": self.in_all, "detail": self.text}
            return f"{json.dumps(found)}\n".encode()
        return f"# {when:%H:%M:%S}.{rest // 1000:06} {self.text}\n".encode()


@dataclass(slots=True)
class Telling:
    """How much of one kind of loss was told; the next line comes after twice as long, as long as more is lost."""

    told: int = 0
    _at_s: float = -math.inf
    _pause_s: float = LEAST_S

    def news(self, in_all: int, now_s: float, *, at_end: bool) -> int:
        """What is to be told of so much in all; 0: nothing, or not yet, but for at_end."""
        new, since_s = in_all - self.told, now_s - self._at_s
        if not new or (since_s < self._pause_s and not at_end):
            return 0
        goes_on = since_s < 2 * self._pause_s
        self._pause_s = min(2 * self._pause_s, MOST_S) if goes_on else LEAST_S
        self.told, self._at_s = in_all, now_s
        return new


def lines_left_out(at: int, count: int, in_all: int) -> Loss:
    """Lines that whoever reads the output was too slow for."""
    text = f"{counted(count, 'line')} left out here ({in_all:,} in all): the output is read too slowly"
    return Loss("lines_left_out", at, count, in_all, text)
