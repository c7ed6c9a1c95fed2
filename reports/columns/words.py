"""Numbers and times as people write them, the same in every way that answers are shown."""

from __future__ import annotations

import numpy as np

from kafkascope.sniffer.units import MILLISECOND_NS


def duration(milliseconds: float | None) -> str:
    """``0.420 ms``, ``12.0 ms``, ``480 ms``, ``3.2 s``, ``2 min 5 s``, ``1 h 3 min``; nothing for None."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds:,.{0 if milliseconds >= 100 or not milliseconds else 1 if milliseconds >= 1 else 3}f} ms"
    if milliseconds < 60_000:
        return in_seconds(milliseconds)
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def in_milliseconds(milliseconds: float) -> str:
    """``1,204 ms``, however many."""
    return f"{milliseconds:,.0f} ms"


def in_seconds(milliseconds: float, digits: int = 1) -> str:
    """``0.4 s``, ``1,204.0 s``, however many."""
    return f"{milliseconds / 1000:,.{digits}f} s"


def exact_duration(milliseconds: float) -> str:
    """``12.3 µs``, ``3.456 ms``, ``1,204.000123 s``: what clocks differ by."""
    if milliseconds < 0.1:
        return f"{milliseconds * 1000:.1f} µs"
    return f"{milliseconds:.3f} ms" if milliseconds < 1000 else in_seconds(milliseconds, 6)


def iso_time(at: int | None) -> str | None:
    """A time in nanoseconds since 1970 as ``columns.text.iso_times`` writes it; None for None."""
    return None if at is None else f"{np.datetime64(at, 'ns')}Z"


def nanoseconds(text: str | None) -> int | None:
    """Nanoseconds since 1970 of a time that `iso_time` wrote; None for None."""
    return None if text is None else int(np.datetime64(text.removesuffix("Z"), "ns").astype(np.int64))


def clock(at: int | None) -> str:
    """Time of day of nanoseconds since 1970, UTC; nothing for None."""
    return "" if at is None else str(np.datetime64(at // MILLISECOND_NS, "ms"))[11:]


def day_and_clock(at: int | None) -> str:
    """Date and time of nanoseconds since 1970, UTC; nothing for None."""
    return "" if at is None else str(np.datetime64(at // MILLISECOND_NS, "ms")).replace("T", " ")
