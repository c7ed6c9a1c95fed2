"""One Spark session for all tests that need one: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkascope.spark import sessions


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if reason := sessions.unavailable():
        pytest.skip(reason)
    session = sessions.session("local[2,3]")  # a task is tried three times
    yield session
    session.stop()
