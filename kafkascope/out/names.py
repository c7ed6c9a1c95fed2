"""Names in the directory of an analysis: which files and directories are whose.

    OUT/.kafkascope.lock, OUT/.staging-RUN/owner                     while it runs: who it is
    OUT/.kafkascope.watch                                            while it is renewed again and again: who does it
    OUT/.staging-RUN/tables/NAME/part-00003-RUN-<random>.parquet
    OUT/.staging-RUN/views/NAME/part-00003-RUN-<random>.parquet      rows of views, which are input of a later job
    OUT/.staging-RUN/handed-on/part-00003-RUN-<random>.parcels       records, likewise
    OUT/tables/NAME/part-00003-RUN-<random>.parquet                  when it is done
    OUT/report.html, OUT/summary.json                                after that, in this order

RUN names the analysis (`new_run`); each row of the tables says it too, so that rows of several can lie together.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from datetime import UTC, datetime

from kafkascope.out import hours
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS
from kafkascope.sniffer.sources.places import name_of

TABLES = "tables"
_VIEWS = "views"
HANDED_ON = "handed-on"
SUMMARY = "summary.json"
REPORT = "report.html"
LOCK = ".kafkascope.lock"
WATCHED = ".kafkascope.watch"  # the lock of who watches a rotation, from one commit to the next
# What a run leaves, in the order in which it comes; a directory that has anything else is not ours to replace.
OWN = (TABLES, REPORT, SUMMARY)
_STAGING = ".staging-"
_RUN = r"\d{8}T\d{6}Z-[0-9a-f]{8}"
_OLD = r"[0-9a-f]{32}"  # versions before schema 5 had random names alone
_STAGING_NAME = re.compile(rf"\.staging-(?:(?P<run>{_RUN})|{_OLD})")
_PART = re.compile(rf"part-\d{{5,}}-(?:(?P<run>{_RUN})-[0-9a-f]{{16}}|{_OLD})\.parquet")
_PARCELS = re.compile(rf"part-\d{{5,}}-{_RUN}-[0-9a-f]{{16}}\.parcels")


def new_run() -> str:
    """A name for a run, which nothing else has: when it began, UTC, and a random number."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def run_of_part(file: str) -> str | None:
    """The run that wrote a part; None if its name tells none, as in directories of older versions."""
    found = _PART.fullmatch(posixpath.basename(file))
    return found["run"] if found else None


def staging_name(run: str) -> str:
    """The name of the staging directory of a run."""
    return f"{_STAGING}{run}"


def is_staging_name(name: str) -> bool:
    """Whether a directory is called as staging directories are."""
    return _STAGING_NAME.fullmatch(name) is not None


def run_of(staging: str) -> str:
    """The run that a staging directory is of, and called after."""
    found = _STAGING_NAME.fullmatch(name_of(staging))
    if found is None or found["run"] is None:
        raise ValueError(f"{staging} is no staging directory")
    return found["run"]


def part_name(partition: int, run: str, form: str = "parquet") -> str:
    """A name for a file of a task, which no other attempt at it has."""
    return f"part-{partition:05}-{run}-{uuid.uuid4().hex[:16]}.{form}"


def table_directory(staging: str, name: str) -> str:
    """Where the files of a table, or of the rows of a view, are below a staging directory, or OUT."""
    return posixpath.join(staging, TABLES if name in ALL_SCHEMAS else _VIEWS, name)


def is_directory(name: str) -> bool:
    """Whether a directory below the tables has a name that those of tables and hours get."""
    table, *partitions = name.split("/")
    return table in ALL_SCHEMAS and (not partitions or hours.is_directory("/".join(partitions)))


def is_part(name: str) -> bool:
    """Whether a file below the tables has a name that parts get."""
    directory, _, file = name.rpartition("/")
    return is_directory(directory) and _PART.fullmatch(file) is not None


def is_of_a_run(file: str) -> bool:
    """Whether a file of a staging directory has a name that those get which a run makes there."""
    return bool(_PART.fullmatch(file) or _PARCELS.fullmatch(file)) or file in OWN
