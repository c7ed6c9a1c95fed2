"""Compiled kernels: how they are declared, where they are kept, and what is seen on stderr while they are compiled.

numba keeps them beside the sources, else in the user's cache directory, and refuses to declare a kernel where neither
can be written. It also keeps those of a package in a zip by the zip's path, and Spark gives each application a copy at
another one. Here are places for both cases. And numba takes a kernel for up to date if its own file is, though it holds
a copy of every kernel and constant of other files that it uses: here it goes by all files that its own one imports. All
packages declare kernels by ``kernel``, ``allocating``, ``shared`` and ``borrowing``, which take numba less time than
its ``njit``.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llvmlite.binding import Linkage, add_symbol, parse_assembly
from numba import njit, types
from numba.core import config, event
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
    ZipCacheLocator,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime._nrt_python import c_helpers

if TYPE_CHECKING:
    from rich.progress import Progress

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


class _Form(CompileResultCacheImpl):  # type: ignore[misc]
    """What is kept of a compiled form: machine code, without what LLVM would need to make it part of another kernel.

    Nor is there what types all of its variables have, which nobody reads. Both would be three quarters of a file, and
    two fifths of the time that it takes to load one.
    """

    def reduce(self, form: Any) -> Any:
        """What is written."""
        (name, kind, (code, _)), *middle, _, reload, environments = super().reduce(form)
        return (name, kind, (code, _no_bitcode())), *middle, "", reload, environments

    def rebuild(self, target_context: Any, payload: tuple[Any, ...]) -> Any:
        """The compiled form of what was written. numba would see in its bitcode that there is a function for Python."""
        description = payload[1]
        target_context.codegen()._engine._defined_symbols.add(description.llvm_cpython_wrapper_name)
        return super().rebuild(target_context, payload)


@cache
def _no_bitcode() -> bytes:
    nothing: bytes = parse_assembly("").as_bitcode()
    return nothing


class _Kept(FunctionCache):  # type: ignore[misc]
    """The compiled forms of a kernel. They are loaded without all that numba knows to compile with.

    That would be 30 MB and a tenth of a second; what compiles has it (`Compiler`). What is loaded needs nothing but
    the functions for arrays that come from Python, and go there, by their names.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for some types, None if there is none."""
        _name_runtime()
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


class _KeptForPython(_Kept):
    """Those of a kernel that is part of no other."""

    _impl_class = _Form


@cache
def _name_runtime() -> None:
    for name, address in c_helpers.items():
        add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


class _Compiling(event.Listener):  # type: ignore[misc]
    """Shows that kernels are compiled, for nothing else is seen of the program for that long: a bar, or a line once.

    The bar is of all kernels that are declared. No command needs every one, so it is gone before it is full.
    """

    def __init__(self) -> None:
        self.declared = 0
        self._done = 0
        self._depth = 0
        self._bar: Progress | None = None
        self._said = False
        self.first: Callable[[], None] | None = None

    def on_start(self, of: Any) -> None:
        """A kernel, of whatever program, is in no cache."""
        if _is_ours(of):
            self.enter("compile kernels")
            first, self.first = self.first, None
            if first:
                first()

    def on_end(self, of: Any) -> None:
        """It is compiled, or could not be."""
        if _is_ours(of):
            self._done += 1
            self.leave()

    def enter(self, what: str) -> None:
        """Something begins, perhaps as part of something else, that whoever waits is to know of."""
        self._depth += 1
        if not sys.stderr.isatty():
            if not self._said:
                _say("compiling kernels; the first run after installation takes up to half a minute longer")
            self._said = True
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task(what)
        if self._depth == 1:
            self._bar.start()
        self._show(what)

    def leave(self) -> None:
        """It is over."""
        self._depth -= 1
        self._show()
        if self._bar and not self._depth:
            self._bar.stop()

    def _show(self, what: str | None = None) -> None:
        if self._bar:
            task = self._bar.task_ids[0]
            self._bar.update(task, description=what, completed=self._done, total=self.declared)


def _is_ours(of: Any) -> bool:
    return str(of.data["dispatcher"].py_func.__module__).partition(".")[0] == "kafkascope"


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)


def _say(text: str) -> None:
    print(f"kafkascope: {text}", file=sys.stderr, flush=True)


_compiling = _Compiling()


def when_compiling(first: Callable[[], None]) -> None:
    """Call this once, as soon as a kernel of ours turns out not to be compiled."""
    _compiling.first = first


def kept(function: Any) -> tuple[str, bool]:
    """Where the compiled forms of a kernel are kept, and whether there are any that are up to date."""
    cache = function._cache
    return cache.cache_path, bool(cache._cache_file._load_index())


def _is_kept(function: Any, signature: Any) -> bool:
    cache = function._cache
    return cache._index_key(signature, function.targetctx.codegen()) in cache._cache_file._load_index()


def kernel(function: Function) -> Function:
    """A kernel that Python calls, compiled once for this machine and each set of types: callers keep to few of them.

    It allocates nothing and counts no references to arrays: its caller has them.
    """
    return _declared(function, _KeptForPython, _nrt=False)


def allocating(function: Function) -> Function:
    """A kernel that Python calls and that makes arrays."""
    return _declared(function, _KeptForPython)


def shared(function: Function) -> Function:
    """A kernel that both Python and other kernels call: more is kept of it, so that loading it takes twice as long."""
    return _declared(function, _Kept, _nrt=False)


def allocating_shared(function: Function) -> Function:
    """As `shared`, and it makes arrays, as those do that call it."""
    return _declared(function, _Kept)


def borrowing(function: Function) -> Function:
    """A kernel for kernels alone: it is not called by Python, allocates nothing and counts no references to arrays.

    It becomes part of each kernel that calls it and is kept with those.
    """
    return _declared(function, pipeline_class=_PartCompiler, no_cpython_wrapper=True, _nrt=False)


def _declared(function: Function, kept: type[_Kept] | None = None, **options: Any) -> Function:
    options = {"pipeline_class": _WholeCompiler, "no_cfunc_wrapper": True, "nogil": True} | options
    declared: Any = njit(**options)(function)
    if not config.DISABLE_JIT:
        if kept is not None:
            declared._cache = kept(function)
        _compiling.declared += 1
        typed, compiled, place = declared.get_call_template, declared.compile, declared.stats.cache_path

        def without_literals(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
            if kept is _KeptForPython:
                raise TypeError(f"{function.__qualname__} is a kernel for Python alone: others call what is `shared`")
            return typed(tuple(one.literal_type if isinstance(one, types.Literal) else one for one in arguments), named)

        def once(signature: Any) -> Any:
            if _is_kept(declared, signature):  # who has the lock now loads it as well
                return compiled(signature)
            with global_compiler_lock, _locked(Path(place) / f"{function.__module__}.{function.__qualname__}.lock"):
                return compiled(signature)

        # numba would compile it anew for each constant that a kernel calls it with ...
        declared.get_call_template = without_literals
        if place:
            # ... and in each process that needs it before it is kept.
            declared.compile = once
    kernel: Function = declared
    return kernel


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process has this lock, then have it; without a lock where there can be none.

    It goes with the process that has it. Kernels call each other in one direction, so none waits for itself.
    """
    with ExitStack() as held:
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _compiling.enter("wait for kernels that another process compiles")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX)
                finally:
                    _compiling.leave()
        yield


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """What LLVM has of a kernel that Python calls, with all kernels that are part of it.

    numba lets each of these be called from elsewhere too, so LLVM has to hand on all that it declares: of a tuple of
    many arrays a kilobyte, at each call. What is of this kernel alone goes into its caller, or takes what it uses.
    """

    def _optimize_final_module(self) -> None:
        for function in list(self._final_module.functions):
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
                # By its own name LLVM would look for a `shared` kernel here, where it is of no use to others.
                function.name = f"part of {self.name}: {function.name}"
        super()._optimize_final_module()


class _WholeCompiler(Compiler):  # type: ignore[misc]
    """numba's own, but for the library."""

    def define_pipelines(self) -> Any:
        """The passes of numba."""
        self.state.library = _Whole(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """What LLVM has of a kernel for kernels alone: it is optimized, and made machine code, as part of its callers.

    numba would do both with it alone as well, for nothing: two fifths of what LLVM has to do.
    """

    @property
    def codegen(self) -> _Part:
        """Who is told of its environment."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """An environment is for what runs."""

    def get_pointer_to_function(self, name: str) -> int:
        """No pointer, for there is no machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _PartCompiler(Compiler):  # type: ignore[misc]
    """numba's own, but for the library."""

    def define_pipelines(self) -> Any:
        """The passes of numba."""
        self.state.library = _Part(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


@borrowing
def copy_bytes(source: Any, start: Any, length: Any, target: Any, place: Any) -> None:
    """Copy bytes of one array into another one, all of which are there; no bytes if the length is negative."""
    # An assignment of slices would bring numba's message for shapes that differ, which takes it two seconds.
    # Slices first: without a sum in the index the compiler sees that it may copy many bytes at once.
    taken = source[start : start + length]
    given = target[place : place + length]
    for i in range(length):
        given[i] = taken[i]


if not config.CACHE_LOCATOR_CLASSES:  # else the user has said where
    config.CACHE_LOCATOR_CLASSES = (
        f"{__name__}.OfZip,{__name__}.UserProvided,{__name__}.InTree,{__name__}.UserWide,IPythonCacheLocator,"
        f"{__name__}.Temporary"
    )
event.register("numba:compile", _compiling)
