"""Which packets belong to exchanges: those of their connections, or those that carry them alone."""

from __future__ import annotations

from ipaddress import ip_address

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkascope.filters.of_captures import END_COLUMNS
from kafkascope.reports.columns.arrow import one_array
from kafkascope.sniffer.columns import I64, NO_TIME, Bool, Packets, Segments
from kafkascope.sniffer.link import dissect

_PORTS = [("sender", ">u2"), ("receiver", ">u2")]
_ENDS = np.dtype([(name, ">u8") for name in ("from_high", "from_low", "to_high", "to_low")] + _PORTS)
_AS_BYTES = f"S{_ENDS.itemsize}"  # what numpy can sort, unlike several columns
_NUMBER_BITS = 40  # of packets; above them is the place of a stream
_ALWAYS = np.iinfo(np.int64).max
CARRIED = ["connection", "request_packet", "requested", "request_done", "response_packet", "answered", "response_done"]
"""Columns of exchanges that say by which packets they were carried."""
_V4 = 0xFFFF << 32  # upper bits of the lower half of an IPv4 address that is mapped


class Matching:
    """Chooses packets by their ends, number and time.

    A connection has those of its ends from its first one on, to the first of the next connection with these ends. An
    exchange has those with payload from the first to the last byte of its request, and likewise of its response: in
    between others may be of requests that were sent at once.
    """

    def __init__(self, exchanges: pa.Table, connections: pa.Table, *, alone: bool) -> None:
        """Exchanges that match, and all connections, as in the tables. alone: nothing but these exchanges."""
        there = one_array(connections["connection"])  # of all exchanges, unless disk was short
        exchanges = exchanges.filter(pc.is_in(exchanges["connection"], there))
        numbers = pc.unique(exchanges["connection"])
        mine = connections.filter(pc.is_in(connections["connection"], numbers)).select(END_COLUMNS)
        alike = connections.select(["connection", *END_COLUMNS]).join(mine, list(END_COLUMNS), join_type="left semi")
        ends = alike.sort_by("connection")
        streams = np.concatenate([_streams(ends, "client", "broker"), _streams(ends, "broker", "client")])
        self._streams, stream = np.unique(streams, return_inverse=True)
        self._alone = alone
        number: I64 = ends["connection"].to_numpy()
        if alone:
            row = np.searchsorted(number, exchanges["connection"].to_numpy())
            parts = [_carried(exchanges, side) for side in ("request", "response")]
            of = [stream[(row + rows * len(number))[there]] for rows, (there, *_) in enumerate(parts)]
            stream, first = np.concatenate(of), np.concatenate([begin for _, begin, _ in parts])
            until = np.concatenate([end for *_, end in parts])
        else:
            wanted = np.isin(number, numbers.to_numpy())
            first, until = np.tile(number, 2), np.tile(np.where(wanted, _ALWAYS, NO_TIME), 2)
        key = stream.astype(np.int64) << _NUMBER_BITS | first
        order = np.argsort(key, kind="stable")
        self._first: I64 = key[order]
        self._until: I64 = until[order]
        if alone:  # of requests sent at once, one that began earlier may end later
            self._until = pd.Series(self._until).groupby(stream[order]).cummax().to_numpy()

    def of(self, packets: Packets) -> Packets:
        """Those of the packets that belong to what matches."""
        segments = dissect(packets).segments
        numbers = segments.number[self._passing(segments)]
        return packets.rows(np.isin(packets.number, numbers))

    def _passing(self, segments: Segments) -> Bool:
        if not len(self._first) or not len(segments.number):
            return np.zeros(len(segments.number), np.bool_)
        ends = np.empty(len(segments.number), _ENDS)
        for name, column in zip(
            _ENDS.names or (),
            (
                *(segments.source_high, segments.source_low, segments.target_high, segments.target_low),
                *(segments.source_port, segments.target_port),
            ),
            strict=True,
        ):
            ends[name] = column
        found = ends.view(_AS_BYTES)
        stream = np.minimum(np.searchsorted(self._streams, found), len(self._streams) - 1)
        row = np.searchsorted(self._first, stream << _NUMBER_BITS | segments.number, side="right") - 1
        known = (self._streams[stream] == found) & (row >= 0) & (self._first[row] >> _NUMBER_BITS == stream)
        passing: Bool = known & (np.maximum(segments.at, NO_TIME + 1) <= self._until[row])
        return passing & (segments.length > 0) if self._alone else passing


def _carried(exchanges: pa.Table, side: str) -> tuple[Bool, I64, I64]:
    """Of which exchanges there is this side; the packets where it begins, and the times (ns) when it ends."""
    there = pc.is_valid(exchanges[f"{side}_packet"])
    rows = exchanges.filter(there)
    begun = {"request": "requested", "response": "answered"}[side]
    until = pc.coalesce(rows[f"{side}_done"], rows[begun]).cast(pa.int64()).fill_null(NO_TIME)
    return there.to_numpy(), rows[f"{side}_packet"].to_numpy(), until.to_numpy()


def _streams(connections: pa.Table, sender: str, receiver: str) -> NDArray[np.bytes_]:
    """The ends of what one side of connections sends."""
    ends = np.empty(connections.num_rows, _ENDS)
    for side, host in (("from", sender), ("to", receiver)):
        addresses = [_number(text) for text in connections[host].to_pylist()]
        ends[f"{side}_high"] = [address >> 64 for address in addresses]
        ends[f"{side}_low"] = [address & (1 << 64) - 1 for address in addresses]
    ends["sender"], ends["receiver"] = connections[f"{sender}_port"], connections[f"{receiver}_port"]
    return ends.view(_AS_BYTES)


def _number(host: str) -> int:
    address = ip_address(host)
    return int(address) | (_V4 if address.version == 4 else 0)
