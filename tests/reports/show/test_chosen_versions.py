"""Why requests have their versions, as far as a capture tells."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.show.chosen_versions import ChosenVersions

FETCH, API_VERSIONS = 1, 18


def row(api_key: int, version: int, requested: int = 10, connection: int = 1, error: int = 0) -> dict[str, Any]:
    return {
        "connection": connection,
        "broker": "b:9092",
        "api_key": api_key,
        "api_version": version,
        "requested": requested,
        "answered": requested + 1,
        "error_code": error,
        "decoded": "full",
    }


def asked(software: str | None, requested: int = 0, fetch: tuple[int, int] | None = (4, 17)) -> dict[str, Any]:
    request = {} if software is None else {"clientSoftwareName": software, "clientSoftwareVersion": "3.9.1"}
    offered = [] if fetch is None else [{"apiKey": FETCH, "minVersion": fetch[0], "maxVersion": fetch[1]}]
    response = {"errorCode": 0, "apiKeys": [*offered, {"apiKey": 3, "minVersion": 0, "maxVersion": 12}]}
    return row(API_VERSIONS, 3, requested) | {"request": json.dumps(request), "response": json.dumps(response)}


JAVA = "apache-kafka-java"


@pytest.mark.parametrize(
    ("told", "version", "reason"),
    [
        (asked(JAVA), 17, "the highest that both know: broker offers v4-17, apache-kafka-java 3.9.1 knows v0-17"),
        (asked(JAVA), 12, "broker offers v4-17, apache-kafka-java 3.9.1 knows v0-17: the client could take v17"),
        (asked(JAVA, fetch=(4, 11)), 11, "the highest that both know: broker offers v4-11, apache-"),
        (asked("librdkafka"), 16, "broker offers v4-17; the client's own highest is not in the capture"),
        (asked(None), 17, "the broker's highest: broker offers v4-17"),
        (asked(JAVA), 18, "the broker does not offer it, but v4-17"),
        (asked(JAVA, fetch=None), 17, "the broker does not offer this API"),
        (asked(JAVA, requested=20), 17, "what the broker offers is not in the capture"),
    ],
)
def test_a_version_is_explained_by_what_was_told_before(told: dict[str, Any], version: int, reason: str) -> None:
    versions = ChosenVersions()
    versions.observe(told)
    assert str(versions.reason(row(FETCH, version))).startswith(reason)


def test_another_connection_to_the_broker_knows_its_offer_but_not_the_client() -> None:
    versions = ChosenVersions()
    versions.observe(asked(JAVA))
    told = versions.reason(row(FETCH, 12, connection=2))
    assert told == "broker offers v4-17; the client's own highest is not in the capture"


def test_versions_that_are_asked_for_in_vain_are_told() -> None:
    versions = ChosenVersions()
    assert "does not know v5" in str(versions.reason(row(API_VERSIONS, 5, error=35)))
    assert versions.reason(row(API_VERSIONS, 3)) is None
    versions.observe(asked(JAVA) | {"decoded": "header", "request": None})
    assert versions.reason(row(FETCH, 17)) == "what the broker offers is not in the capture"
