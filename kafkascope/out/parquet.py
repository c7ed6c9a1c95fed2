"""How tables are written as Parquet: their schemas in files, encodings, and who may read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from kafkascope.reports.views.registry import SCHEMAS_WITH_VIEWS
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, FILE, RUN, UNDECIDED, WHOLE

COMPRESSION = "snappy"
# Contents of records are nobody's but their owner's. With secrets shown, messages are as well.
PRIVATE = frozenset({"records"})
WITH_SECRETS = frozenset({"exchanges", "errors", WHOLE["exchanges"], WHOLE["errors"], UNDECIDED})
# Of these a dictionary saves nothing, and nobody skips rows by the least and the greatest of them; both take time.
_BODIES = frozenset({"request", "response", "key", "value", "headers"})
_OWNER_ALONE = 0o600


def writer_of(
    table: str, path: str, system: fs.FileSystem, private: bool = False, microseconds: bool = False
) -> pq.ParquetWriter:
    """A Parquet writer with the settings of a table. The file is made by it.

    Only the owner may read it, from its first byte on, if private or the table is in ``PRIVATE``. That goes for local
    files; elsewhere the rules of that file system hold.
    """
    if (private or table in PRIVATE) and isinstance(system, fs.LocalFileSystem):
        Path(path).touch(mode=_OWNER_ALONE, exist_ok=False)
    schema = written(table, microseconds)
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    others = [name for name in schema.names if name not in _BODIES]
    return pq.ParquetWriter(
        path,
        schema,
        filesystem=system,
        compression=COMPRESSION,
        use_dictionary=[name for name in others if name not in times],
        column_encoding=dict.fromkeys(times, "DELTA_BINARY_PACKED"),
        write_statistics=others,
    )


def write_group(writer: pq.ParquetWriter, rows: pa.Table, run: str) -> None:
    """Write rows of a run, which are in the schema of their table, as one row group. What is smaller than the unit of
    times in the file is cut off."""
    if RUN.name in writer.schema.names:
        rows = rows.append_column(RUN, pa.repeat(pa.scalar(run), rows.num_rows))
    writer.write_table(rows.cast(writer.schema, safe=False), row_group_size=max(1, rows.num_rows))


def written(table: str, microseconds: bool = False) -> pa.Schema:
    """The schema of a table in its files: names as strings, which they are for all readers, and the run."""
    schema = SCHEMAS_WITH_VIEWS[table]
    if microseconds:
        schema = pa.schema([field.with_type(_in_microseconds(field.type)) for field in schema], schema.metadata)
    plain = [field.with_type(field.type.value_type) if field.type == FILE else field for field in schema]
    return pa.schema([*plain, RUN] if table in ALL_SCHEMAS else plain, schema.metadata)


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_microseconds(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in kind])
    return kind


def is_private(system: fs.FileSystem, path: str) -> bool:
    """Whether a file is one that only its owner may read."""
    return isinstance(system, fs.LocalFileSystem) and Path(path).stat().st_mode & 0o777 == _OWNER_ALONE
