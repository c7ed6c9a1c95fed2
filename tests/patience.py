"""How long tests wait for others before they say that nothing comes any more."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 600
"""For another process or thread. It says only when a test that hangs ends: a slow machine is no failure."""
BROWSER_PATIENCE_S = 60
"""For a page that is there already to show something: a page that is wrong is asked by each of its tests."""


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait for what another process or thread does, and that says nothing; what is tested does not depend on how."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"waited for {PATIENCE_S} s in vain: {what}"
        time.sleep(0.01)
