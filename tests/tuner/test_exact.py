"""Branch and bound against trying all machines, and its bounds of boxes against single machines."""

from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.planner.space import Space
from cpsat_pim.study.sweep.job import Job
from cpsat_pim.tuner.analytic import AnalyticCost, Floors
from cpsat_pim.tuner.evaluate import Evaluator, Unplanned
from cpsat_pim.tuner.exact import ExactLimits, best_hardware
from cpsat_pim.tuner.run import TunePlan, all_designs, exhaustive, run_in_order, tune
from cpsat_pim.tuner.space import Axis, Box, Design, HardwareSpace
from cpsat_pim.tuner.task import Fidelity, TuneTask
from cpsat_pim.tuner.trials import here
from cpsat_pim.workload import ConvWorkload
from tests.tuner.small import BUFFER, H, W, chain, small_space, small_task

SPACE = small_space()


def analytic(space: HardwareSpace, alpha: float = 1.0, beta: float = 1.0) -> AnalyticCost:
    """The analytic cost of the small task."""
    task = small_task(space, alpha, beta)
    floors = task.floors()
    return AnalyticCost(floors, task.cost(floors))


COST, UNLIMITED = analytic(SPACE), analytic(small_space(None))


@pytest.mark.parametrize("limit_mm2", [0.12, 0.3, 1.0, None])
@pytest.mark.parametrize("powers", [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, 2.0)])
def test_optimum_is_that_of_trying_all(limit_mm2: float | None, powers: tuple[float, float]) -> None:
    """Same cost, and a proof: tight limits, loose ones, none; latency, energy, and products."""
    space = small_space(limit_mm2)
    cost = analytic(space, *powers)
    found, (design, least) = best_hardware(space, cost), exhaustive(space, cost)
    assert design is not None
    assert found.design is not None
    assert found.is_proven
    assert found.cost == pytest.approx(least, rel=1e-12)
    assert space.fits(found.design)


def test_a_gap_is_one_to_a_machine() -> None:
    """A search that may stop at a gap does not stop before it has found a machine."""
    found = best_hardware(SPACE, COST, ExactLimits(gap=0.9))
    assert found.design is not None
    assert found.gap <= 0.9


@pytest.mark.parametrize("limit_mm2", [0.45, 0.9, None])
@pytest.mark.parametrize("name", ["bounds", pytest.param("plan", marks=pytest.mark.slow)])
def test_optimum_by_plans_is_that_of_trying_all(name: str, limit_mm2: float | None) -> None:
    """Machines in the order of their floors: what was not evaluated of eight costs no less."""
    space = evolve(small_space(limit_mm2), axes=[Axis(path=H, values=(2, 8)), Axis(path=W, values=(2, 5)),
                   Axis(path="array.rows", values=(1, 2)), Axis(path="array.cols", values=(1,))])  # fmt: skip
    layer = ConvWorkload(C=16, K=10)
    plans = Space(dims=1, layouts=("BCHW",))
    task = TuneTask(
        name="tiny", space=space, networks=[chain("matrix", layer)], fidelity=Fidelity(name=name, plans=plans)
    )
    found = tune(TunePlan(name="tiny", task=task, methods=["exact"])).ordered
    assert found is not None
    assert found.is_proven
    evaluator = Evaluator(task)
    fitting = [space.values(design) for design in all_designs(space) if space.fits(design)]
    costs = [evaluator.evaluate(values).cost for values in fitting]
    assert found.size == len(fitting)
    assert found.run.best is not None
    assert found.run.best.cost == min(costs)


@pytest.mark.parametrize(("dims", "fits"), [(1, False), (3, True)])
def test_plans_that_fill_fewer_nodes_than_floors_suppose_are_no_trials(dims: int, fits: bool) -> None:
    """Eight rows take three dims of two values each; with one dim a side the layer runs on two of them."""
    space = evolve(small_space(None), axes=[Axis(path="array.rows", values=(8,)), Axis(path="array.cols", values=(1,))])
    fidelity = Fidelity(name="bounds", plans=Space(dims=dims, layouts=("BCHW",)))
    layer = ConvWorkload(P=2, Q=2, K=2)
    evaluator = Evaluator(TuneTask(name="tiny", space=space, networks=[chain("image", layer)], fidelity=fidelity))
    if fits:
        found = evaluator.evaluate({"array.rows": 8, "array.cols": 1})
        assert found.bound <= found.cost
    else:
        with pytest.raises(Unplanned, match="image: l0 fills 2 of 8 nodes"):
            evaluator.evaluate({"array.rows": 8, "array.cols": 1})


def test_trials_that_do_not_suffice_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One trial of many, and a machine that fails, leave floors below the least cost."""
    task = evolve(small_task(SPACE), fidelity=Fidelity(name="bounds"))
    monkeypatch.setattr("cpsat_pim.tuner.run.SMALL", 2000)
    cut = run_in_order(TunePlan(name="cut", task=task, trials=1), None, here(lambda job: _costing(job, 9.0)), None)
    assert not cut.is_proven
    assert cut.left < 9.0
    ended = run_in_order(TunePlan(name="cut", task=task, trials=1), None, here(lambda job: _costing(job, 0.0)), None)
    assert ended.is_proven
    failed = run_in_order(TunePlan(name="cut", task=task, trials=2), None, here(_failing), None)
    assert not failed.is_proven


def _costing(job: Job, cost: float) -> dict[str, Any]:
    return {"cost": cost, "bound": 0.0, "area_mm2": 1.0}


def _failing(job: Job) -> dict[str, Any]:
    raise ValueError("no plan")


def test_other_numbers_of_a_machine_may_vary() -> None:
    """Timings, energies and a shared buffer's word: the optimum is that of trying all 72."""
    axes = [
        Axis(path="arch.dram_timings.tCCD_L", values=(1, 2, 4)),
        Axis(path="arch.hierarchy.DRAM.access_cost", values=(0.005, 0.01, 0.02)),
        Axis(path="arch.hierarchy.GLOBAL_BUFFER.word_bytes", values=(1, 2)),
        Axis(path=f"{BUFFER}.W", values=(512, 4096)),
        Axis(path="array.rows", values=(1, 2)),
    ]
    space = HardwareSpace(name="other", arch=SPACE.arch, axes=axes, area=SPACE.area)
    cost = analytic(space)
    found, (_, least) = best_hardware(space, cost), exhaustive(space, cost)
    assert found.is_proven
    assert found.cost == pytest.approx(least, rel=1e-12)


def test_space_without_a_machine_that_fits_has_no_optimum() -> None:
    """Not an error, and no cost."""
    found = best_hardware(small_space(0.001), COST)
    assert found.design is None
    assert found.gap == 0


def test_search_that_is_cut_has_a_bound_and_never_falls() -> None:
    """Bounds only rise, incumbents only fall, and the optimum lies between them."""
    cut = best_hardware(SPACE, COST, ExactLimits(time_limit=1e-6), known=SPACE.whole.low)
    proven = best_hardware(SPACE, COST)
    assert cut.bound <= proven.cost <= cut.cost
    for before, after in pairwise(proven.history):
        assert before[1] <= after[1]
        assert before[2] >= after[2]


#: Other numbers of a machine, a few values each.
ANY_NUMBERS: dict[str, tuple[float, ...]] = {
    "arch.activation_energy": (1, 30),
    "arch.dram_timings.co_w": (256, 512, 2048),
    "arch.dram_timings.tCCD_L": (1, 2, 4),
    "arch.dram_timings.tRCDRD": (3, 12),
    "arch.dram_timings.tRP": (1, 6, 20),
    "arch.hierarchy.DRAM.access_cost": (0.005, 0.02),
    "arch.hierarchy.GLOBAL_BUFFER.access_cost": (0.001, 0.004),
    "arch.hierarchy.GLOBAL_BUFFER.word_bytes": (1, 2, 4),
    "arch.hierarchy.PE.access_cost": (0.0001, 0.001),
    "arch.hierarchy.PE.entries": (1, 4, 64),
    "arch.hierarchy.ROW_BUFFER.access_cost": (0.003, 0.02),
    "arch.hierarchy.ROW_BUFFER.read_bandwidth_limit": (8, 64, 256),
    "arch.hierarchy.ROW_BUFFER.row_buffer_size": (1024, 32768),
    "arch.pe_array.compute_unit.mac_energy": (0.0002, 0.002),
    "array.cols": (1, 2, 3),
    "array.rows": (1, 2, 4),
}
#: Axes of the small space by what they are.
NODES, PES, BUFFERS = (0, 1), (2, 3), (4, 5, 6)
ALL = (*NODES, *PES, *BUFFERS)


@st.composite
def boxes_with_a_point(draw: st.DrawFn, wide: tuple[int, ...] = ALL) -> tuple[Box, Design]:
    """A box of the small space, wide along some axes and a point along the others, and one of its designs."""
    low, high, point = [], [], []
    for number, axis in enumerate(SPACE.axes):
        a, b, c = sorted(draw(st.integers(0, len(axis.values) - 1)) for _ in range(3))
        low.append(a if number in wide else b)
        point.append(b)
        high.append(c if number in wide else b)
    return Box(tuple(low), tuple(high)), tuple(point)


@pytest.mark.parametrize(
    "wide", [NODES, PES, BUFFERS, (*NODES, *PES, *BUFFERS)], ids=["nodes", "pes", "buffers", "all"]
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_floors_of_a_box_are_no_more_than_those_of_its_machines(wide: tuple[int, ...], data: st.DataObject) -> None:
    """Time and energy of each network by itself, with or without an area."""
    box, point = data.draw(boxes_with_a_point(wide))
    shape = SPACE.shape(SPACE.values(point))
    box = SPACE.within_area(box) or box if SPACE.fits(point) else box
    space = COST.floors if SPACE.fits(point) else UNLIMITED.floors
    of_box, of_point = space.of_box(box, shape), space.of_values(SPACE.values(point))
    for least, figure in zip(of_box, of_point, strict=True):
        assert least.cycles <= figure.cycles * (1 + 1e-12)
        assert least.pj <= figure.pj * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_floors_of_a_box_hold_for_any_numbers_that_vary(data: st.DataObject) -> None:
    """Timings, energies, words, bandwidths: a box of random axes of the machine, and one of its designs."""
    paths = data.draw(st.lists(st.sampled_from(sorted(ANY_NUMBERS)), min_size=1, max_size=3, unique=True))
    axes = [Axis(path=path, values=ANY_NUMBERS[path]) for path in paths]
    space = HardwareSpace(name="any", arch=SPACE.arch, axes=axes)
    floors = Floors(space, small_task(space).graphs)
    point = tuple(data.draw(st.integers(0, len(axis.values) - 1)) for axis in axes)
    of_box = floors.of_box(space.whole, space.shape(space.values(point)))
    for least, figure in zip(of_box, floors.of_values(space.values(point)), strict=True):
        assert least.cycles <= figure.cycles * (1 + 1e-12)
        assert least.pj <= figure.pj * (1 + 1e-12)


@settings(max_examples=150, deadline=None)
@given(boxes_with_a_point())
def test_bound_of_a_box_is_no_more_than_any_machine_of_it(given_: tuple[Box, Design]) -> None:
    """Machines that are within the area, as the bound leaves others out."""
    box, point = given_
    shrunk = SPACE.within_area(box)
    if not SPACE.fits(point):
        return
    assert shrunk is not None
    assert shrunk.holds(point)
    assert COST.of_box(shrunk) <= COST.of_values(SPACE.values(point)) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(boxes_with_a_point())
def test_area_propagation_keeps_all_that_fits(given_: tuple[Box, tuple[int, ...]]) -> None:
    """Nothing of the box that is left out fits, and its largest values fit beside the smallest others."""
    box, _ = given_
    shrunk = SPACE.within_area(box)
    assert (shrunk is None) == (not SPACE.fits(box.low))
    for axis in range(len(SPACE.axes)) if shrunk else ():
        top = (*box.low[:axis], shrunk.high[axis], *box.low[axis + 1 :])
        assert SPACE.fits(top)
        if shrunk.high[axis] < box.high[axis]:
            assert not SPACE.fits((*top[:axis], shrunk.high[axis] + 1, *top[axis + 1 :]))
