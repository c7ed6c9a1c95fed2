"""What an analysis left in its directory: tables as datasets, the summary, and the report beside them."""

from __future__ import annotations

import io
import json
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

import pyarrow as pa
from pyarrow import dataset as ds
from pyarrow import fs

from kafkascope.out.errors import OutputError
from kafkascope.out.names import REPORT, SUMMARY, TABLES, run_of_part
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS
from kafkascope.sniffer.sources.places import below, locate, told


@dataclass(frozen=True, slots=True)
class Stored:
    """A directory that an analysis made, or what one run of several wrote there."""

    place: str  # as it may be told
    tables: Mapping[str, ds.Dataset]  # by name; those that are not there are left out
    summary: Mapping[str, Any]  # empty where it is not there: the analysis did not end, or another tool made the tables

    def runs(self) -> tuple[Stored, ...]:
        """What each run wrote, as they came one after the other. Numbers of packets and connections are of a run."""
        if "runs" not in self.summary:
            return (self,)
        return tuple(Stored(self.place, self._of(run["run"]), run) for run in self.summary["runs"])

    def _of(self, run: str) -> dict[str, ds.Dataset]:
        found = {}
        for name, table in self.tables.items():
            files = [file for file in table.files if run_of_part(file) == run]
            if files:
                found[name] = ds.dataset(files, schema=table.schema, format="parquet", filesystem=table.filesystem)
        return found


def stored(place: str) -> Stored:
    """Open what lies in a directory; nothing is read but the summary. Raises OutputError."""
    try:
        system, path = locate(place)
        kind = system.get_file_info(path).type
        if kind != fs.FileType.Directory:
            wrong = "is not there" if kind == fs.FileType.NotFound else "is a file"
            raise OutputError(
                f"{told(place)} {wrong}; give a capture, or the directory that `kafkascope analyze -o` wrote"
            )
        tables = datasets(system, posixpath.join(path, TABLES))
        if not tables:
            raise OutputError(f"{told(place)} has no tables; give the directory that `kafkascope analyze -o` wrote")
        summary: dict[str, Any] = {}
        if system.get_file_info(posixpath.join(path, SUMMARY)).type == fs.FileType.File:
            with system.open_input_stream(posixpath.join(path, SUMMARY)) as stream:
                summary = json.loads(stream.read())
    except (OSError, pa.ArrowException, ValueError) as error:
        raise OutputError(f"{told(place)} cannot be read: {error}") from error
    return Stored(told(place), tables, summary)


def is_analysis(place: str) -> bool:
    """Whether a directory has what an analysis left."""
    try:
        system, path = locate(place)
        found = system.get_file_info([posixpath.join(path, name) for name in (SUMMARY, TABLES)])
    except (OSError, pa.ArrowException):
        return False
    return [one.type for one in found] == [fs.FileType.File, fs.FileType.Directory]


def datasets(system: fs.FileSystem, path: str) -> dict[str, ds.Dataset]:
    """The tables below a path, by name; their columns are those of today, null where files do not have them."""
    found = {}
    for entry in system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        name = posixpath.basename(entry.path)
        if entry.type == fs.FileType.Directory and name in ALL_SCHEMAS:
            found[name] = ds.dataset(entry.path, schema=ALL_SCHEMAS[name], format="parquet", filesystem=system)
    return found


def report_place(place: str) -> str:
    """Where the report of an analysis is."""
    return below(place, REPORT)


@contextmanager
def open_text(file: str) -> Iterator[TextIO]:
    """A file to write text to, at any place that Arrow knows; none is left if writing it fails. Raises OSError."""
    system, path = locate(file)
    stream = system.open_output_stream(path)
    try:
        with stream, io.TextIOWrapper(stream, encoding="utf-8", newline="") as text:
            yield text
    except BaseException:
        if system.get_file_info(path).is_file:  # no device
            system.delete_file(path)
        raise
