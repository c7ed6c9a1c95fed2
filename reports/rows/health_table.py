"""The table tcp_health: how packets of connections fared, by sender and span of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafkascope.reports.columns.arrow import Numbers, labels, numbers, times
from kafkascope.reports.columns.files import files_of
from kafkascope.reports.columns.text import address
from kafkascope.reports.vocabulary.tables import TCP_HEALTH
from kafkascope.sniffer.columns import NO_TIME
from kafkascope.sniffer.origins import Origins
from kafkascope.sniffer.session import SideSpans
from kafkascope.sniffer.units import MILLISECOND_NS

_TIMES = ("at", "first", "last", "last_payload", "unacked_since")
_RETRANSMITS = ("fast_retransmits", "timeout_retransmits", "spurious_retransmits")
_DURATIONS = {"rtt_min_ms": "rtt_min", "rtt_max_ms": "rtt_max", "unacked_max_ms": "unacked_max"}
_TENTHS = ("sent_in", "payload_in")


def health_table(spans: SideSpans, origins: Origins) -> pa.Table:
    """One row for each side of a connection and span."""
    rows = spans.rows
    connections, place = np.unique(rows["connection"], return_inverse=True)
    ends = [spans.ends[connection] for connection in connections.tolist()]
    clients, brokers = (labels(place, [getattr(end, side) for end in ends]) for side in ("client", "broker"))
    from_client = pa.array(spans.from_client)
    samples = rows["rtt_samples"]
    columns = {
        "sender": labels(spans.from_client.astype(np.int8), ["broker", "client"]),
        "host": pa.compute.if_else(from_client, clients, brokers),
        "client": clients,
        "broker": labels(place, [address(end.broker, end.broker_port) for end in ends]),
        "retransmits": numbers(np.sum([rows[name] for name in _RETRANSMITS], axis=0), pa.int64()),
        "rtt_mean_ms": _milliseconds(rows["rtt_sum"] / np.maximum(samples, 1), samples > 0),
        "file": files_of(rows["first_packet"], origins),
    }
    columns |= {name: times(rows[name]) for name in _TIMES}
    columns |= {name: _milliseconds(rows[of], rows[of] != NO_TIME) for name, of in _DURATIONS.items()}
    columns |= {name: _bits(rows[name]) for name in _TENTHS}
    columns |= {name: numbers(rows[name], pa.int64()) for name in TCP_HEALTH.names if name not in columns}
    return pa.Table.from_pydict({name: columns[name] for name in TCP_HEALTH.names}, schema=TCP_HEALTH)


def _milliseconds(nanoseconds: Numbers, there: Numbers) -> pa.Array:
    return pa.array(nanoseconds / MILLISECOND_NS, pa.float64(), mask=~there)


def _bits(words: Numbers) -> pa.Array:
    """Two words of 64 bits a row as the 13 bytes that hold the first 100."""
    width = TCP_HEALTH.field("sent_in").type.byte_width
    data = np.ascontiguousarray(words).astype("<u8").view(np.uint8).reshape(len(words), 16)[:, :width]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(words), [None, pa.py_buffer(data.tobytes())])
