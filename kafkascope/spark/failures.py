"""What an error of Spark's means: ours in one line, what to do about it, and Spark's own reason in one line too."""

from __future__ import annotations

import errno
import os
import re

from kafkascope.out.errors import WriteError
from kafkascope.sniffer.sources.errors import SourceError

# What tasks raise, as Spark tells it: what they say is a message for people.
_TOLD = tuple(f"{error.__module__}.{error.__name__}: " for error in (SourceError, WriteError))

ROOM_ELSEWHERE = "--conf spark.local.dir=DIR"
"""What to do where Spark puts aside what it holds, and there is no room to make."""
_NO_ROOM = os.strerror(errno.ENOSPC)
# What Spark says, what that means, and what to do; the first that fits.
_MEANINGS = (
    (
        _NO_ROOM,
        "the disk is full where Spark puts aside what it holds",
        f"make room there, or {ROOM_ELSEWHERE}",
    ),
    (
        "Python worker exited unexpectedly",
        "a Python worker was killed each time that its task was tried, most often by a system without free memory",
        "let fewer tasks run at once (--master local[1], spark.executor.cores), or smaller ones (--partitions)",
    ),
    (
        "OutOfMemoryError",
        "Spark's JVM has too little memory",
        "give it more: --conf spark.driver.memory=4g, on a cluster spark.executor.memory",
    ),
    (
        "ExecutorLostFailure",
        "the executors that tried a task were lost, most often for want of memory",
        "look at their logs; give them more memory (spark.executor.memoryOverhead), or smaller tasks (--partitions)",
    ),
    (
        "No module named 'kafkascope'",
        "the Python of the executors does not have kafkascope",
        "send it along (spark-submit --py-files kafkascope.zip), or install it there",
    ),
    (
        "No module named",
        "the Python of the executors lacks a package",
        "install there what is installed here, or name a Python that has it: spark.pyspark.python",
    ),
    (
        "PYTHON_VERSION_MISMATCH",
        "executors and driver have different versions of Python",
        "name one of the same: spark.pyspark.python",
    ),
    (
        "while reading the port number",
        "the Python for the tasks ended as soon as it was started",
        "see whether it runs there, and has what is installed here; spark.pyspark.python names another",
    ),
    (
        "Cannot run program",
        "the Python for the tasks cannot be started",
        "name one that is there: spark.pyspark.python",
    ),
)
_BEFORE_THE_REASON = re.compile(
    r".*most recent failure: .*? in stage \S+ \(TID \d+\) \(.*?\): |.*Job aborted due to stage failure: "
)
_JAVA_CLASS = re.compile(r"([a-z]\w*\.){2,}[A-Z][\w$]*(Exception|Error): ")


def is_of_spark(error: BaseException) -> bool:
    """Whether Spark or a task of it raised an error."""
    return type(error).__module__.startswith(("pyspark", "py4j"))


def told(error: BaseException) -> str | None:
    """What a task of ours had to say to people; None if the error is another one."""
    for line in str(error).splitlines():
        for name in _TOLD:
            if name in line:
                return line.partition(name)[2]
    return None


def meaning(error: BaseException) -> str:
    """What an error of Spark's means, before what Spark itself says."""
    text = str(error)
    for says, means, advice in _MEANINGS:
        if says in text:
            return f"Spark failed: {means}; {advice}.\nIts own words: {reason(error)}"
    return f"Spark failed: {reason(error)}"


def reason(error: BaseException) -> str:
    """The line of an error of Spark's that says most: of a task's Python its exception, of Java the first cause."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    if not lines:
        return type(error).__name__
    traces = [number for number, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    if traces:
        behind = [line for line in lines[traces[-1] + 1 :] if not line[0].isspace()]
        if behind:
            return behind[0]
    said = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
    return _JAVA_CLASS.sub("", _BEFORE_THE_REASON.sub("", said)).strip()
