"""Addresses at which nobody listens, and TLS on one side alone."""

from __future__ import annotations

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    Row,
    at,
    connection,
    found,
    listed,
    names,
    only,
    row,
)


def refused(count: int = 3, how: str = "refused", broker: str = B2) -> list[Row]:
    times = range(20, 20 + count)
    return [connection(time, broker=broker, client_id=None, opened=time, connect=how, protocol=None) for time in times]


def test_an_advertised_address_at_which_nobody_listens() -> None:
    one = only(connections=refused(), cluster_events=[listed(1, B1), listed(2, B2)])
    assert (one.kind, one.severity, one.ended) == ("unreachable_listener", "critical", None)
    assert names(one) == ["2", B2, f"{B2}:9092", H1]
    assert f"broker 2 ({B2}) advertises {B2}:9092, at which no connect succeeded: 3 connects of {H1} refused" in (
        one.headline
    )
    unanswered = only(connections=[*refused(2), *refused(3, "unanswered")[2:]], cluster_events=BROKERS)
    assert "refused or not answered" in unanswered.headline


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (refused(2), False),
        (refused(3, broker="10.0.0.9"), False),  # nobody advertises it
        ([*refused(), connection(90, broker=B2, opened=60, connect="established")], False),
        ([*refused(), connection(90, broker=B2)], False),  # it was open before
        ([*refused(), connection(90, broker=B2, broker_port=9093)], True),
    ],
)
def test_an_address_that_was_reached_or_that_nobody_advertises_is_none(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(connections=rows, cluster_events=BROKERS)] == ["unreachable_listener"] * told


@pytest.mark.parametrize(
    ("kind", "certainty", "words"),
    [
        ("plaintext_to_tls", "certain", f"{H1} speaks plaintext to {B1}:9092, which expects TLS: 2 connections"),
        ("tls_unanswered", "likely", f"{H1} speaks TLS to {B1}:9092, which expects plaintext: 2 connections"),
    ],
)
def test_tls_on_one_side_alone(kind: str, certainty: str, words: str) -> None:
    issues = [row("issues", kind=kind, connection=1, at=at(time), packet=5, detail="d") for time in (10, 12)]
    one = only(issues=issues, connections=[connection(1, protocol="tls")])
    assert (one.kind, one.severity, one.certainty) == ("tls_mismatch", "critical", certainty)
    assert words in one.headline
    assert names(one) == [H1, B1]
    assert found(issues=issues) == []
