"""Exchanges with the whole of both messages, field by field, and why they have their version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import DecodeError, apis
from kafkascope.decoders.parts import dissect_frame
from kafkascope.reading import Batch
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.rows.frames import FRAMES
from kafkascope.reports.show.chosen_versions import ChosenVersions
from kafkascope.reports.show.lines import dim
from kafkascope.reports.show.message_lines import MessageStyle, frame_lines, value_lines
from kafkascope.sniff_options import SniffOptions

_COLUMNS = [
    "connection",
    "broker",
    "api_key",
    "api_version",
    "requested",
    "answered",
    "error_code",
    "decoded",
    "request",
    "response",
]
_MARGIN = "    "


class Trees:
    """Writes exchanges as trees. Keeps what connections and brokers told of their versions."""

    def __init__(self, options: SniffOptions, names: TopicNames) -> None:
        reveal = options.show_secrets and options.pseudonyms is None  # what lies in no text has no pseudonyms
        self._style = MessageStyle(
            as_hex=options.display.as_hex,
            reveal=reveal,
            topic_name=names.name,
            dim=dim if options.display.colour else str,
        )
        self._versions = ChosenVersions()

    def observe(self, batch: Batch) -> None:
        """Take in the exchanges of a batch, also those that are not shown."""
        exchanges = batch.tables.get("exchanges")
        if exchanges is None:
            return
        told = exchanges.filter(pc.equal(exchanges["api_key"], apis.API_VERSIONS))
        if len(told):
            for row in _rows(batch.with_ends(told).select(_COLUMNS)):
                self._versions.observe(row)

    def texts(self, heads: pa.Array, exchanges: pa.Table) -> pa.Array:
        """The text of each exchange, below its line."""
        rows = _rows(exchanges.select([*_COLUMNS, *(field.name for field in FRAMES)]))
        texts = ["\n".join(self._lines(head, row)) for head, row in zip(heads.to_pylist(), rows, strict=True)]
        return pa.array(texts, pa.large_string())

    def _lines(self, head: str, row: dict[str, Any]) -> Iterator[str]:
        yield head
        for side in ("request", "response"):
            frame, text = row[f"{side}_frame"], row[side]
            body = None if text is None else json.loads(text)
            if row["api_key"] is None:  # no definition says what is where
                if body is not None:
                    yield f"{_MARGIN}{side}"
                    yield from value_lines(body, 2 * _MARGIN)
            elif frame is not None:
                reason = self._versions.reason(row) if side == "request" else None
                yield f"{_MARGIN}{side}" + (f" v{row['api_version']}: {reason}" if reason else "")
                for line in self._message(frame, row, body, response=side == "response"):
                    yield _MARGIN + line

    def _message(self, frame: bytes, row: dict[str, Any], body: Any, *, response: bool) -> Iterator[str]:
        try:
            found = dissect_frame(frame, response_to=(row["api_key"], row["api_version"]) if response else None)
        except DecodeError as error:
            yield f"not read: {error}"
        else:
            yield from frame_lines(found, frame, body, self._style)


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with times as nanoseconds, for which Python has no type of time."""
    for name in ("requested", "answered"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(place).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
