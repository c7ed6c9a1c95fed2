"""Kernels are compiled, by numba: nothing else imports it."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from llvmlite.binding import Linkage
from numba import njit, typeof, types
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.funcdesc import default_mangler
from numba.extending import typeof_impl

from kafkascope.decoders.kernels import Kernel
from kafkascope.decoders.machine_code import progress
from kafkascope.decoders.machine_code.loading import MachineCode


def compiled(kernel: Kernel, arguments: tuple[Any, ...]) -> MachineCode:
    """Machine code of a kernel for arguments of such types."""
    signature = tuple(map(typeof, arguments))
    whole = njit(pipeline_class=_WholeCompiler, no_cfunc_wrapper=True, nogil=True, _nrt=kernel.allocates)
    dispatcher = whole(kernel.function)
    with global_compiler_lock:
        dispatcher.compile(signature)
    form = dispatcher.overloads[signature]
    return MachineCode(
        kernel.__name__,
        form.fndesc.llvm_cpython_wrapper_name,
        form.target_context.get_env_name(form.fndesc),
        tuple(form.environment.consts),
        form.library._get_compiled_object(),
    )


@typeof_impl.register(Kernel)  # type: ignore[untyped-decorator]
def _type_of_kernel(kernel: Kernel, _context: Any) -> types.Dispatcher:
    """What numba takes a kernel for that it finds in another one."""
    return types.Dispatcher(as_part(kernel))


@cache
def as_part(kernel: Kernel) -> Any:
    """numba's function for a kernel that others call."""
    part = njit(
        pipeline_class=_PartCompiler, no_cfunc_wrapper=True, no_cpython_wrapper=True, nogil=True, _nrt=kernel.allocates
    )
    dispatcher = part(kernel.function)
    typed = dispatcher.get_call_template

    def without_literals(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return typed(tuple(one.literal_type if isinstance(one, types.Literal) else one for one in arguments), named)

    dispatcher.get_call_template = without_literals  # or numba compiles it anew for each constant that it is given
    return dispatcher


def _symbol(name: str, types: tuple[Any, ...], *, abi_tags: tuple[str, ...] = (), uid: int | None = None) -> str:
    """What a function for these types is called in machine code.

    numba spells the types out, with all fields of arrays: of a tuple of many arrays 14 kB, for each function that takes
    it, wherever it is called.
    """
    digest = hashlib.sha256(str(types).encode()).hexdigest()[:16]
    return str(default_mangler(name, (digest,), abi_tags=abi_tags, uid=uid))


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """What LLVM has of a kernel that Python calls, with all kernels that are part of it.

    numba lets each of these be called from elsewhere too, so LLVM has to hand on all that it declares: of a tuple of
    many arrays a kilobyte, at each call. What is of this kernel alone goes into its caller, or takes what it uses.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


class _WholeCompiler(Compiler):  # type: ignore[misc]
    """numba's own, but for the library and the names."""

    def define_pipelines(self) -> Any:
        """The passes of numba."""
        self.state.targetctx = self.state.targetctx.subtarget(mangler=_symbol)
        self.state.library = _Whole(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """What LLVM has of a kernel in others: it is optimized, and made machine code, as part of its callers.

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
    """numba's own, but for the library and the names."""

    def define_pipelines(self) -> Any:
        """The passes of numba."""
        self.state.targetctx = self.state.targetctx.subtarget(mangler=_symbol)
        self.state.library = _Part(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class _Counting(event.Listener):  # type: ignore[misc]
    """Counts what is compiled of this program."""

    def on_start(self, of: Any) -> None:
        """It begins."""

    def on_end(self, of: Any) -> None:
        """It is compiled, or could not be."""
        if str(of.data["dispatcher"].py_func.__module__).partition(".")[0] == "kafkascope":
            progress.one_more()


event.register("numba:compile", _Counting())
