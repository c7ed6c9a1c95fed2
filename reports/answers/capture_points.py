"""What is said of files that were captured at several points at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkascope.reports.columns.words import exact_duration
from kafkascope.sniffer.capture_points import FileClock
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.units import MILLISECOND_NS

_TOLD = 10  # files in one issue


def clock_issues(clocks: Iterable[FileClock]) -> list[Issue]:
    """An issue that tells of all clocks that were set right; none if all were right."""
    corrected = [clock for clock in clocks if clock.corrected]
    if not corrected:
        return []
    told = [clock_text(clock_row(clock)) for clock in corrected[:_TOLD]]
    if len(corrected) > _TOLD:
        told.append(f"and {len(corrected) - _TOLD:,} more files")
    return [Issue("clock_difference", "; ".join(told), count=len(corrected))]


def clock_row(clock: FileClock) -> dict[str, Any]:
    """A clock as plain values, ready for JSON."""
    return {
        "file": clock.path,
        "reference": clock.reference,
        "ahead_ms": round(clock.ahead_at_first / MILLISECOND_NS, 6),
        "ahead_at_end_ms": round(clock.ahead_at_last / MILLISECOND_NS, 6),
        "drift_ppm": round(clock.drift * 1e6, 3),
        "uncertainty_ms": round(clock.uncertainty / MILLISECOND_NS, 6),
        "common_packets": clock.common,
        "corrected": clock.corrected,
    }


def clock_text(row: Mapping[str, Any]) -> str:
    """A clock as people say it."""
    sampled = f"{row['common_packets']:,} packets that both have say so, ±{exact_duration(row['uncertainty_ms'])}"
    if not row["corrected"]:
        return f"{row['file']}: its clock agrees with that of {row['reference']} ({sampled})"
    how = _ahead(row["ahead_ms"])
    if row["drift_ppm"]:
        how += f" at its begin and {_ahead(row['ahead_at_end_ms'])} at its end ({row['drift_ppm']:+.1f} ppm)"
    return f"{row['file']}: its clock was {how}, against that of {row['reference']}, and has been set right ({sampled})"


def _ahead(milliseconds: float) -> str:
    return f"{exact_duration(abs(milliseconds))} {'behind' if milliseconds < 0 else 'ahead'}"
