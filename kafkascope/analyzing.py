"""``kafkascope analyze``: the Spark pipeline with progress, a summary, and words for what can go wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console

from kafkascope.decoders.characters import safe_text
from kafkascope.engine import ALL_TABLES, WITHOUT_RECORDS, EngineOptions
from kafkascope.interrupts import Interrupted, stoppable
from kafkascope.progress import ProgressBar
from kafkascope.reading import no_kafka, unreadable_remark
from kafkascope.reports.columns.text import fault_remark, not_taken_remark
from kafkascope.reports.show import summary_terminal as terminal
from kafkascope.reports.show.answers_terminal import show
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.spark import Analysis, AnalysisError, OutputError, SparkUnavailableError, analyze
from kafkascope.spark.jobs import SPLIT_BYTES

Remark = Callable[[str], None]


def run(
    captures: Sequence[str],
    out: str,
    *,
    records: bool,
    overwrite: bool,
    master: str | None,
    settings: Mapping[str, str],
    split_bytes: int | None,
    partitions: int | None,
    ports: frozenset[int],
    decode_as: frozenset[int],
    reveal_secrets: bool,
    secret_names: tuple[str, ...],
    remark: Remark,
) -> int:
    """Analyze captures into out and print the summary; returns the exit status."""
    options = EngineOptions(
        tables=ALL_TABLES if records else WITHOUT_RECORDS,
        session=SessionOptions(ports=ports, decode_as=decode_as),
        reveal_secrets=reveal_secrets,
        secret_names=secret_names,
    )
    try:
        with ProgressBar("start Spark") as shown:
            analysis = stoppable(
                lambda stop: analyze(
                    captures,
                    out,
                    master=master,
                    settings=settings,
                    options=options,
                    overwrite=overwrite,
                    split_bytes=split_bytes or SPLIT_BYTES,
                    partitions=partitions,
                    progress=shown.update,
                    stop=stop,
                ),
                lambda signal: remark(f"{signal}: stopping, and leaving {out} as it was; once more ends it at once"),
            )
    except Interrupted as signal:
        return 128 + signal.number
    except (SourceError, AnalysisError, SparkUnavailableError) as error:
        remark(str(error))
        return 1
    except OutputError as error:
        remark(str(error))
        return 2
    _print(analysis, out, remark)
    for text in analysis.unreadable:
        remark(unreadable_remark(text))
    return 1 if analysis.unreadable else 0


def _print(analysis: Analysis, out: str, remark: Remark) -> None:
    result = analysis.summary.result()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    if analysis.answers is None:
        terminal.summary(result, console)
    else:
        show(analysis.answers, console)
    rows = ", ".join(f"{name} {count:,}" for name, count in analysis.rows.items())
    report = "" if analysis.report_failure else "report.html, and the tables "
    console.print(f"\nwritten to {safe_text(out)}: {report}{rows}", markup=False)
    if analysis.report_failure:
        remark(f"the tables are whole, but the report could not be made: {analysis.report_failure}")
    if faults := result["issues"].get(INTERNAL_ERROR):
        remark(fault_remark(faults))
    if others := result["not_taken_for_kafka"]:
        remark(not_taken_remark(others))
    if not result["exchanges"]:
        remark(no_kafka(analysis.summary.packets, result["connections"], analysis.other, analysis.summary.ports))
