"""The notebook's view on Spark: the tables of captures as Spark DataFrames."""

from __future__ import annotations

import html
import posixpath
import uuid
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds
from pyarrow import fs

from kafkascope.again import FilesAgain
from kafkascope.answering import Answering, why_not
from kafkascope.engine import EngineOptions
from kafkascope.filters.expressions import columns
from kafkascope.filters.fields import ENDS
from kafkascope.filters.of_captures import END_COLUMNS, passing_of, with_ends
from kafkascope.out.names import TABLES
from kafkascope.out.pipeline import Analysis
from kafkascope.out.stored import datasets
from kafkascope.reports.columns.arrow import without_times
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS
from kafkascope.sniffer.capture_points import Content
from kafkascope.sniffer.comparison import compare_files
from kafkascope.sniffer.sources.files import changed, digest, find_files
from kafkascope.sniffer.sources.places import below, is_uri, locate, origin_name, split_settings, told
from kafkascope.spark.jobs import analyze
from kafkascope.spark.sessions import is_local
from kafkascope.temporary import TemporaryDirectory

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class _NoTableError(AttributeError, KeyError):
    """A table that is not there: ``hasattr`` and ``getattr`` ask as for an attribute, others for a name."""


class SparkCapture(Answering):
    """The tables of a capture, each a property: ``cap.exchanges``, ``cap.errors``, and so on, as Spark DataFrames.

    Times are Spark's, which end at microseconds. The files behind the tables go when this object goes. What is asked
    by ``cap.group(...)``, ``cap.latency(...)`` and the like is answered here, with pandas, as `Capture` does it; tables
    of such names are at ``cap.table(name)``.
    """

    def __init__(
        self,
        tables: dict[str, DataFrame],
        stored: Mapping[str, ds.Dataset],
        analysis: Analysis,
        paths: Sequence[str],
        options: EngineOptions,
    ) -> None:
        """stored: the same tables as files. paths, options: what was read, and how."""
        super().__init__(analysis.summary.result(), ", ".join(map(told, paths)))
        self._tables = tables
        self._stored = stored
        self._names = dict(analysis.topic_names)
        self._paths = paths
        self._options = options
        self._captured = analysis.summary.files
        self.rows = dict(analysis.rows)

    def table(self, name: str) -> DataFrame:
        """One table; KeyError for a name that is no table, or was not asked for."""
        if name not in self._tables:
            raise KeyError(f"{name}: {why_not(name, sorted(self._tables))}")
        return self._tables[name]

    def arrow(self, name: str, where: pc.Expression | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """One table with its Arrow schema, brought here; KeyError as for table().

        With where, only the rows for which it holds; with columns, only these.
        """
        self.table(name)
        return self._stored[name].to_table(columns=None if columns is None else list(columns), filter=where)

    def dataset(self, name: str) -> ds.Dataset:
        """One table as its files; KeyError as for table()."""
        self.table(name)
        return self._stored[name]

    def filter(self, expression: str) -> DataFrame:
        """The exchanges that pass an expression, as `Capture.filter` has them; Spark's tasks choose them."""
        from kafkascope.filters.language import parsed

        wanted, names = parsed(expression), self._names
        rows = self.table("exchanges")
        schema = rows.schema
        needs_ends = not columns(wanted).isdisjoint(ENDS)
        if needs_ends:
            rows = rows.join(self.table("connections").select("connection", *END_COLUMNS), "connection", "left")

        def choose(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                joined = pa.table(batch)
                exchanges = joined.select(schema.names)
                passed = passing_of(wanted, with_ends(exchanges, joined) if needs_ends else exchanges, names)
                yield from exchanges.filter(pa.array(passed)).to_batches()

        return rows.mapInArrow(choose, schema)

    def _has(self, name: str) -> bool:
        return name in self._tables

    def _topic_names(self) -> Mapping[str, str]:
        return self._names

    def _again(self) -> FilesAgain:
        return self._files

    @cached_property
    def _files(self) -> FilesAgain:
        """The files, which are read here, as far as they can be."""
        paths = {origin_name(path): path for path in find_files(self._paths)}
        contents = {}
        for file in self._captured:
            path = paths.get(file.file, file.file)
            if file.bytes is None or digest(path, file.bytes) != file.digest:
                raise changed(path, file.bytes or 0)
            contents[path] = Content(file.bytes, None)
        return FilesAgain(contents, compare_files(contents), self._options)

    def __getattr__(self, name: str) -> DataFrame:
        if name in ALL_SCHEMAS:
            try:
                return self.table(name)
            except KeyError as error:
                raise _NoTableError(*error.args) from None
        raise AttributeError(f"{type(self).__name__} has no {name!r}; tables are {sorted(self._tables)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._tables]

    def _contents_html(self) -> str:
        rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{rows}</td></tr>" for name, rows in self.rows.items())
        return f"<table><tr><th>table</th><th>rows</th></tr>{rows}</table>"


def read(
    paths: Sequence[str],
    *,
    spark: Any,
    options: EngineOptions | None = None,
    directory: str | None = None,
) -> SparkCapture:
    """Analyze captures on a session, and give the tables as its DataFrames.

    The tables lie in a directory of their own below directory (default: this machine's temporary directory, which
    suits a local session only) until the result is garbage, or Python ends. Raises as `analyze`, and ValueError if
    a cluster is given no directory.
    """
    if directory is None and not is_local(spark):
        raise ValueError("executors run on other machines: give directory=, a place that all of them can reach")
    if directory is None or not is_uri(directory):
        here = TemporaryDirectory(directory)
        place, remove = str(here.path), here.remove
    else:
        place = below(directory, f"kafkascope-{uuid.uuid4().hex}")
        remove = partial(_remove, place)
    out = below(place, "out")
    try:
        analysis = analyze(paths, out, spark=spark, options=options, report=False)
        if analysis.no_match is not None:
            warnings.warn(analysis.no_match, stacklevel=3)
        system, path = locate(out)
        files = datasets(system, posixpath.join(path, TABLES))
        capture = SparkCapture(read_tables(spark, out), files, analysis, paths, options or EngineOptions())
    except BaseException:
        remove()
        raise
    weakref.finalize(capture, remove)
    return capture


def _remove(place: str) -> None:
    system, path = locate(place)
    if system.get_file_info(path).type == fs.FileType.Directory:
        system.delete_dir(path)


def read_tables(spark: Any, out: str) -> dict[str, DataFrame]:
    """The tables that an analysis wrote under out, as DataFrames by name; those that are not there are left out.

    Spark's times end at microseconds, and its Parquet reader refuses nanoseconds: they are read as numbers first.
    """
    system, path = locate(out)
    selector = fs.FileSelector(posixpath.join(path, TABLES))
    names = {posixpath.basename(entry.path) for entry in system.get_file_info(selector)}
    place = split_settings(out)[0] if is_uri(out) else f"file://{path}"
    return {name: _table(spark, name, posixpath.join(place, TABLES, name)) for name in ALL_SCHEMAS if name in names}


def _table(spark: Any, name: str, place: str) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = ALL_SCHEMAS[name]
    numbers = pa.schema([pa.field(field.name, without_times(field.type)) for field in schema])
    frame = spark.read.schema(from_arrow_schema(numbers)).parquet(place)
    return frame.select([_moments(f.col(field.name), field.type).alias(field.name) for field in schema])


def _moments(column: Column, kind: pa.DataType) -> Column:
    """A column in which times are numbers, with Spark's times instead; kind is its type with times."""
    from pyspark.sql import functions as f

    if without_times(kind) == kind:
        return column
    if pa.types.is_list(kind):
        return f.transform(column, lambda element: _moments(element, kind.value_type))
    if pa.types.is_struct(kind):
        fields = [_moments(column[field.name], field.type).alias(field.name) for field in kind]
        return f.when(column.isNotNull(), f.struct(*fields))
    return f.timestamp_micros(f.call_function("div", column, f.lit(1000)))
