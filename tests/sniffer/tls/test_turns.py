"""Alerts of TLS 1.3 that cannot be read, and show by their size."""

from __future__ import annotations

import pytest

from kafkascope.sniffer.tls.turns import ALERT_BYTES, Sent, Turns

CLIENT, BROKER = 0, 1
FINISHED, ALERT, TICKET, REQUEST = 69, ALERT_BYTES, 250, 80


@pytest.mark.parametrize(
    ("records", "refused_by"),
    [
        ([(CLIENT, ALERT)], CLIENT),  # in the place of the handshake's end
        ([(CLIENT, ALERT), (CLIENT, FINISHED)], None),  # a certificate that is empty, and the end
        ([(CLIENT, ALERT), (CLIENT, FINISHED), (BROKER, ALERT)], BROKER),  # which the broker does not accept
        ([(CLIENT, FINISHED), (BROKER, ALERT)], BROKER),
        ([(CLIENT, FINISHED), (CLIENT, REQUEST), (BROKER, ALERT)], BROKER),
        ([(CLIENT, FINISHED), (BROKER, TICKET), (CLIENT, ALERT), (BROKER, ALERT)], None),  # a probe that says nothing
        ([(CLIENT, FINISHED), (CLIENT, REQUEST), (BROKER, TICKET), (CLIENT, ALERT), (BROKER, ALERT)], None),
        ([(CLIENT, FINISHED), (BROKER, ALERT + 1)], None),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_who_refuses_a_handshake(records: list[tuple[int, int]], refused_by: int | None, at_once: bool) -> None:
    turns = Turns()
    for moment, (direction, size) in enumerate(records):
        turns.hear(Sent(moment, direction, moment, size))
        if not at_once:
            turns.settle(CLIENT, is_1_3=True)
    turns.settle(CLIENT, is_1_3=True)
    assert turns.refused_by == refused_by


def test_other_versions_say_it_in_the_clear() -> None:
    turns = Turns()
    turns.hear(Sent(1, CLIENT, 1, ALERT))
    turns.settle(CLIENT, is_1_3=False)
    assert turns.refused_by is None
