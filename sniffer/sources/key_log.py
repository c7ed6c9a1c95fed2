"""Key log files (SSLKEYLOGFILE): read once, or followed while clients and brokers append to them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import open_file
from kafkascope.sniffer.sources.formats import Secret
from kafkascope.sniffer.tls.keys import KEY_LOG, LONGEST_LINE, Keys

_CHUNK = 1 << 20
_ADVICE = "Check its name, and who may read it: live, that is nobody, or who called sudo, unless --user says who"


class KeyLogFile:
    """A file on this machine to which others append; one that is emptied, or made anew, is read from its beginning."""

    def __init__(self, path: str) -> None:
        """It need not be there yet; SourceError if it is no regular file, or not for us to read."""
        self.path = path
        self._file: int | None = None
        self._rest = b""  # of a line
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unreadable(path, error) from None
        if not stat.S_ISREG(mode):
            raise SourceError(path, None, "this is no file that can be followed", "Give a regular file")
        if not os.access(path, os.R_OK):
            raise _unreadable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    def read(self) -> Iterator[bytes]:
        """Whole lines that were appended since the last time."""
        try:
            now = os.stat(self.path)
            if self._file is not None:
                known = os.fstat(self._file)
                is_other = (known.st_dev, known.st_ino) != (now.st_dev, now.st_ino)
                if is_other or now.st_size < os.lseek(self._file, 0, os.SEEK_CUR):
                    self.close()
            if self._file is None:
                self._file = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return  # a client will make it
        except OSError as error:
            raise _unreadable(self.path, error) from None
        while chunk := os.read(self._file, _CHUNK):
            lines, end, rest = (self._rest + chunk).rpartition(b"\n")
            self._rest = rest[: LONGEST_LINE + 1]
            yield lines + end

    def close(self) -> None:
        """Close the file; again is harmless."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._rest = None, b""


class Secrets:
    """Secrets of TLS sessions out of key logs, and out of capture files."""

    def __init__(self, paths: Sequence[str], are_embedded: bool, is_growing: bool) -> None:
        """are_embedded: capture files may have some; is_growing: key logs are followed. Raises SourceError."""
        self.keys = Keys(are_embedded or is_growing)
        self._files = [KeyLogFile(path) for path in paths] if is_growing else []
        if not is_growing:
            read_key_logs(paths, self.keys)

    def take(self, embedded: Iterable[Secret]) -> None:
        """Take in what was appended to key logs, and what was met in capture files."""
        for file in self._files:
            for lines in file.read():
                self.keys.add(lines)
        for secret in embedded:
            if secret.kind == KEY_LOG:
                self.keys.add(secret.data, secret.packet)

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()


def read_key_logs(paths: Iterable[str], keys: Keys) -> None:
    """Fill keys with what files, or URIs, have now; raises SourceError if one cannot be read."""
    for path in paths:
        rest = b""
        try:
            with closing(open_file(path)) as file:
                while chunk := file.read(_CHUNK):
                    lines, end, rest = (rest + chunk).rpartition(b"\n")
                    keys.add(lines + end)
                    rest = rest[: LONGEST_LINE + 1]
        except OSError as error:
            raise _unreadable(path, error) from None
        keys.add(rest)


def _unreadable(path: str, error: OSError) -> SourceError:
    return SourceError(path, None, f"the key log cannot be read ({error.strerror or error})", _ADVICE)
