"""Places on other file systems, as URIs: what pyarrow knows (s3, gs, abfss, hdfs, file), with settings behind a ``?``.

    s3://bucket/day/capture.pcap
    s3://bucket/day?endpoint_override=minio:9000&scheme=http

The settings are pyarrow's, and go for all that is below the place. s3a and s3n are Hadoop's names for s3. A ``?``
without settings behind it is of a pattern.
"""

from __future__ import annotations

import errno
import glob
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

_SETTINGS = re.compile(r"\?\w+=.*")
_CREDENTIALS = re.compile(r"(?<=://)([^/?@:\s]*)(?::[^?@\s]*(?:@[^/?@\s]*)*)?@")  # a secret may have / or @ in it
_SECRET_SETTING = re.compile(r"([?&][^=&]*(?:secret|key|token|password|credential|sas)[^=&]*=)[^&]*", re.IGNORECASE)
_CONTAINERS = ("abfs://", "abfss://")  # of which the container stands before the @
_HADOOP_S3 = re.compile(r"^s3[an]://")
_HADOOP_NEEDS = (
    "hdfs:// needs a Java runtime (JAVA_HOME), Hadoop's native library libhdfs (HADOOP_HOME, or ARROW_LIBHDFS_DIR) and "
    "its classes (CLASSPATH=$(hadoop classpath --glob)), wherever it is read or written"
)


def is_uri(place: str) -> bool:
    """Whether a place is on another file system (hdfs://, s3://, ...)."""
    return "://" in place


def told(place: str) -> str:
    """A place as it may be shown and written down: without user and password, or keys, in its URI."""
    if not is_uri(place):
        return place
    kept = r"\1@" if place.startswith(_CONTAINERS) else ""
    return _SECRET_SETTING.sub(r"\1***", _CREDENTIALS.sub(kept, place, count=1))


def split_settings(place: str) -> tuple[str, str]:
    """A place without its settings, and these with their ``?``; a path of this machine has none."""
    found = _SETTINGS.search(place) if is_uri(place) else None
    return (place[: found.start()], found[0]) if found else (place, "")


def below(place: str, *names: str) -> str:
    """What is of these names below a place."""
    bare, settings = split_settings(place)
    return "/".join([bare.rstrip("/") or bare, *names]) + settings


def name_of(place: str) -> str:
    """The last name in a place."""
    return split_settings(place)[0].rstrip("/").rpartition("/")[2]


def origin_name(path: str) -> str:
    r"""What tables call a file: as it was found, without settings and keys of a URI; what is no text as \xNN."""
    if path == "-":
        return "standard input"
    return told(split_settings(path)[0]).encode(errors="surrogateescape").decode(errors="backslashreplace")


def above(place: str) -> str:
    """The directory that a place is in."""
    bare, settings = split_settings(place)
    return bare.rpartition("/")[0] + settings


def locate(place: str) -> tuple[Any, str]:
    """File system (pyarrow's) and path there; raises OSError, pyarrow.ArrowException (a ValueError)."""
    from pyarrow import fs  # slow to import, and rarely needed

    if not is_uri(place):
        return fs.LocalFileSystem(), str(Path(place).absolute())
    if "?" in split_settings(place)[0]:
        raise FileNotFoundError(errno.ENOENT, "a pattern is no place", place)
    try:
        system, path = fs.FileSystem.from_uri(_HADOOP_S3.sub("s3://", place))
    except OSError as error:
        missing = re.search("libjvm|libhdfs|hdfsBuilderConnect", str(error))
        raise OSError(_HADOOP_NEEDS if missing else str(error).splitlines()[0]) from None
    return system, path.rstrip("/") or path


def is_directory(place: str) -> bool:
    """Whether there is a directory; raises as `locate`."""
    return _type(place) == "Directory"


def is_file(place: str) -> bool:
    """Whether there is a file; raises as `locate`."""
    return _type(place) == "File"


def _type(place: str) -> str:
    system, path = locate(place)
    return str(system.get_file_info(path).type.name)


def files_below(place: str) -> list[str]:
    """All files in a directory, at any depth, as URIs in order; raises as `locate`."""
    return sorted(name for name, is_file in _entries(place) if is_file)


def matches(pattern: str) -> list[tuple[str, bool]]:
    """What a pattern means (``*``, ``?``, ``[a-z]``, ``**``), each with whether it is a file; raises as `locate`."""
    bare, settings = split_settings(pattern)
    scheme, _, path = bare.partition("://")
    parts = path.split("/")
    fixed = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    root = f"{scheme}://{'/'.join(parts[:fixed])}"
    return sorted(
        (name, is_file)
        for name, is_file in _entries(root + settings)
        if _fits(split_settings(name)[0][len(root) + 1 :].split("/"), parts[fixed:])
    )


def _entries(place: str) -> Iterator[tuple[str, bool]]:
    """URI of each entry at any depth, and whether it is a file."""
    from pyarrow import fs

    system, path = locate(place)
    for entry in system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True)):
        yield below(place, entry.path[len(path.rstrip("/")) + 1 :]), entry.type == fs.FileType.File


def _fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(_fits(names[skipped:], pattern[1:]) for skipped in range(len(names) + 1))
    return bool(names) and _fits_one(names[0], pattern[0]) and _fits(names[1:], pattern[1:])


def _fits_one(name: str, pattern: str) -> bool:
    """As a shell does it: what begins with a dot is hidden."""
    return name.startswith(".") == pattern.startswith(".") and fnmatchcase(name, pattern)
