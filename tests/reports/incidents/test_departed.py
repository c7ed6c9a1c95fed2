"""Brokers that went away while nobody asked for them."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    GONE,
    LASTS,
    Row,
    at,
    connection,
    event,
    found,
    listed,
    names,
    seconds,
    silence,
)

B3 = "10.0.0.3"
BROKERS = [listed(1, B1), listed(2, B2), listed(3, B3)]


def of_broker(opened: float | None, closed: float | None, number: int = 1, **given: Any) -> list[Row]:
    """What broker 3 has open: it fetches from the others, and tells the controller beside broker 1 that it is there."""
    known: Row = {"opened": opened, "closed": closed, "how_closed": "open" if closed is None else "fin"} | given
    return [
        connection(number, B3, B1, "broker-3-fetcher-0", **known),
        connection(number + 1, B3, B2, "broker-3-fetcher-0", **known),
        connection(number + 2, B3, B1, "3", broker_port=9093, **known),
    ]


def gone(*rows: list[Row], **tables: Any) -> list[Any]:
    return found(connections=[*chain.from_iterable(rows)], **{"cluster_events": BROKERS} | tables)


def test_a_broker_that_nobody_asks_is_gone_when_all_its_own_connections_end() -> None:
    (one,) = gone(of_broker(None, 100))
    assert (one.kind, one.severity, one.certainty, one.ended) == ("broker_down", "critical", "likely", None)
    assert names(one)[0] == "3"
    assert seconds(one.started) == 100
    assert "went away without notice" in one.headline
    assert one.headline.endswith("and has not come back")
    assert one.evidence[0].text == (
        "its host closed all its connections to other brokers at once (3 connections): its process ended"
    )


def test_it_is_back_when_it_opens_others() -> None:
    (one,) = gone(of_broker(None, 100), of_broker(108, None, 11))
    assert (seconds(one.started), seconds(one.ended)) == (100, 108)
    assert one.headline.endswith("and was back after 8.0 s")


def test_one_that_said_that_it_goes_was_shut_down() -> None:
    asked = event("shutdown_announced", 99, node_id=3)
    (one,) = gone(of_broker(None, 100), of_broker(108, None, 11), cluster_events=[*BROKERS, asked])
    assert (one.kind, one.severity) == ("broker_restarted", "info")


SAID = event("shutdown_announced", 99, node_id=3)
FENCED = event("broker_fenced", 100, node_id=3, told_by=f"{B1}:9093")
IN_TURN = [of_broker(None, 99 + 2 * place)[place] for place in range(3)]


@pytest.mark.parametrize("back", [108, None])
def test_one_that_said_that_it_goes_and_was_taken_out_of_service_is_told_whatever_it_closes(back: float | None) -> None:
    """Those that asked it for something are gone themselves."""
    again = [] if back is None else [event("broker_registered", back, node_id=3, told_by=f"{B1}:9093")]
    (one,) = gone(IN_TURN, cluster_events=[*BROKERS, SAID, SAID | {"packet": 9}, FENCED, *again])
    assert (one.kind, one.certainty, names(one)[0]) == ("broker_restarted", "certain", "3")
    assert (seconds(one.started), one.ended if back is None else seconds(one.ended)) == (100, back)
    assert [seen.text for seen in one.evidence[:2]] == [
        "the cluster took it out of service",
        "it asked for an orderly shutdown",
    ]


@pytest.mark.parametrize(
    "events",
    [
        [SAID],
        [FENCED],
        [SAID, FENCED | {"node_id": 2}],
        [SAID, event("broker_fenced", 99 + threshold("shutdown_takes") + 0.1, node_id=3)],
        [SAID | {"node_id": 7}, FENCED | {"node_id": 7}],  # where that is nobody told
    ],
)
def test_otherwise_it_may_still_be_there(events: list[Row]) -> None:
    assert gone(IN_TURN, cluster_events=[*BROKERS, *events]) == []


def test_one_that_was_missed_is_told_once() -> None:
    missed = silence(B3, 100.3, 108, refused=5, first_failed=101, **GONE)
    (one,) = gone(IN_TURN, silences=[missed], cluster_events=[*BROKERS, SAID, FENCED])
    assert (one.kind, seconds(one.started)) == ("broker_restarted", 100.3)


@pytest.mark.parametrize(
    "rows",
    [
        [of_broker(None, 100 + 2 * place)[place] for place in range(3)],  # not at once
        of_broker(None, 100)[:2] + of_broker(None, None)[2:],  # it goes on
        of_broker(None, 100, closed_by="broker"),  # the others ended them
        of_broker(None, 100)[:1],  # it may have been the other one that went
        of_broker(None, 100)[2:],  # a client that is called 3
        of_broker(None, 100) + of_broker(100.9, None, 11),  # no process is started so soon
        of_broker(None, LASTS - threshold("awaited") + 0.1),  # what ends as the capture does
    ],
)
def test_connections_that_end_otherwise_say_nothing(rows: list[Row]) -> None:
    assert gone(rows) == []


def test_where_clients_missed_it_too_it_is_told_once() -> None:
    missed = silence(B3, 100.3, None, refused=5, first_failed=101, **GONE)
    (one,) = gone(of_broker(None, 100), silences=[missed])
    assert (seconds(one.started), one.certainty) == (100.3, "certain")


def test_so_it_is_where_its_name_leads_nowhere() -> None:
    """As with packets that are cut: what has its address is not known to be what is listed by name."""
    missed = silence(B3, 100.3, None, refused=5, first_failed=101, **GONE)
    by_name = [*BROKERS[:2], event("broker_listed", 0, node_id=3, host="k3.example:9092", told_by=f"{B1}:9092")]
    assert len(gone(of_broker(None, 100), silences=[missed], cluster_events=by_name)) == 1


@pytest.mark.parametrize(("other", "back"), [({}, 108), ({"broker": "10.0.0.9"}, None)])
def test_it_is_back_from_another_address_if_it_asks_the_same_brokers(other: Row, back: float | None) -> None:
    anew = [row | {"client": "10.0.0.33"} | other for row in of_broker(108, None, 11)]
    (one,) = gone(of_broker(None, 100), anew)
    assert one.ended is None if back is None else seconds(one.ended) == back


@pytest.mark.parametrize("often", [2, 3])
def test_one_that_goes_away_again_and_again(often: int) -> None:
    lives = [of_broker(10.0 + 20 * life, 20.0 + 20 * life, 10 * (life + 1)) for life in range(often)]
    told = gone(*lives, of_broker(10.0 + 20 * often, None, 90))
    assert len(told) == (1 if often == threshold("crashes") else often)
    one = told[0]
    if often == threshold("crashes"):
        assert "went away without notice 3 times, from" in one.headline
        assert one.headline.endswith("and was back each time, after 10.0 s at most")
        assert (seconds(one.started), seconds(one.ended)) == (20, 70)
        assert one.cost_ms == 3 * 10_000


# --- controllers that follow another one -----------------------------------------------------------------------------

C1, C2 = "10.0.0.8", "10.0.0.9"


def follows(opened: float | None, closed: float | None, number: int = 1, **given: Any) -> Row:
    """What controller 9 has open: it fetches the log of the cluster from the one that leads."""
    known: Row = {"broker_port": 9093, "how_closed": "open" if closed is None else "rst", "closed_by": "client"} | given
    return connection(number, C2, C1, "raft-client-9", opened=opened, closed=closed, **known)


def refused(*times: float, client: str = B1, host: str = C2) -> list[Row]:
    given: Row = {"broker_port": 9093, "client_id": None, "protocol": "empty", "connect": "refused"}
    return [
        connection(20 + place, client, host, opened=time, closed=time, how_closed="rst", **given | {"packets_down": 1})
        for place, time in enumerate(times)
    ]


def test_a_controller_whose_connection_ends_is_gone_if_others_look_for_it_in_vain() -> None:
    incidents = gone([follows(None, 100), follows(130, None, 5)], refused(100.2, 110, 120))
    (one,) = [one for one in incidents if one.kind == "broker_down"]
    assert (one.kind, one.severity, one.certainty) == ("broker_down", "critical", "likely")
    assert (names(one), seconds(one.started), seconds(one.ended)) == ([C2], 100, 130)
    assert f"went away at {clock(at(100))} and was back after 30.0 s; 3 connects to it failed" in one.headline
    assert "Of three controllers one may be away" not in one.advice  # nobody is seen to ask it for the cluster's log
    assert [(seen.text, seen.packet) for seen in one.evidence[:2]] == [
        ("its host closed all its connections to other brokers at once (1 connection, 1 of them by RST): its process "
         "ended", None),
        ("3 connects to it refused: its host is there, and nobody listens", 20),
    ]  # fmt: skip


def test_controllers_are_called_so_and_have_advice_of_their_own() -> None:
    asks = [connection(9, B1, C2, "raft-client-1", opened=131, broker_port=9093)]
    incidents = gone([follows(None, 100), follows(130, None, 5)], refused(100.2, 110, 120), asks)
    (one,) = [one for one in incidents if one.kind == "broker_down"]
    assert one.headline.startswith(f"controller 9 ({C2}) went away at ")
    assert "Of three controllers one may be away" in one.advice
    several = [connection(11, C2, C1, "raft-client-7", opened=131, broker_port=9093)]
    (one, *_) = gone([follows(None, 100), follows(130, None, 5)], refused(100.2, 110, 120), asks, several)
    assert one.headline.startswith(f"controller {C2} went away at ")
    both = [*BROKERS, listed(9, C2)]  # a broker that is a controller, too
    (one, *_) = gone([follows(None, 100), follows(130, None, 5)], refused(100.2, 110, 120), asks, cluster_events=both)
    assert one.headline.startswith(f"broker 9 ({C2}) ")
    assert "Of three controllers one may be away" not in one.advice


@pytest.mark.parametrize(
    "connects",
    [
        refused(100.2, 110),
        refused(99, 110, 120),
        refused(100.2, 110, 130.1),  # it is back then
        refused(100.2, 110, 120, host="10.0.0.7"),
    ],
)
def test_a_connection_that_ends_is_no_controller_that_does(connects: list[Row]) -> None:
    incidents = gone([follows(None, 100), follows(130, None, 5)], connects)
    assert not [one for one in incidents if one.kind == "broker_down"]


@pytest.mark.parametrize(
    ("client_id", "who", "advice"),
    [
        ("raft-client-1", "controller", "another controller takes over"),
        ("c1", "broker", "the broker loses its leaders"),
    ],
)
def test_advice_about_controllers_that_stand_still_is_of_their_own(client_id: str, who: str, advice: str) -> None:
    stall = silence(C2, 100, 110, waiting=4, waiting_connections=2, asked=20, acknowledged=20, kept=2)
    (one,) = gone([connection(9, B1, C2, client_id, opened=1)], silences=[stall])
    assert (one.kind, one.headline.startswith(f"{who} {C2} answered nobody")) == ("broker_stalled", True)
    assert advice in one.advice
