"""Speed against tshark on the same files in the same run, and peak memory.

    python benchmarks/bench.py [--sizes 100,400] [--kinds mixed-versions,bench_batches] [--tasks a,b,c,d,e,m]

The files are made in bench-data/ from two captures of pcaps/ (multiply.py). The speed of a command is the slope
between two sizes: (larger - smaller file) / (longer - shorter time); what is left is its start-up, shown apart.
Times are wall clock of the whole process. Tasks:

a  header fields of every exchange           sniff --fields            against tshark -T fields     at least 10 times
b  all tables with every record              kafkascope.read(records)  against tshark -T json       at least 10 times
c  everything as text                        sniff --json --records    against tshark -T json       at least 4 times
d  all tables as Parquet by Spark, local[2]  analyze --records         against tshark -T fields     at least 1 times
e  all answers: groups, latency, lag, findings  kafkascope.read()         against tshark -T json       (tshark has none)
m  peak memory of a, b and c on the larger file and on one of four times its size, at most 20 % more (b without a look
   at its tables: they lie on disk until somebody looks)
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from multiply import multiply

HERE = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
DATA = HERE / "bench-data"
KINDS = ("mixed-versions", "bench_batches")
FIELDS = "requested,client_id,api_key,api_version,correlation_id,request_bytes,response_bytes,latency_ms"
TSHARK_FIELDS = [
    argument
    for name in (
        *("frame.time_epoch", "ip.src", "tcp.srcport", "kafka.len", "kafka.api_key", "kafka.api_version"),
        *("kafka.correlation_id", "kafka.client_id", "kafka.request_frame", "kafka.response_frame"),
    )
    for argument in ("-e", name)
]
READ = "import sys, kafkascope; cap = kafkascope.read(sys.argv[1], records=True)"
LOOK = READ + "; from kafkascope.reports.vocabulary.tables import SCHEMAS; [cap.arrow(name) for name in SCHEMAS]"
ANSWER = "import sys, kafkascope; cap = kafkascope.read(sys.argv[1]); [cap.arrow(name) for name in cap.tables]"


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process."""

    seconds: float
    peak_kilobytes: int


def run(command: list[str]) -> Run:
    """Run to the end with its output thrown away (but read: into /dev/null)."""
    with tempfile.TemporaryFile() as errors, open(os.devnull, "wb") as nowhere:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=nowhere, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        if os.waitstatus_to_exitcode(status) != 0:
            errors.seek(0)
            raise SystemExit(f"{command} failed: {errors.read().decode()[-2000:]}")
    return Run(seconds, usage.ru_maxrss)


def ours(task: str, file: Path) -> list[str]:
    """Our command for a task."""
    out = tempfile.gettempdir() + "/kafkascope-bench-out"
    spark = ["--master", "local[2]", "--records", "--overwrite", "-o", out]
    return {
        "a": [str(BIN / "sniff"), "-r", str(file), "--fields", FIELDS],
        "b": [sys.executable, "-c", LOOK, str(file)],
        "c": [str(BIN / "sniff"), "-r", str(file), "--json", "--records"],
        "e": [sys.executable, "-c", ANSWER, str(file)],
        "d": [str(BIN / "kafkascope"), "analyze", str(file), *spark],
    }[task]


def theirs(task: str, file: Path) -> list[str]:
    """The same by tshark."""
    if task in ("a", "d"):
        return ["tshark", "-r", str(file), "-Y", "kafka", "-T", "fields", *TSHARK_FIELDS]
    return ["tshark", "-r", str(file), "-Y", "kafka", "-T", "json", "-J", "kafka"]


def slope(commands: list[list[str]], sizes: list[float], repeat: int) -> tuple[float, float]:
    """Megabytes a second, and seconds of start-up, of the fastest of some runs of each size."""
    seconds = [min(run(command).seconds for _ in range(repeat)) for command in commands]
    speed = (sizes[1] - sizes[0]) / max(seconds[1] - seconds[0], 1e-3)
    return speed, seconds[0] - sizes[0] / speed


def main() -> None:
    """Measure and print a table; --json FILE keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,400", help="megabytes of the two files")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--tasks", default="a,b,c,d,e,m")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, the fastest counts (tshark: one)")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    small, large = (int(x) for x in args.sizes.split(","))
    DATA.mkdir(exist_ok=True)
    figures: list[dict[str, object]] = []
    version = subprocess.getoutput("tshark --version 2>/dev/null").splitlines()[0]
    print(f"{os.cpu_count()} cores, {platform.machine()}; {version}")
    for kind in args.kinds.split(","):
        files = [made(kind, megabytes) for megabytes in (small, large)]
        sizes = [file.stat().st_size / 1e6 for file in files]
        tshark: dict[str, tuple[float, float]] = {}
        for task in (t for t in args.tasks.split(",") if t != "m"):
            run(ours(task, source_of(kind)))  # kernels are compiled once, as after installation
            same = {"a": "fields", "d": "fields", "b": "json", "c": "json", "e": "json"}[task]
            if same not in tshark:
                tshark[same] = slope([theirs(task, file) for file in files], sizes, 1)
            mine = slope([ours(task, file) for file in files], sizes, args.repeat)
            figures.append(
                {
                    "kind": kind,
                    "task": task,
                    "kafkascope MB/s": round(mine[0], 1),
                    "tshark MB/s": round(tshark[same][0], 2),
                    "ratio": round(mine[0] / tshark[same][0], 1),
                    "start-up s": round(mine[1], 2),
                    "tshark start-up s": round(tshark[same][1], 2),
                }
            )
            print(figures[-1], flush=True)
        if "m" in args.tasks.split(","):
            huge = made(kind, 4 * large)
            for task in ("a", "b", "c"):
                commands = [[x if x != LOOK else READ for x in ours(task, file)] for file in (files[1], huge)]
                peaks = [run(command).peak_kilobytes / 1e3 for command in commands]
                figures.append(
                    {
                        "kind": kind,
                        "task": f"memory of {task}",
                        f"MB at {large}": round(peaks[0]),
                        f"MB at {4 * large}": round(peaks[1]),
                        "ratio": round(peaks[1] / peaks[0], 2),
                    }
                )
                print(figures[-1], flush=True)
            huge.unlink()
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


def source_of(kind: str) -> Path:
    """The capture that is multiplied."""
    return next((HERE / "pcaps" / kind).glob("capture.pcap*"))


def made(kind: str, megabytes: int) -> Path:
    """The multiplied file, made if it is not there."""
    file = DATA / f"{kind}-{megabytes}.pcap"
    if not file.exists():
        unfinished = file.with_suffix(".part")
        multiply(source_of(kind), megabytes, unfinished)
        unfinished.rename(file)
    return file


if __name__ == "__main__":
    main()
