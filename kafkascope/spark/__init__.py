"""The offline pipeline on Spark: ``analyze`` writes tables, ``read`` gives them as Spark DataFrames."""

from __future__ import annotations

from kafkascope.spark.analysis import Analysis, AnalysisError, analyze
from kafkascope.spark.capture import SparkCapture, read, read_tables
from kafkascope.spark.output import OutputError
from kafkascope.spark.sessions import SparkUnavailableError, session, unavailable

__all__ = [
    "Analysis",
    "AnalysisError",
    "OutputError",
    "SparkCapture",
    "SparkUnavailableError",
    "analyze",
    "read",
    "read_tables",
    "session",
    "unavailable",
]
