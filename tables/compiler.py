"""Numba's compiler for kernels, without what takes long and serves none of them.

(`tables` and `tracesim` import nothing of each other, so each has a copy of this file.)
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from numba.core import types
from numba.core.compiler import Compiler, Flags, PassManager
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import (
    AnnotateTypes,
    BaseTypeInference,
    InlineOverloads,
    NativeLowering,
    NopythonRewrites,
    NopythonTypeInference,
)
from numba.core.untyped_passes import DeadBranchPrune, InlineClosureLikes

from tables.allocation import type_new_array
from tables.lowering import KernelLowering
from tables.optimization import KernelLibrary

#: Passes that change no kernel: these have no closures, no branches on None and no expressions over whole arrays; and
#: nobody reads a listing of their types.
_UNUSED = (InlineClosureLikes, DeadBranchPrune, InlineOverloads, NopythonRewrites, AnnotateTypes)


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler with fewer passes, which looks up once what an operator returns."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        kept = PassManager("kernel")
        (whole,) = super().define_pipelines()
        for one, description in whole.passes:
            if one not in _UNUSED:
                kept.add_pass(_OWN.get(one, one), description)
        kept.finalize()
        return [kept]

    #: What holds the code.
    library: type[KernelLibrary] = KernelLibrary

    def _compile_bytecode(self) -> Any:
        self.state.flags = _Flags(self.state.flags)
        self.state["library"] = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        with _no_garbage_collection():
            return super()._compile_bytecode()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: compiling leaves little of it, and each collection visits all objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Flags(Flags):  # type: ignore[misc]
    """Numba's flags, compared by those that are set; numba compares all for each operator that it looks up."""

    def __hash__(self) -> int:
        return hash(frozenset(self._values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and bool(self._values == other._values)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Inference(BaseTypeInference):  # type: ignore[misc]
    """Numba's inference of types, by `_Context`."""

    _name = "kernel_type_inference"

    def run_pass(self, state: Any) -> bool:
        """Infer the types of a kernel."""
        whole = state.typingctx
        state.typingctx = _Context(whole)
        try:
            return bool(super().run_pass(state))
        finally:
            state.typingctx = whole


class _Context:
    """What numba knows of types. To find the result of an operator numba tries all that it could mean, strings too."""

    _known: ClassVar[dict[Any, Any]] = {}

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a function for arguments of these types; None if there is none."""
        if kws or (isinstance(function, types.Type) and type(function) is not types.Function):
            return self._whole.resolve_function_type(function, args, kws)
        key = (function, *args)
        if key not in self._known:
            new = type_new_array(function, args)
            self._known[key] = new or self._whole.resolve_function_type(function, args, kws)
        return self._known[key]


#: Numba's passes, and what stands for them.
_OWN = {NopythonTypeInference: _Inference, NativeLowering: KernelLowering}
