"""What is measured: our commands, with the captures that they read, run to their end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from multiply import multiply

HERE = Path(__file__).resolve().parent.parent
DATA = HERE / "bench-data"
STORM = HERE / "pcaps" / "rebalance-storm" / "capture.pcap"
KINDS = {"small frames": "mixed-versions", "large batches": "bench_batches"}
FIELDS = "requested,client_id,api_key,api_version,correlation_id,request_bytes,response_bytes,latency_ms"
SNIFF = "from kafkascope.__main__ import sniff_main; sniff_main()"  # as the installed command
READ = "import sys, kafkascope; cap = kafkascope.read(sys.argv[1], records=True, answers=False)"
LOOK = READ + "; from kafkascope.reports.vocabulary.tables import SCHEMAS; [cap.arrow(name) for name in SCHEMAS]"
UNDERSTAND = "import sys, kafkascope; cap = kafkascope.read(sys.argv[1])"
ANSWER = UNDERSTAND + "; [cap.arrow(name) for name in cap.tables]"
UNSEEN = {LOOK: READ, ANSWER: UNDERSTAND}  # the same, but nobody looks at the tables
_LOOK_S = 0.1
OUT = tempfile.gettempdir() + "/kafkascope-bench-out"
ANALYZE = ["-m", "kafkascope", "analyze", "--overwrite", "-o", OUT]


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process, with those that it began."""

    seconds: float
    cpu_seconds: float
    peak_megabytes: float  # of the largest process, or of all together


def run(command: Sequence[str], tree: Path = HERE, *, together: bool = False) -> Run:
    """Run to the end with its output thrown away (but read: into /dev/null); tree has the program's sources.

    together: the peak is that of all its processes at one time, what they share counted once. To look at it takes some
    per cent of a core.
    """
    environment = os.environ | {"PYTHONPATH": str(tree)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each run compiles all modules anew
    with tempfile.TemporaryFile() as errors, open(os.devnull, "wb") as nowhere:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=nowhere, stderr=errors, cwd=tree, env=environment)
        seen = 0.0
        while together and os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            seen = max(seen, sum(map(_megabytes, _with_children(process.pid))))
            time.sleep(_LOOK_S)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        if os.waitstatus_to_exitcode(status) != 0:
            errors.seek(0)
            raise SystemExit(f"{command} failed: {errors.read().decode()[-2000:]}")
    peak = seen if together else usage.ru_maxrss / 1e3
    return Run(seconds, usage.ru_utime + usage.ru_stime, peak)


def _with_children(process: int) -> Iterator[int]:
    yield process
    with suppress(OSError):  # it has just ended
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _with_children(int(child))


def _megabytes(process: int) -> float:
    """Its own memory, and its part of what it shares (proc(5): Pss)."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1e3
    return 0.0


def ours(task: str, file: Path) -> list[str]:
    """Our command for a task."""
    return [
        sys.executable,
        *{
            "a": ["-c", SNIFF, "-r", str(file), "--fields", FIELDS],
            "b": ["-c", LOOK, str(file)],
            "c": ["-c", SNIFF, "-r", str(file), "--json", "--records"],
            "d": [*ANALYZE, str(file), "--records", "--master", "local[2]"],
            "e": ["-c", ANSWER, str(file)],
        }[task],
    ]


def source_of(kind: str) -> Path:
    """The capture that is multiplied."""
    return next((HERE / "pcaps" / kind).glob("capture.pcap*"))


def made(kind: str, megabytes: int) -> Path:
    """The multiplied file, made if it is not there."""
    DATA.mkdir(exist_ok=True)
    file = DATA / f"{kind}-{megabytes}.pcap"
    if not file.exists():
        unfinished = file.with_suffix(".part")
        multiply(source_of(kind), megabytes * 1_000_000, unfinished)
        unfinished.rename(file)
    return file
