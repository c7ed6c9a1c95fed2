import pytest

from kafkascope.decoders import errors
from tests.paths import DATA

CODES = [line.split("\t") for line in (DATA / "error_codes.tsv").read_text().splitlines()]


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1"])
def test_codes_are_those_of_the_release(release: str) -> None:
    expected = {(int(code), name, retriable == "true") for of, code, name, retriable in CODES if of == release}
    table = {(error.code, error.name, error.retriable) for error in errors.ERRORS.values()}
    assert expected <= table
    if release == "4.3.1":
        assert table == expected


def test_each_has_a_meaning_of_its_own() -> None:
    meanings = [error.meaning for error in errors.ERRORS.values()]
    assert len(set(meanings)) == len(meanings)
    assert all(meaning[0].isupper() and meaning.endswith(".") and "\n" not in meaning for meaning in meanings)


def test_an_unknown_code_has_a_name() -> None:
    error = errors.error_of(4711)
    assert (error.code, error.name, error.retriable) == (4711, "ERROR_4711", False)
    assert errors.error_of(27).name == "REBALANCE_IN_PROGRESS"
