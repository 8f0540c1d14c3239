"""The MLIR text, parsed and run by xDSL: it computes the layer."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.export.loops import build_program, format_mlir
from cpsat_pim.export.loops.memory import Ints, locate
from cpsat_pim.export.loops.program import TensorProgram
from tests.cross.cases import Case, cases
from tests.export.loops.test_execute import convolve, numbers

pytest.importorskip("xdsl")

from xdsl.context import Context
from xdsl.dialects import affine, arith, builtin, func, memref, scf
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.interpreters import register_implementations
from xdsl.parser import Parser

#: Work that a program may do in a test: xDSL takes some 10 us an operation.
MAX_MACS = 60

#: What lies where nothing was written.
GARBAGE = 99


class Cells:
    """A memref of numbers."""

    def __init__(self, cells: Ints) -> None:
        self.cells = cells

    def load(self, index: tuple[int, ...]) -> int:
        """One number; none lies before the first."""
        assert min(index) >= 0
        return int(self.cells[index])

    def store(self, index: tuple[int, ...], value: int) -> None:
        """Replace one number."""
        assert min(index) >= 0
        self.cells[index] = value


@register_impls
class Numbers(InterpreterFunctions):
    """Conversions and memrefs of integers of any width, which xDSL parses but does not run."""

    @impl(arith.ExtSIOp)
    def extend(self, interpreter: Interpreter, op: arith.ExtSIOp, args: PythonValues) -> PythonValues:
        """Keep the number: it is signed already."""
        return args

    @impl(arith.TruncIOp)
    def truncate(self, interpreter: Interpreter, op: arith.TruncIOp, args: PythonValues) -> PythonValues:
        """Keep the low bits, as a signed number."""
        half = 2 ** (op.result.type.width.data - 1)
        return ((args[0] + half) % (2 * half) - half,)

    @impl(affine.LoadOp)
    def load(self, interpreter: Interpreter, op: affine.LoadOp, args: PythonValues) -> PythonValues:
        """Load from where the map says. (xDSL's own takes no symbols, but its parser makes all operands symbols.)"""
        return (args[0].load(_index(op.map.data, args[1:])),)

    @impl(affine.StoreOp)
    def store(self, interpreter: Interpreter, op: affine.StoreOp, args: PythonValues) -> PythonValues:
        """Store to where the map says."""
        args[1].store(_index(op.map.data, args[2:]), args[0])
        return ()

    @impl(memref.AllocOp)
    def allocate(self, interpreter: Interpreter, op: memref.AllocOp, args: PythonValues) -> PythonValues:
        """Fill it with what nobody wrote."""
        return (Cells(np.full(op.memref.type.get_shape(), GARBAGE, np.int64)),)


def _index(where: Any, operands: PythonValues) -> tuple[int, ...]:
    return tuple(where.eval(operands[: where.num_dims], operands[where.num_dims :]))


def run(text: str, arguments: tuple[Cells, ...]) -> None:
    """Parse the module, verify it, and run its only function."""
    context = Context()
    for dialect in (builtin.Builtin, func.Func, affine.Affine, arith.Arith, memref.MemRef, scf.Scf):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    interpreter = Interpreter(module)
    register_implementations(interpreter, context)
    interpreter.register_implementations(Numbers(), override=True)
    function = next(op for op in module.walk() if isinstance(op, func.FuncOp))
    interpreter.call_op(function, arguments)


def dram_of(tensor: TensorProgram, values: Ints | None = None) -> Cells:
    """A tensor's banks, rows and elements, with its values where `locate` says."""
    layout = tensor.layout
    cells = np.full((layout.banks, -(-layout.rows // layout.banks), layout.row_elems), GARBAGE, np.int64)
    if values is not None:
        cells[places_of(tensor)] = values.ravel()
    return Cells(cells)


def places_of(tensor: TensorProgram) -> tuple[Ints, Ints, Ints]:
    """Bank, row and element of every element."""
    places = np.indices(tensor.extents).reshape(len(tensor.axes), -1).T
    row, elem = locate(tensor, places)
    return row % tensor.layout.banks, row // tensor.layout.banks, elem


@settings(max_examples=20)
@given(cases(uneven=True).filter(lambda case: case.layer.macs <= MAX_MACS), st.integers(0, 2**32))
def test_module_computes_the_layer(case: Case, seed: int) -> None:
    """Whatever the mapping, the function leaves the layer's outputs in DRAM, in numbers of O's width there."""
    program = build_program(case.layer, case.arch, case.mapping)
    inputs, weights = numbers(case.layer, seed)
    tensors = program.tensors
    arguments = dram_of(tensors["I"], inputs), dram_of(tensors["W"], weights), dram_of(tensors["O"])
    run(format_mlir(program), arguments)
    outputs = arguments[2].cells[places_of(tensors["O"])].reshape(tensors["O"].extents)
    difference = outputs - convolve(case.layer, inputs, weights)
    assert not (difference % 2 ** tensors["O"].layout.element_bits).any()
