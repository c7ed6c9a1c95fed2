"""What keeps an analysis from being written, in one line for people: why, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafkascope.sniffer.sources.places import told

ANOTHER_PLACE = "give another directory"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class OutputError(Exception):
    """The output directory cannot be used; the message says why and what to do."""


class WriteError(Exception):
    """The output directory could not be written to the end; the message says why and what to do."""


def write_error(place: str, error: OSError, instead: str = ANOTHER_PLACE) -> WriteError:
    """The same in one line; instead: what to do where there is no room to make."""
    reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
    advice = f"; make room there, or {instead}" if error.errno in FULL else ""
    return WriteError(f"{told(place)} cannot be written: {reason}{advice}")


@contextmanager
def writing(place: str, instead: str = ANOTHER_PLACE) -> Iterator[None]:
    """Makes errors of the file system a WriteError."""
    try:
        yield
    except OSError as error:
        raise write_error(place, error, instead) from error
