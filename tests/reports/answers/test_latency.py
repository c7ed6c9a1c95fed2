from __future__ import annotations

import pytest

from kafkascope.reports.answers.latency import (
    PART_NAMES,
    ApiLatency,
    Spread,
    of_broker,
    shares_of,
    spent_on,
    telling,
    tone,
)
from kafkascope.reports.measures.latency.parts import PARTS
from kafkascope.reports.vocabulary.thresholds import threshold


def test_every_part_has_a_name() -> None:
    assert PART_NAMES.keys() == set(PARTS)


@pytest.mark.parametrize("part", ["slow", "broker", "network", "unclear", "queued", "replicas", "unsplit", "throttled"])
def test_what_nobody_asked_for_is_bad_by_its_time(part: str) -> None:
    def of(p99: float) -> str:
        return tone(part, Spread(10, 10 * p99, (p99, p99, p99, p99), p99))

    assert of(1.6) == ""  # of a healthy Produce, be it all of its time
    assert of(threshold("slow_answer") - 0.1) == ""
    assert of(threshold("slow_answer")) == "warn"
    assert of(threshold("long_answer") - 0.1) == "warn"
    assert of(threshold("long_answer")) == "bad"


@pytest.mark.parametrize("part", ["waiting", "transfer", "application"])
def test_what_was_asked_for_is_never_bad(part: str) -> None:
    assert tone(part, Spread(1, 1e6, (1e6, 1e6, 1e6, 1e6), 1e6)) == ""


def api(name: str = "Metadata", **sums: float) -> ApiLatency:
    """An API whose parts took so many milliseconds in all."""
    made = {part: Spread(10, spent, (spent,) * 4, spent) for part, spent in sums.items()}
    return ApiLatency(name, Spread(10, 100.0, (10.0,) * 4, 20.0), made)


def test_what_was_slow_is_counted_once() -> None:
    assert spent_on(api(slow=10.0, waiting=90.0, application=500.0)).keys() == {"slow", "waiting"}
    assert spent_on(api(slow=10.0, network=1.0, broker=6.0, unclear=3.0)).keys() == {"network", "broker", "unclear"}
    assert spent_on(api(slow=10.0, unclear=10.0)).keys() == {"unclear"}


def test_shares_are_of_all_that_parts_took() -> None:
    """Clients that a quota holds back behind answers are so for longer than the answers took."""
    assert shares_of(api(slow=10.0, waiting=90.0, application=500.0)) == {"slow": 0.1, "waiting": 0.9}
    assert shares_of(api(slow=100.0, throttled=300.0)) == {"slow": 0.25, "throttled": 0.75}
    assert shares_of(ApiLatency("Fetch", Spread(1, 0.0, (0.0,) * 4, 0.0), api(slow=0.0).parts)) == {}


@pytest.mark.parametrize(("unclear", "is_told"), [(10.0, True), (10.1, False)])
def test_the_brokers_time_is_told_if_nearly_all_of_it_is(unclear: float, is_told: bool) -> None:
    one = api(slow=100.0, network=1.0, broker=99.0 - unclear, unclear=unclear)
    assert of_broker(one) == (one.parts["broker" if is_told else "slow"], is_told)
    assert of_broker(api(slow=100.0, broker=100.0))[1]
    assert of_broker(api(slow=100.0)) == (api(slow=100.0).parts["slow"], False)
    assert of_broker(api()) == (None, False)


@pytest.mark.parametrize(("network", "tells"), [(10.0, True), (9.9, False)])
def test_a_network_that_takes_a_share_of_the_time_is_worth_a_word(network: float, tells: bool) -> None:
    assert telling(api(slow=100.0, network=network, broker=1.0)) == tells
