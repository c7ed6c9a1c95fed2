"""``kafkascope analyze``: the Spark pipeline with progress, a summary, and words for what can go wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kafkascope.engine import ALL_TABLES, WITHOUT_RECORDS, EngineOptions
from kafkascope.spark import Analysis, AnalysisError, OutputError, SparkUnavailableError, analyze
from kafkascope.spark.analysis import SPLIT_BYTES
from reports import terminal
from sniffer.session import SessionOptions
from sniffer.sources.errors import SourceError

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
    remark: Remark,
) -> int:
    """Analyze captures into out and print the summary; returns the exit status."""
    options = EngineOptions(
        tables=ALL_TABLES if records else WITHOUT_RECORDS,
        session=SessionOptions(ports=ports, decode_as=decode_as),
        reveal_secrets=reveal_secrets,
    )
    try:
        with _Shown() as shown:
            analysis = analyze(
                captures,
                out,
                master=master,
                settings=settings,
                options=options,
                overwrite=overwrite,
                split_bytes=split_bytes or SPLIT_BYTES,
                partitions=partitions,
                progress=shown.update,
            )
    except (SourceError, AnalysisError, SparkUnavailableError) as error:
        remark(str(error))
        return 1
    except OutputError as error:
        remark(str(error))
        return 2
    _print(analysis, out, remark)
    return 0


def _print(analysis: Analysis, out: str, remark: Remark) -> None:
    result = analysis.summary.result()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    terminal.summary(result, console)
    rows = ", ".join(f"{name} {count:,}" for name, count in analysis.rows.items())
    console.print(f"\nwritten to {out}: {rows}", markup=False)
    if not result["exchanges"]:
        seen = [f"{count:,} connections of {protocol}" for protocol, count in result["connections"].items()]
        seen += [f"{count:,} packets of {kind.replace('_', ' ')}" for kind, count in analysis.other.items()]
        remark(f"no Kafka was found; seen were {', '.join(seen) if seen else 'no packets'}")


class _Shown:
    """A progress bar on stderr, if that is a terminal."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("start Spark", total=None)

    def update(self, what: str, done: int, total: int) -> None:
        """Show how many tasks of the current step are through."""
        self._progress.update(self._task, description=what, completed=done, total=total)

    def __enter__(self) -> _Shown:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
