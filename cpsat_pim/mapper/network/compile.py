"""Compiling all kernels before any clock runs: a minute of one CPU for the first process of an installation.

Later ones read from disk what was compiled. Of processes that start together every other one begins at the end, so that
two of them compile half each, and read the other's half.
"""

import multiprocessing
from functools import cache

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Direction, Level, Tensor
from cpsat_pim.evaluate.cost import predict, to_machine, to_shape
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import Options, solve_layer
from cpsat_pim.mapper.search.window_cut import WindowRows
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload
from tables.bounds.passes import min_activations
from tables.bounds.shapes import build_shape_table

_LAYER, _ARCH = ConvWorkload(C=2, K=2), PIMArchitecture()
_ONES = (1,) * len(Dim)
#: Everything stored everywhere, all loops at the DRAM.
_MAPPING = Mapping(
    temporal=[_ONES] * Level.DRAM + [_LAYER.bounds],
    spatial=[_ONES] * len(Direction),
    order=[()] * Level.DRAM + [(Dim.C, Dim.K)],
    stored=[(True, True, True), (True, True, True), (False, False, False)],
)


@cache
def compile_kernels() -> None:
    """Do once a process with a small layer what layers ask for."""
    steps = (_measure_shapes, _solve, _count_orders, _measure_windows, _predict, _simulate)
    for step in reversed(steps) if _number() % 2 else steps:
        step()


def _number() -> int:
    """This process's among those that `multiprocessing` starts, from 1 on, with which its name ends; 0 if it ends with
    none.
    """
    number = multiprocessing.current_process().name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _measure_shapes() -> None:
    """All of the layer's tables anew: a solve may find them on disk."""
    for t in Tensor:
        build_shape_table(to_shape(_LAYER), t, 1, to_machine(_ARCH).dram)


def _solve() -> None:
    solve_layer(_LAYER, _ARCH, Objective.named("blended"), Options(time_limit=600))


def _count_orders() -> None:
    min_activations(to_shape(_LAYER), Tensor.I, 1, to_machine(_ARCH).dram, [0], _ONES, 1)


def _measure_windows() -> None:
    WindowRows.of(_LAYER, _ARCH)


def _predict() -> None:
    predict(_LAYER, _ARCH, _MAPPING)


def _simulate() -> None:
    simulate(_LAYER, _ARCH, _MAPPING)
