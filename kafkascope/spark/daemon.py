"""The process that Spark's Python workers are forked from: it loads what tasks need, once for all of them.

Local sessions name it, see ``sessions``. Where there are other executors, the package may reach them only with a
task, after this process has started, so there each worker loads it.
"""

from __future__ import annotations

import contextlib
import gc
import sys

from pyspark import daemon

import kafkascope.spark.view_rows  # noqa: F401 (for the tasks that use it)
from kafkascope.spark import tasks

if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # Spark waits there for the number of a port
        tasks.rehearse()
    # A worker looks for garbage after each task: through what was loaded here, that took longer than a small task.
    gc.collect()
    gc.freeze()
    daemon.manager()
