"""The process that Spark's Python workers are forked from: it has loaded what tasks need, once for all of them.

Local sessions name it, see ``sessions``. Where there are other executors, the package may reach them only with a
task, after this process has started, so there each worker loads it.
"""

from __future__ import annotations

import contextlib
import sys

from kafkascope.spark.prepared import hand_over, settled

if __name__ == "__main__" and not hand_over():
    from pyspark import daemon

    import kafkascope.spark.view_rows  # noqa: F401 (for the tasks that use it)
    from kafkascope.spark import tasks

    with contextlib.redirect_stdout(sys.stderr):  # Spark waits there for the number of a port
        settled(tasks.rehearse)
    daemon.manager()
