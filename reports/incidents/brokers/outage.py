"""A time in which a broker was gone, or stood still."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkascope.reports.columns.text import address_alone
from kafkascope.reports.incidents.incident import Weighed
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import Takeover
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS


@dataclass(frozen=True, slots=True)
class Outage:
    """A silence of a broker, and what is known of its cause."""

    silence: Row
    started: int
    ended: int | None
    gone: bool  # its connections ended, or connects failed
    orderly: list[Weighed]  # what shows that it was announced
    back: Row | None = None  # the event that tells it, where nothing came from its address again
    before: bool = False  # it was gone when the capture began; started is when somebody missed it
    taken: Takeover | None = None  # by whom, if another broker answers at its address since
    by_its_own: bool = False  # its own connections to other brokers tell it, and nobody else
    missed: int | None = None  # nobody asked it until then, so it went at some time since it started; None: it is known
    unfetched: int = 0  # for how long (ns) it did not ask other brokers for what it replicates, as it should have

    @property
    def host(self) -> str:
        """Its address; with its port where several brokers are at one."""
        return str(self.silence["host"])

    @property
    def address(self) -> str:
        """Its address without port."""
        return address_alone(self.host)

    @property
    def kind(self) -> IncidentKind:
        """Which of the four it is."""
        if self.taken is not None and self.taken.is_foreign:
            return IncidentKind.ADDRESS_TAKEN
        if not self.gone:
            return IncidentKind.BROKER_DOWN if self.is_cut_off else IncidentKind.BROKER_STALLED
        return IncidentKind.BROKER_RESTARTED if self.orderly else IncidentKind.BROKER_DOWN

    @property
    def stands_still(self) -> bool:
        """Whether it was there, and answered nobody."""
        return self.kind == IncidentKind.BROKER_STALLED

    @property
    def is_cut_off(self) -> bool:
        """Whether not even acknowledgements came of its host: it is off, or the network to it broken."""
        silence = self.silence
        enough = threshold("cut_off") * 1000
        unheard = silence["asked"] > 0 and silence["acknowledged"] == 0
        return not self.gone and silence["duration_ms"] >= enough and unheard

    @property
    def lasted_ms(self) -> float:
        """Milliseconds from its begin to its end, or that of the capture."""
        end = self.silence["since"] + self.silence["duration_ms"] * MILLISECOND_NS
        return float(end - self.started) / MILLISECOND_NS

    def troubles(self, since: int, until: int) -> bool:
        """Whether it began or ended within a time, or shortly before: clients look for other brokers then."""
        after = int(threshold("outage_after") * SECOND_NS)
        turns = [self.started, *([] if self.ended is None else [self.ended])]
        return any(turn - SECOND_NS <= until and since <= turn + after for turn in turns)

    def covers(self, at: int, end: int) -> bool:
        """Whether a time is within it, or shortly after; end is that of the capture."""
        return self.started - SECOND_NS <= at <= self.until(end)

    def until(self, end: int) -> int:
        """When what it caused is over: clients find the new leaders within some seconds."""
        after = int(threshold("outage_after") * SECOND_NS)
        ended = self.taken.at if self.taken is not None else self.ended
        return (end if ended is None else ended) + after


def out_at(signs: Signs, found: Iterable[Outage], at: int, broker: str) -> Outage | None:
    """The latest outage in whose time, or shortly after, something happened at a broker of the same cluster."""
    return next(
        (
            one
            for one in sorted(found, key=lambda one: one.started, reverse=True)
            if one.covers(at, signs.end) and not of_two_clusters(signs, one.host, broker, at)
        ),
        None,
    )


def of_two_clusters(signs: Signs, host: str, other: str, at: int) -> bool:
    """Whether two brokers are of different clusters, as far as these are known."""
    nodes = [signs.node(signs.where(one), at) for one in (host, other)]
    clusters = {node.cluster_id for node in nodes if node is not None and node.cluster_id is not None}
    return len(clusters) == len(nodes)
