"""LLVM's optimisation of kernels, in fewer passes than numba's.

(`tables` and `tracesim` import nothing of each other, so each has a copy of this file.)
"""

from typing import Any

from llvmlite.binding import create_new_function_pass_manager
from numba.core.codegen import JITCodeLibrary


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM's code of a kernel and of all that it calls.

    Numba optimises each function in full and then the whole twice, first so that loops become vectors. Here functions
    are only made small, and the whole is optimised once: loops of kernels have few steps, as there are seven dims.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.enable_object_caching()

    def _optimize_functions(self, module: Any) -> None:
        """Keep variables in registers, and merge blocks and instructions."""
        module.data_layout = self._codegen._data_layout
        builder = self._codegen._pass_builder(loop_vectorize=False)
        for function in module.functions:
            if not function.is_declaration:
                _small_passes().run(function, builder)

    def _optimize_final_module(self) -> None:
        """Inline what is called, and optimise the whole."""
        passes, builder = self._codegen._module_pass_manager(loop_vectorize=False)
        passes.run(self._final_module, builder)


def _small_passes() -> Any:
    """Return passes that make the text of a function shorter."""
    passes = create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_refprune_pass()
    return passes
