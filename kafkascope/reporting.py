"""``kafkascope report``: the report again, from the tables of an analysis alone."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import pyarrow as pa

from kafkascope.reports.answers import coverage
from kafkascope.reports.answers.answers import answers
from kafkascope.reports.show import as_json, markdown
from kafkascope.reports.show.page.page import page
from kafkascope.spark.output import OutputError
from kafkascope.spark.stored import Stored, open_text, report_place, stored

Remark = Callable[[str], None]


def _html(analysis: Stored, stream: TextIO) -> None:
    stream.write(page(answers(analysis.tables, analysis.summary), place=_name(analysis)))


def _markdown(analysis: Stored, stream: TextIO) -> None:
    title = coverage.title(analysis.summary, _name(analysis))
    stream.write(markdown.post_mortem(answers(analysis.tables, analysis.summary), title))


def _json(analysis: Stored, stream: TextIO) -> None:
    as_json.write(analysis.tables, analysis.summary, stream)


FORMATS: dict[str, Callable[[Stored, TextIO], None]] = {"html": _html, "json": _json, "md": _markdown}


def run(place: str, form: str, file: str | None, remark: Remark) -> int:
    """Write the report of an analysis; returns the exit status. Without a file html goes beside the tables."""
    try:
        analysis = stored(place)
        if file is None and form == "html":
            file = report_place(place)
        with _writing(file) as stream:
            FORMATS[form](analysis, stream)
    except (OutputError, OSError, pa.ArrowException) as error:
        if isinstance(error, BrokenPipeError):
            raise
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        place = "standard output" if file in (None, "-") else file
        remark(f"{place} is not whole: {os.strerror(errno.ENOSPC)}" if full else str(error))
        return 1
    if file not in (None, "-"):
        remark(f"written to {file}")
    return 0


@contextmanager
def _writing(file: str | None) -> Iterator[TextIO]:
    if file is None or file == "-":
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        yield sys.stdout
        return
    with open_text(file) as stream:
        yield stream


def _name(analysis: Stored) -> str:
    return analysis.place.rstrip("/").rsplit("/", 1)[-1]
