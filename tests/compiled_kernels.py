"""Kernels that are compiled already, for copies of the package: a test that needs them takes no minute."""

from __future__ import annotations

import shutil
from pathlib import Path


def give(source: Path, into: Path) -> None:
    """Copy a module's kernels to where numba looks for those of a copy of the module; it goes by the source's text."""
    for kernel in (source.parent / "__pycache__").glob(f"{source.stem}.*.nb[ic]"):
        into.mkdir(parents=True, exist_ok=True)
        shutil.copy(kernel, into)
