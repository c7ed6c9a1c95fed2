"""``kafkascope diff`` and ``kafkascope.compare``: two captures, of before and after a change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkascope.answering import Answering
from kafkascope.capture import read
from kafkascope.dataframes import to_frame
from kafkascope.out.errors import OutputError
from kafkascope.out.stored import open_text
from kafkascope.program import INCOMPLETE, Remark
from kafkascope.reports.answers.changes import NEEDED, Change, Side, changes
from kafkascope.reports.show import changes as shown
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.places import told

if TYPE_CHECKING:
    import pandas as pd

Read = str | Path | Iterable[str | Path] | Answering
FORMATS: dict[str, Callable[[Side, Side, Sequence[Change]], str]] = {
    "text": shown.text,
    "json": shown.json,
    "md": shown.markdown,
    "html": shown.html,
}


class Comparison:
    """What differs between two captures; shown, it says so in words."""

    def __init__(self, before: Side, after: Side) -> None:
        """What to compare."""
        self._sides = before, after
        self._changes = changes(before, after)

    @cached_property
    def changes(self) -> pd.DataFrame:
        """All that was compared, section by section, what differs most first in each."""
        return to_frame(shown.table(self._changes))

    def written(self, form: str = "text", width: int = shown.WIDTH) -> str:
        """The comparison as text (of so many columns), json, md or html; KeyError for another form."""
        if form == "text":
            return shown.text(*self._sides, self._changes, width)
        return FORMATS[form](*self._sides, self._changes)

    def __repr__(self) -> str:
        return self.written()


def compare(before: Read, after: Read, **options: Any) -> Comparison:
    """What differs between two captures, of before and after a change.

    Each is what `read` gives, or what it takes; options are those of `read`. Compared are incidents, latency by API and
    what the time was spent on, errors, rebalances, settings of clients as far as their requests show them, who and what
    is there, and load. What differs by no more than chance makes likely is not told to differ.

    >>> kafkascope.compare("monday.pcap", "tuesday.pcap")
    """
    return Comparison(_side(before, options), _side(after, options))


def _side(given: Read, options: dict[str, Any]) -> Side:
    capture = given if isinstance(given, Answering) else read(given, **options)
    return Side(capture.source, capture.of_all(*NEEDED), capture.summary)


def run(before: str, after: str, form: str, file: str | None, remark: Remark, **options: Any) -> int:
    """Write what differs; returns the exit status."""
    try:
        is_shown = file in (None, "-") and sys.stdout.isatty()
        width = get_terminal_size().columns if is_shown else shown.WIDTH
        written = compare(before, after, **options).written(form, width)
        if file is None or file == "-":
            sys.stdout.write(written)
        else:
            with open_text(file) as stream:
                stream.write(written)
            remark(f"written to {told(file)}")
    except (SourceError, OutputError, pa.ArrowException) as error:
        remark(str(error))
        return INCOMPLETE
    return 0
