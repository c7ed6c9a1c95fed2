from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from kafkascope.reports.columns import circles


@pytest.mark.parametrize("was_enabled", [True, False])
def test_circles_are_looked_for_again_behind_it_if_they_were_before(was_enabled: bool) -> None:
    (gc.enable if was_enabled else gc.disable)()
    try:
        with suppress(ZeroDivisionError), circles.none_made():
            with circles.none_made():
                assert not gc.isenabled()
            assert not gc.isenabled()
            _ = 1 / 0
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()
