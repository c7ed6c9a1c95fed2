"""Captures that begin when the trouble has begun, as most do that are made because of it: later parts of recordings."""

from __future__ import annotations

import pytest

import kafkascope
from tests.paths import PCAPS


def incidents(story: str, since: str) -> list[tuple[str, str]]:
    (path,) = (PCAPS / story).glob("capture.pcap*")
    found = kafkascope.read(path, since=since).incidents
    return list(zip(found.kind, found.headline, strict=True))


@pytest.mark.parametrize(
    ("story", "since", "kinds", "said"),
    [
        # Both brokers of a topic are gone, one of them for long: what is left says that nobody leads.
        (
            "no-leader",
            "+32s",
            ["broker_down"],
            "; pays 0-1 had no leader for up to ",
        ),
        # The only controller is dead: it stays on all lists, and nobody can connect to it, no broker either.
        ("controller-killed", "+18s", ["broker_down", "coordinator_missing"], "broker 1 (10.77.70.11) was gone when"),
        # Its other connections were opened before.
        ("short-timeout", "+6s", ["timeout_too_short"], "c1 (10.77.95.13) gives up on its Fetch requests"),
        # A member of a group, by its heartbeats; the topic is known by its id alone.
        ("poison-record", "+22s", ["consumer_stuck"], "c1 of group shop does not get past id:"),
        # ... but it commits, by the topic's name.
        ("hot-partition", "+33s", [], ""),
        ("wrong-advertised", "+5s", ["unreachable_listener"], "brokers 2, 3 advertise one address"),
    ],
)
def test_what_goes_on_is_told(story: str, since: str, kinds: list[str], said: str) -> None:
    found = incidents(story, since)
    assert [kind for kind, _ in found] == kinds
    assert not kinds or said in found[0][1]
