"""Streams applications that end as their protocol is not there."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from kafkascope.reports.incidents.incident import Incident
from tests.reports.incidents.tables_of import H1, Row, connection, error, exchange, found, names, seconds

NAME = "wc-1-StreamThread-1-consumer"
TOPIC = "wc-counts-repartition"
WITHOUT, WITH = (json.dumps({"apiKeys": [{"apiKey": key} for key in keys]}) for keys in ((3, 10, 11), (3, 10, 11, 88)))
ASKED = json.dumps({"keyType": 0, "coordinatorKeys": ["wc"]})


def said(api: str, time: float, **given: object) -> Row:
    return exchange(int(time), api, time, time + 0.1, **{"client_id": NAME, "error": "NONE", **given})


def incidents(
    offers: str | None = WITHOUT,
    more: Sequence[Row] = (),
    closed: float | None = 30,
    topic: str = TOPIC,
    **asked: object,
) -> list[Incident]:
    rows = [said("ApiVersions", 10, response=offers), said("FindCoordinator", 12, **{"request": ASKED, **asked}), *more]
    missing = error("UNKNOWN_TOPIC_OR_PARTITION", "Metadata", 11, 29, 6, topic=topic, client_id=NAME)
    return found(
        exchanges=rows,
        error_histogram=[missing],
        connections=[connection(1, client_id=NAME, opened=10, closed=closed, how_closed="fin" if closed else "open")],
    )


def test_a_streams_member_that_finds_its_coordinator_and_no_protocol_is_not_one_whose_topic_is_missing() -> None:
    (one,) = incidents()
    assert (one.kind, one.severity, one.certainty) == ("join_refused", "critical", "likely")
    assert (names(one), seconds(one.started), seconds(one.ended)) == ([NAME, H1, "wc"], 10, 30)
    assert "group.protocol=streams needs StreamsGroupHeartbeat, which brokers do not offer" in one.headline
    assert [(seen.packet, seen.rejected) for seen in one.evidence] == [(10, False), (12, False), (None, True)]
    assert "streams.version" in one.advice
    (one,) = incidents(request=json.dumps({"keyType": 0, "key": "wc"}))  # before version 4
    assert one.kind == "join_refused"


@pytest.mark.parametrize(
    "given",
    [
        {"offers": WITH},
        {"offers": None},  # not known
        {"offers": WITHOUT[:-9]},  # cut
        {"more": [said("JoinGroup", 14)]},  # classic
        {"more": [said("StreamsGroupHeartbeat", 14)]},
        {"closed": None},  # it may join yet
        {"error": "COORDINATOR_NOT_AVAILABLE"},
        {"request": json.dumps({"keyType": 1, "coordinatorKeys": ["wc"]})},  # of transactions
        {"request": json.dumps({"keyType": 0, "coordinatorKeys": ["other"]})},
        {"request": None},
        {"topic": "wc-counts"},
    ],
)
def test_what_may_be_something_else_is_a_missing_topic(given: Row) -> None:
    assert [one.kind for one in incidents(**given)] == ["unknown_topic"]
