"""Which errors are ordinary: a few of them, and no longer when they do not stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkascope.decoders import schema
from kafkascope.decoders.errors import Error, Ordinary
from kafkascope.reports.measures.ordinary_errors import ordinary
from kafkascope.reports.vocabulary.tables import ERROR_COUNTS

SECOND = 1_000_000_000
SPAN = 10 * SECOND


def rows(*given: dict[str, Any]) -> pa.Table:
    """Rows of counts; at is seconds, and lasted how long from the first to the last."""
    filled = []
    for row in given:
        at, lasted = int(row["at"] * SECOND), int(row.get("lasted", 0) * SECOND)
        known = {"client_id": "c", "broker": "b:1", "group_id": "g", "member_id": "m", "topic": "t", "partition": 0}
        filled.append(
            {
                **known,
                "span": at - at % SPAN,
                "count": 1,
                "first_at": at,
                "last_at": at + lasted,
                "first_packet": 1,
                **row,
            }
        )
    return pa.Table.from_pylist(filled, schema=ERROR_COUNTS)


def judged(*given: dict[str, Any]) -> list[bool]:
    is_ordinary, reasons = ordinary(rows(*given))
    assert [reason is not None for reason in reasons.to_pylist()] == is_ordinary.tolist()
    return [bool(one) for one in is_ordinary]


RULES = [(error, rule) for error in Error for rule in error.ordinary]


def example(error: Error, rule: Ordinary, at: float, **more: Any) -> dict[str, Any]:
    return {"error": error, "api": rule.apis[0] if rule.apis else "Produce", "at": at, **more}


def test_rules_speak_of_apis_and_columns_that_exist() -> None:
    apis = {api.name for api in schema.apis().values()}
    for _, rule in RULES:
        assert set(rule.apis) <= apis, rule
        assert set(rule.by) < set(ERROR_COUNTS.names), rule
        assert rule.reason.endswith("."), rule
        assert rule.most >= 1, rule
        assert rule.seconds >= SPAN // SECOND, rule


@pytest.mark.parametrize(("error", "rule"), RULES)
def test_as_many_as_a_rule_allows_are_ordinary_and_more_are_trouble(error: Error, rule: Ordinary) -> None:
    apart = min(rule.seconds / (rule.most + 1), 10.0)
    few = [example(error, rule, 1000 + i * apart) for i in range(rule.most)]
    assert all(judged(*few))
    many = [*few, example(error, rule, 1000 + rule.most * apart)]
    assert not any(judged(*many))
    later = [*few, example(error, rule, 5000)]
    assert all(judged(*later))
    elsewhere = [*few, example(error, rule, 1000) | {name: _other(name) for name in rule.by}]
    assert all(judged(*elsewhere))


def _other(column: str) -> Any:
    return 7 if column == "partition" else "other"


def test_many_at_once_count_as_one_and_many_in_a_row_do_not() -> None:
    burst = {"error": "REBALANCE_IN_PROGRESS", "api": "Heartbeat", "count": 500}
    assert judged({**burst, "at": 3, "lasted": 0.5}) == [True]
    assert judged({**burst, "at": 3, "lasted": 6.5}) == [False]


def test_an_error_without_a_rule_is_trouble_and_so_is_one_of_another_api() -> None:
    assert judged({"error": "UNKNOWN_MEMBER_ID", "api": "Heartbeat", "at": 1}) == [False]
    assert judged({"error": "UNSUPPORTED_VERSION", "api": "Fetch", "at": 1}) == [False]
    assert judged({"error": "UNSUPPORTED_VERSION", "api": "ApiVersions", "at": 1}) == [True]


def test_only_the_time_of_trouble_is_trouble() -> None:
    storm = [{"error": "REBALANCE_IN_PROGRESS", "api": "Heartbeat", "at": at} for at in range(1000, 1100, 5)]
    calm = [{"error": "REBALANCE_IN_PROGRESS", "api": "Heartbeat", "at": at} for at in (100, 3000)]
    assert judged(*calm, *storm) == [True, True, *[False] * len(storm)]


def test_the_order_of_rows_does_not_matter() -> None:
    random = np.random.default_rng(5)
    given = [
        {"error": "NOT_COORDINATOR", "api": "Heartbeat", "at": float(at), "member_id": str(member)}
        for at, member in zip(random.integers(0, 600, 80), random.integers(0, 3, 80), strict=True)
    ]
    whole = judged(*given)
    assert 0 < sum(whole) < len(whole)
    order = random.permutation(len(given))
    assert judged(*[given[i] for i in order]) == [whole[i] for i in order]
