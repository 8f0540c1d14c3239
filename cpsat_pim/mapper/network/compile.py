"""Compile all kernels before any clock runs: this takes a minute of one CPU in the first process of an installation.

Later processes read the compiled kernels from disk, which takes a second: where it is safe, workers are copies of a
process that has read them, or of one that has only started the compiler (`worker_context`). Of workers that start
together, every other one begins at the end of the list, so that two of them compile half each and read the other half.
Where they meet, one waits for the kernel that the other one compiles (`tables.kernel_cache`).
"""

import multiprocessing
from collections.abc import Callable
from functools import cache
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Direction, Level, Tensor
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.base.processes import can_fork
from cpsat_pim.evaluate.cost import predict, to_machine, to_shape
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapper.search.window_cut import WindowCut
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload
from tables.bounds.passes import min_activations
from tables.bounds.positions import count_tiles
from tables.bounds.shapes import build_shape_table
from tables.bounds.tiles import enumerate_tiles
from tables.counts.pipeline import run_pipeline
from tables.counts.walk import min_column_cycles
from tables.factors import log2_of

_LAYER, _ARCH = ConvWorkload(C=2, K=2), PIMArchitecture()
_ONES = (1,) * len(Dim)
#: Everything stored everywhere, all loops at the DRAM.
_MAPPING = Mapping(
    temporal=[_ONES] * Level.DRAM + [_LAYER.bounds],
    spatial=[_ONES] * len(Direction),
    order=[()] * Level.DRAM + [(Dim.C, Dim.K)],
    stored=[(True, True, True), (True, True, True), (False, False, False)],
)


def compile_kernels(stop: Stop | None = None) -> None:
    """Call every kernel once a process, on a small layer; a stop leaves out what is not begun."""
    steps = (_measure_shapes, _solve, _count_orders, _measure_windows, _predict, _simulate)
    for step in reversed(steps) if _number() % 2 else steps:
        if stop is None or not stop.is_set():
            _on_large_stack(step)


def _on_large_stack(step: Callable[[], None]) -> None:
    """Take a step.

    Python keeps the frames of calls in chunks of 16 KB, and gives a chunk back as soon as the first call in it returns.
    The compiler calls so deeply, and so often across the ends of chunks, that a tenth of its time went into asking for
    them. A frame that is larger than half a chunk of 1 MB gets one, and leaves nearly half of it to the calls below.
    """
    step()


_on_large_stack.__code__ = _on_large_stack.__code__.replace(co_stacksize=2**16)


#: Kernels that are compiled at the beginning, in the middle and at the end of the list.
_LARGE: tuple[Any, ...] = (count_tiles, enumerate_tiles, run_pipeline)


def worker_context(stop: Stop | None = None) -> BaseContext:
    """Return how worker processes begin: as copies of this one with all kernels read, where that is safe.

    Where kernels are still to be compiled, this process only starts the compiler: each worker compiles a part.
    """
    if not can_fork():
        return multiprocessing.get_context("spawn")
    if are_compiled():
        compile_kernels(stop)
    else:
        log2_of(1)
    return multiprocessing.get_context("fork")


def are_compiled() -> bool:
    """Return whether kernels are on disk, so that none takes long."""
    return all(_is_kept(kernel) for kernel in _LARGE)


def _is_kept(kernel: Any) -> bool:
    """Return whether a kernel is on disk; also where nothing is compiled at all (NUMBA_DISABLE_JIT)."""
    kept = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    return kept is None or Path(kept._index_path).is_file()


def _number() -> int:
    """Return the number of this process among those that `multiprocessing` starts, counted from 1; 0 for others.

    The name of such a process ends with its number.
    """
    number = multiprocessing.current_process().name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


@cache
def _measure_shapes() -> None:
    """Build the layer's shape tables anew, since a solve may find them on disk."""
    for t in Tensor:
        build_shape_table(to_shape(_LAYER), t, 1, to_machine(_ARCH).dram)


@cache
def _solve() -> None:
    solve_layer(_LAYER, _ARCH, SolveRequest(objective=Objective.named("blended"), time_limit=600))


@cache
def _count_orders() -> None:
    dram = to_machine(_ARCH).dram
    min_activations(to_shape(_LAYER), Tensor.I, 1, dram, [0], _ONES, 1)
    min_column_cycles(dram)


@cache
def _measure_windows() -> None:
    WindowCut.of(Restriction(_LAYER, _ARCH))


@cache
def _predict() -> None:
    predict(_LAYER, _ARCH, _MAPPING)


@cache
def _simulate() -> None:
    simulate(_LAYER, _ARCH, _MAPPING)
