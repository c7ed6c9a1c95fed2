"""Names that may have been meant."""

from __future__ import annotations

from kafkascope.reports.columns.nearest import near_ones, nearest


def test_near_names_come_before_those_that_hold_it() -> None:
    assert nearest("order", ["orders", "my-order-topic", "payments"]) == ["orders", "my-order-topic"]
    assert nearest("zzz", ["orders"]) == []


def test_names_that_begin_with_it_come_first() -> None:
    assert nearest("10.0.0.13", ["10.0.0.13:40000", "10.0.0.14:3", "10.0.0.1:3", "10.0.0.15:3"])[0] == "10.0.0.13:40000"
    assert nearest("fetch", ["Fetches of all", "Fetcher", "Etch"]) == ["Fetcher", "Fetches of all", "Etch"]


def test_what_is_said_of_them_cannot_steer_a_terminal() -> None:
    assert near_ones("order", ["orders", "order\x1b[2J"]) == "; near are orders, order\ufffd[2J"
    assert near_ones("zzz", ["orders"]) == ""
