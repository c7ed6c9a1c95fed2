"""What is said of clocks that differ."""

from __future__ import annotations

import io
import json

from rich.console import Console

from kafkascope.reports.answers.capture_points import clock_issues, clock_row, clock_text
from kafkascope.reports.measures.summary import Summary
from kafkascope.reports.show import summary_terminal as terminal
from kafkascope.sniffer.capture_points import FileClock

AGREES = FileClock("b.pcap", "a.pcap", 20_000, 21_000, 0.0, 35_000, 812, corrected=False)
BEHIND = FileClock("c.pcap", "a.pcap", -250_000_000, -250_000_000, 0.0, 400_000, 90, corrected=True)
DRIFTS = FileClock("d.pcap", "a.pcap", 3_200_000_000, 3_203_750_000, 50e-6, 1_000, 1_736, corrected=True)


def test_texts() -> None:
    assert [clock_text(clock_row(clock)) for clock in (AGREES, BEHIND, DRIFTS)] == [
        "b.pcap: its clock agrees with that of a.pcap (812 packets that both have say so, ±35.0 µs)",
        "c.pcap: its clock was 250.000 ms behind, against that of a.pcap, and has been set right "
        "(90 packets that both have say so, ±0.400 ms)",
        "d.pcap: its clock was 3.200000 s ahead at its begin and 3.203750 s ahead at its end (+50.0 ppm), "
        "against that of a.pcap, and has been set right (1,736 packets that both have say so, ±1.0 µs)",
    ]


def test_one_issue_tells_of_all_that_were_corrected() -> None:
    assert clock_issues([AGREES]) == []
    (issue,) = clock_issues([AGREES, BEHIND, DRIFTS])
    assert (issue.kind, issue.count, issue.connection) == ("clock_difference", 2, None)
    assert "c.pcap" in issue.detail
    assert "d.pcap" in issue.detail
    assert "b.pcap" not in issue.detail
    (many,) = clock_issues([BEHIND] * 2000)
    assert many.count == 2000
    assert many.detail.endswith("; and 1,990 more files")


def test_the_summary_shows_them_on_the_terminal() -> None:
    summary = Summary()
    other = Summary()
    other.copies, other.clocks = 6185, [clock_row(AGREES), clock_row(BEHIND)]
    summary.merge(other)
    result = json.loads(json.dumps(summary.result()))
    out = io.StringIO()
    terminal.summary(result, Console(file=out, width=200))
    assert "6,185 packets more that several files have, counted once" in out.getvalue()
    assert "c.pcap: its clock was 250.000 ms behind" in out.getvalue()
    assert "b.pcap: its clock agrees" in out.getvalue()
