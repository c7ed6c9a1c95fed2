"""Speed and memory beside tshark's, on the same files in the same run.

    python benchmarks/bench.py [--sizes 100,400] [--repeat 5] [--tasks a,b,c,d,e,m,s,g] [--write]

The files are made in bench-data/ from two captures of pcaps/ (multiply.py): small frames of all versions, and large
batches. The speed of a command is the slope between two sizes: (larger - smaller file) / (longer - shorter time); what
is left is its start-up, shown apart. Times are wall clock of the whole process, medians of the runs, in which commands
take turns. --write keeps the figures as soon as a part of them is there: in BENCHMARKS.md, where parts that are not
measured stay as they are, and in benchmarks/history.jsonl. Tasks:

a  header fields of every exchange           sniff --fields               beside tshark -T fields
b  all tables with every record              kafkascope.read(records)     beside tshark -T json
c  everything as text                        sniff --json --records       beside tshark -T json
d  all tables as Parquet by Spark, local[2]  analyze --records            beside tshark -T fields
e  all answers: groups, latency, findings    kafkascope.read()            beside tshark -T json (it has none)
m  peak memory of a, b, c and e on a file of four times the size of the larger one, all processes together
s  start: the first line, and whole analyses, of a capture of 2 MB
g  how time and memory grow with storms, incidents, groups, what they say, and clients (crowds.py)
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import page
from commands import ANALYZE, KINDS, SNIFF, STORM, UNSEEN, Run, made, ours, run, source_of
from crowds import growth

GROWTH_RUNS = 3  # at most: what is told of them are seconds of the processor, which vary little

TSHARK_FIELDS = [
    argument
    for name in (
        *("frame.time_epoch", "ip.src", "tcp.srcport", "kafka.len", "kafka.api_key", "kafka.api_version"),
        *("kafka.correlation_id", "kafka.client_id", "kafka.request_frame", "kafka.response_frame"),
    )
    for argument in ("-e", name)
]
TASKS = {
    "a": "header fields of every exchange: `sniff --fields`",
    "b": "all tables with every record: `kafkascope.read(records=True, answers=False)`",
    "c": "everything as JSON text: `sniff --json --records`",
    "d": "all tables and answers as Parquet by Spark, local[2]: `analyze --records`",
    "e": "all answers: `kafkascope.read()`",
}
FORMS = {"a": "fields", "b": "json", "c": "json", "d": "fields", "e": "json"}
"""What tshark writes beside a task."""

GOALS = {"b": (40, 60), "c": (20, 20), "d": (5, 10), "e": (10, 10)}
"""Times tshark that a task is to be, with small frames and with large batches; DESIGN says what limits it."""

STARTS = {
    "`sniff -r FILE -c 1`": [sys.executable, "-c", SNIFF, "-r", str(STORM), "-c", "1"],
    "`analyze --in-process FILE`": [sys.executable, *ANALYZE, str(STORM), "--in-process"],
    "`analyze FILE` (Spark, local[2])": [sys.executable, *ANALYZE, str(STORM), "--master", "local[2]"],
    "`tshark -r FILE -Y kafka`": ["tshark", "-r", str(STORM), "-Y", "kafka"],
    "`tshark -r FILE -Y kafka -T json`": ["tshark", "-r", str(STORM), "-Y", "kafka", "-T", "json"],
}


def theirs(form: str, file: Path) -> list[str]:
    """What tshark writes of the same."""
    if form == "fields":
        return ["tshark", "-r", str(file), "-Y", "kafka", "-T", "fields", *TSHARK_FIELDS]
    return ["tshark", "-r", str(file), "-Y", "kafka", "-T", "json", "-J", "kafka"]


@dataclass(frozen=True, slots=True)
class Speed:
    """Megabytes of capture a second, seconds until it begins, and the most megabytes of memory, of the larger file."""

    megabytes_a_second: float
    start_s: float
    peak_megabytes: float


def speed(small: Sequence[Run], large: Sequence[Run], sizes: Sequence[float]) -> Speed:
    """Of runs with files of two sizes in megabytes."""
    short, long = (statistics.median(one.seconds for one in runs) for runs in (small, large))
    rate = (sizes[1] - sizes[0]) / max(long - short, 1e-3)
    return Speed(rate, short - sizes[0] / rate, statistics.median(one.peak_megabytes for one in large))


def speeds(kind: str, tasks: str, megabytes: Sequence[int], repeat: int) -> list[dict[str, Any]]:
    """A row for each task, ours beside tshark's."""
    files = [made(KINDS[kind], size) for size in megabytes]
    sizes = [file.stat().st_size / 1e6 for file in files]
    forms = sorted({FORMS[task] for task in tasks})
    commands = [
        {task: ours(task, file) for task in tasks} | {form: theirs(form, file) for form in forms} for file in files
    ]
    for task in tasks:
        run(ours(task, source_of(KINDS[kind])))  # kernels are loaded from the disk's cache ever after
    runs: list[dict[str, list[Run]]] = [{name: [] for name in of_file} for of_file in commands]
    for _ in range(repeat):
        for done, of_file in zip(runs, commands, strict=True):
            for name, command in of_file.items():
                done[name].append(run(command))
    found = {name: speed(runs[0][name], runs[1][name], sizes) for name in commands[0]}
    rows = []
    for task in tasks:
        own, tshark = found[task], found[FORMS[task]]
        rows.append(
            {
                "task": TASKS[task],
                "traffic": kind,
                "MB/s": round(own.megabytes_a_second, 1),
                "tshark MB/s": round(tshark.megabytes_a_second, 2),
                "times": round(own.megabytes_a_second / tshark.megabytes_a_second, 1),
                "goal": GOALS[task][[*KINDS].index(kind)] if task in GOALS else "",
                "start s": round(own.start_s, 2),
                "tshark start s": round(tshark.start_s, 2),
                "peak MB": round(own.peak_megabytes),
                "tshark peak MB": round(tshark.peak_megabytes),
            }
        )
        print(rows[-1], flush=True)
    return rows


def memory(kind: str, megabytes: int) -> list[dict[str, Any]]:
    """Peak memory of the larger file and of four times as much, of tables and answers that nobody looks at."""
    files = made(KINDS[kind], megabytes), made(KINDS[kind], 4 * megabytes)
    rows = []
    for task in "abce":
        commands = [[UNSEEN.get(word, word) for word in ours(task, file)] for file in files]
        peaks = [run(command, together=True).peak_megabytes for command in commands]
        row: dict[str, Any] = {"task": TASKS[task], "traffic": kind}
        row |= {f"MB of memory at {megabytes} MB": round(peaks[0]), f"at {4 * megabytes} MB": round(peaks[1])}
        rows.append(row | {"times": round(peaks[1] / peaks[0], 2)})
        print(rows[-1], flush=True)
    files[1].unlink()
    return rows


def starts(repeat: int) -> list[dict[str, Any]]:
    """What a small capture takes from the command to its end."""
    runs: dict[str, list[Run]] = {name: [] for name in STARTS}
    for command in STARTS.values():
        run(command)
    for _ in range(repeat):
        for name, command in STARTS.items():
            runs[name].append(run(command))
    rows = []
    for name, found in runs.items():
        seconds, cpu, peak = (
            statistics.median(getattr(one, of) for one in found) for of in ("seconds", "cpu_seconds", "peak_megabytes")
        )
        rows.append({"command": name, "s": round(seconds, 2), "CPU s": round(cpu, 2), "peak MB": round(peak)})
        print(rows[-1], flush=True)
    return rows


SAID = {
    "Speed": "Speeds are slopes between two sizes of a file, start is what is left (`python benchmarks/bench.py "
    "--help`); times are medians. `make bench-compare` holds a change against the commit before it. Peaks are of the "
    "largest process, with every table looked at, which maps its file into memory.",
    "Memory": "Nobody looks at the tables, and all processes count together.",
    "Start": "Of a capture of 2 MB, from the command to its end.",
    "Growth": "How time and memory grow with what is in a capture.",
}
"""Parts of the page, and what is to be said of each."""


def main() -> None:
    """Measure, print rows as they come, and keep them with --write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,400", help="megabytes of the two files")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--tasks", default="a,b,c,d,e,m,s,g")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each")
    parser.add_argument("--write", action="store_true", help="write BENCHMARKS.md, and a line of the history")
    arguments = parser.parse_args()
    small, large = (int(size) for size in arguments.sizes.split(","))
    tasks = arguments.tasks.split(",")
    kinds = arguments.kinds.split(",")
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {}
    if timed := "".join(task for task in tasks if task in TASKS):
        parts["Speed"] = lambda: [
            row for kind in kinds for row in speeds(kind, timed, (small, large), arguments.repeat)
        ]
    if "m" in tasks:
        parts["Memory"] = lambda: [row for kind in kinds for row in memory(kind, large)]
    if "s" in tasks:
        parts["Start"] = lambda: starts(arguments.repeat)
    if "g" in tasks:
        parts["Growth"] = lambda: growth(min(arguments.repeat, GROWTH_RUNS))
    for title, measure in parts.items():
        rows = measure()
        if arguments.write:
            page.keep(title, SAID[title], rows)


if __name__ == "__main__":
    main()
