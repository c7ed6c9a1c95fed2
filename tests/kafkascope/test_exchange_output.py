"""Exchanges with their records, which come in parts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkascope import exchange_output
from kafkascope.exchange_output import with_records
from kafkascope.reading import Batch
from kafkascope.reports.vocabulary.tables import EXCHANGES, RECORDS

Parts = list[list[int]]


def exchanges(*numbers: int) -> Batch:
    rows = [{"connection": 1, "number": number} for number in numbers]
    return Batch({"exchanges": pa.Table.from_pylist(rows, schema=EXCHANGES)}, {})


def records(*numbers: int) -> Batch:
    rows = [{"connection": 1, "number": number, "offset": place} for place, number in enumerate(numbers)]
    return Batch({"records": pa.Table.from_pylist(rows, schema=RECORDS)}, {})


def shown(batches: list[Batch]) -> tuple[list[tuple[list[int], list[int]]], list[str]]:
    """Numbers of the exchanges and of their records, batch by batch, and what is remarked."""
    remarks: list[str] = []
    tables = [batch.tables for batch in with_records(batches, remarks.append)]
    return [(of["exchanges"]["number"].to_pylist(), of["records"]["number"].to_pylist()) for of in tables], remarks


END = Batch({}, {})


def test_an_exchange_is_shown_when_all_its_records_are_there() -> None:
    found, remarks = shown([exchanges(1, 2, 3, 4), records(2, 2), records(2, 3, 3), END, exchanges(5), END])
    assert found == [([1], []), ([2], [2, 2, 2]), ([3, 4], [3, 3]), ([5], [])]
    assert remarks == []


@pytest.mark.parametrize("end", [[END], []])
def test_what_comes_last_is_shown_too(end: list[Batch]) -> None:
    assert shown([exchanges(1), exchanges(2), records(2), *end])[0] == [([1], []), ([2], [2])]


def test_of_one_exchange_no_more_than_some_records_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_output, "RECORDS_SHOWN", 3)
    found, remarks = shown([exchanges(1, 2, 3), records(1, 1, 1, 2, 2), records(2, 2, 2, 3), END])
    assert found == [([1], [1, 1, 1]), ([2], [2, 2, 2]), ([3], [3])]
    assert remarks == ["2 records are not shown: of one exchange they are at most 3; analyze has all"]
