"""Kernels: functions of arrays and integers that run as machine code.

They are declared by ``kernel``, ``allocating`` and ``borrowing``. What was compiled once is kept on disk, and is loaded
without numba: to import that would take half as long again as all else that the first line of a small capture needs. So
nothing but ``machine_code.compiler`` imports it, in the process that has something to compile.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

import numpy as np

from kafkascope.decoders.machine_code import progress
from kafkascope.decoders.machine_code.files import KernelFile
from kafkascope.decoders.machine_code.loading import MachineCode, loaded

Function = TypeVar("Function", bound=Callable[..., Any])

_RUNS_AS_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"  # for a debugger
_OF_PYTHON = {bool: "bool", int: "int64"}  # what numba takes values for that are not numpy's


class Kernel:
    """A function that is compiled once for this machine and each set of types: callers keep to few of them."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Any], *, allocates: bool, is_part: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.allocates = allocates
        self.is_part = is_part
        self._by_types: dict[str, Callable[..., Any]] = {}
        self._by_shape: dict[Hashable, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run it, compiled for such arguments."""
        shape = tuple(map(_shape, arguments))
        form = self._by_shape.get(shape)
        if form is None:
            form = self._by_shape[shape] = self._form(arguments)
        return form(*arguments)

    @property
    def signatures(self) -> list[str]:
        """The types for which it was loaded or compiled in this process."""
        return list(self._by_types)

    def _form(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        if self.is_part:
            raise TypeError(f"{self.__qualname__} is part of other kernels, and only they call it")
        types = ", ".join(map(_type, arguments))
        if types not in self._by_types:
            file = KernelFile(self.function, types)
            self._by_types[types] = loaded(file.read() or self._compiled(file, arguments))
        return self._by_types[types]

    def _compiled(self, file: KernelFile, arguments: tuple[Any, ...]) -> MachineCode:
        """Compiled now, unless another process does it: that is waited for."""
        with file.locked():
            code = file.read()
            if code is None:
                with progress.compiling():
                    from kafkascope.decoders.machine_code import compiler

                    code = compiler.compiled(self, arguments)
                file.write(code)
        return code


def _shape(value: Any) -> Hashable:
    """What decides in which form a kernel takes a value: never the same for two types, but not one for each either."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return type(value), *map(_shape, value)
    return cast(Hashable, type(value))


def _type(value: Any) -> str:
    """The type that a kernel takes a value for, in words that are the same in each run."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        rights = ("" if flags.writeable else " read-only") + ("" if flags.aligned else " unaligned")
        return f"{_element(value.dtype)}[{value.ndim} {order}{rights}]"
    if isinstance(value, tuple):
        return f"{type(value).__module__}.{type(value).__qualname__}({', '.join(map(_type, value))})"
    if isinstance(value, np.generic):
        return str(value.dtype)
    return _OF_PYTHON.get(type(value)) or f"{type(value).__module__}.{type(value).__qualname__}"


@functools.cache
def _element(dtype: np.dtype[Any]) -> str:
    return str(dtype)


def kernel(function: Function) -> Function:
    """A kernel that Python calls. It allocates nothing and counts no references to arrays: its caller has them."""
    return _declared(function, allocates=False)


def allocating(function: Function) -> Function:
    """A kernel that Python calls and that makes arrays."""
    return _declared(function, allocates=True)


def borrowing(function: Function) -> Function:
    """A kernel for kernels alone: it allocates nothing and counts no references to arrays.

    It becomes part of each kernel that calls it and is kept with those.
    """
    return _declared(function, allocates=False, is_part=True)


def _declared(function: Function, *, allocates: bool, is_part: bool = False) -> Function:
    if _RUNS_AS_PYTHON:
        return function
    progress.declared += 1
    return cast(Function, Kernel(function, allocates=allocates, is_part=is_part))


@borrowing
def copy_bytes(source: Any, start: Any, length: Any, target: Any, place: Any) -> None:
    """Copy bytes of one array into another one, all of which are there; no bytes if the length is negative."""
    # An assignment of slices would bring numba's message for shapes that differ, which takes it two seconds.
    # Slices first: without a sum in the index the compiler sees that it may copy many bytes at once.
    taken = source[start : start + length]
    given = target[place : place + length]
    for i in range(length):
        given[i] = taken[i]
