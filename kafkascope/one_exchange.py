"""One exchange as notebooks have it: its row, its bodies, and its bytes."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from kafkascope.decoding import Message, message_of
from kafkascope.reports.columns.shown import shown_html
from kafkascope.reports.rows.frames import REQUEST_FRAME, RESPONSE_FRAME

Frames = Callable[[int, int], Mapping[str, bytes | None]]
"""The columns of frames, by connection and number of an exchange."""


class Messages(NamedTuple):
    """Both messages of an exchange with their bytes, as `kafkascope.live` has them; None where there is none."""

    request: Message | None
    response: Message | None


@dataclass(frozen=True, slots=True)
class DecodedExchange:
    """One exchange: its row of the exchanges table, and both bodies decoded (None where there is none)."""

    row: dict[str, Any]
    request: dict[str, Any] | None
    response: dict[str, Any] | None
    records: pd.DataFrame | None = field(repr=False)
    _frames: Frames = field(repr=False, compare=False)

    @classmethod
    def of(cls, found: pd.Series, records: pd.DataFrame | None, frames: Frames) -> DecodedExchange:
        """found: its row of the exchanges table."""
        row = {str(name): None if pd.isna(value) else value for name, value in found.items()}
        request, response = (json.loads(text) if (text := row[side]) else None for side in ("request", "response"))
        return cls(row, request, response, records, frames)

    def messages(self) -> Messages:
        """Both messages with their bytes, secrets and all: ``messages().request.hex()``.

        The files are read once more, up to them. Raises LookupError where there are no files, or names are hidden
        (anonymize), and ``sniffer.sources.SourceError`` if the files are not what they were.
        """
        frames = self._frames(self.row["connection"], self.row["number"])
        return Messages(
            message_of(self.row, "request", frames[REQUEST_FRAME.name]),
            message_of(self.row, "response", frames[RESPONSE_FRAME.name]),
        )

    def _repr_html_(self) -> str:
        head = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{shown_html(str(value))}</td></tr>"
            for name, value in self.row.items()
            if value is not None and name not in ("request", "response")
        )
        bodies = "".join(
            f"<details open><summary>{title}</summary><pre>{html.escape(json.dumps(body, indent=2))}</pre></details>"
            for title, body in (("request", self.request), ("response", self.response))
            if body is not None
        )
        return f"<table>{head}</table>{bodies}"
