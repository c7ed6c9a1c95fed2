"""What shows of a conversation that cannot be opened: when each side sent how much, and so who asked and who answered.

A turn is what a client sends until the broker sends; it counts as a request when the broker's first bytes come.
Requests that are sent one behind the other before the first is answered are one turn. In TLS 1.3 the end of the
handshake and alerts look like data: the client's first record, and those that are too small for Kafka, do not count.
An alert in the place of the end of the handshake shows all the same, by its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkascope.sniffer.columns import NO_TIME

ALERT_BYTES = 35
"""Of an alert in TLS 1.3 at the most: two, its type, and a tag; Java adds 16 of padding. No request of Kafka with a
client id is as small, nor what a broker says first: an answer to ApiVersions, SaslHandshake or Metadata."""
MOST_WAITING = 10_000  # records of one side that wait for those of the other
MOST_TIMES = 4096  # answers whose times are kept; the first ones


class Sent(NamedTuple):
    """A record with the application's data, in the order in which records of both sides were complete."""

    moment: int  # number of the packet by which it is known
    direction: int
    at: int
    size: int  # bytes behind its header


@dataclass(slots=True)
class Turns:
    """Turns of one connection."""

    requests: int = 0
    times: list[int] = field(default_factory=list)  # nanoseconds from the turn's last record to the answer's first
    first: int = NO_TIME  # time of the first request
    last: int = NO_TIME  # ... of the last answer
    refused_by: int | None = None  # TLS 1.3: direction of who sent an alert before anything was answered
    _waiting: list[Sent] = field(default_factory=list)
    _is_finished: bool = False  # the client has sent the end of its handshake
    _is_closed: bool = False  # ... and then an alert: it had no more to say
    _asked: int | None = None  # time of the turn's last record
    _began: int = NO_TIME

    def hear(self, sent: Sent) -> None:
        """Take in a record; those of both sides are put in order by `settle`."""
        self._waiting.append(sent)

    @property
    def is_full(self) -> bool:
        """Whether too many wait for `settle`, which is for when both sides were heard up to the same packet."""
        return len(self._waiting) >= MOST_WAITING

    def settle(self, client: int, is_1_3: bool) -> None:
        """No record that is heard later comes before those that were heard. Client is the direction of its stream."""
        for sent in sorted(self._waiting):
            is_small = is_1_3 and sent.size <= ALERT_BYTES
            if is_small and (sent.direction == client or not self.requests):
                self._alert(sent, client)
                continue
            if sent.direction == client:
                if is_1_3 and not self._is_finished:
                    self._is_finished, self.refused_by = True, None
                    continue
                if self._asked is None:
                    self._began = sent.at
                self._asked = sent.at
            elif self._asked is not None:
                self._answer(self._asked, sent.at)
                self._asked = None
        self._waiting = []

    def _alert(self, sent: Sent, client: int) -> None:
        """A record that is too small for anything else, but for a certificate that says that there is none."""
        if sent.direction == client:
            self._is_closed |= self._is_finished
        if not self.requests and not self._is_closed and self.refused_by is None:
            self.refused_by = sent.direction

    def _answer(self, asked: int, answered: int) -> None:
        self.requests += 1
        self.last = answered
        if self.first == NO_TIME:
            self.first = self._began
        if NO_TIME not in (asked, answered) and len(self.times) < MOST_TIMES:
            self.times.append(answered - asked)

    @property
    def usual_time(self) -> int | None:
        """Median of the times, in nanoseconds; None if there are none."""
        return sorted(self.times)[len(self.times) // 2] if self.times else None
