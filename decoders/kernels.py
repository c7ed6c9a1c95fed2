"""Compiled kernels: where they are kept from one run to the next, and a word on stderr while they are compiled.

numba keeps them beside the sources, else in the user's cache directory, and refuses to declare a kernel where neither
can be written. It also keeps those of a package in a zip by the zip's path, and Spark gives each application a copy at
another one. Here are places for both cases. And numba takes a kernel for up to date if its own file is, though it holds
a copy of every kernel and constant of other files that it uses: here it goes by all files that its own one imports. All
packages take ``njit`` from here, so that numba knows of these places before the first kernel is declared.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit as njit
from numba.core import config, event
from numba.core.caching import InTreeCacheLocator, UserProvidedCacheLocator, UserWideCacheLocator, ZipCacheLocator

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^from kafkascope([\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


def sources(file: Path) -> set[Path]:
    """A file of this package and those of it that it imports, be it by way of others."""
    found, open_ones = {file}, [file]
    while open_ones:
        fresh = _read(open_ones.pop())[1] - found
        found |= fresh
        open_ones += fresh
    return found


@cache
def _read(file: Path) -> tuple[bytes, frozenset[Path]]:
    """What is in a file of this package, and the files of it that it imports."""
    content = file.read_bytes()
    named = []
    for module, names in _IMPORT.findall(content.decode()):
        place = _PACKAGE.joinpath(*module.split("."))
        named += [place.with_suffix(".py"), *(place / f"{name}.py" for name in re.findall(r"\w+", names))]
    return content, frozenset(one for one in named if one.is_file())


@cache
def _stamp(file: Path) -> str:
    digest = hashlib.sha256()
    for one in sorted(sources(file)):
        digest.update(_read(one)[0])
    return digest.hexdigest()


class _BySources:
    """Kernels of this package are up to date as long as no file is another one that theirs imports."""

    _py_file: str

    def get_source_stamp(self) -> Any:
        """What must be the same for kernels that were kept to be used."""
        file = Path(self._py_file)
        return _stamp(file) if _PACKAGE in file.parents else super().get_source_stamp()  # type: ignore[misc]


class InTree(_BySources, InTreeCacheLocator):  # type: ignore[misc]
    """Beside the sources."""


class UserProvided(_BySources, UserProvidedCacheLocator):  # type: ignore[misc]
    """In NUMBA_CACHE_DIR."""


class UserWide(_BySources, UserWideCacheLocator):  # type: ignore[misc]
    """In the user's cache."""


class OfZip(ZipCacheLocator):  # type: ignore[misc]
    """Place of the kernels of a module in a zip: by what is in the zip, in NUMBA_CACHE_DIR or the user's cache."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = self._below(config.CACHE_DIR or os.path.dirname(self.get_cache_path()))

    def _below(self, directory: str) -> str:
        module = self._internal_path.replace("/", ".").removesuffix(".py")
        return os.path.join(directory, f"kafkascope-{_digest(self._zip_path)}", module)

    @classmethod
    def from_function(cls, function: Any, file: str) -> OfZip | None:
        """The place for a function, None if its file is in no zip."""
        if ".zip" not in file:
            return None
        place = cls(function, file)
        try:
            place.ensure_cache_path()
        except OSError:
            place._cache_path = place._below(temporary_directory())
        return place


class Temporary(UserWide):
    """Place of the kernels of a module where numba finds none."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = os.path.join(temporary_directory(), self.get_suitable_cache_subpath(file))


@cache
def _digest(zip_path: str) -> str:
    return hashlib.sha256(Path(zip_path).read_bytes()).hexdigest()[:16]


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
    _say(
        f"compiled kernels are kept in {path}, as neither the package's own directory nor the user's cache can be "
        "written; NUMBA_CACHE_DIR names another place"
    )
    return path


class _Compiling(event.Listener):  # type: ignore[misc]
    """Says once that kernels are compiled: nothing else is seen of the program for that long."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, of: Any) -> None:
        """A kernel, of whatever program, is in no cache."""
        module = of.data["dispatcher"].py_func.__module__
        if not self._said and module.partition(".")[0] == "kafkascope":
            self._said = True
            _say("compiling kernels; the first run after installation takes about a minute longer")

    def on_end(self, of: Any) -> None:
        """Nothing is said of the end."""


def _say(text: str) -> None:
    print(f"kafkascope: {text}", file=sys.stderr, flush=True)


def borrowing(function: Function) -> Function:
    """A kernel for kernels alone: it is not called by Python, allocates nothing and counts no references to arrays.

    To hand a tuple of many arrays to such a kernel costs little. With njit, each call would count a reference to every
    array up and down again, and the code that unpacks the tuple from Python's would be compiled for each kernel.
    """
    options = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    kernel: Function = njit(cache=True, nogil=True, **options)(function)
    return kernel


if not config.CACHE_LOCATOR_CLASSES:  # else the user has said where
    config.CACHE_LOCATOR_CLASSES = (
        f"{__name__}.OfZip,{__name__}.UserProvided,{__name__}.InTree,{__name__}.UserWide,IPythonCacheLocator,"
        f"{__name__}.Temporary"
    )
event.register("numba:compile", _Compiling())
