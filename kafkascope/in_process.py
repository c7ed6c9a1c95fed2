"""``analyze --in-process``: the directory that Spark would make, made in this process, without Spark and Java."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from kafkascope.engine import ALL_TABLES, EngineOptions
from kafkascope.out.output import Layout, Output
from kafkascope.out.parquet import WITH_SECRETS
from kafkascope.out.parts import Part, PartWriter, stored
from kafkascope.out.pipeline import Analysis, Piece, Pipeline, Rewriting, Written, check, fill
from kafkascope.reading import Reading
from kafkascope.reports.answers.capture_points import clock_row
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures.summary import Summary, capture_name
from kafkascope.shares import first_share, read_all
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.sources.places import is_uri
from kafkascope.sniffer.spreading import EVERY_CONNECTION, Share
from kafkascope.understanding import understood


def analyze(
    paths: Sequence[str],
    out: str,
    *,
    records: bool = False,
    options: EngineOptions | None = None,
    overwrite: bool = False,
    append: bool = False,
    force: bool = False,
    report: bool = True,
    microseconds: bool = False,
    by_hour: bool = False,
    stop: threading.Event | None = None,
) -> Analysis:
    """Decode captures into tables under ``out/tables/NAME/``, as `kafkascope.spark.analyze` does, in this process.

    All rows of a view are held at once when it is understood. Raises as that does, but for Spark's own errors; standard
    input can be read.
    """
    options = options or EngineOptions()
    if records:
        options = replace(options, tables=ALL_TABLES)
    output = Output(out, overwrite=overwrite, append=append, layout=Layout(microseconds, by_hour))
    stop = stop or threading.Event()
    share = EVERY_CONNECTION if is_uri(out) else first_share(paths, options.session.limits.processes)
    with Reading(paths, options, share=share) as reading:

        def produce(staging: str) -> tuple[Analysis, Sequence[Part]]:
            if output.earlier and not force:
                output.refuse_again(reading.capture.captured())
            run = _Run(staging, options, stop, output.layout, reading)
            return run.run(out), run.parts

        return fill(output, options, produce, report=report, stop=stop)


class InThisProcess(Pipeline):
    """The steps behind decoding, one after the other."""

    def understand(self, rows: Sequence[Part], names: Mapping[str, str]) -> Iterator[tuple[list[Part], Summary]]:
        """The tables of one view after the other."""
        known = TopicNames(names)
        wanted = self.options.tables | {*self.options.results}
        counts: Counter[str] = Counter()
        for part in rows:
            counts[part.table] += part.rows

        def rows_of(view: str) -> Iterator[pa.Table]:
            return (known.resolve(some) for part in rows if part.table == view for some in stored(self.staging, part))

        most = self.options.session.limits.processes
        found = understood(rows_of, counts, Known.of(known.learned()), most, lambda: check(self.stop))
        for _, made in sorted(found.items()):
            with PartWriter(self.staging, 0) as writer:
                writer.write({table: rows for table, rows in made.items() if table in wanted})
                parts = writer.finish()
            yield parts, writer.summary

    def rewrite(self, what: str, pieces: Sequence[Piece], work: Rewriting[Piece]) -> list[Part]:
        """The parts that work writes anew."""
        return list(work(pieces))


class _Writing:
    """Rows to parts, and a summary of them."""

    def __init__(self, writer: PartWriter) -> None:
        self._writer = writer
        self.write = writer.write

    def finish(self) -> tuple[list[Part], Summary]:
        """No more rows come."""
        return self._writer.finish(), self._writer.summary


class _Run(InThisProcess):
    """One analysis of files that are read from begin to end."""

    def __init__(
        self, staging: str, options: EngineOptions, stop: threading.Event, layout: Layout, reading: Reading
    ) -> None:
        super().__init__(staging, options, stop, layout)
        self._reading = reading

    def decode(self, summary: Summary) -> Iterator[Written]:
        """Read the files to their end."""
        reading, staging = self._reading, self.staging
        private = WITH_SECRETS if self.options.reveal_secrets else frozenset[str]()

        @contextmanager
        def sinks(share: Share) -> Iterator[_Writing]:
            with PartWriter(staging, share.number, private) as writer:
                yield _Writing(writer)

        made = read_all(reading, sinks, lambda: check(self.stop))
        summary.packets, summary.copies, summary.left_out = reading.packets, reading.copies, reading.left_out
        summary.captures = sorted(capture_name(file.path) for file in reading.capture.files)
        summary.files = reading.capture.captured()
        summary.clocks = [clock_row(clock) for clock in reading.joined.clocks] if reading.joined else []
        yield Written([], reading.topic_names.learned(), Summary(), Counter(reading.other), no_match=reading.no_match)
        for parts, of_rows in made:
            yield Written(parts, summary=of_rows)

    def late_issues(self) -> Iterable[Issue]:
        """None: those of the files are among the rows."""
        return ()

    def unreadable(self) -> Iterable[str]:
        """What is wrong with files that could not be read."""
        return self._reading.capture.unreadable
