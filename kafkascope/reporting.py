"""``kafkascope report``: the report again, from the tables of an analysis alone; or at once, of a capture."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TextIO

import pyarrow as pa

from kafkascope import in_process
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.engine import EngineOptions
from kafkascope.interrupts import Interrupted, stoppable
from kafkascope.out.errors import OutputError
from kafkascope.out.names import REPORT
from kafkascope.out.pipeline import AnalysisError
from kafkascope.out.stored import Stored, open_text, report_place, stored
from kafkascope.program import INCOMPLETE, WRONG_USE, Remark
from kafkascope.reports.answers import coverage
from kafkascope.reports.answers.answers import answers
from kafkascope.reports.show import as_json, markdown
from kafkascope.reports.show.page.page import page
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import STANDARD_INPUT
from kafkascope.sniffer.sources.places import is_file, name_of, told
from kafkascope.temporary import TemporaryDirectory


def _html(analysis: Stored, stream: TextIO, limits: Limits) -> None:
    runs = analysis.runs()
    *earlier, last = (answers(run.tables, run.summary, limits) for run in runs[-limits.page_runs :])
    left_out = len(runs) - len(earlier) - 1
    stream.write(page(last, place=_name(analysis), earlier=earlier, left_out=left_out))


def _markdown(analysis: Stored, stream: TextIO, limits: Limits) -> None:
    for number, run in enumerate(analysis.runs()):
        stream.write("\n" if number else "")
        title = coverage.title(run.summary, _name(analysis))
        stream.write(markdown.post_mortem(answers(run.tables, run.summary, limits), title))


def _json(analysis: Stored, stream: TextIO, limits: Limits) -> None:
    for run in analysis.runs():
        as_json.write(run.tables, run.summary, stream)


FORMATS: dict[str, Callable[[Stored, TextIO, Limits], None]] = {"html": _html, "json": _json, "md": _markdown}


def run(place: str, form: str, file: str | None, remark: Remark, options: EngineOptions | None = None) -> int:
    """Write the report of an analysis, or of a capture; returns the exit status.

    options: how a capture is read; an analysis has been, of which only limits of the page are looked at.

    Without a file html goes beside the tables, or, of a capture, beside nothing: into the directory we are in.
    """
    try:
        is_capture = place == STANDARD_INPUT or is_file(place)
        if not is_capture and options is not None and _is_of_captures(options):
            advice = "give --tls-keylog, --anonymize, --since, --until and --packets to analyze, or a capture"
            remark(f"{told(place)} is decoded already: {advice}")
            return WRONG_USE
        with _analyzed(place, remark, options) if is_capture else nullcontext(stored(place)) as analysis:
            if file is None and form == "html":
                file = f"{_name(analysis)}.{REPORT}" if is_capture else report_place(place)
            with _writing(file) as stream:
                FORMATS[form](analysis, stream, options.session.limits if options else DEFAULT)
    except Interrupted as signal:
        return 128 + signal.number
    except (SourceError, AnalysisError) as error:
        remark(str(error))
        return INCOMPLETE
    except (OutputError, OSError, pa.ArrowException) as error:
        if isinstance(error, BrokenPipeError):
            raise
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        place = "standard output" if file is None or file == "-" else told(file)
        known = f"{place}: {os.strerror(error.errno)}" if isinstance(error, OSError) and error.errno else str(error)
        remark(f"{place} is not whole: {os.strerror(errno.ENOSPC)}" if full else known)
        return INCOMPLETE
    if file is not None and file != "-":
        remark(f"written to {told(file)}")
    return 0


def _is_of_captures(options: EngineOptions) -> bool:
    return bool(options.session.key_logs or options.pseudonyms or not options.window.is_everything)


@contextmanager
def _analyzed(capture: str, remark: Remark, options: EngineOptions | None) -> Iterator[Stored]:
    """What `analyze` makes of a capture, as long as it is looked at."""
    with TemporaryDirectory() as directory:
        out = str(directory / (name_of(capture) if capture != STANDARD_INPUT else "capture"))
        analysis = stoppable(
            lambda stop: in_process.analyze([capture], out, options=options, report=False, stop=stop),
            lambda signal: remark(f"{signal}: stopping; once more ends it at once"),
        )
        made = stored(out)
        yield replace(made, summary={**made.summary, "run": None})  # nobody can look it up
        for text in analysis.remarks():
            remark(text)


@contextmanager
def _writing(file: str | None) -> Iterator[TextIO]:
    if file is None or file == "-":
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        yield sys.stdout
        return
    with open_text(file) as stream:
        yield stream


def _name(analysis: Stored) -> str:
    return name_of(analysis.place)
