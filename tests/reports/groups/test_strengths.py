"""The table of strengths: a weaker observation never allows a surer verdict, and tables hold plain numbers."""

from __future__ import annotations

import itertools

from kafkascope.reports.groups.history import Evidence, Rebalance, rebalance_table
from kafkascope.reports.groups.strengths import Strength
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger


def test_weights_fall_and_certainties_with_them() -> None:
    surest = list(Certainty)
    for stronger, weaker in itertools.pairwise(Strength):
        assert 1 >= stronger > weaker >= 0
        assert surest.index(stronger.allows) <= surest.index(weaker.allows)


def test_what_each_weight_allows() -> None:
    for strength in Strength:
        expected = Certainty.CERTAIN if strength >= 0.95 else Certainty.LIKELY if strength >= 0.5 else Certainty.GUESSED
        assert strength.allows is expected, strength.name


def test_tables_hold_plain_text_and_numbers() -> None:
    said = Evidence("said", 1, 2, Strength.SAID, Trigger.POLL_TIMEOUT)
    rebalance = Rebalance("g", "classic", 2, trigger=Trigger.POLL_TIMEOUT, certainty=Certainty.LIKELY, evidence=[said])
    row = rebalance_table([rebalance]).to_pylist()[0]
    values = row["trigger"], row["certainty"], row["evidence"][0]["trigger"], row["evidence"][0]["weight"]
    assert values == ("poll_timeout", "likely", "poll_timeout", 1.0)
    assert [type(value) for value in values] == [str, str, str, float]
