"""Where the time goes, by stage, from the start of the process: of the first line, and of an analysis.

    python benchmarks/stages.py [FILE] [--repeat N]

Each command runs N times; of each stage the median is told, in seconds of the wall clock. Beside them stands tshark
with the same file. Stages are told apart by calling functions of the program through a stop watch (WATCHED).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from commands import STORM

WATCHED: dict[str, dict[str, Any]] = {
    "sniff -r FILE -c 1": {
        "modules": ["kafkascope.sniffing"],
        "stages": {
            "kafkascope.decoders.kernels:Kernel._form": "kernels loaded and linked",
            "kafkascope.decoders.program:compile_layouts": "layouts of all messages",
        },
        "call": "from kafkascope.cli import sniff_main as main; "
        "from kafkascope.without_pandas import leave_pandas_out; leave_pandas_out(); "
        "sys.argv = ['sniff', '-r', sys.argv[1], '-c', '1']",
    },
    "analyze --in-process": {
        "modules": ["kafkascope.in_process", "kafkascope.analyzing"],
        "stages": {
            "kafkascope.in_process:_Run.decode": "read and decode",
            "kafkascope.in_process:_Run.understand": "understand views",
            "kafkascope.out.pipeline:conclusions": "incidents",
            "kafkascope.out.pipeline:Reporting.page": "report",
            "kafkascope.analyzing:_print": "print answers",
        },
        "call": "from kafkascope.cli import main; sys.argv = ['kafkascope', 'analyze', sys.argv[1], '-o', "
        "sys.argv[2], '--overwrite', '--in-process']",
    },
    "analyze": {
        "modules": ["kafkascope.spark.jobs", "kafkascope.analyzing"],
        "stages": {
            "pyspark.java_gateway:launch_gateway": "start the JVM",
            "pyspark:SparkContext.__init__": "Spark's context",
            "kafkascope.spark.jobs:open_session": "session in all",
            "kafkascope.spark.jobs:_Run._index": "find packets",
            "kafkascope.spark.jobs:_Run._decode": "decode (first job)",
            "kafkascope.spark.jobs:_Run.understand": "understand views",
            "kafkascope.spark.jobs:_Run.rewrite": "names and rereads",
            "kafkascope.out.pipeline:conclusions": "incidents",
            "kafkascope.spark.jobs:close_session": "close the session",
            "kafkascope.out.pipeline:Reporting.page": "report",
            "kafkascope.analyzing:_print": "print answers",
        },
        "call": "from kafkascope.cli import main; sys.argv = ['kafkascope', 'analyze', sys.argv[1], '-o', "
        "sys.argv[2], '--overwrite', '--master', 'local[2]']",
    },
}

# Runs in a process of its own. What is a generator is watched while it is iterated over.
CHILD = """
import atexit, functools, importlib, inspect, json, os, sys, time
begun = time.perf_counter()
plan, file = json.loads(sys.argv.pop()), os.fdopen(os.dup(2), "w")
spent = {}
def watch(place, name):
    module, _, path = place.partition(":")
    owner = importlib.import_module(module)
    *outer, last = path.split(".")
    for step in outer:
        owner = getattr(owner, step)
    function = getattr(owner, last)
    def add(since):
        spent[name] = spent.get(name, 0) + time.perf_counter() - since
    if inspect.isgeneratorfunction(function):
        @functools.wraps(function)
        def watched(*args, **given):
            values = function(*args, **given)
            while True:
                since = time.perf_counter()
                try:
                    value = next(values)
                except StopIteration:
                    return
                finally:
                    add(since)
                yield value
    else:
        @functools.wraps(function)
        def watched(*args, **given):
            since = time.perf_counter()
            try:
                return function(*args, **given)
            finally:
                add(since)
    setattr(owner, last, watched)
def tell():
    spent["end"] = time.perf_counter() - begun
    print("profile", json.dumps(spent), file=file, flush=True)
exec(plan["call"])
for module in plan["modules"]:
    importlib.import_module(module)
spent["imports"] = time.perf_counter() - begun
for place, name in plan["stages"].items():
    watch(place, name)
atexit.register(tell)
main()
"""


def profile(plan: dict[str, Any], file: Path, out: str) -> dict[str, float]:
    """Seconds by stage of one run; ``in all`` is the whole process."""
    begun = time.perf_counter()
    command = [sys.executable, "-c", CHILD, str(file), out, json.dumps(plan)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    told = [line.removeprefix("profile ") for line in done.stderr.splitlines() if line.startswith("profile ")]
    if done.returncode or not told:
        raise SystemExit(f"{plan['call']} failed: {done.stderr[-2000:]}")
    spent: dict[str, float] = json.loads(told[0])
    end = spent.pop("end")
    return spent | {"start and end of Python": seconds - end, "in all": seconds}


def tshark(file: Path) -> float:
    """Seconds that tshark takes to its first line of the file."""
    begun = time.perf_counter()
    subprocess.run(["tshark", "-r", str(file), "-c", "1"], capture_output=True, check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=STORM)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    print(f"{args.file}, {args.file.stat().st_size / 1e6:.1f} MB, medians of {args.repeat} runs")
    with tempfile.TemporaryDirectory() as directory:
        for command, plan in WATCHED.items():
            found: dict[str, list[float]] = defaultdict(list)
            for _ in range(args.repeat + 1):  # the first one warms caches
                for stage, seconds in profile(plan, args.file, f"{directory}/out").items():
                    found[stage].append(seconds)
            medians = {stage: statistics.median(seconds[-args.repeat :]) for stage, seconds in found.items()}
            print(f"\n{command}: {medians.pop('in all'):.2f} s")
            for stage, seconds in medians.items():
                print(f"  {seconds:6.2f}  {stage}")
    first_lines = [tshark(args.file) for _ in range(args.repeat)]
    print(f"\ntshark -r FILE -c 1: {statistics.median(first_lines):.2f} s")


if __name__ == "__main__":
    main()
