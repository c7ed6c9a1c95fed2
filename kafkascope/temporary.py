"""Temporary directories that do not outlive their process for long, however that ends.

Each is locked as long as it is used. The lock vanishes with its process, so whoever makes the next one knows those
that a killed process left, and removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

_PREFIX = "kafkascope-run-"
_LOCK = ".lock"


class TemporaryDirectory:
    """A directory of this user alone, until it is removed, this object is garbage, or Python ends."""

    def __init__(self, parent: str | None = None) -> None:
        """parent: where to make it (default: what TMPDIR says). Raises OSError."""
        parent = parent or tempfile.gettempdir()
        _remove_abandoned(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        unlocked = self.path / f"{_LOCK}-new"  # under its name it is never seen unlocked
        held = os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600)
        _lock(held)
        os.rename(unlocked, self.path / _LOCK)
        self._remove = weakref.finalize(self, _remove, self.path, held)

    def remove(self) -> None:
        """Remove it with all that is in it; again is harmless."""
        self._remove()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove_abandoned(parent: str) -> None:
    for path in Path(parent).glob(f"{_PREFIX}*"):
        try:
            held = os.open(path / _LOCK, os.O_RDWR)
        except OSError:  # somebody else's, or it is being made, or removed
            continue
        if _lock(held):
            _remove(path, held)
        else:
            os.close(held)


def _lock(held: int) -> bool:
    """Whether nobody else holds the lock, and the file system has locks."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(path: Path, held: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(held)
