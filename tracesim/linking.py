"""Kernels that kernels call: their code is only linked into the caller's, which LLVM then optimises as a whole.

Left to itself, numba optimises a called kernel, translates it to machine code, and optimises it again in each caller
and in each caller's caller. Most kernels are never called from Python, so all of that but the last is in vain.
(`tables` and `tracesim` import nothing of each other, so each has a copy of this file.)
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding
import numba
from numba.core.compiler import CompileResult, compile_result
from numba.core.types.misc import unliteral

from tracesim.compiler import KernelCompiler
from tracesim.kernel_cache import ByContent, KernelCache, KernelFiles, keep
from tracesim.optimization import KernelLibrary


def link_only(compiled: Any, function: Callable[..., Any], **options: Any) -> None:
    """Give kernels that call a function a compiled form of it that has no machine code of its own.

    `compiled`: the function's dispatcher (modified), or the function itself if NUMBA_DISABLE_JIT is set; it still
    compiles the function in full where Python calls it. Its `for_callers()` is the dispatcher of the other form.
    `options`: of numba's compiler.

    Numba compiles a function called with a constant for each constant; this form is compiled for its type only.
    """
    if compiled is not function:
        called = cache(lambda: _for_callers(function, **options))
        compiled.get_call_template = lambda args, kws: called().get_call_template(
            [unliteral(arg) for arg in args], {name: unliteral(arg) for name, arg in kws.items()}
        )
        compiled.get_overload = lambda signature: called().get_overload(signature)
        compiled.for_callers = called


def _for_callers(function: Callable[..., Any], **options: Any) -> Any:
    """Return the dispatcher of the form of a function that its callers link."""
    only_code = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _CodeCompiler}
    called = numba.njit(**only_code, **options)(function)
    keep(called, function, _CodeCache)
    return called


class _Code(KernelLibrary):
    """LLVM's intermediate code of a kernel and of all that it calls, to be linked."""

    def _optimize_final_module(self) -> None:
        pass  # the caller's module is optimised as a whole

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> "_NoMachineCode":
        """Return what is told of environments."""
        return _NoMachineCode()

    #: Called where kernels are kept.
    serialize_using_object_code = KernelLibrary.serialize_using_bitcode

    @classmethod
    def read(cls, codegen: Any, name: str, bitcode: bytes) -> "_Code":
        """Return what was kept."""
        code = cls(codegen, name)
        code._final_module = llvmlite.binding.parse_bitcode(bitcode)
        code._finalize_final_module()
        return code


class _NoMachineCode:
    """Stands for the engine that runs machine code."""

    def set_env(self, name: str, environment: Any) -> None:
        """Numba's environments serve objects of Python, which kernels do not have."""


class _CodeCompiler(KernelCompiler):
    """The compiler, with a library that leaves the code as it is."""

    library = _Code


class _BesideKernels(ByContent):
    """The directories of kernels, under other names."""

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name in one source apart, and this form from the other."""
        return f"{super().get_disambiguator()}-linked"


class _CodeFiles(KernelFiles):
    """Intermediate code as files."""

    _locator_classes = (_BesideKernels,)

    def rebuild(self, target_context: Any, payload: Any) -> CompileResult:
        """Return what was kept."""
        (name, _, bitcode), function, environment, signature, *_ = payload
        library = _Code.read(target_context.codegen(), name, bitcode)
        return compile_result(
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=library,
            environment=environment,
            entry_point=target_context.get_executable(library, function, environment),
            fndesc=function,
            signature=signature,
            objectmode=False,
            lifted=(),
            reload_init=[],
        )


class _CodeCache(KernelCache):
    """The cache of a function's form for its callers."""

    _impl_class = _CodeFiles
