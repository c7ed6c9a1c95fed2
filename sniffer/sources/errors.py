"""The one exception of the sources: nothing of a file (or interface) could be read."""

from __future__ import annotations

from kafkascope.decoders.characters import safe_text
from kafkascope.sniffer.sources.places import told


class SourceError(Exception):
    """Says what was read and where, what was found there, and what the user can do."""

    def __init__(self, file: str, offset: int | None, message: str, advice: str) -> None:
        file = told(file)
        super().__init__(file, offset, message, advice)
        self.file = file
        self.offset = offset  # bytes; None where there is no place to name
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        place = "" if self.offset is None else f" at offset {self.offset}"
        return safe_text(f"{self.file}{place}: {self.message}. {self.advice}.")
