"""What differs between two captures, in every form."""

from __future__ import annotations

import pytest

from kafkascope.reports.answers.changes import Change, Side
from kafkascope.reports.measures.chance import Verdict
from kafkascope.reports.show import changes as shown
from tests.reports.show.page.made_tables import HOSTILE, SUMMARY


@pytest.mark.parametrize("form", ["text", "md", "html", "json"])
def test_what_a_capture_says_is_text(form: str) -> None:
    side = Side(HOSTILE, {}, SUMMARY)
    found = [
        Change("seen", f"client {HOSTILE}", "", "", "seen", Verdict.NEW),
        Change("settings", "client c", "software", HOSTILE, "\x1b[2J", Verdict.CHANGED),
        Change("latency", "Fetch", "p50", "1 ms", "3 ms", Verdict.UP, 1.0, 3.0, 1000, 1200, "mean +2 ms"),
    ]
    write = {"text": shown.text, "md": shown.markdown, "html": shown.html, "json": shown.json}[form]
    text = write(side, side, found)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "3.00 ×" in text or form == "json"
    if form in ("md", "html"):
        assert "<img" not in text
        assert "</script>" not in text


def test_what_is_left_out_is_counted() -> None:
    side = Side("a", {}, SUMMARY)
    found = [Change("errors", f"API {n}", "E", "0", "20", Verdict.NEW) for n in range(40)]
    found += [
        Change("errors", "API", f"F{n}", "1", "1", verdict) for n, verdict in enumerate([Verdict.SAME, Verdict.FEW])
    ]
    text = shown.text(side, side, found)
    assert text.count("only after") == 30
    assert "  more that differ: 10; no difference, or none beyond chance: 1; too few samples to tell: 1\n" in text
