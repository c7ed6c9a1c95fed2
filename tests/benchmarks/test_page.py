"""Each benchmark writes its part of BENCHMARKS.md and leaves the other as it is."""

from __future__ import annotations

import importlib

import pytest

from tests.paths import ROOT


def test_parts_of_the_page_replace_their_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order they are written, and however often."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    page, bench, live = (importlib.import_module(name) for name in ("page", "bench", "live"))
    about = {"machine": "2 cores", "commit": "abc"}

    def first(speed: int) -> str:
        text: str = bench.markdown("Written", about, {"Speed": [{"task": "a", "MB/s": speed}]})
        return text

    def last(packets: int) -> str:
        heard = live.Heard(19.99, 7.2, 287.1, packets, 0)
        text: str = live.markdown("Written", about, [live.cells(20.0, "sniff", heard), live.cells(0.0, "none", heard)])
        return text

    assert page.with_part(first(1), first(2)) == first(2)
    both = page.with_part(first(1), last(5))
    assert both == f"{first(1)}\n{last(5)}"
    assert page.with_part(both, last(6)) == f"{first(1)}\n{last(6)}"
    assert page.with_part(both, first(2)) == f"{first(2)}\n{last(5)}"
    assert "| 20 | `sniff` | 7 | 287 | 5 | 0 | 20.0 |\n| most | `none` |" in last(5)
