"""What a change does to speed: this tree against a commit, taking turns.

    python benchmarks/compare.py [COMMIT] [--tasks a,b,c,e] [--megabytes 25] [--repeat 5] [--kinds "small frames"]

COMMIT is checked out beside (default: the last one if there are changes, else the one before). Each task of bench.py
runs with a file of that size by one and by the other, in turn; told are the medians of the processor's seconds, which
others on the machine disturb least, and their ratio. Exits with 1 if a task takes a tenth longer than before.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from commands import HERE, KINDS, Run, made, ours, run, source_of

SLOWER = 1.1


def git(*words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", "-C", str(HERE), *words], check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Print a line for each task and kind of traffic."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="HEAD" if git("status", "--porcelain") else "HEAD~1")
    parser.add_argument("--tasks", default="a,b,c,e")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--megabytes", type=int, default=25)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    slower = False
    with tempfile.TemporaryDirectory(prefix="kafkascope-") as directory:
        base = Path(directory) / "base"
        git("worktree", "add", "--detach", str(base), arguments.commit)
        try:
            for kind in arguments.kinds.split(","):
                for task in arguments.tasks.split(","):
                    slower |= compared(base, kind, task, arguments.megabytes, arguments.repeat)
        finally:
            git("worktree", "remove", "--force", str(base))
    return 1 if slower else 0


def compared(base: Path, kind: str, task: str, megabytes: int, repeat: int) -> bool:
    """Whether the task takes longer by a tenth than it did; prints both."""
    file = made(KINDS[kind], megabytes)
    runs: dict[Path, list[Run]] = {base: [], HERE: []}
    for tree in runs:
        run(ours(task, source_of(KINDS[kind])), tree)  # kernels are compiled
    for number in range(repeat):
        for tree in list(runs)[:: -1 if number % 2 else 1]:
            runs[tree].append(run(ours(task, file), tree))
    before, now = (statistics.median(one.cpu_seconds for one in found) for found in runs.values())
    peaks = [statistics.median(one.peak_megabytes for one in found) for found in runs.values()]
    print(
        f"{task} {kind}: {now:.2f} s, {before:.2f} s before: {now / before:.2f} times; "
        f"{peaks[1]:.0f} MB, {peaks[0]:.0f} MB before",
        flush=True,
    )
    return now / before > SLOWER


if __name__ == "__main__":
    sys.exit(main())
