"""pyarrow without pandas, which takes long to import, and which commands do not need but for few."""

from __future__ import annotations

import sys


class _NoPandas:
    """Finder of modules that says pandas is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """None: others are to look for it."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas when it is given its first list: that takes as long as to decode a megabyte.

    Data frames are for notebooks. A process that has pyarrow already belongs to somebody else.
    """
    if "pyarrow" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    import pyarrow as pa

    pa.array([0])  # it looks for pandas now, and never again
    sys.meta_path.remove(_NoPandas)
