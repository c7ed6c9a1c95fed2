"""`kafkascope watch`: one analysis of the files of a rotation, which goes on with each file that is closed.

OUT is all that is kept. Its `summary.json` names the files that are in it, with their digests, and `Output.commit` puts
tables and summary in place as a whole. So whoever starts again, after whatever end, knows what OUT has: if the files of
its last run are all still there, that run is made anew, of these and all that came since; if some are gone, as `-W`
has it, the run stays as it is and what came since is a run of its own. So it is if the run goes on from another one: of
its own files alone less would be known. No file is in two runs.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from kafkascope.engine import Engine, EngineOptions, Tables
from kafkascope.in_process import InThisProcess
from kafkascope.interrupts import Interrupted, stoppable
from kafkascope.out.errors import OutputError
from kafkascope.out.output import PLAIN, Layout, Output
from kafkascope.out.parts import Part
from kafkascope.out.pipeline import Analysis, AnalysisError, Written, check, fill
from kafkascope.out.renewal import Hold, IssuesOfRuns, KeptRows, line
from kafkascope.program import INCOMPLETE, WRONG_USE, Remark
from kafkascope.reports.measures.summary import Summary, capture_name
from kafkascope.rotation import Next, Rotation, Seen, begins, gone, lack_names, listing, named
from kafkascope.sniffer.columns import NO_TIME, Packets
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.origins import CapturedFile, Origins
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import FileReader, captured_file, changed, digest
from kafkascope.sniffer.sources.key_log import Secrets
from kafkascope.sniffer.sources.places import is_uri, origin_name

BETWEEN_LOOKS_S = 1
BETWEEN_RENEWALS_S = 60
"""While closed files wait to be taken, OUT is renewed no more often than this; and always when none is left."""


class Watch:
    """A directory that is watched, and the analysis of what was taken of it so far."""

    def __init__(
        self,
        directory: str,
        out: str,
        options: EngineOptions,
        *,
        remark: Remark,
        layout: Layout = PLAIN,
        renewed: Callable[[Analysis], None] = lambda analysis: None,
        list_files: Callable[[str], Sequence[Seen]] = listing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look at what is in OUT.

        Raises OutputError, SourceError if a key log cannot be read, and OSError if the directory cannot be listed.
        remark is told what is late, missing, half-written or no capture, renewed what OUT has each time; clock tells
        seconds. layout: of OUT if it is made, or as OUT has it.
        """
        if is_uri(out) or is_uri(directory):
            raise OutputError("watch goes on in local directories only; give `analyze` what is elsewhere")
        self._directory, self._out, self._options, self._layout = directory, out, options, layout
        self._remark, self._renewed, self._list, self._clock = remark, renewed, list_files, clock
        self._told: set[str] = set()
        self.analysis: Analysis | None = None  # the last one that was put in OUT
        self._renewed_at = clock()
        self._is_renewed = True
        entries = list_files(directory)
        self._hold = Hold(out)
        try:
            self._begin(entries)
        except BaseException:
            self._hold.close()
            raise

    def step(self, *, at_end: bool = False) -> bool:
        """Take one file, and renew OUT when that is due; returns whether there was one.

        at_end: take the newest file too, if it ends with a whole packet. Raises AnalysisError, OutputError, OSError,
        and SourceError if a file is written anew while it is read: OUT is whole then, for the next watch to go on with.
        """
        entries = self._list(self._directory)
        found = self._rotation.next(entries, self._clock(), at_end=at_end)
        for issue in self._rotation.late:
            self._note(issue)
        self._rotation.late.clear()
        for text in self._rotation.said:
            self._say(text)
        if self._due and (found is None or lack_names(self._due, entries)) and gone(self._due, entries):
            self._taken.close()
            self._begin(entries)
            return True
        if found is not None:
            self._take(found)
        if found is None or self._clock() - self._renewed_at >= BETWEEN_RENEWALS_S:
            self.renew()
        return found is not None

    def renew(self) -> None:
        """Put into OUT what is known now, if it has less."""
        if self._is_renewed or self._due:
            return
        taken = self._taken
        run = taken.rows.name
        output = self._output(run, {*self._instead_of, run}, self._options.session.limits.out_runs)

        def produce(staging: str) -> tuple[Analysis, Sequence[Part]]:
            renewal = _Renewal(staging, output, taken)
            return renewal.run(self._out), renewal.parts

        # It is not stopped in the midst: a signal ends the watch when OUT has what was taken.
        self.analysis = fill(output, taken.options, produce, report=True, stop=threading.Event())
        self._renewed_at, self._is_renewed = self._clock(), True
        self._renewed(self.analysis)

    def close(self) -> None:
        """Remove what was kept for the next renewal."""
        self._taken.close()
        self._hold.close()

    def _begin(self, entries: Sequence[Seen]) -> None:
        """Begin an analysis, which goes on from what is in OUT."""
        before = self._output()
        before.begin(())  # which puts back what was taken away amid a commit
        before.abort()
        files = {run["run"]: [CapturedFile(**file) for file in run["files"]] for run in before.earlier}
        self._rotation = Rotation()
        if len(files) >= self._options.session.limits.out_runs:
            self._rotation.since = begins((file for of_run in files.values() for file in of_run), entries) or NO_TIME
        self._instead_of: set[str] = set()
        self._due: list[CapturedFile] = []  # of the run that is made anew; what OUT has does not become less
        if files:
            last, of_last = [*files.items()][-1]
            if (why := _why_it_stays(of_last, entries)) is not None:
                self._say(
                    f"{why}, so run {last} in {self._out} stays as it is, and files that are not in it become a run of "
                    "their own; what goes on from one to the other is told in two parts"
                )
            elif of_last:
                self._instead_of, self._due = {last}, files.pop(last)
        for file in (file for of_run in files.values() for file in of_run):
            self._rotation.know(file)
        self._taken = Taken(self._options)
        self._is_renewed = True

    def _output(self, run: str | None = None, instead_of: Collection[str] = (), most_runs: int | None = None) -> Output:
        return Output(self._out, append=True, layout=self._layout, run=run, instead_of=instead_of, most_runs=most_runs)

    def _take(self, found: Next) -> None:
        path = found.seen.path
        try:
            reader = self._taken.open(path, goes_on=found.goes_on)
        except SourceError as error:
            self._note(Issue("unreadable_file", str(error), file=origin_name(path)))
            self._rotation.pass_over(found.seen)
            return
        if not found.goes_on:
            if self._taken.rows.is_full and not self._due:
                self._end_run()
            if missing := self._rotation.missing(path):
                self._note(Issue("file_missing", missing, file=origin_name(path)))
            if found.first_time < self._taken.latest:
                detail = f"{path}: begins before the packets of {self._rotation.last_name} end"
                self._note(Issue("file_overlaps", detail, file=origin_name(path)))
        for issue in self._taken.take(reader, goes_on=found.goes_on):
            self._say(issue.detail)
        self._rotation.take(found, self._taken.files[-1])
        self._due = gone(self._due, [found.seen])
        self._is_renewed = False

    def _end_run(self) -> None:
        """Put the run into OUT for the last time, and begin another one, in which all that is still open goes on."""
        self._taken.end_run()
        self._is_renewed = False
        self.renew()
        self._taken.next_run()
        self._instead_of = set()

    def _note(self, issue: Issue) -> None:
        self._taken.note(issue)
        self._say(issue.detail)
        self._is_renewed = self._is_renewed and not self._taken.files

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._remark(text)


class Taken:
    """The engine that goes on from file to file, and a run: its files, and its complete rows, as parts on disk."""

    def __init__(self, options: EngineOptions) -> None:
        """Raises SourceError if a key log cannot be read."""
        self.origins = Origins((), ())
        self.options = replace(options, origins=self.origins)
        self._secrets: Secrets | None = None
        if options.session.key_logs:
            self._read_secrets()
        self.latest = NO_TIME  # of all packets taken
        self._engine: Engine | None = None
        self._next = 1  # number of the packet that comes next
        self._issues_of_runs = IssuesOfRuns()
        self._begin_run()

    def next_run(self) -> None:
        """Begin a run without files, with all that is still open, and remove the parts of the one before."""
        self.rows.close()
        self._begin_run()

    def _begin_run(self) -> None:
        engine = self._engine
        self._issues_of_runs.end_run(() if engine is None else IssueLog(engine.issues))
        self._copies_before = 0 if engine is None else engine.copies
        self.rows = KeptRows(self.options)
        self.other: Counter[str] = Counter()  # packets that were not TCP, by kind
        self.files: list[CapturedFile] = []
        self.paths: list[str] = []  # of the same
        self._is_over = False
        self._issues = IssueLog()
        self._of_last: list[Issue] = []  # of the last file, which are others if it goes on

    def open(self, path: str, *, goes_on: bool) -> FileReader:
        """Open the file that is to be taken; raises SourceError."""
        return FileReader(path, self.files[-1].first_packet if goes_on else self._next)

    def end_run(self) -> None:
        """Nothing more comes to the run: the rows of what is still open are of the next one."""
        if self._engine is not None:
            with self.rows.next_part() as writer:
                self.rows.write(writer, self._engine.rest_of_views())
                self.rows.keep(writer)
        self._is_over = True

    def take(self, reader: FileReader, *, goes_on: bool) -> list[Issue]:
        """Take the packets of a file; of one that goes on those behind the last. Returns what is wrong with it.

        Raises SourceError if it was written anew meanwhile, as by a ring that is shorter than what waits to be taken:
        the engine has had packets then that no file has.
        """
        path = reader.path
        content = None if reader.size is None else digest(path, reader.size)
        if goes_on:
            self.files.pop()
            self.paths.pop()
        else:
            for issue in self._of_last:
                self._issues.add(issue)
            self.origins.begin(self._next, origin_name(path))
        engine = self._begun(reader)
        with self.rows.next_part() as writer:
            for packets in reader:
                dissected = dissect(_from(packets, self._next))
                self.other.update(dissected.other)
                for issue in dissected.issues:
                    self._issues.add(issue)
                if self._secrets is not None:
                    self._secrets.take(reader.take_secrets())
                for tables in engine.feed(dissected.segments):
                    self.rows.write(writer, tables)
            captured = captured_file(path, reader.first_number, reader.packets, reader.size)
            if captured.digest != content:
                raise changed(path, reader.size or 0)
            self.rows.keep(writer)
        self._next = reader.first_number + reader.packets
        self.latest = max(self.latest, reader.last_time or NO_TIME)
        self._of_last = list(reader.issues)
        self.files.append(captured)
        self.paths.append(path)
        return self._of_last

    def note(self, issue: Issue) -> None:
        """Keep in mind what is to be said of files."""
        self._issues.add(issue)

    def ended_now(self) -> Engine:
        """The engine once more: what it still holds may be had of it, and this one goes on all the same."""
        return copy.deepcopy(self._engine) if self._engine is not None else Engine(self.options)

    def rows_of_open(self, ended: Engine) -> Iterator[Tables]:
        """What belongs to the run of what an engine still holds that is at its end."""
        return iter(()) if self._is_over else ended.finish()

    def copies(self, ended: Engine) -> int:
        """Packets of the run that were captured twice."""
        return ended.copies - self._copies_before

    def issues(self, ended: Engine) -> IssueLog:
        """What was met during the run, outside of connections."""
        of_keys = self._secrets.keys.issues() if self._secrets else ()
        of_engine = self._issues_of_runs.of_run(IssueLog(ended.issues))
        return IssueLog([*of_keys, *self._issues, *self._of_last, *of_engine])

    def close(self) -> None:
        """Remove the parts."""
        self.rows.close()
        if self._secrets is not None:
            self._secrets.close()

    def _read_secrets(self) -> None:
        key_logs = self.options.session.key_logs
        self._secrets = Secrets(key_logs, are_embedded=True, is_growing=bool(key_logs))
        self.options = replace(self.options, session=replace(self.options.session, keys=self._secrets.keys))

    def _begun(self, reader: FileReader) -> Engine:
        if self._engine is None:
            if self._secrets is None and reader.format == "pcapng":
                self._read_secrets()
            self._engine = Engine(self.options)
        return self._engine


class _Renewal(InThisProcess):
    """All that was taken, as if it ended now."""

    def __init__(self, staging: str, output: Output, taken: Taken) -> None:
        never = threading.Event()
        super().__init__(staging, taken.options, never, output.layout)
        self._taken = taken
        self._engine = taken.ended_now()

    def decode(self, summary: Summary) -> Iterator[Written]:
        """The parts that are there, and the rows of what is still open."""
        taken, engine = self._taken, self._engine
        rows = taken.rows
        rows.link(rows.parts, self.staging)
        yield Written(list(rows.parts), summary=copy.deepcopy(rows.summary), other=Counter(taken.other))
        with rows.next_part(self.staging) as writer:
            for tables in taken.rows_of_open(engine):
                writer.write(tables)
            parts = writer.finish()
        summary.copies = taken.copies(engine)
        summary.packets = sum(file.packets for file in taken.files) - summary.copies
        summary.captures = sorted(map(capture_name, taken.paths))
        summary.files = list(taken.files)
        yield Written(parts, engine.topic_names.learned(), writer.summary, no_match=engine.no_match)

    def late_issues(self) -> Iterable[Issue]:
        """What was met in files, and outside of connections."""
        return self._taken.issues(self._engine)

    def unreadable(self) -> Iterable[str]:
        """What is wrong with files that could not be read."""
        return [issue.detail for issue in self._taken.issues(self._engine) if issue.kind == "unreadable_file"]


def _why_it_stays(files: Sequence[CapturedFile], entries: Sequence[Seen]) -> str | None:
    """Why a run of these files cannot be made anew; None: it can."""
    if lost := [file.file for file in gone(files, entries)]:
        return f"{named(lost)}: not there any more"
    if files and files[0].first_packet > 1:  # packets are numbered on from run to run, and else from 1
        return "the last run goes on from the one before it"
    return None


def _from(packets: Packets, number: int) -> Packets:
    """Packets with this number or a greater one."""
    rows = packets.number >= number
    return packets if rows.all() else packets.rows(rows)


def run(
    directory: str,
    out: str,
    *,
    options: EngineOptions,
    once: bool,
    remark: Remark,
    layout: Layout = PLAIN,
) -> int:
    """Watch until a signal comes, or, with once, take what is there; returns the exit status, 128 and the signal's."""

    def work(stop: threading.Event) -> Watch:
        with closing(Watch(directory, out, options, remark=remark, layout=layout, renewed=_show)) as watch:
            while not stop.is_set():
                if watch.step(at_end=once):
                    continue
                if once:
                    break
                stop.wait(BETWEEN_LOOKS_S)
            watch.renew()
        check(stop)
        return watch

    def say(signal: str) -> None:
        remark(f"{signal}: ending after this file; once more ends it at once, and leaves {out} whole")

    try:
        analysis = stoppable(work, say).analysis
    except Interrupted as signal:
        return 128 + signal.number
    except OutputError as error:
        remark(str(error))
        return WRONG_USE
    except (AnalysisError, SourceError) as error:
        remark(str(error))
        return INCOMPLETE
    except OSError as error:
        remark(f"{error.filename or directory}: {error.strerror or error}")
        return INCOMPLETE
    if analysis is None:
        remark(f"{directory}: nothing was taken: no closed capture with packets is there that {out} has not")
        return INCOMPLETE
    for text in analysis.remarks():
        remark(text)
    return INCOMPLETE if analysis.unreadable else 0


def _show(analysis: Analysis) -> None:
    print(line(analysis), flush=True)
