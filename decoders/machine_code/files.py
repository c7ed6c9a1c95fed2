"""Where machine code of kernels is kept, and how it is known to be up to date.

It is kept beside the sources, or where these cannot be written, in the user's cache, else among temporary files;
NUMBA_CACHE_DIR names another place. What lies in these, up to the first that can be written, is used. A kernel is up to
date as long as no file is another one that its own one imports, as it holds a copy of all kernels and constants of
others that it uses.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import pickle
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding as llvm

from kafkascope.decoders.machine_code import progress
from kafkascope.decoders.machine_code.loading import MachineCode, numba_directory

# Names of sources as they are imported, and no paths: of a zip in a worker of Spark they begin with "./".
_HERE = os.path.dirname(__file__)
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))
_COMPILER = os.path.join(_HERE, "compiler.py")
_LOADER: Any = __spec__.loader  # of sources, be they in a zip
_IMPORT = re.compile(r"^from kafkascope([\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


class KernelFile:
    """The file of a kernel's machine code for some types."""

    def __init__(self, function: Callable[..., Any], types: str) -> None:
        self._kernel = _name(function)
        self._form = f"{self._kernel}-{_digest(types.encode())}"
        self._name = f"{self._form}-{_stamp(function)}.kernel"

    def read(self) -> MachineCode | None:
        """What is kept, None if nothing is."""
        for place in places():
            with suppress(Exception):  # what is not there, or damaged
                code: MachineCode = pickle.loads((place / _machine() / self._name).read_bytes())
                return code
        return None

    def write(self, code: MachineCode) -> None:
        """Keep it, in place of what is not up to date any more."""
        directory = places()[-1] / _machine()
        whole = directory / f"{self._name}.{os.getpid()}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            whole.write_bytes(pickle.dumps(code))
            whole.replace(directory / self._name)
        except OSError as error:
            progress.say(f"{self._kernel} is compiled again in the next run, as it could not be kept: {error}")
            with suppress(OSError):
                whole.unlink()
        for other in directory.glob(f"{self._form}-*.kernel"):
            if other.name != self._name:
                other.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process has the kernel's lock, then have it; without a lock where there can be none.

        It goes with the process that has it. While a kernel is compiled, no other one's lock is waited for.
        """
        path = places()[-1] / _machine() / f"{self._kernel}.lock"
        with ExitStack() as held:
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                held.callback(os.close, file)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    with progress.waiting():
                        fcntl.flock(file, fcntl.LOCK_EX)
            yield


def is_kept(function: Callable[..., Any]) -> bool:
    """Whether there is machine code of a kernel that is up to date, for whatever types."""
    name = f"{_name(function)}-*-{_stamp(function)}.kernel"
    return any([*(place / _machine()).glob(name)] for place in places())


@cache
def places() -> tuple[Path, ...]:
    """Where kernels may be kept: the last one is that for new ones, and what lies in the others is used."""
    found: list[Path] = []
    for place in _wanted():
        found.append(place)
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            if os.access(place, os.W_OK | os.X_OK):
                return tuple(found)
    return (*found, Path(temporary_directory()))


def _wanted() -> Iterator[Path]:
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given) / "kafkascope"
    yield Path(__file__).with_name("__pycache__")
    import platformdirs

    yield platformdirs.user_cache_path("kafkascope", appauthor=False) / "kernels"


@cache
def temporary_directory() -> str:
    """The user's directory for kernels among temporary files, which is kept for later runs; says on stderr which.

    Kernels are code: if somebody else has taken its name, or may write there, it is one of a random name instead, for
    this process alone. Raises FileNotFoundError if there is no place for temporary files either.
    """
    user = os.geteuid()
    try:
        path = os.path.join(tempfile.gettempdir(), f"kafkascope-{user}")
    except FileNotFoundError as error:
        where = "NUMBA_CACHE_DIR must name a directory for compiled kernels that can be written"
        raise FileNotFoundError(f"{error}; {where}") from None
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            path = tempfile.mkdtemp(prefix="kafkascope-")
            atexit.register(shutil.rmtree, path, ignore_errors=True)
    progress.say(
        f"compiled kernels are kept in {path}, as neither the package's own directory nor the user's cache can be "
        "written; NUMBA_CACHE_DIR names another place"
    )
    return path


@cache
def _machine() -> str:
    """The directory of what runs with this processor, this Python, this compiler, and its settings."""
    features = llvm.get_host_cpu_features().flatten()
    settings = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name != "NUMBA_CACHE_DIR"
    )
    compiler = (numba_directory() / "_version.py").read_text()
    parts = [llvm.get_process_triple(), llvm.get_host_cpu_name(), features, compiler, llvmlite.__version__, *settings]
    return f"{sys.implementation.cache_tag}-{_digest(chr(0).join(parts).encode())}"


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _stamp(function: Callable[..., Any]) -> str:
    """What is the same as long as neither a function's file, nor one that it imports, nor the compiler, changes."""
    return _stamp_of(function.__code__.co_filename)


@cache
def _stamp_of(file: str) -> str:
    found = sources(file)
    if file not in found:  # nobody knows whether it is another one now
        return os.urandom(8).hex()
    return _digest(b"".join(_read(one)[0] for one in sorted(found | sources(_COMPILER))))


def sources(file: str) -> set[str]:
    """A file of this package and those of it that it imports, be it by way of others."""
    found: set[str] = set()
    named = {file}
    while named:
        one = named.pop()
        digest, imported = _read(one)
        if digest:
            found.add(one)
            named |= imported - found
    return found


@cache
def _read(file: str) -> tuple[bytes, frozenset[str]]:
    """Digest of a file of this package, perhaps in a zip, and what it may import; no digest if it is not there."""
    try:
        content: bytes = _LOADER.get_data(file)
    except OSError:
        return b"", frozenset()
    named = []
    for module, names in _IMPORT.findall(content.decode()):
        place = os.path.join(_PACKAGE, *module.split("."))
        named += [f"{place}.py", *(os.path.join(place, f"{name}.py") for name in re.findall(r"\w+", names))]
    return hashlib.sha256(content).digest(), frozenset(named)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
