from __future__ import annotations

import pytest

from kafkascope.reports.answers.latency import PART_NAMES, Spread, tone
from kafkascope.reports.measures.latency.parts import PARTS
from kafkascope.reports.vocabulary.thresholds import threshold


def test_every_part_has_a_name() -> None:
    assert PART_NAMES.keys() == set(PARTS)


@pytest.mark.parametrize("part", ["slow", "queued", "replicas", "unsplit", "throttled"])
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
