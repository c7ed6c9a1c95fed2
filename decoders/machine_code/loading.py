"""Machine code becomes a function of Python: by LLVM's linker and numba's functions in C, without all else of numba."""

from __future__ import annotations

import builtins
import ctypes
import pickle
import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding as llvm


class MachineCode(NamedTuple):
    """A kernel for some types, as the compiler made it: an object file, and what it takes to call what is in it."""

    name: str  # of the kernel
    function: str  # symbol of what takes Python's objects
    environment: str  # symbol of the place for the address of what follows
    constants: tuple[Any, ...]  # objects of Python that it uses
    object_file: bytes


def loaded(code: MachineCode) -> Callable[..., Any]:
    """The function. It takes what it was compiled for and nothing else, by position; numbers may be of any type."""
    linker = _linker()
    linker.add_object_file(llvm.ObjectFileRef.from_data(code.object_file))
    linker.finalize_object()
    functions = extension("_dynfunc")
    environment = functions.Environment({})
    environment.consts.extend(code.constants)
    place = linker.get_global_value_address(code.environment)
    ctypes.c_void_p.from_address(place).value = id(environment)  # which the function keeps
    address = linker.get_function_address(code.function)
    function: Callable[..., Any] = functions.make_function(
        sys.modules[__name__], code.name, "", address, environment, (linker,)
    )
    return function


@cache
def _linker() -> Any:
    """LLVM's, that puts machine code into memory; it knows what numba lets machine code call."""
    runtime = extension("core.runtime._nrt_python").c_helpers
    symbols = {name if name.startswith("_") else f"NRT_{name}": address for name, address in runtime.items()}
    for module in ("_helperlib", "_dynfunc"):
        symbols |= {f"numba_{name}": address for name, address in extension(module).c_helpers.items()}
    symbols["numba_unpickle"] = ctypes.cast(_read_object, ctypes.c_void_p).value
    symbols["_Py_NoneStruct"] = id(None)
    for name, value in vars(builtins).items():
        if isinstance(value, type) and issubclass(value, BaseException):
            symbols[f"PyExc_{name}"] = id(value)
    for name, address in symbols.items():
        llvm.add_symbol(name, address)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@cache
def _object_at(address: int, size: int, _digest: int) -> Any:
    """An object that lies in machine code in writing: the class of what it makes, an exception that it raises."""
    return pickle.loads(ctypes.string_at(address, size))


_read_object = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(_object_at)


@cache
def numba_directory() -> Path:
    """Where numba is installed, which is found without importing it."""
    found = find_spec("numba")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'numba'", name="numba")
    return Path(found.origin).parent


@cache
def extension(name: str) -> Any:
    """A module of numba's that is written in C, without the packages that it is in, which would import all of numba."""
    whole = f"numba.{name}"
    if whole in sys.modules:
        return sys.modules[whole]
    base = numba_directory().joinpath(*name.split("."))
    path = next(filter(Path.is_file, (base.with_name(base.name + suffix) for suffix in EXTENSION_SUFFIXES)))
    spec = spec_from_file_location(whole, path, loader=ExtensionFileLoader(whole, str(path)))
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {whole!r}", name=whole)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
