import pytest

from kafkascope.decoders import errors
from tests.paths import DATA

CODES = [line.split("\t") for line in (DATA / "error_codes.tsv").read_text().splitlines()]


@pytest.mark.parametrize("release", ["3.9.1", "4.4.0"])
def test_codes_are_those_of_the_release(release: str) -> None:
    expected = {(int(code), name, retriable == "true") for of, code, name, retriable in CODES if of == release}
    table = {(error.code, error.name, error.retriable) for error in errors.Error}
    assert expected <= table
    if release == "4.4.0":
        assert table == expected


def test_each_has_a_meaning_of_its_own() -> None:
    meanings = [error.meaning for error in errors.Error]
    assert len(set(meanings)) == len(meanings)
    assert all(meaning[0].isupper() and meaning.endswith(".") and "\n" not in meaning for meaning in meanings)


def test_an_unknown_code_has_a_name() -> None:
    assert errors.name_of(4711) == "ERROR_4711"
    assert errors.name_of(27) == "REBALANCE_IN_PROGRESS"


def test_an_error_is_called_as_in_kafka() -> None:
    assert [error.value for error in errors.Error] == [error.name for error in errors.Error]
    assert errors.ERRORS[27] is errors.Error.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("error", [error for error in errors.Error if error.code])
def test_there_is_advice_in_words(error: errors.Error) -> None:
    assert error.advice.endswith(".")
    assert "  " not in error.advice
    assert len(error.advice) < 300


def test_what_has_no_advice_of_its_own_gets_that_of_its_kind() -> None:
    without = [error for error in errors.Error if error.advice in errors.ADVICE_BY_KIND.values()]
    assert 0 < len(without) < 30
    assert all(error.advice == errors.ADVICE_BY_KIND[error.retriable] for error in without)
    assert errors.explained(4711) == (False, "A code that Kafka 4.4.0 does not know.", errors.ADVICE_BY_KIND[False])
