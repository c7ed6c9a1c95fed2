"""One analysis at a time in one directory: who is at work there, told in a file that each run leaves while it runs.

On a local file system a run holds a lock on a file in the directory. The lock vanishes with the process, however that
ends: who has it knows that all others have ended. Elsewhere there are no such locks, and the files alone tell.
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime


class HeldError(Exception):
    """Another process holds the lock; the message says which."""


def this_run() -> str:
    """Who runs here, for the one who finds the directory taken."""
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"process {os.getpid()} on {socket.gethostname()}, since {since}"


def lock(path: str, owner: str) -> int | None:
    """Lock a file, which is made if need be, with its directory, and write the owner into it.

    Returns a descriptor that holds the lock until it is closed, or None if the file system has no locks. Raises
    HeldError, OSError.
    """
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            held = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # whoever gave up has just removed the directory
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(held, 1000, 0).decode(errors="replace")
            os.close(held)
            raise HeldError(holder or "another process") from None
        except OSError:
            os.close(held)
            return None
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(held)):
            os.ftruncate(held, 0)
            os.pwrite(held, owner.encode(), 0)
            return held
        os.close(held)  # its holder has just removed it: another file is locked by those who come now


def unlock(path: str, held: int) -> None:
    """Remove a locked file, and give up the lock."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    os.close(held)
