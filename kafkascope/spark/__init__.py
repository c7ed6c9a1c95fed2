"""The offline pipeline on Spark: ``analyze`` writes tables, ``read`` gives them as Spark DataFrames.

Processes of Spark that only need ``source`` load this package too, so its names are looked up when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkascope.spark.capture import SparkCapture as SparkCapture
    from kafkascope.spark.capture import read as read
    from kafkascope.spark.capture import read_tables as read_tables
    from kafkascope.spark.jobs import analyze as analyze
    from kafkascope.spark.sessions import SparkUnavailableError as SparkUnavailableError
    from kafkascope.spark.sessions import session as session
    from kafkascope.spark.sessions import unavailable as unavailable

_MODULES = {
    "SparkCapture": "capture",
    "SparkUnavailableError": "sessions",
    "analyze": "jobs",
    "read": "capture",
    "read_tables": "capture",
    "session": "sessions",
    "unavailable": "sessions",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        from kafkascope.spark.sessions import SparkUnavailableError

        advice = "pip install 'kafkascope[spark]' brings it; analyze --in-process works without"
        raise SparkUnavailableError(f"pyspark is not installed: {advice}") from None
