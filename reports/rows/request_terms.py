"""What requests allow the broker to wait for: how long, for how much, for whom. A table for views, not for users."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafkascope.decoders import apis
from kafkascope.decoders.program import Programs
from kafkascope.reports.columns.arrow import numbers
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.vocabulary.tables import TERMS
from kafkascope.sniffer.columns import I64

_APIS = (apis.PRODUCE, apis.FETCH, apis.SHARE_FETCH, apis.JOIN_GROUP, apis.SYNC_GROUP)


class RequestTerms:
    """Reads the terms of requests; made once, for it looks up what fields are called."""

    def __init__(self, programs: Programs) -> None:
        def fields(path: str, *keys: int) -> list[int]:
            return [programs.field_id(key, False, path) for key in keys]

        fetches = (apis.FETCH, apis.SHARE_FETCH)
        self._fields = {
            "max_wait_ms": [*fields("maxWaitMs", *fetches), *fields("timeoutMs", apis.PRODUCE)],
            "min_bytes": fields("minBytes", *fetches),
            "acks": fields("acks", apis.PRODUCE),
            "assignments": fields("assignments", apis.SYNC_GROUP),
        }
        self._max_bytes = fields("maxBytes", *fetches)

    def table(self, bodies: Bodies) -> pa.Table | None:
        """A row for each request of those APIs that was read to its end; None without any."""
        exchanges, tape = bodies.exchanges, bodies.requests
        frames = np.flatnonzero(np.isin(exchanges.api_key, _APIS) & bodies.request_decoded)
        if not len(frames):
            return None
        columns: dict[str, pa.Array] = {
            "connection": pa.array(exchanges.connection[frames]),
            "number": pa.array(exchanges.number[frames]),
        }
        for name, ids in self._fields.items():
            rows = tape.top(frames, ids)
            values: I64 = tape.numbers(rows, -1)
            if name == "min_bytes":  # the broker asks for no more than it may send (KafkaApis.handleFetchRequest)
                values = np.minimum(values, tape.numbers(tape.top(frames, self._max_bytes), 2**31 - 1))
            columns[name] = numbers(values, TERMS.field(name).type, rows >= 0)
        return pa.table(columns, schema=TERMS)
