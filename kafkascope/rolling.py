"""``sniff --tables``: the tables of an interface in OUT, as `analyze` makes them, renewed while it is listened to.

Rows that are complete wait as parts in a temporary directory. A renewal, in a thread beside, links them into OUT, adds
what a copy of the engine gives as if it ended now, and understands all of it anew. So answers are about the whole run,
nothing is in OUT twice, and whatever ends the program leaves OUT as the last renewal made it.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass

from kafkascope.engine import EngineOptions, Tables
from kafkascope.in_process import InThisProcess
from kafkascope.out.errors import OutputError, WriteError
from kafkascope.out.output import Output
from kafkascope.out.parts import Part
from kafkascope.out.pipeline import Analysis, AnalysisError, Written, fill
from kafkascope.out.renewal import Hold, IssuesOfRuns, KeptRows, line
from kafkascope.program import Remark
from kafkascope.reading import Batch, Listening
from kafkascope.reports.measures.summary import Summary
from kafkascope.sniffer.issues import Issue, IssueLog

SHARE = 4
"""Between renewals lie so many times as long as the last one took, or more."""


def renewals(
    source: Listening,
    out: str,
    every_s: float,
    remark: Remark,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[str]]:
    """What OUT has, as a line, whenever it was renewed. Raises OSError if it cannot be written, at first or at last."""
    try:
        with closing(Rolling(source, out, every_s, remark, clock)) as rolling:
            for batch in source.batches():
                rolling.observe(batch)
                yield [f"{line(one)}\n" for one in rolling.renewed()]
            rolling.finish()
            yield [f"{line(one)}\n" for one in rolling.renewed()]
    except OutputError as error:
        raise OSError(f"{error}; whoever listens must be able to write there (--user says who)") from None
    except (AnalysisError, WriteError) as error:
        raise OSError(str(error)) from None


def check(out: str) -> None:
    """Raise OutputError now if `Rolling` would: before anybody listens."""
    Output(out, append=True)
    Hold(out).close()


class Rolling:
    """OUT, and what is to come into it."""

    def __init__(self, source: Listening, out: str, every_s: float, remark: Remark, clock: Callable[[], float]) -> None:
        """Raises OutputError if there is something in OUT that is not to stay, or somebody else renews it."""
        self._source, self._out, self._every_s, self._remark, self._clock = source, out, every_s, remark, clock
        self._renewal: Future[Analysis] | None = None
        self._over: State | None = None  # of a run that has no more rows, as long as OUT has it not
        self._renewed: list[Analysis] = []
        self._tells = source.incidents is None  # of incidents: nobody else does
        self._before = 0  # packets of runs that are closed
        self._issues = IssuesOfRuns()
        Output(out, append=True)
        self._begun = clock()
        self._due = self._begun + every_s
        self._run = Run(source.options)
        self._hold = Hold(out)

    def observe(self, batch: Batch) -> None:
        """Take in rows; begin to renew OUT if that is due."""
        self._run.observe(batch.tables)
        if self._renewal is not None and self._renewal.done():
            self._take()
        if self._renewal is None and (self._clock() >= self._due or (self._run.is_full and self._over is None)):
            self._renew()

    def finish(self) -> None:
        """Put all into OUT when all rows have come. Raises AnalysisError, OutputError, WriteError."""
        if self._renewal is not None:
            self._take()
        for state in (self._over, self._state(is_over=True)):
            if state is not None:
                self._put(state.put_into(self._out), is_over=True)

    def renewed(self) -> list[Analysis]:
        """What was put into OUT since this was asked."""
        found, self._renewed = self._renewed, []
        return found

    def close(self) -> None:
        """Wait for what is being renewed, and let go of OUT."""
        if self._renewal is not None:
            self._take()
        self._hold.close()

    def _take(self) -> None:
        """Wait for the renewal. One that failed is made up for by the next, or by the last, which raises."""
        assert self._renewal is not None
        try:
            self._put(self._renewal.result(), is_over=self._over is not None)
            self._over = None
        except (AnalysisError, OutputError, OSError) as error:
            self._remark(f"{self._out} is not renewed: {error}")
        self._renewal = None
        now = self._clock()
        self._due = now + max(self._every_s, SHARE * (now - self._begun))

    def _put(self, analysis: Analysis, *, is_over: bool) -> None:
        self._renewed.append(analysis)
        answers = analysis.answers
        if is_over and answers is not None and answers.incidents is not None and self._tells:
            found = answers.incidents.shown
            self._source.tell(found, [one for one in found if one.ended is None])

    def _renew(self) -> None:
        state, future = self._over or self._state(is_over=self._run.is_full), Future[Analysis]()
        if state.is_over:
            self._over = state

        def beside() -> None:
            try:
                future.set_result(state.put_into(self._out))
            except BaseException as error:
                future.set_exception(error)

        self._begun, self._renewal = self._clock(), future
        threading.Thread(target=beside, name="kafkascope-tables", daemon=True).start()

    def _state(self, *, is_over: bool) -> State:
        """The run with the rows so far; is_over: it has no more, and another one begins."""
        source, run = self._source, self._run
        if is_over:
            run.observe(source.rest_of_views())
        run.end_part(source.packets - self._before)
        if is_over:
            self._before, self._run = source.packets, Run(source.options)
        met = source.issues()
        issues = self._issues.of_run(met)
        if is_over:
            self._issues.end_run(met)
        return State(
            run,
            is_over,
            parts=tuple(run.parts),
            summary=copy.deepcopy(run.summary),
            still_open=iter(()) if is_over else source.so_far(),
            issues=issues,
            names=dict(source.topic_names.learned()),
        )


class Run(KeptRows):
    """A run, whose part in hand takes in rows."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.options = options
        self._writer = self.next_part()

    def observe(self, tables: Tables) -> None:
        """Take in rows."""
        self.write(self._writer, tables)

    def end_part(self, packets: int) -> None:
        """Close the part in hand; packets: of the run so far."""
        self.keep(self._writer)
        self.summary.packets = packets
        self._writer = self.next_part()


@dataclass(frozen=True, slots=True)
class State:
    """All that is known of a run at one time; more may come meanwhile."""

    run: Run
    is_over: bool  # the run has no more rows
    parts: Sequence[Part]
    summary: Summary  # of these
    still_open: Iterator[Tables]  # their rows as if it ended now
    issues: Sequence[Issue]  # outside of connections
    names: dict[str, str]  # of topics

    def put_into(self, out: str) -> Analysis:
        """Let OUT have this instead of what it has of the run. Raises AnalysisError, OutputError, WriteError."""
        name, most_runs = self.run.name, self.run.options.session.limits.out_runs
        output = Output(out, append=True, run=name, instead_of={name}, most_runs=most_runs)

        def produce(staging: str) -> tuple[Analysis, Sequence[Part]]:
            renewal = _Renewal(staging, output, self)
            return renewal.run(out), renewal.parts

        return fill(output, self.run.options, produce, report=True, stop=threading.Event())


class _Renewal(InThisProcess):
    """All rows of a run, and those of what is still open."""

    def __init__(self, staging: str, output: Output, state: State) -> None:
        never = threading.Event()
        super().__init__(staging, state.run.options, never, output.layout)
        self._state = state

    def decode(self, summary: Summary) -> Iterator[Written]:
        """The parts that are there, and the rows of what is still open."""
        state = self._state
        state.run.link(state.parts, self.staging)
        with state.run.next_part(self.staging) as writer:
            for tables in state.still_open:
                writer.write(tables)
            of_open = writer.finish()
        summary.captures = list(self.options.origins.names)
        yield Written([*state.parts, *of_open], state.names, state.summary)
        yield Written(summary=writer.summary)

    def late_issues(self) -> Iterable[Issue]:
        """What was met outside of connections."""
        return IssueLog(self._state.issues)

    def unreadable(self) -> Iterable[str]:
        """Nothing: an interface is no file."""
        return ()
