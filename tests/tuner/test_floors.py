"""Floors against mappings and plans: nothing that is legal takes less time or energy."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.nodes import NodeCosts
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.solved import SearchLimits
from cpsat_pim.planner.space import Space
from cpsat_pim.study.fuzz.campaign import traced_case, with_mappings
from cpsat_pim.study.fuzz.draw import Drawer
from cpsat_pim.tuner.analytic import Floors
from cpsat_pim.tuner.objective import Figure
from cpsat_pim.tuner.space import Axis, HardwareSpace
from cpsat_pim.tuner.splits import largest_divisors, splits
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode
from tables.hardware import least_sum, operand_pj

FJ_PER_PJ = 1000
SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a script by its name, and forgets it afterwards."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield import_module
    sys.modules.pop("benchmark_tuner", None)


def network(*layers: ConvWorkload) -> Network:
    """A chain of layers."""
    nodes = []
    for i, layer in enumerate(layers):
        nodes.append(NetworkNode(name=f"l{i}", workload=evolve(layer, name=f"l{i}"), after=(f"l{i - 1}",) if i else ()))
    return Network(name="chain", layers=nodes)


def floors_of(arch: PIMArchitecture, *layers: ConvWorkload, rows: int = 1, cols: int = 1) -> Figure:
    """The floors of a chain on an array."""
    space = HardwareSpace(name="one", arch=arch, axes=[Axis(path="array.rows", values=(rows,))])
    floors = Floors(space, [build_graph(network(*layers))])
    return floors.of_values({"array.rows": rows, "array.cols": cols})[0]


@pytest.mark.parametrize("seed", range(40))
def test_no_mapping_of_a_random_layer_on_a_random_machine_undercuts_the_floors(seed: int) -> None:
    """Predicted cycles (without the pipeline's latency) and energy of random legal mappings, on one node."""
    draw = Drawer.of(np.random.default_rng([7, seed]))
    case = traced_case(draw)
    width = case.layer.input_bytes  # a network has one width of tensors
    layer = evolve(case.layer, output_bytes=width, psum_bytes=max(width, case.layer.psum_bytes))
    case = evolve(case, layer=layer)
    floor = floors_of(case.arch, case.layer)
    for mapped in with_mappings(draw, case):
        assert mapped.mapping is not None
        figures = predict(mapped.layer, mapped.arch, mapped.mapping).figures
        assert figures.latency_cycles >= floor.cycles * (1 - 1e-9)
        assert figures.energy_fj >= floor.pj * FJ_PER_PJ * (1 - 1e-6)


LAYERS = {
    "convolutions": (ConvWorkload(R=3, S=3, P=4, Q=4, C=2, K=4), ConvWorkload(P=4, Q=4, C=4, K=2)),
    "matrix": (ConvWorkload(C=16, K=16),),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_no_plan_undercuts_the_floors(name: str) -> None:
    """The latency and the energy of plans with solved node programs on two nodes, searched for either."""
    layers = [evolve(one, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=4) for one in LAYERS[name]]
    arch = read_arch("stacked-3d-16x16")
    floor = floors_of(arch, *layers, rows=1, cols=2)
    array = NodeArray(rows=1, cols=2, node=arch)
    for kind in ("latency", "energy"):
        objective = Objective.named(kind)
        costs = NodeCosts(arch, objective, time_limit=2)
        limits = SearchLimits(time_limit=120)
        solved = solve_plan(build_graph(network(*layers)), array, Space(), objective, costs, limits)
        costs.close()
        assert solved.cost is not None
        assert solved.cost.latency_cycles >= floor.cycles * (1 - 1e-9)
        assert solved.cost.energy_fj >= floor.pj * FJ_PER_PJ * (1 - 1e-9)


def test_floors_are_below_published_plans(script: Callable[[str], ModuleType]) -> None:
    """Networks on 4 x 4 nodes: docs/array-results.md has the optimal plans, with node programs at their bounds."""
    benchmark = script("benchmark_tuner")
    plans = benchmark.published_plans()
    assert len(plans) >= 5
    for name, cycles, energy_mj in plans:
        floor = benchmark.floors_on("stacked-3d-4x4", name, 4, 4)
        assert cycles / 2 < floor.cycles <= cycles
        assert energy_mj / 2 < floor.pj * 1e-9 <= energy_mj


def test_compute_floor_of_one_layer_is_its_steps() -> None:
    """64 x 64 MACs on 8 x 8 PEs whose sides divide the bounds: 64 steps, and DRAM takes longer than these.

    A matrix product of 64 x 64 in bytes moves 4,096 + 64 + 64 bytes, each once, by 16 bytes a column of 2 cycles:
    528 cycles, and 3 rows less than 4,224 / 2,048 of them open for free.
    """
    arch = read_arch("stacked-3d-16x16")
    assert not check_fits(ConvWorkload(C=64, K=64), arch)
    assert floors_of(arch, ConvWorkload(C=64, K=64)).cycles == pytest.approx(528)


@settings(max_examples=60, deadline=None)
@given(*(st.floats(0.5, 1e4) for _ in range(2)), *(st.integers(1, 60) for _ in range(3)))
def test_least_sum_is_below_all_integer_tiles(a: float, b: float, most_x: int, most_y: int, room: int) -> None:
    """By enumeration of all x and y."""
    least = min(a / x + b / y for x in range(1, most_x + 1) for y in range(1, most_y + 1) if x * y <= room)
    assert least_sum(a, b, most_x, most_y, room) <= least * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_operands_of_a_box_of_macs_cost_at_least_the_bound(x: int, y: int, z: int) -> None:
    """A step of x*y*z MACs of a matrix product uses x*z, z*y and x*y elements; each kept in PEs or read once."""
    macs = x * y * z
    cheapest = sum(min(0.5 * macs, 3.0 * elements) for elements in (x * z, z * y, x * y)) / macs
    assert operand_pj(float(macs), 1.0, 1.0, 0.5, 3.0) <= cheapest * (1 + 1e-12)


def test_largest_divisors_are_those_of_the_number() -> None:
    """By trial of every number."""
    found = largest_divisors(360, 50)
    assert found[1:] == [max(d for d in range(1, size + 1) if 360 % d == 0) for size in range(1, 51)]


def test_splits_use_all_nodes_or_as_many_as_there_is_work_for() -> None:
    """Six values of K over 4 nodes: only factors up to the bounds; of one value, none."""
    graph = build_graph(network(ConvWorkload(K=6, C=2)))
    assert set(splits(graph.tasks[0], 4)) == {(1, 1, 1, 4, 1, 1), (1, 1, 1, 2, 2, 1)}
    single = build_graph(network(ConvWorkload(K=2)))
    assert set(splits(single.tasks[0], 4)) == {(1, 1, 1, 1, 1, 1), (1, 1, 1, 2, 1, 1)}
