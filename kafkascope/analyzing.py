"""``kafkascope analyze``: on Spark or in this process, with progress, a summary, and words for what can go wrong."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console

from kafkascope import in_process
from kafkascope.decoders.characters import safe_text
from kafkascope.engine import EngineOptions
from kafkascope.interrupts import Interrupted, stoppable
from kafkascope.out.errors import OutputError
from kafkascope.out.pipeline import Analysis, AnalysisError
from kafkascope.program import INCOMPLETE, WRONG_USE, Remark
from kafkascope.progress import ProgressBar
from kafkascope.reports.show import summary_terminal as terminal
from kafkascope.reports.show.answers_terminal import show
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import find_files
from kafkascope.sniffer.sources.places import told
from kafkascope.spark.sessions import SparkUnavailableError

Work = Callable[[threading.Event], Analysis]

SMALL_BYTES = 64 << 20
"""Captures up to this size are through in this process before Spark on one machine has begun."""


@dataclass(frozen=True, slots=True)
class OutOptions:
    """What may become of a directory that is there, and how tables are written."""

    overwrite: bool = False
    append: bool = False
    force: bool = False  # append a capture that is there already
    microseconds: bool = False
    by_hour: bool = False


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs, and in which pieces it works; None: what suits."""

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    split_bytes: int | None = None
    partitions: int | None = None


def run(
    captures: Sequence[str],
    out: str,
    options: EngineOptions,
    writing: OutOptions,
    spark: SparkOptions | None,
    remark: Remark,
) -> int:
    """Analyze captures into out and print the summary; returns the exit status. Without spark, in this process."""

    def here(stop: threading.Event) -> Analysis:
        return in_process.analyze(captures, out, options=options, stop=stop, **asdict(writing))

    def say(signal: str) -> None:
        remark(f"{signal}: stopping, and leaving {told(out)} as it was; once more ends it at once")

    try:
        if spark is None:
            analysis = stoppable(here, say)
        else:
            with ProgressBar("start Spark") as shown:
                analysis = stoppable(_on_spark(captures, out, options, writing, spark, shown), say)
    except Interrupted as signal:
        return 128 + signal.number
    except (SourceError, AnalysisError, SparkUnavailableError) as error:
        remark(str(error))
        return INCOMPLETE
    except OutputError as error:
        remark(str(error))
        return WRONG_USE
    _print(analysis, remark)
    if spark == SparkOptions() and _are_small(captures):
        remark("so small a capture is through sooner with --in-process: the same, without Spark")
    return INCOMPLETE if analysis.unreadable else 0


def _on_spark(
    captures: Sequence[str],
    out: str,
    options: EngineOptions,
    writing: OutOptions,
    spark: SparkOptions,
    shown: ProgressBar,
) -> Work:
    """Raises SparkUnavailableError if pyspark is not there."""
    from kafkascope.spark import analyze

    return lambda stop: analyze(
        captures,
        out,
        master=spark.master,
        settings=spark.settings,
        options=options,
        split_bytes=spark.split_bytes,
        partitions=spark.partitions,
        progress=shown.update,
        stop=stop,
        **asdict(writing),
    )


def _are_small(captures: Sequence[str]) -> bool:
    """Whether all captures together are small, as far as their sizes tell."""
    with suppress(OSError, SourceError):
        return sum(Path(file).stat().st_size for file in find_files(captures)) <= SMALL_BYTES
    return False


def _print(analysis: Analysis, remark: Remark) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    if analysis.answers is None:
        terminal.summary(analysis.summary.result(), console)
    else:
        show(analysis.answers, console)
    rows = ", ".join(f"{name} {count:,}" for name, count in analysis.rows.items())
    report = "" if analysis.report_failure else "report.html, and the tables "
    out = safe_text(analysis.out)
    console.print(f"\nwritten to {out}: {report}{rows}", markup=False)
    if analysis.runs > 1:
        console.print(f"{out} has {analysis.runs} runs now; the report shows each", markup=False)
    if analysis.report_failure:
        remark(f"the tables are whole, but the report could not be made: {analysis.report_failure}")
    for text in analysis.remarks():
        remark(text)
