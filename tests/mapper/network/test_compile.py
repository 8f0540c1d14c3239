"""Kernels are compiled once, before any clock runs, and by two processes from both ends."""

import multiprocessing
import os
import resource
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import pytest

import cpsat_pim.mapper.network.compile
from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.mapper.network.compile import compile_kernels, worker_context
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import Progress, SolveRequest
from cpsat_pim.mapping.check import check_mapping

STEPS = ("_measure_shapes", "_solve", "_count_orders", "_measure_windows", "_predict", "_simulate")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that were taken, in place of them."""
    taken: list[str] = []
    for step in STEPS:
        monkeypatch.setattr(cpsat_pim.mapper.network.compile, step, cache(lambda step=step: taken.append(step)))
    monkeypatch.setattr(multiprocessing.current_process(), "name", "MainProcess")
    return taken


def test_kernels_are_compiled_before_the_clock_runs(done: list[str]) -> None:
    """Once a process, whatever is solved; nobody hears of it."""
    layer, heard = ConvWorkload(C=16, K=16), list[Progress]()
    for _ in range(2):
        solve_and_verify(
            layer, PIMArchitecture(), SolveRequest(objective=Objective.named("energy")), on_progress=heard.append
        )
    assert done == list(STEPS)
    assert {progress.layer for progress in heard} == {layer.name}


@pytest.mark.parametrize(
    ("process", "is_backwards"), [("MainProcess", False), ("ForkProcess-1", True), ("SpawnProcess-12", False)]
)
def test_every_other_worker_begins_at_the_end(
    done: list[str], monkeypatch: pytest.MonkeyPatch, process: str, is_backwards: bool
) -> None:
    """So that two of them do half each."""
    monkeypatch.setattr(multiprocessing.current_process(), "name", process)
    compile_kernels()
    assert done == list(reversed(STEPS) if is_backwards else STEPS)


@pytest.mark.parametrize(
    ("is_safe", "is_kept", "way"), [(True, True, "fork"), (True, False, "fork"), (False, True, "spawn")]
)
def test_workers_are_copies_where_that_is_safe(
    done: list[str], monkeypatch: pytest.MonkeyPatch, is_safe: bool, is_kept: bool, way: str
) -> None:
    """Before they are copied, the parent reads all kernels; where these are missing, workers compile their share."""
    monkeypatch.setattr(cpsat_pim.mapper.network.compile, "can_fork", lambda: is_safe)
    monkeypatch.setattr(cpsat_pim.mapper.network.compile, "_is_kept", lambda kernel: is_kept)
    assert worker_context().get_start_method() == way
    assert done == (list(STEPS) if is_safe and is_kept else [])


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults")
def test_deep_calls_of_a_step_ask_for_no_memory(done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """At no depth does a call that is repeated get its frame from the system each time."""

    def call_at(depth: int) -> None:
        if depth:
            call_at(depth - 1)
        else:
            for _ in range(100):
                _nothing()

    def call_at_all_depths() -> None:
        for depth in range(200):
            call_at(depth)

    monkeypatch.setattr(cpsat_pim.mapper.network.compile, "_solve", call_at_all_depths)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    compile_kernels()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 100


def _nothing() -> None:
    """Return."""


def test_a_stop_leaves_out_what_is_not_begun(done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The step in hand ends, and those that were left out are taken when they are asked for again."""
    stop = threading.Event()
    monkeypatch.setattr(cpsat_pim.mapper.network.compile, "_solve", cache(stop.set))
    compile_kernels(stop)
    assert done == ["_measure_shapes"]
    compile_kernels()
    assert done == [step for step in STEPS if step != "_solve"]


def test_what_is_predicted_and_simulated_for_the_compiler_is_legal() -> None:
    """So all kernels run through."""
    assert (
        check_mapping(
            cpsat_pim.mapper.network.compile._LAYER,
            cpsat_pim.mapper.network.compile._ARCH,
            cpsat_pim.mapper.network.compile._MAPPING,
        )
        == []
    )


def test_no_kernel_is_left_to_be_compiled_while_the_clock_runs(tmp_path: Path) -> None:
    """In a process of its own none that a layer needs is new after the small one, whose tables may be on disk."""
    program = """
import importlib, os, pkgutil, sys
import tables, tracesim
from numba.core.dispatcher import Dispatcher
from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.mapper.network.compile import compile_kernels
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.network.compile import compile_kernels
from cpsat_pim.mapper.network.run import solve_and_verify

def compiled():
    packages = (tables, tracesim)
    names = [m.name for p in packages for m in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
    modules = [importlib.import_module(name) for name in names]
    return {k for m in modules for k, v in vars(m).items() if isinstance(v, Dispatcher) and v.signatures}

compile_kernels()
before = compiled()
os.environ["CPSAT_PIM_CACHE"] = sys.argv[1]
for kind in ("energy", "latency"):
    request = SolveRequest(objective=Objective.named(kind), then=None, time_limit=5)
    solve_and_verify(ConvWorkload(R=3, P=8, C=8, K=8), PIMArchitecture(), request)
print("enumerate_tiles" in before, "run_pipeline" in before, sorted(compiled() - before))
"""
    environment = os.environ | {"CPSAT_PIM_CACHE": str(tmp_path / "small")}
    for cold in ("first", "second"):
        command = [sys.executable, "-c", program, str(tmp_path / cold)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "True True []\n", cold
