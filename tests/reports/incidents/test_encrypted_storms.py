"""Hosts that open one connection with TLS after the other."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import B1, B2, BROKERS, H1, H2, Row, at, connection, found, names, only, seconds

MANY = int(threshold("storm_connections") * threshold("connections_opened"))


def brief(many: int = MANY, apart: float = 0.5, lasts: float = 0.2, **given: Any) -> list[Row]:
    known: Row = {"client_id": None, "protocol": "tls", "broker_port": 9095, "how_closed": "fin", "tls_requests": 2}
    return [
        connection(9 + n, **{"opened": 10 + n * apart, "closed": 10 + n * apart + lasts, **known, **given})
        for n in range(many)
    ]


def test_a_host_that_opens_one_after_the_other() -> None:
    one = only(connections=brief(), cluster_events=BROKERS)
    assert (one.kind, one.severity, one.certainty) == ("connection_storm", "warning", "likely")
    assert names(one) == [H1, "1", B1]
    assert (seconds(one.started), seconds(one.ended)) == (10, 39.7)
    assert one.headline == (
        f"{H1}, {clock(at(10))} to {clock(at(39.7))}: opens one connection with TLS to {B1}:9095 after the other, "
        f"{MANY} in a minute, and closes them soon (half of them within 200 ms); what they say cannot be read"
    )
    assert one.evidence[0].text == f"{MANY} connections that the client closed within 5 s, each with an answer"


@pytest.mark.parametrize(
    "rows",
    [
        brief(MANY - 1),
        brief(apart=1.1),  # fewer in a minute
        brief(lasts=5),
        brief(tls_requests=0),  # handshakes that fail
        brief(tls_requests=None),
        brief(closed_by="broker"),
        brief(broker=H2),  # a web server
        brief(client=B2),
        [*brief(MANY // 2), *brief(MANY // 2, client=H2)],
        brief(protocol="https"),
    ],
)
def test_connections_that_are_no_storm(rows: list[Row]) -> None:
    assert found(connections=rows, cluster_events=BROKERS) == []
