"""What is held, read and shown at most: every bound that users may move, with its default and its reason.

A packet may come from anybody, and a capture may be of any size, so memory must not grow with what packets claim.
Where a limit is reached something is left out, which is told as an issue that names the limit (`Limits.option`); but
for `Limits.run_bytes`, where what follows goes elsewhere, and `Limits.out_runs`, where what is old goes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def _limit(default: int, meaning: str, *, least: int = 1, most: int = 1 << 62) -> Any:
    return field(default=default, metadata={"meaning": meaning, "least": least, "most": most})


@dataclass(frozen=True, slots=True)
class Limits:
    """All of them; those whose name ends in bytes are bytes, the others count what they are called by."""

    connections: int = _limit(
        500_000,
        "TCP connections that are followed at once, 1.4 kB each and 5 kB with traffic; those that were silent longest "
        "are ended",
    )
    stream_bytes: int = _limit(
        16 << 20, "of a stream, that wait behind lost bytes in case these still come; then there is a gap"
    )
    waiting_bytes: int = _limit(
        64 << 20, "of a connection's requests that wait for their answers; the oldest count as unanswered"
    )
    held_bytes: int = _limit(
        512 << 20,
        "of all connections together that wait behind lost bytes, as many that wait for secrets of TLS, and as many "
        "that wait for the rest of a message or for its answer; the largest messages are cut",
        least=1 << 16,
    )
    frame_bytes: int = _limit(256 << 20, "of a message; what claims to be larger is none", least=1 << 10)
    decompressed_bytes: int = _limit(128 << 20, "in the clear, of a record batch; a larger one is not read")
    elements: int = _limit(500_000, "structs in the arrays of a message; it is read up to there")
    nesting: int = _limit(
        16, "lists and objects in each other, in the JSON of a token; what is deeper is not read", most=100
    )
    processes: int = _limit(4, "that work on large files side by side; fewer take less memory", most=64)
    groups: int = _limit(
        50_000,
        "consumer groups that --groups, --top and --metrics follow; those that were silent longest are forgotten",
    )
    label_sets: int = _limit(1_000, "label sets of a metric of --metrics; what would be more counts as (others)")
    rows: int = _limit(200, "names of a kind that --top counts apart; what would be more counts as (others)")
    run_bytes: int = _limit(
        1 << 30,
        "of rows, in memory, of a run of watch or sniff --tables; another run follows in the same OUT",
        least=1 << 10,
    )
    out_runs: int = _limit(
        1_000_000, "runs of watch or sniff --tables that stay in OUT, the latest; those before them are removed"
    )
    page_rows: int = _limit(
        10_000, "rebalances that the report shows, of the groups with the costliest, and twice as many events"
    )
    page_runs: int = _limit(20, "runs of an OUT that the report shows, the latest")

    @classmethod
    def of(cls, settings: Iterable[str]) -> Limits:
        """The limits that are set by words such as connections=2000 or held_bytes=2GB, the others by default.

        Raises ValueError, which says what was expected, for one that is none.
        """
        limits = cls()
        for setting in settings:
            name, equals, value = setting.partition("=")
            limits = limits.but(name, _number(setting, value) if equals else None)
        return limits

    def but(self, name: str, value: int | None) -> Limits:
        """These limits with another value of one; raises ValueError for what is no limit, or no value of it."""
        known = {one.name: one for one in fields(self)}
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f" (is {near[0]} meant?)" if near else ""
            raise ValueError(f"{name}: there is no such limit{meant}; they are {', '.join(known)}")
        least, most = (known[name].metadata[bound] for bound in ("least", "most"))
        if value is None or not least <= value <= most:
            raise ValueError(f"{name}: give a number from {least} to {most}, such as {name}={known[name].default}")
        return replace(self, **{name: value})

    def option(self, name: str) -> str:
        """How the value of a limit is asked for, to be told where it was reached."""
        return f"--limit {name}={getattr(self, name)}"


DEFAULT = Limits()


def table() -> list[tuple[str, str, str]]:
    """Name, default and meaning of each limit."""
    return [(one.name, _size(one.name, one.default), one.metadata["meaning"]) for one in fields(Limits)]  # type: ignore[arg-type]


def _size(name: str, value: int) -> str:
    return f"{value >> 20}MiB" if name.endswith("bytes") else str(value)


def _number(setting: str, text: str) -> int:
    found = re.fullmatch(r"([0-9_]{1,18})([a-z]*)", text.strip(), re.IGNORECASE)
    if found is None or found[2].upper() not in _UNITS or not found[1].strip("_"):
        raise ValueError(f"{setting}: give a number, or bytes as 64MB or 2GiB")
    return int(found[1].replace("_", "")) * _UNITS[found[2].upper()]
