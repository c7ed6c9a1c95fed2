"""What a second worker brings: an analysis on a standalone cluster of Spark, by one worker and by both, in turns.

    python benchmarks/workers.py [--sizes 100,300] [--repeat 3] [--records]

Master, workers and driver run on this machine, which wants a core for each worker, that keeps to it with all that it
starts, and rests besides.
Speeds are slopes between two sizes of a capture, medians of the runs, so start drops out. The efficiency is the speed
of two workers over twice the speed of one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for tools

from commands import ANALYZE, HERE, KINDS, made, run

from tools.spark_cluster import HOSTS, spark_cluster

WORKERS = range(1, len(HOSTS) + 1)


def main() -> None:
    """Print a line for each kind of traffic."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,300", help="two sizes of captures, MB")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each")
    parser.add_argument("--records", action="store_true", help="the table of records too")
    arguments = parser.parse_args()
    options = ["--records"] if arguments.records else []
    with tempfile.TemporaryDirectory() as directory:
        environment = os.environ | {"PYTHONPATH": str(HERE), "SPARK_LOCAL_IP": HOSTS[0]}
        with spark_cluster(Path(directory), environment) as url:
            for kind, name in KINDS.items():
                files = [made(name, int(size)) for size in arguments.sizes.split(",")]
                commands = {
                    (file, workers): [
                        *(sys.executable, *ANALYZE, str(file), *options, "--master", url),
                        *("--conf", f"spark.cores.max={workers}", "--conf", "spark.executor.memory=512m"),
                        *("--conf", f"spark.pyspark.python={sys.executable}"),
                    ]
                    for file in files
                    for workers in WORKERS
                }
                run(commands[files[0], 1])  # the first one loads what all need
                took: dict[tuple[Path, int], list[float]] = {asked: [] for asked in commands}
                for _ in range(arguments.repeat):
                    for asked, command in commands.items():
                        took[asked].append(run(command).seconds)
                megabytes = (files[1].stat().st_size - files[0].stat().st_size) / 1e6
                longer = [
                    statistics.median(took[files[1], workers]) - statistics.median(took[files[0], workers])
                    for workers in WORKERS
                ]
                one, both = (megabytes / seconds for seconds in longer)
                told = f"{one:.1f} MB/s by one worker, {both:.1f} MB/s by both"
                print(f"{kind}: {told}: efficiency {both / one / len(HOSTS):.0%}", flush=True)


if __name__ == "__main__":
    main()
