"""The column ``file``: which file of the capture a row's first packet came from."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from kafkascope.reports.vocabulary.tables import FILE
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.origins import Origins


def files_of(numbers: I64, origins: Origins) -> pa.DictionaryArray:
    """The files of packets by their numbers; null for 0, which is no packet, and where origins are not known."""
    place = origins.of(numbers)
    known = place < len(origins.names)
    codes = pa.array(place, pa.int32(), mask=(place < 0) | ~known)
    return pa.DictionaryArray.from_arrays(codes, _names(origins.names)).cast(FILE)


@lru_cache(maxsize=1)
def _names(names: tuple[str, ...]) -> pa.Array:
    return pa.array(names, pa.string())
