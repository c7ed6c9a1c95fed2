"""The order of packets by their times, which may go back: clocks are set, captures are put one behind the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkascope.sniffer.columns import I64, NO_TIME, Packets
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.units import SECOND_NS

LINGERING = SECOND_NS
"""Packets of one file are older than those before them by less than this, though no clock was set: captures of several
interfaces or processors at once hand packets over when a buffer is full, or some tenths of a second later."""


def running_maximum(at: I64, before: int) -> I64:
    """Key by which packets of a file are ordered: the latest time up to each; before is that of the packets before."""
    key: I64 = np.maximum.accumulate(np.maximum(at, before))
    return key


def times_going_back(packets: Packets, before: int) -> Iterator[Issue]:
    """An issue if packets are much older than such as come before them; before: the latest time of earlier packets."""
    lag = running_maximum(packets.at, before) - packets.at
    behind = np.flatnonzero((lag > LINGERING) & (packets.at != NO_TIME))
    if len(behind):
        first = behind[0]
        detail = f"a packet is {lag[first] / SECOND_NS:,.3f} s older than one before it"
        yield Issue(
            "time_goes_back", detail, at=int(packets.at[first]), packet=int(packets.number[first]), count=len(behind)
        )
