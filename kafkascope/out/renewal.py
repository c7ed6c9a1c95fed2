"""An OUT that is renewed again and again, by `watch` or `sniff --tables`: whose it is, and what is kept in between.

Rows that are complete wait as parts beside OUT. Each renewal puts them into OUT once more, with the rows of what is
still open, as a run of the same name instead of the one before. A run with many rows is over some time, and another
one follows in the same OUT: what is still open then is among the rows of that one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from kafkascope.decoders.characters import safe_text
from kafkascope.engine import EngineOptions, Tables
from kafkascope.out.errors import OutputError
from kafkascope.out.names import WATCHED, new_run
from kafkascope.out.ownership import HeldError, lock, this_run, unlock
from kafkascope.out.parquet import WITH_SECRETS
from kafkascope.out.parts import Part, PartWriter, link_part, staging_of
from kafkascope.out.pipeline import Analysis
from kafkascope.reports.columns.text import counted
from kafkascope.reports.measures.summary import Summary
from kafkascope.sniffer.issues import Issue
from kafkascope.temporary import TemporaryDirectory


class Hold:
    """A local OUT that nobody else renews until this is closed."""

    def __init__(self, out: str) -> None:
        """Make OUT if need be; raises OutputError if somebody else renews it, or it cannot be written."""
        self._out, self._is_new = out, not os.path.isdir(out)
        self._lock = os.path.join(out, WATCHED)
        try:
            self._held = lock(self._lock, this_run())
        except HeldError as error:
            raise OutputError(
                f"{out} is being renewed by another watch, or sniff --tables ({error}); give another directory"
            ) from None
        except OSError as error:
            raise OutputError(f"{out} cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Let go of OUT; one that was made, and to which nothing came, is removed. Again is harmless."""
        if self._held is not None:
            unlock(self._lock, self._held)
            self._held = None
        if self._is_new:
            with suppress(OSError):  # it is not empty
                os.rmdir(self._out)


class KeptRows:
    """The rows of a run that are complete, as parts in a temporary directory."""

    def __init__(self, options: EngineOptions) -> None:
        """options: of the engine that gives the rows."""
        self.name = new_run()  # of the run
        self.parts: list[Part] = []
        self.summary = Summary()  # of the parts
        self._directory = TemporaryDirectory()
        tables = options.tables | {*options.results}
        self._staging = staging_of(str(self._directory.path), self.name, tables | options.beside)
        self._private = WITH_SECRETS if options.reveal_secrets else frozenset()
        self._most_bytes = options.session.limits.run_bytes
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether a run may have no more rows: to understand those of a view, they are all held at once."""
        return self._bytes >= self._most_bytes

    def next_part(self, staging: str | None = None) -> PartWriter:
        """What writes the next part: one that is to be kept, or one of a renewal, in its staging directory."""
        return PartWriter(staging or self._staging, len(self.parts), self._private)

    def write(self, writer: PartWriter, tables: Tables) -> None:
        """Take rows into a part that is to be kept."""
        writer.write(tables)
        self._bytes += sum(rows.nbytes for rows in tables.values())

    def keep(self, writer: PartWriter) -> None:
        """End a part, and keep it."""
        self.parts += writer.finish()
        self.summary.merge(writer.summary)

    def link(self, parts: Iterable[Part], staging: str) -> None:
        """Let parts be in the staging directory of a renewal too."""
        for part in parts:
            link_part(part, self._staging, staging)

    def close(self) -> None:
        """Remove the parts."""
        self._directory.remove()


class IssuesOfRuns:
    """What was met outside of connections, which is counted on from run to run; each run has what was met during it."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int | None], int] = {}  # how often each was met in runs that are over

    def of_run(self, met: Iterable[Issue]) -> list[Issue]:
        """Those of the run in hand, of all that were met so far."""
        since = (replace(one, count=one.count - self._before.get((one.kind, one.connection), 0)) for one in met)
        return [issue for issue in since if issue.count]

    def end_run(self, met: Iterable[Issue]) -> None:
        """The run is over that has all that were met so far."""
        self._before = {(issue.kind, issue.connection): issue.count for issue in met}


def line(analysis: Analysis) -> str:
    """What OUT has of a run."""
    summary, incidents = analysis.summary, analysis.rows.get("incidents", 0)
    said = [f"{counted(summary.packets, 'packet')}, {counted(incidents, 'incident')}"]
    if summary.files:
        said.insert(0, f"{counted(len(summary.files), 'file')} to {safe_text(summary.files[-1].file)}")
    if analysis.runs > 1:
        said.append(f"{analysis.runs} runs")
    return f"{safe_text(analysis.out)}: {', '.join(said)}"
