"""Clients that tell no client id: answers leave out what they do not know, and say nothing else wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset as ds

import kafkascope
from kafkascope.reports.incidents.rules import NEEDED, conclusions
from tests.paths import PCAPS


def nameless(value: Any) -> Any:
    """Rows without any client id."""
    if isinstance(value, list):
        return [nameless(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: None if name.endswith("client_id") else nameless(one) for name, one in value.items()}


@pytest.mark.parametrize(
    "story", ["killed-consumer", "offsets-lost", "rolling-restart", "too-few-replicas", "troubles"]
)
def test_rules_of_incidents_find_no_fault_in_clients_without_a_name(story: str) -> None:
    (path,) = (PCAPS / story).glob("capture.pcap*")
    capture = kafkascope.read(path)
    named = {name: capture.arrow(name) for name in capture.tables if name in NEEDED}
    tables = {
        name: ds.dataset(pa.Table.from_pylist(nameless(rows.to_pylist()), schema=rows.schema))
        for name, rows in named.items()
    }
    made = conclusions(tables, capture.summary)
    assert made.keys() == {"incidents"}  # no issues
    assert made["incidents"].num_rows
    assert "None" not in str(made["incidents"].select(["headline", "evidence"]).to_pylist()).replace(": None", "")
