"""How evenly Spark's tasks were given their work, by Spark's own event log.

    kafkascope analyze bench-data/heavy-300.pcap --records -o out/ --conf spark.eventLog.enabled=true \\
        --conf spark.eventLog.compress=false --conf spark.eventLog.dir=file:///tmp/log
    python benchmarks/spread.py /tmp/log

A line for each stage: its tasks, how long the longest and the median one ran, and what the JVM took of the processor.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any


def stages(log: Path) -> dict[int, list[dict[str, Any]]]:
    """What Spark measured of each task that ended, by stage; log has the files of one or more applications."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for file in sorted(path for path in log.rglob("events_*") if path.is_file()):
        with file.open() as lines:
            for event in map(json.loads, lines):
                if event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
                    found[event["Stage ID"]].append(event["Task Metrics"])
    return found


def main() -> None:
    """Print."""
    for stage, tasks in sorted(stages(Path(sys.argv[1])).items()):
        ran = [task["Executor Run Time"] / 1e3 for task in tasks]
        middle = statistics.median(ran)
        of_jvm = sum(task["Executor CPU Time"] for task in tasks) / 1e9
        print(
            f"stage {stage}: {len(tasks)} tasks, longest {max(ran):.2f} s, median {middle:.2f} s, "
            f"{max(ran) / max(middle, 1e-3):.1f} times; JVM {of_jvm:.2f} CPU s"
        )


if __name__ == "__main__":
    main()
