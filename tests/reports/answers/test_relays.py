"""Connections that carry on what others brought."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import dataset as ds

from kafkascope.reports.answers.relays import relayed
from kafkascope.reports.vocabulary.tables import TIME
from kafkascope.sniffer.units import SECOND_NS
from tests.reports.incidents.tables_of import B1, BEGIN, H1, Row, connection, dataset

PROXY = "10.0.9.9"
SAID = {"bytes_up": 700, "bytes_down": 900, "exchanges": 7}


def told(*rows: Row) -> str | None:
    return relayed(dataset("connections", rows))


def leg(number: int, client: str, broker: str, opened: float | None, **given: Any) -> Row:
    return connection(number, client, broker, opened=opened, **SAID | given)


def test_what_a_proxy_carries_on_is_told() -> None:
    text = told(leg(1, H1, PROXY, 1), leg(2, PROXY, B1, 1.01))
    assert text is not None
    assert text.startswith(f"1 connection of {PROXY} carries on what others brought there, to the byte: behind a proxy")
    two = told(leg(1, H1, PROXY, 1), leg(2, PROXY, B1, 1.01), leg(3, H1, PROXY, 5), leg(4, PROXY, B1, 5.01))
    assert two is not None
    assert two.startswith(f"2 connections of {PROXY} carry on")


@pytest.mark.parametrize(
    "other",
    [
        leg(2, PROXY, B1, 2.1),  # long after it
        leg(2, PROXY, B1, None),
        leg(2, PROXY, B1, 1.01, bytes_up=701),
        leg(2, PROXY, B1, 1.01, exchanges=8),
        leg(2, PROXY, B1, 1.01, client_id="c2"),
        leg(2, PROXY, B1, 1.01, protocol="tls"),
        leg(2, H1, B1, 1.01),  # of the client itself
        leg(2, PROXY, PROXY, 1.01),  # within the host
    ],
)
def test_what_only_looks_like_it(other: Row) -> None:
    assert told(leg(1, H1, PROXY, 1), other) is None


def test_clients_without_a_name_are_carried_on_as_well() -> None:
    assert told(leg(1, H1, PROXY, 1, client_id=None), leg(2, PROXY, B1, 1.01, client_id=None)) is not None


def test_who_said_nothing_carries_nothing() -> None:
    assert told(leg(1, H1, PROXY, 1, exchanges=0), leg(2, PROXY, B1, 1.01, exchanges=0)) is None
    assert told() is None


def test_a_second_that_begins_between_them_makes_no_difference() -> None:
    for opened in (1.0, 1.4, 1.9999):
        assert told(leg(1, H1, PROXY, opened), leg(2, PROXY, B1, opened + 0.5)) is not None
        assert told(leg(1, H1, PROXY, opened), leg(2, PROXY, B1, opened - 0.5)) is not None


def probes(client: str, broker: str, first: int) -> pa.Table:
    """20,000 connections alike, ten a second."""
    numbers = np.arange(20_000)
    rows = dataset("connections", [leg(0, client, broker, 0)]).to_table().take(pa.array(numbers * 0))
    opened = pa.array(BEGIN + numbers * SECOND_NS // 10).cast(TIME)
    for name, values in (("connection", pa.array(first + numbers)), ("opened", opened)):
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), values)
    return rows


def test_very_many_probes_that_say_the_same_are_no_pairs() -> None:
    assert relayed(ds.dataset(probes(B1, B1, 0))) is None
    text = relayed(ds.dataset(pa.concat_tables([probes(H1, PROXY, 0), probes(PROXY, B1, 20_000)])))
    assert text is not None
    assert text.startswith("20,000 connections")
