from __future__ import annotations

from typing import Any

import pytest

from kafkascope.decoders import apis, schema
from kafkascope.reports.rows.builder import TableBuilder
from kafkascope.reports.vocabulary.tables import TERMS
from tests.joined import joined
from tests.reports.written_exchanges import Written, exchanges

SPOKEN_OF: dict[int, dict[str, Any]] = {
    apis.FETCH: {"maxWaitMs": 500, "minBytes": 7, "maxBytes": 1000},
    apis.SHARE_FETCH: {"maxWaitMs": 500, "minBytes": 7, "maxBytes": 1000},
    apis.PRODUCE: {"acks": -1, "timeoutMs": 30000},
    apis.SYNC_GROUP: {"groupId": "g", "assignments": [{"memberId": "m", "assignment": b"x"}]},
    apis.JOIN_GROUP: {"groupId": "g", "sessionTimeoutMs": 10000},
}
TERMS_OF = {
    apis.FETCH: {"max_wait_ms": 500, "min_bytes": 7},
    apis.SHARE_FETCH: {"max_wait_ms": 500, "min_bytes": 7},
    apis.PRODUCE: {"acks": -1, "max_wait_ms": 30000},
    apis.SYNC_GROUP: {"assignments": 1},
    apis.JOIN_GROUP: {},
}


def terms_of(*written: Written) -> list[dict[str, Any]]:
    tables = joined(TableBuilder(frozenset({"terms"})).observe(exchanges(*written), {}))
    if "terms" not in tables:
        return []
    assert tables["terms"].schema.equals(TERMS)
    rows: list[dict[str, Any]] = tables["terms"].to_pylist()
    return rows


@pytest.mark.parametrize("api_key", SPOKEN_OF)
def test_the_terms_of_every_version_are_read(api_key: int) -> None:
    valid = schema.apis()[api_key].request.versions
    versions = range(valid.first, valid.last + 1)
    found = terms_of(*(Written(api_key, version, SPOKEN_OF[api_key]) for version in versions))
    none = dict.fromkeys(("max_wait_ms", "min_bytes", "acks", "assignments"))
    assert found == [
        {"connection": 1, "number": number} | none | TERMS_OF[api_key] for number in range(1, len(versions) + 1)
    ]


def test_no_more_is_waited_for_than_may_be_sent() -> None:
    assert terms_of(Written(apis.FETCH, 4, {"minBytes": 5000, "maxBytes": 1000}))[0]["min_bytes"] == 1000


def test_a_request_that_is_cut_or_not_there_has_no_terms() -> None:
    assert not terms_of(Written(apis.FETCH, 4, SPOKEN_OF[apis.FETCH], cut_request=1))
    assert not terms_of(Written(apis.FETCH, 4, None, {}))
    assert not terms_of(Written(apis.METADATA, 4, {}))


def test_followers_bring_no_assignments() -> None:
    assert terms_of(Written(apis.SYNC_GROUP, 3, {"groupId": "g"}))[0]["assignments"] == 0
