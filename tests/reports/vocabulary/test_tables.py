"""The tables that users see: a change of their columns is a new version, and each column says what it means."""

from __future__ import annotations

import pytest

from kafkascope.reports.measures.summary import Summary
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, MEANING, SCHEMA_VERSION
from tests.paths import DATA

COLUMNS = DATA / "columns.txt"


def listed() -> str:
    """The version, each column of each table with its type, and the keys of summary.json."""
    columns = [f"{table}.{column.name} {column.type}" for table, schema in ALL_SCHEMAS.items() for column in schema]
    keys = [f"summary.json {key}" for key in Summary().result()]
    return "\n".join([f"schema_version {SCHEMA_VERSION}", *columns, *keys]) + "\n"


def test_columns_change_with_the_version_alone(pytestconfig: pytest.Config) -> None:
    version, _, columns = COLUMNS.read_text().partition("\n")
    new_version, _, new_columns = listed().partition("\n")
    if columns != new_columns:
        assert version != new_version, "columns changed: raise SCHEMA_VERSION in reports/vocabulary/tables.py"
    if pytestconfig.getoption("--golden"):
        COLUMNS.write_text(listed())
    assert COLUMNS.read_text() == listed(), "make golden writes the list anew"


@pytest.mark.parametrize("name", ALL_SCHEMAS)
def test_every_table_and_column_says_what_it_means(name: str) -> None:
    schema = ALL_SCHEMAS[name]
    for one in (schema, *schema):
        assert one.metadata[MEANING].strip()


def test_the_summary_tells_the_version() -> None:
    assert Summary().result()["schema_version"] == SCHEMA_VERSION
