"""The kernel language: Python functions over tensors, parsed and never executed (docs/compiler.md, section 1)."""

from cpsat_pim.compiler.language.affine import Affine
from cpsat_pim.compiler.language.ir import (
    Constant,
    Expression,
    Extent,
    Kernel,
    Loop,
    Operation,
    Read,
    Statement,
    Tensor,
)
from cpsat_pim.compiler.language.mistakes import KernelMistake
from cpsat_pim.compiler.language.reference import evaluate
from cpsat_pim.compiler.language.sets import DimensionSet, dimension_sets
from cpsat_pim.compiler.language.source import kernel, kernel_of_text, read_kernel, shipped_kernel, shipped_names

__all__ = [
    "Affine",
    "Constant",
    "DimensionSet",
    "Expression",
    "Extent",
    "Kernel",
    "KernelMistake",
    "Loop",
    "Operation",
    "Read",
    "Statement",
    "Tensor",
    "dimension_sets",
    "evaluate",
    "kernel",
    "kernel_of_text",
    "read_kernel",
    "shipped_kernel",
    "shipped_names",
]
