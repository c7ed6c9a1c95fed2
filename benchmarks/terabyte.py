"""What each job of an analysis on Spark costs by the gigabyte, and from that what a terabyte takes on 100 cores.

    python benchmarks/terabyte.py [--sizes 100,300] [--records]

Seconds are those of processors: in jobs of this process, the JVM and all workers, between them of this process alone.
So it does not matter how many cores there are here. Figures are slopes between two sizes of a capture, so what happens
once (start, compilers' work) drops out. Packets go through the shuffle, as they do where tasks run on several machines,
and not through files, as on one. Shuffled and written are bytes, as Spark's event log and the directory have
them. The computed time is that of processors alone: networks, disks and stragglers come on top, and copies of a small
capture have more clients and groups than most.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from commands import KINDS, made

from kafkascope.engine import ALL_TABLES, WITHOUT_RECORDS, EngineOptions
from kafkascope.spark import analyze, jobs

GIGABYTE, TERABYTE = 1e9, 1e12
CORES = 100
ONCE = "what the driver does"
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Of this process and all that it has started, ended ones too."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(ticks[process] for process in own) / TICKS_A_SECOND


@contextmanager
def nowhere_seen_by_all(session: Any) -> Iterator[str | None]:
    """In the place of `jobs.place_for_parcels`: tasks may be anywhere."""
    yield None


def costs(file: Path, options: EngineOptions) -> dict[str, float]:
    """Processor seconds of an analysis by job, and bytes shuffled and written."""
    spent: dict[str, float] = defaultdict(float)
    collect, place = jobs._Run._collect, jobs.place_for_parcels
    own = time.process_time()

    def watched(self: Any, what: str, frame: Any) -> Iterator[Any]:
        nonlocal own
        spent[ONCE] += time.process_time() - own
        before = processor_seconds()
        yield from list(collect(self, what, frame))
        spent[what] += processor_seconds() - before
        own = time.process_time()

    with tempfile.TemporaryDirectory() as directory:
        logs, out = Path(directory, "events"), Path(directory, "out")
        logs.mkdir()
        settings = {"enabled": "true", "dir": logs.as_uri(), "compress": "false", "rolling.enabled": "false"}
        settings = {f"spark.eventLog.{name}": value for name, value in settings.items()}
        jobs._Run._collect = watched  # type: ignore[method-assign]
        jobs.place_for_parcels = nowhere_seen_by_all
        try:
            analyze([str(file)], str(out), master="local[2]", settings=settings, options=options, by_hour=True)
        finally:
            jobs._Run._collect = collect  # type: ignore[method-assign]
            jobs.place_for_parcels = place
        spent[ONCE] += time.process_time() - own
        spent["bytes shuffled"] = sum(map(_shuffled, _lines(logs)))
        spent["bytes written"] = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return spent


def _lines(directory: Path) -> Iterator[str]:
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix != ".crc":
            yield from path.read_text().splitlines()


def _shuffled(line: str) -> int:
    """Bytes that a task put into the shuffle; 0 for other events."""
    event = json.loads(line)
    if event.get("Event") != "SparkListenerTaskEnd":
        return 0
    metrics = event.get("Task Metrics") or {}
    return int(metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0))


def main() -> None:
    """Measure each kind of traffic, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,300", help="two sizes of captures, MB")
    parser.add_argument("--records", action="store_true", help="the table of records too")
    arguments = parser.parse_args()
    small, large = map(int, arguments.sizes.split(","))
    options = EngineOptions(tables=ALL_TABLES if arguments.records else WITHOUT_RECORDS)
    for kind, name in KINDS.items():
        files = [made(name, size) for size in (small, large)]
        _, least, most = (costs(file, options) for file in (files[0], *files))  # the first one loads what all need
        gigabytes = (files[1].stat().st_size - files[0].stat().st_size) / GIGABYTE
        print(f"{kind}, by the gigabyte of capture:")
        slopes = {what: (most[what] - least[what]) / gigabytes for what in most}
        seconds = 0.0
        for what, slope in slopes.items():
            if what.startswith("bytes "):
                print(f"  {slope / GIGABYTE:6.2f} GB {what.removeprefix('bytes ')}")
            else:
                seconds += slope
                print(f"  {slope:6.1f} s  {what}")
        spread = sum(slope for what, slope in slopes.items() if not what.startswith("bytes ") and what != ONCE)
        alone = slopes[ONCE] * TERABYTE / GIGABYTE
        minutes = spread * TERABYTE / GIGABYTE / CORES / 60
        print(f"  {seconds:6.1f} s  in all: a terabyte on {CORES} cores takes {minutes:.1f} minutes of each core")
        print(f"          and {alone / 60:.1f} minutes of the driver, if it grew like that")


if __name__ == "__main__":
    main()
