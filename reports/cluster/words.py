"""What several brokers say of one thing, each out of its own cache: which word is news, and which comes late."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkascope.sniffer.units import SECOND_NS

CACHE_LAG_NS = 10 * SECOND_NS
"""How long after a change a broker may still tell what was before. Brokers hear of changes within a second; one that
was busy or paused needs some more, and is soon out of the cluster (broker.session.timeout.ms is 9 s by default)."""

_MOST_REMEMBERED = 32  # values of one thing; who stands before these is taken to stand at the first of them


@dataclass(slots=True)
class Words:
    """The values that one thing had, and up to which of them each broker has followed.

    A broker that tells what it told before has no news. What it says else is what it hears late, if the thing had that
    value after the one that the broker told last; or, of a broker that was not heard before, if the value was replaced
    less than `CACHE_LAG_NS` ago. All else is a change. So each change is claimed once, by whoever tells it first, and
    caches that lag make none back and forth.
    """

    values: list[str] = field(default_factory=list)
    until: list[int] = field(default_factory=list)  # when each but the last was replaced, nanoseconds
    place: dict[str, int] = field(default_factory=dict)  # by broker

    @property
    def last(self) -> str | None:
        """The value now; None if nobody told one."""
        return self.values[-1] if self.values else None

    def tell(self, by: str, value: str, at: int) -> bool:
        """Take in what a broker says; whether it is a change. The first word of all is none."""
        stood = self.place.get(by)
        if stood is not None and self.values[stood] == value:
            return False
        found = self._found(value, -1 if stood is None else stood, at)
        if found is not None:
            self.place[by] = found
            return False
        return self.put(by, value, at)

    def put(self, by: str, value: str, at: int) -> bool:
        """Take in what is true beyond doubt; whether it is a change."""
        changed = bool(self.values) and self.values[-1] != value
        if changed:
            self.until.append(at)
        if changed or not self.values:
            self.values.append(value)
        if len(self.values) > _MOST_REMEMBERED:
            del self.values[0], self.until[0]
            self.place = {broker: max(place - 1, 0) for broker, place in self.place.items()}
        self.place[by] = len(self.values) - 1
        return changed

    def _found(self, value: str, behind: int, at: int) -> int | None:
        """Where the thing has or had a value that one who stood there may tell now; None if that must be news."""
        for place in range(len(self.values) - 1, behind, -1):
            if self.values[place] == value and (place == len(self.values) - 1 or at - self.until[place] < CACHE_LAG_NS):
                return place
        return None
