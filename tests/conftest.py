"""Options of the suite."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from kafkascope.reports.columns.faults import RAISE_FAULTS
from tests.paths import ROOT

# Kernels are compiled in the midst of the first example, and no test depends on how fast the machine is, so there is no
# deadline and no check of how long examples take to make. A failure prints its seed.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("quick", settings.get_profile("any"), max_examples=60)
settings.register_profile("deep", settings.get_profile("any"), max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Shells start what runs in the background with SIGINT ignored, nohup with SIGHUP, which all processes that tests start
# would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A fault of ours ends the test that meets it, also in the processes that tests start: commands, tasks of Spark.
os.environ[RAISE_FAULTS] = "1"


class OneSession(LoadFileScheduling):  # type: ignore[misc]
    """Files run side by side; those that share the session of Spark run one after the other, as each start is slow."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        text = (ROOT / file).read_text()
        return "spark" if "spark: Any" in text or 'getfixturevalue("spark")' in text else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return OneSession(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: who looks for garbage in a test need not go through half a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("-m"):
        return
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.skip(reason="long: `make check-deep` runs it"))
