"""What is said of Spark's errors: ours first, and of Spark's pages the line that says most."""

from __future__ import annotations

import pytest

from kafkascope.spark.failures import meaning, reason, told

JOB = (
    "An error occurred while calling o66.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 2.0 failed 4 times, "
    "most recent failure: Lost task 1.3 in stage 2.0 (TID 5) (localhost executor driver): "
)
FRAMES = (
    "\n\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:1136)"
    "\nCaused by: java.net.SocketException: Connection reset\n\t... 21 more\n"
)
KILLED = f"{JOB}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).{FRAMES}"
TRACE = 'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n    process()\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (KILLED, "Python worker exited unexpectedly (crashed)."),
        (f"{JOB}org.apache.spark.api.python.PythonException: {TRACE}KeyError: 'a'\n{FRAMES}", "KeyError: 'a'"),
        (f"\n  An exception was thrown from the Python worker.\n{TRACE}ValueError: no\n", "ValueError: no"),
        (
            "An error occurred while calling None.X.\n: java.lang.IllegalStateException: no master\n\tat a.B",
            "no master",
        ),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", None),
        ("", "Exception"),
    ],
)
def test_the_line_that_says_most(text: str, expected: str | None) -> None:
    assert reason(Exception(text)) == (text if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (KILLED, "a Python worker was killed each time"),
        (f"{JOB}java.lang.OutOfMemoryError: Java heap space{FRAMES}", "Spark's JVM has too little memory"),
        (f"{JOB}ExecutorLostFailure (executor 1 exited)", "the executors that tried a task were lost"),
        (f"{TRACE}ModuleNotFoundError: No module named 'kafkascope'", "executors does not have kafkascope"),
        (f"{TRACE}ModuleNotFoundError: No module named 'pyarrow'", "executors lacks a package"),
        ('java.io.IOException: Cannot run program "/nowhere": error=2', "cannot be started"),
        ("java.io.IOException: No space left on device", "the disk is full where Spark puts aside"),
    ],
)
def test_our_words_come_before_those_of_java(text: str, ours: str) -> None:
    first, second = meaning(Exception(text)).splitlines()
    assert first.startswith("Spark failed: ")
    assert ours in first
    assert second.startswith("Its own words: ")
    assert "\tat " not in second


def test_what_nobody_has_words_for_is_spark_s_own_line() -> None:
    assert meaning(Exception(f"{TRACE}KeyError: 'a'")) == "Spark failed: KeyError: 'a'"


def test_what_a_task_of_ours_says_is_for_people() -> None:
    name = "kafkascope.sniffer.sources.errors.SourceError"
    assert (
        told(Exception(f"{JOB}PythonException: {TRACE}{name}: a.pcap: it is shorter.\n{FRAMES}"))
        == "a.pcap: it is shorter."
    )
    assert told(Exception(KILLED)) is None
