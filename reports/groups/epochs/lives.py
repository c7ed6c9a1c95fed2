"""Members of a group from their joining to their end, and what each had meanwhile."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from kafkascope.reports.groups.epochs.heartbeats import CLASSIC, Beat, Terms
from kafkascope.reports.groups.leaving import AllowedSilence, by_heartbeats, by_session

_USUAL_INTERVAL_MS = 5_000  # group.consumer.heartbeat.interval.ms of a broker that nobody configured


class Roster:
    """Who is a member in each epoch; asked for epochs in rising order."""

    def __init__(self, lives: list[Life]) -> None:
        self._coming = sorted(lives, key=lambda life: life.begin or 0, reverse=True)
        self._members: list[Life] = []

    def members(self, number: int) -> list[Life]:
        """The members in this epoch of the group."""
        while self._coming and (self._coming[-1].begin or 0) <= number:
            self._members.append(self._coming.pop())
        self._members = [life for life in self._members if life.end is None or life.end > number]
        return self._members

    def take_out(self, life: Life) -> None:
        """Somebody is no member in the epochs to come."""
        self._members = [each for each in self._members if each is not life]


@dataclass(slots=True, eq=False)
class Life(Terms):
    """A member. Epochs are numbers of the group; times are ns."""

    member_id: str
    protocol: str
    first: int  # when the capture first has it
    begin: int | None = None  # the first epoch that it is a member of; None: it was there before the capture
    end: int | None = None  # the first epoch that it is no member of any more
    client_id: str | None = None
    host: str | None = None
    instance_id: str | None = None
    connections: dict[int, None] = field(default_factory=dict)
    joins: list[tuple[int, int]] = field(default_factory=list)  # (at, answered)
    epoch: int | None = None  # that it had last
    heard: int = 0  # its last word that the coordinator took
    heard_packet: int | None = None
    away: int | None = None  # a static member stepped out
    left: int | None = None
    left_packet: int | None = None
    refused: int | None = None  # it was told that it is no member any more
    missed: int | None = None  # when the capture told that it had been taken out
    refused_packet: int | None = None
    spoke: bool = True  # False: only others speak of it
    inherits: bool = False  # it took the place of a static member, and what that had
    missing_internal_topics: bool = False
    missing_source_topics: bool = False
    reached: dict[int, int] = field(default_factory=dict)  # when it had each epoch first
    given: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)  # (at, epoch, partitions) in order
    owned: list[tuple[int, frozenset[str]]] = field(default_factory=list)  # (at, partitions) as it told
    asked: list[tuple[int, list[str]]] = field(default_factory=list)  # (at, topics and pattern)
    dropped: list[int] = field(default_factory=list)  # when it gave up everything to join again
    worked: list[int] = field(default_factory=list)  # when it first said that it has what it was given
    untold: int = 0  # when it last named an epoch whose answer the capture lacks: what it has since is not known

    @property
    def key(self) -> str:
        """What stays the same when a static member comes back with another id."""
        return self.instance_id or self.member_id

    @property
    def name(self) -> str:
        """What it is called in sentences."""
        return self.client_id or self.member_id

    def allowed_silence(self) -> AllowedSilence:
        """By its session, or by its heartbeats."""
        if self.session_timeout_ms:
            return by_session(self.session_timeout_ms)
        if self.interval_ms:
            return by_heartbeats(self.interval_ms, f"it should be heard every {self.interval_ms} ms")
        return by_heartbeats(_USUAL_INTERVAL_MS, f"members are usually heard every {_USUAL_INTERVAL_MS} ms")

    def silent_after(self) -> int:
        """How long (ns) it is silent before it may have been taken out: most of its session, else some heartbeats."""
        return int(self.allowed_silence().ns * (0.9 if self.session_timeout_ms else 1))

    def silent_since(self) -> int:
        """Its last word, or when it stepped out."""
        return self.heard if self.away is None else self.away

    def asked_for(self, until: int) -> list[str]:
        """The topics, or the pattern, that it asked for last."""
        place = bisect_right(self.asked, until, key=lambda each: each[0])
        return self.asked[max(place - 1, 0)][1] if self.asked else list(self.topics or ())

    def joined(self, until: int) -> tuple[int, int] | None:
        """When it joined last, and was answered; None if the capture does not have it."""
        place = bisect_right(self.joins, until, key=lambda each: each[0])
        return self.joins[place - 1] if place else None

    def had(self, at: int) -> frozenset[str] | None:
        """What it had at a moment (ns), by what it was given, else by what it said; None if neither tells."""
        place = bisect_right(self.given, at, key=lambda each: each[0])
        if place:
            return self.given[place - 1][2]
        place = bisect_right(self.owned, at, key=lambda each: each[0])
        if place:
            return self.owned[place - 1][1]
        # It was there before the capture: what it had first in it, it had all the time.
        if self.begin is None and self.owned and (not self.given or self.owned[0][0] <= self.given[0][0]):
            return self.owned[0][1]
        return frozenset() if self.begin is not None else None

    def settled(self, number: int, until: int) -> int | None:
        """When it last came nearer to this epoch: reached it, or was given partitions in it; None if it did not."""
        at = self.reached.get(number)
        if at is None or at > until:
            return None
        first = bisect_left(self.given, at, key=lambda each: each[0])
        for given, epoch, _ in self.given[first : bisect_right(self.given, until, key=lambda each: each[0])]:
            if epoch == number:
                at = max(at, given)
        return at

    def working(self, since: int) -> int | None:
        """The first time not before a moment at which it said that it has what it was given."""
        place = bisect_left(self.worked, since)
        return self.worked[place] if place < len(self.worked) else None

    def learn(self, beat: Beat) -> None:
        """Keep what a beat tells of it, whatever else it means."""
        message = beat.message
        self.client_id = message.client_id or self.client_id
        self.host = message.client or self.host
        self.connections[message.connection] = None
        self.protocol = beat.protocol
        self.instance_id = beat.instance_id or self.instance_id
        if beat.topics is not None or beat.regex is not None:
            self.topics = beat.topics if beat.topics is not None else self.topics
            self.regex = beat.regex if beat.regex is not None else self.regex
            self.asked.append((beat.asked_at, [*(self.topics or ()), *([self.regex] if self.regex else ())]))
        self.topology = beat.topology or self.topology
        self.assignors = beat.assignors or self.assignors
        self.rebalance_timeout_ms = beat.rebalance_timeout_ms or self.rebalance_timeout_ms
        self.session_timeout_ms = beat.session_timeout_ms or self.session_timeout_ms
        self.interval_ms = beat.interval_ms or self.interval_ms
        self.spoke = True
        if self.epoch is not None and (beat.sent or 0) > self.epoch:
            self.untold = beat.at
        if beat.owned is not None and not self.is_classic_join(beat):
            if not self.owned or self.owned[-1][1] != beat.owned:
                self.owned.append((beat.at, beat.owned))
            if not self.given or self.given[-1][2] == beat.owned:
                self.worked.append(beat.at)

    @staticmethod
    def is_classic_join(beat: Beat) -> bool:
        """JoinGroup of eager members lists nothing as owned, though they gave it up just then: no news."""
        return beat.protocol == CLASSIC and not beat.owned

    def take(self, beat: Beat) -> None:
        """Keep what it was answered: its epoch, and what it shall have."""
        self.heard, self.heard_packet = beat.at, beat.packet
        self.away = None
        if beat.epoch is not None and beat.epoch > 0:
            self.epoch = beat.epoch
            self.reached.setdefault(beat.epoch, beat.done)
        gave_up = bool(self.given and self.dropped) and self.dropped[-1] > self.given[-1][0]
        if beat.given is not None and (not self.given or gave_up or self.given[-1][2] != beat.given):
            self.given.append((beat.done, self.epoch or 0, beat.given))
