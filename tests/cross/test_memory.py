"""Kernels free all memory that they allocate: one process maps a whole network, in a sweep many of them."""

import gc
from pathlib import Path

import pytest
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.mapper.result import Objective
from cpsat_pim.study.sweep.job import Job, solve_job

LAYER = ConvWorkload(R=3, S=3, P=14, Q=14, C=32, K=32)


def kept_arrays() -> int:
    """Return the number of arrays that kernels have allocated and nobody has freed."""
    gc.collect()
    counts = rtsys.get_allocation_stats()
    return int(counts.mi_alloc - counts.mi_free)


def test_solved_layers_leave_no_arrays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables built anew, mappings counted and simulated: what is kept for the next time is there after the first."""
    rtsys.initialize(cpu_target.target_context)
    _nrt_python.memsys_enable_stats()
    kept = []
    for run in range(3):
        monkeypatch.setenv("CPSAT_PIM_CACHE", str(tmp_path / str(run)))
        solve_job(Job(layer=LAYER, arch=PIMArchitecture(), objective=Objective.named("latency")))
        kept.append(kept_arrays())
    assert kept[2] == kept[1]
