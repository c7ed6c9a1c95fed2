"""Tables that came in pieces."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def joined(pieces: Iterable[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    """The rows of all pieces, by table."""
    together: dict[str, list[pa.Table]] = {}
    for tables in pieces:
        for name, rows in tables.items():
            together.setdefault(name, []).append(rows)
    return {name: pa.concat_tables(rows) for name, rows in together.items()}
