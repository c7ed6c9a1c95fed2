"""When brokers did not hear each other, heard each other late, or refused each other: then writes wait for replicas."""

from __future__ import annotations

from typing import NamedTuple

from kafkascope.reports.columns.text import address_alone
from kafkascope.reports.incidents.network.handshakes import alike, opened
from kafkascope.reports.incidents.network.network import delayed, lossy
from kafkascope.reports.incidents.network.vanished import vanished
from kafkascope.reports.incidents.signs import Signs, host_of

_REFUSED = frozenset({"authentication_failed", "authorization_failed"})


class Apart(NamedTuple):
    """A time in which that was so of two brokers, or of one and others. Times are nanoseconds."""

    since: int
    until: int


def apart(signs: Signs) -> list[Apart]:
    """All such times, each of which is told as an incident of its own."""
    among = signs.brokers
    found = [
        Apart(one.since, one.last)
        for one in signs.once(vanished)
        if {one.client, address_alone(one.broker)} <= among and one.client != address_alone(one.broker)
    ]
    for pair, paths in signs.once(lossy).items():
        found += [Apart(path.first, path.last) for path in paths if path.timeouts and among.issuperset(pair)]
    for pair, late in signs.once(delayed).items():
        found += [Apart(one.path.first, one.path.last) for one in late if among.issuperset(pair)]
    for rows in signs.once(alike).values():
        times = [opened(row) for row in rows if row["client"] in among and row["client"] != row["broker"]]
        found += [Apart(times[0], times[-1])] if times else []
    for row in signs.findings:
        if row["kind"] in _REFUSED and signs.is_broker(host_of(row), row["client_ids"][0]):
            found.append(Apart(row["since"], row["until"] or row["since"]))
    return found
