"""What commands that read captures twice, to write their packets once more, have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol

from kafkascope.program import INCOMPLETE, WRONG_USE, Remark
from kafkascope.sniffer.comparison import compare_files
from kafkascope.sniffer.sources.capture_writer import CaptureWriter
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import find_files, is_stream
from kafkascope.sniffer.sources.live_options import Rotation


class Rewritten(Protocol):
    """What became of captures."""

    @property
    def is_partial(self) -> bool:
        """Whether a file could not be read, or not to its end."""

    @property
    def remarks(self) -> Iterable[str]:
        """What people should know of it."""

    def lines(self, out: str) -> Iterable[str]:
        """What was written to OUT."""


def run(rewrite: Callable[[], Rewritten], out: str, remark: Remark) -> int:
    """Rewrite captures and say what became of them; returns the exit status.

    rewrite may raise SourceError if nothing can be read, and ValueError if it cannot be done for these files.
    """
    try:
        done = rewrite()
    except SourceError as error:
        remark(str(error))
        return INCOMPLETE
    except ValueError as error:
        remark(str(error))
        return WRONG_USE
    for line in done.lines(out):
        print(line)
    for text in done.remarks:
        remark(text)
    return INCOMPLETE if done.is_partial else 0


def files_to_rewrite(paths: Sequence[str], out: str, what: str, apart: str = "one at a time") -> list[str]:
    """The files that paths mean; ValueError if they cannot be read twice, or be written as one capture.

    what: the command, as a word. apart: how it is to be given files that are no one capture.
    """
    files = find_files(paths)
    if any(map(is_stream, files)):
        raise ValueError(f"{what} reads captures twice, which a pipe does not allow: give files")
    if any(os.path.exists(file) and os.path.exists(out) and os.path.samefile(file, out) for file in files):
        raise ValueError(f"{out} is one of the captures that are to be read: give another name")
    if compare_files(files) is not None:
        raise ValueError(f"these files have the same packets, captured at several points: give them to {what} {apart}")
    return files


@contextmanager
def written_anew(out: str, rotation: Rotation) -> Iterator[CaptureWriter]:
    """A file of packets, which is there at once, so that nothing is done in vain; none is left if something is raised.

    Of several files those that were written stay.
    """
    with closing(CaptureWriter(out, rotation)) as writer:
        try:
            yield writer
        except BaseException:
            if not rotation.is_wanted and os.path.isfile(out):  # no device
                os.unlink(out)
            raise
