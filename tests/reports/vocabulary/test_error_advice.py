"""Advice on errors: for those that exist, in words."""

from __future__ import annotations

from kafkascope.decoders.errors import ERRORS
from kafkascope.reports.vocabulary.error_advice import ADVICE, advice_on


def test_there_is_advice_on_all_errors_that_people_meet_and_on_none_that_does_not_exist() -> None:
    names = {error.name for error in ERRORS.values()}
    assert ADVICE.keys() <= names - {"NONE"}
    assert len(ADVICE) > 100
    for name, text in ADVICE.items():
        assert text.endswith("."), name
        assert "  " not in text, name
        assert len(text) < 300, name


def test_what_has_no_advice_of_its_own_gets_that_of_its_kind() -> None:
    assert advice_on("ERROR_999", retriable=True) != advice_on("ERROR_999", retriable=False)
    assert advice_on("OFFSET_OUT_OF_RANGE", retriable=False) == ADVICE["OFFSET_OUT_OF_RANGE"]
