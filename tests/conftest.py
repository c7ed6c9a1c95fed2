"""Options of the suite."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from kafkascope.reports.columns.faults import RAISE_FAULTS

# Kernels are compiled in the midst of the first example, so there is no deadline. A failure prints its seed.
settings.register_profile("quick", deadline=None, print_blob=True, max_examples=60)
settings.register_profile("deep", deadline=None, print_blob=True, max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A fault of ours ends the test that meets it, also in the processes that tests start: commands, tasks of Spark.
os.environ[RAISE_FAULTS] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="write golden files anew instead of comparing with them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("-m"):
        return
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.skip(reason="long: `make check-deep` runs it"))
