"""Where compiled kernels are kept if the package runs out of a zip, as Spark ships it.

numba keeps them by the path of the zip, and Spark gives each application a copy at another one, so that each would
compile them anew. Here they are kept by what is in the zip. The interface is that of numba's setting
NUMBA_CACHE_LOCATOR_CLASSES.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import ZipCacheLocator


class ByContent(ZipCacheLocator):  # type: ignore[misc]
    """Place of the kernels of one module: the user's cache directory, or NUMBA_CACHE_DIR."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        kept = config.CACHE_DIR or os.path.dirname(self.get_cache_path())
        module = self._internal_path.replace("/", ".").removesuffix(".py")
        self._cache_path = os.path.join(kept, f"kafkascope-{_digest(self._zip_path)}", module)


@cache
def _digest(zip_path: str) -> str:
    return hashlib.sha256(Path(zip_path).read_bytes()).hexdigest()[:16]
