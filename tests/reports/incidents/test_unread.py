"""Servers whose TLS nobody can read, and that take no connections any more."""

from __future__ import annotations

from typing import Any

from tests.reports.incidents.tables_of import B1, B2, BROKERS, H1, Row, connection, found, names, only, seconds, silence

PLACE = f"{B2}:9095"
TLS: dict[str, Any] = {
    "broker": B2,
    "broker_port": 9095,
    "client_id": None,
    "protocol": "tls",
    "tls_version": "TLS 1.3",
    "connect": "established",
}


def talk(number: int, opened: float, last: float, **given: Any) -> Row:
    """A connection on which requests were answered, the last one at a time."""
    return connection(number, **TLS | {"opened": opened, "tls_requests": 5, "tls_last_answer": last} | given)


def killed(times: tuple[float, ...] = (20, 21, 22), how: str = "refused") -> list[Row]:
    """A server that is asked on two connections, ends them, and takes no other one."""
    ended = {"closed": 19.9, "how_closed": "rst", "closed_by": "broker"}
    before = [talk(1, 1, 19.8, **ended), talk(2, 2, 19.8, **ended)]
    failed = {"protocol": "empty", "tls_version": None, "connect": how}
    return [*before, *(connection(10 + n, **TLS | failed | {"opened": at}) for n, at in enumerate(times))]


def test_who_ended_and_takes_no_connection_may_be_a_broker() -> None:
    one = only(connections=killed())
    assert (one.kind, one.certainty, one.ended) == ("unreachable_listener", "likely", None)
    assert names(one) == [B2, PLACE, H1]
    assert f"{PLACE}, which may be a broker behind TLS that cannot be read, takes no connection" in one.headline
    assert f"3 connects of {H1} refused, the last at" in one.headline
    assert one.evidence[0].text == "it ended 2 connections within a second of that, 2 of them by RST"
    unanswered = only(connections=killed(how="unanswered"))
    assert "3 connects of 10.0.1.1 not answered" in unanswered.headline


def test_it_is_over_with_the_next_connection_on_which_something_is_answered() -> None:
    one = only(connections=[*killed(), talk(30, 50, 60)])
    assert seconds(one.ended) == 50
    assert one.headline.endswith("it took one again after 30.0 s")
    again = [talk(30, 50, 60), *killed((70, 71, 72))[2:]]
    assert len(found(connections=[*killed(), *(row | {"connection": row["connection"] + 40} for row in again)])) == 2


def test_two_connects_that_fail_are_nothing_nor_those_beside_connections_that_go_on() -> None:
    assert not found(connections=killed((20, 21)))
    assert not found(connections=[*killed(), talk(30, 5, 21)])
    assert not found(connections=[*killed((20, 21)), talk(30, 22, 25), *killed((26, 27))[2:]])


def test_of_who_never_answered_and_of_web_servers_nothing_is_told() -> None:
    """Where nothing was ever asked and answered there may have been no server."""
    assert not found(connections=[row | {"tls_requests": None} for row in killed()])
    assert not found(connections=[row | {"protocol": "https"} for row in killed()])
    kafka = connection(40, broker=B1, exchanges=5)  # where some Kafka can be read, brokers serve at its ports
    assert not found(connections=[*killed(), kafka])


def test_an_outage_that_is_told_is_not_told_again() -> None:
    gone = silence(B2, 19.9, None, refused=3, ended=2, ended_clients=2, reset=2, first_failed=20)
    tables = {"connections": [*killed(), connection(40, broker=B2, exchanges=5)], "cluster_events": BROKERS}
    assert [one.kind for one in found(**tables, silences=[gone])] == ["broker_down"]
    assert [one.kind for one in found(**tables)] == ["unreachable_listener"]
