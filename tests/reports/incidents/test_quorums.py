"""Quorums that are lost, as several controllers are gone at once."""

from __future__ import annotations

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    BROKERS,
    GONE,
    Row,
    connection,
    exchange,
    found,
    names,
    seconds,
    silence,
)

C1, C2, C3 = "10.0.0.7", "10.0.0.8", "10.0.0.9"
REFUSED = "NOT_LEADER_OR_FOLLOWER"


def asked(number: int, host: str) -> Row:
    return connection(number, B1, host, "raft-client-1", opened=1, broker_port=9093)


def answers(
    host: int, *times: float, error: str = REFUSED, api: str = "Fetch", client_id: str = "raft-client-1"
) -> list[Row]:
    return [
        exchange(int(time * 10), api, time - 0.1, time, connection=host, client_id=client_id, error=error)
        for time in times
    ]


LOOKS = answers(3, *range(101, 131))
LED = answers(3, 99, 131, error="NONE")


def gone(exchanges: list[Row], *silences: Row) -> list[list[str]]:
    """Whom each incident of brokers that are gone is about."""
    given = silences or (silence(C1, 100, 130, refused=5, **GONE), silence(C2, 101, 131, refused=5, **GONE))
    connections = [asked(1, C1), asked(2, C2), asked(3, C3)]
    told = found(silences=[*given], exchanges=exchanges, connections=connections, cluster_events=BROKERS)
    return sorted(names(one) for one in told if one.kind == "broker_down")


def test_a_quorum_of_which_nobody_leads_is_one_incident() -> None:
    silences = [silence(C1, 100, 130, refused=5, **GONE), silence(C2, 101, 131, refused=5, **GONE)]
    connections = [asked(1, C1), asked(2, C2), asked(3, C3)]
    (one,) = found(silences=silences, exchanges=[*LOOKS, *LED], connections=connections, cluster_events=BROKERS)
    assert (one.kind, one.severity, names(one)) == ("broker_down", "critical", [C1, C2])
    assert (seconds(one.started), seconds(one.ended)) == (100, 131)
    assert f"controller {C1} went away at " in one.headline
    assert f" and controller {C2} went away at " in one.headline
    assert one.headline.endswith("; no controller led for 31.0 s: those that were left are too few to elect one")
    assert one.evidence[0].text.startswith(f"30 answers of controller {C3} from ")
    assert one.cost_ms == 31_000
    assert one.advice.startswith("Bring them back: without a majority of its controllers")


@pytest.mark.parametrize(
    "exchanges",
    [
        [],  # nobody asks those that are left
        answers(3, 101, 120),  # who looked for a leader found one that the capture does not show
        answers(3, *range(101, 106)),
        [*LOOKS, *answers(3, *range(102, 131, 4), error="NONE", client_id="1", api="BrokerHeartbeat")],  # one leads
        answers(3, *range(101, 131), client_id="1"),  # a client that is called so
        answers(3, *range(101, 131), error="UNKNOWN_TOPIC_ID"),
    ],
)
def test_a_quorum_of_which_it_is_not_known_is_not_lost(exchanges: list[Row]) -> None:
    assert gone(exchanges) == [[C1], [C2]]


def test_controllers_that_are_gone_one_after_the_other_leave_their_quorum() -> None:
    apart = silence(C1, 100, 110, refused=5, **GONE), silence(C2, 111, 130, refused=5, **GONE)
    assert gone(LOOKS, *apart) == [[C1], [C2]]
    shortly = silence(C1, 100, 114, refused=5, **GONE), silence(C2, 110, 130, refused=5, **GONE)
    assert gone([*LOOKS[:10], *answers(3, 111, 114.9, error="NONE"), *LOOKS[15:]], *shortly) == [[C1], [C2]]
    assert gone(LOOKS) == [[C1, C2]]
    assert gone([row | {"api": "BrokerHeartbeat", "client_id": "1", "error": "NOT_CONTROLLER"} for row in LOOKS]) == [
        [C1, C2]
    ]
