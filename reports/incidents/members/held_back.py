"""Members that a quota holds back: for as long as an answer tells them to, some send nothing, not even heartbeats."""

from __future__ import annotations

from collections import defaultdict

import pyarrow.compute as pc

from kafkascope.reports.incidents.signs import Signs
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_LEAST_MS = 1000  # shorter delays keep nobody from its heartbeats
_MOSTLY = 0.75  # of a silence: it begins with the last word before the answer, and ends a little behind the delay


def is_held_back(signs: Signs, host: str | None, client_id: str | None, since: int, until: int) -> bool:
    """Whether a client was told to hold back for most of a time, up to its end."""
    least = _MOSTLY * (until - since)
    return any(
        min(over, until) - max(told, since) >= least and over >= until - SECOND_NS
        for told, over in signs.once(_orders).get((host, client_id), ())
    )


def _orders(signs: Signs) -> dict[tuple[str | None, str | None], list[tuple[int, int]]]:
    """From when to when clients were told to hold back, by host and client id."""
    where = (pc.field("throttle_ms") >= _LEAST_MS) & pc.field("answered").is_valid()
    rows = signs.rows("exchanges", ("connection", "client_id", "answered", "throttle_ms"), where)
    of_number = signs.connections_by_number(sorted({row["connection"] for row in rows}))
    found: dict[tuple[str | None, str | None], list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if (connection := of_number.get(row["connection"])) is not None:
            over = row["answered"] + int(row["throttle_ms"] * MILLISECOND_NS)
            found[connection["client"], row["client_id"]].append((row["answered"], over))
    return found
