"""Splits to parcels, as a Python data source.

Spark plans a read in processes of their own, which load this module: what reads packets is loaded where they are read.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkascope.sniffer.issues import Issue
    from kafkascope.sniffer.sources.split import Split


@dataclass
class Work(InputPartition):  # type: ignore[misc]
    """What one task reads: splits, and issues of the files as such, which are carried along; pickled."""

    pickled: str


class PacketsSource(DataSource):  # type: ignore[misc]
    """``kafkascope-packets``: TCP segments of splits as parcels by partition, see ``parcels``, whose schema is given.

    Options: work (`encode` makes it), partitions.
    """

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return "kafkascope-packets"

    def reader(self, schema: Any) -> DataSourceReader:
        """The reader of the splits in the options."""
        return PacketsReader(json.loads(self.options["work"]), int(self.options["partitions"]))


@dataclass
class PacketsReader(DataSourceReader):  # type: ignore[misc]
    """Reads groups of splits, one group a task."""

    work: list[str]
    into: int

    def partitions(self) -> list[InputPartition]:
        """What each task reads."""
        return [Work(pickled) for pickled in self.work]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Parcels of the segments, and what was noted about all other packets."""
        from kafkascope.spark import parcels
        from kafkascope.spark.tasks import read_parcels

        assert isinstance(partition, Work)
        splits, issues = pickle.loads(base64.b64decode(partition.pickled))
        yield parcels.remarks(issues, {}, 0)
        for split in splits:
            yield from read_parcels(split, self.into)


def encode(work: Sequence[tuple[list[Split], list[Issue]]]) -> str:
    """What each task reads, as text for an option of the data source."""
    return json.dumps([base64.b64encode(pickle.dumps(one)).decode() for one in work])
