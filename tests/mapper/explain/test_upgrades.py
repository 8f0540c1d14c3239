"""What upgrades buy: against the whole space of a tiny layer, and what is claimed without a proof, by hand."""

import itertools
from functools import cache

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Tensor
from cpsat_pim.evaluate.cost import Figures, predict
from cpsat_pim.mapper.explain import ExplainRequest, Gain, Known, Upgrade, explain_layer, sum_gains, upgrades_of
from cpsat_pim.mapper.explain.upgrades import find_gains
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_solver_against_enumeration import CASES, LONG, machine
from tests.report.results import solved_layer

LAYER, ARCH = ConvWorkload(C=3), machine("O", "IW", "")
ENERGY, LATENCY, EDP = (Objective.named(kind) for kind in ("energy", "latency", "edp"))
LARGER = Upgrade(path="hierarchy.PE.entries", before=16, after=32, is_larger=True)
OTHER = Upgrade(path="hierarchy.DRAM.num_banks", before=1, after=2)


@cache
def whole_space(arch: PIMArchitecture) -> list[Figures]:
    """Return the predicted figures of each mapping."""
    return [predict(LAYER, arch, mapping).figures for mapping in every_mapping(LAYER, arch)]


def least(arch: PIMArchitecture, objective: Objective) -> int:
    """Of the whole space."""
    return min(objective.value(f.latency_cycles, f.energy_fj) for f in whole_space(arch))


def never() -> bool:
    """There is time."""
    return False


@pytest.mark.parametrize("objective", [ENERGY, LATENCY, EDP], ids=lambda objective: objective.kind)
def test_gains_are_those_of_the_space(objective: Objective) -> None:
    """Each step's optimum, and the one before, are the least over all mappings; proven, the share follows."""
    upgrades = [*upgrades_of(ARCH)]
    explained = explain_layer(
        LAYER, ExplainRequest(arch=ARCH, solve=SolveRequest(objective=objective, time_limit=20), upgrades=upgrades)
    )
    assert [gain.upgrade for gain in explained.gains] == upgrades
    before = least(ARCH, objective)
    for gain in explained.gains:
        after = least(gain.upgrade.on(ARCH), objective)
        assert gain.after is not None
        assert gain.before.bound <= before <= gain.before.value
        assert gain.after.bound <= after <= gain.after.value
        assert gain.least is not None
        assert gain.most is not None
        assert gain.least - 1e-9 <= 1 - after / before <= gain.most + 1e-9
        assert not gain.upgrade.is_larger or after <= before
        assert not gain.is_unchanged or after == before


def test_steps_are_of_what_there_is() -> None:
    """Twice of each buffer, side, lane and bank; of bandwidths where there is a limit; a scalar has no lanes."""
    steps = {upgrade.path: (upgrade.before, upgrade.after) for upgrade in upgrades_of(ARCH)}
    assert steps == {
        "hierarchy.PE.entries": (16, 32),
        "hierarchy.GLOBAL_BUFFER.entries": (24, 48),
        "hierarchy.ROW_BUFFER.entries": (16, 32),
        "pe_array.array_shape.h": (2, 4),
        "pe_array.array_shape.w": (1, 2),
        "pe_array.compute_unit.num_macs": (2, 4),
        "hierarchy.DRAM.num_banks": (1, 2),
        "hierarchy.GLOBAL_BUFFER.read_bandwidth_limit": (2, 4),
        "hierarchy.GLOBAL_BUFFER.write_bandwidth_limit": (2, 4),
    }
    parts = attrs.evolve(ARCH.hierarchy[1], entries={"I": 4, "W": 20, "O": 0})
    separate = attrs.evolve(ARCH, hierarchy=(ARCH.hierarchy[0], parts, *ARCH.hierarchy[2:]))
    steps = {upgrade.path: (upgrade.before, upgrade.after) for upgrade in upgrades_of(separate)}
    assert {path: step for path, step in steps.items() if "GLOBAL_BUFFER.entries" in path} == {
        "hierarchy.GLOBAL_BUFFER.entries.I": (4, 8),
        "hierarchy.GLOBAL_BUFFER.entries.W": (20, 40),
    }
    scalar = attrs.evolve(
        ARCH.pe_array, compute_unit=attrs.evolve(ARCH.pe_array.compute_unit, unit_type="scalar", num_macs=1)
    )
    assert "pe_array.compute_unit.num_macs" not in {u.path for u in upgrades_of(attrs.evolve(ARCH, pe_array=scalar))}


@pytest.mark.parametrize(("node_banks", "is_a_step"), [(1, True), (2, True), (3, False), (4, False)])
def test_more_banks_than_tensors_are_a_step_only_if_their_numbers_are_chosen(node_banks: int, is_a_step: bool) -> None:
    """With one bank a part, three banks leave nothing to gain."""
    arch = attrs.evolve(ARCH, node_banks=node_banks)
    step = Upgrade(path="node_banks", before=node_banks, after=2 * node_banks)
    assert (step in upgrades_of(arch)) == is_a_step
    assert step in upgrades_of(arch, chooses_bank_counts=True)


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c in LONG else c for c in CASES])
def test_larger_machines_leave_every_mapping_as_it_is(case: str) -> None:
    """On a machine with more of something that is called larger it is legal and costs the same."""
    layer, arch = CASES[case]
    machines = [upgrade.on(arch) for upgrade in upgrades_of(arch) if upgrade.is_larger]
    buffers = sum(1 if m.is_shared else sum(m.entries_of(t) > 0 for t in Tensor) for m in arch.hierarchy[:3])
    assert len(machines) == buffers + 3  # rows, columns and lanes
    for mapping in itertools.islice(every_mapping(layer, arch), 0, None, 97):
        before = predict(layer, arch, mapping).figures
        for larger in machines:
            assert check_mapping(layer, larger, mapping) == []
            after = predict(layer, larger, mapping).figures
            assert (after.latency_cycles, after.energy_fj) == (before.latency_cycles, before.energy_fj)


def test_rounded_figures_prove_nothing() -> None:
    """A bound a millionth below a cost that rounds to the same number: not proven, alone and beside others."""
    blend = Objective.named("blended", 1, "0.3")
    solved = solved_layer(objective=blend, status=Status.FEASIBLE)
    figures = attrs.evolve(solved.predicted, latency_cycles=2**50, energy_fj=10**6 + 1)
    prediction = attrs.evolve(solved.prediction, figures=figures)
    cost = blend.value(2**50, 10**6 + 1)
    solved = attrs.evolve(solved, prediction=prediction, bound=blend.reported(cost - 1))
    assert solved.bound == solved.objective_value
    assert solved.gap
    known = Known.of(solved)
    assert known is not None
    assert not known.is_proven


def test_claims_are_as_wide_as_the_bounds() -> None:
    """Before from 80 to 100, after from 60 to 90: saved are from 1 - 90/80 to 1 - 60/100; a larger machine never loses;
    of two layers the sums count; what is proven is a number.
    """
    before, after = Known(bound=80, value=100), Known(bound=60, value=90)
    gain = Gain(upgrade=OTHER, before=before, after=after)
    assert (gain.least, gain.most, gain.is_proven) == (pytest.approx(-0.125), pytest.approx(0.4), False)
    assert attrs.evolve(gain, upgrade=LARGER).least == 0
    proven = Gain(upgrade=OTHER, before=Known(bound=50, value=50), after=Known(bound=40, value=40))
    assert (proven.least, proven.most, proven.is_proven) == (pytest.approx(0.2), pytest.approx(0.2), True)
    both = sum_gains([(2, gain), (1, proven)])
    assert (both.before, both.after) == (Known(bound=210, value=250), Known(bound=160, value=220))
    unknown = attrs.evolve(gain, after=None)
    assert (unknown.least, unknown.most, unknown.is_proven) == (None, None, False)
    assert sum_gains([(1, gain), (1, unknown)]).after is None


def test_nothing_stays_nothing() -> None:
    """On a machine whose energies are all zero no step saves any; where the next one's are not, no share is given."""
    nothing = Known(bound=0, value=0)
    gain = Gain(upgrade=OTHER, before=nothing, after=nothing)
    assert (gain.least, gain.most, gain.is_proven) == (0, 0, True)
    assert attrs.evolve(gain, after=Known(bound=1, value=1)).most is None


def test_what_is_found_elsewhere_is_known_here() -> None:
    """The solver only ever proves and improves on the last machine: its mapping is legal on all, its bound is one for
    the smaller machine.
    """
    best = solve_and_verify(LAYER, ARCH, SolveRequest(objective=ENERGY, time_limit=20))
    assert best.status is Status.OPTIMAL
    poor = max(every_mapping(LAYER, ARCH), key=lambda mapping: predict(LAYER, ARCH, mapping).figures.energy_fj)

    def as_found(arch: PIMArchitecture, mapping: Mapping, bound: int) -> SolvedLayer:
        prediction = predict(LAYER, arch, mapping)
        status = Status.FEASIBLE if prediction.figures.energy_fj > bound else Status.OPTIMAL
        return attrs.evolve(best, arch=arch, mapping=mapping, prediction=prediction, bound=bound, status=status)

    def solve(arch: PIMArchitecture, start: Mapping | None) -> SolvedLayer:
        assert start is not None
        is_last = arch.hierarchy[0].entries == 32
        assert best.mapping is not None
        return as_found(arch, best.mapping, int(best.bound or 0)) if is_last else as_found(arch, start, 1)

    base, gains = find_gains(as_found(ARCH, poor, 1), [OTHER, LARGER], solve, NO_LIMIT, never)
    assert (base.status, base.objective_value, base.bound) == (
        Status.OPTIMAL,
        best.objective_value,
        best.objective_value,
    )
    other, larger = gains
    assert (larger.is_proven, larger.most) == (True, 0)
    assert best.mapping is not None
    assert other.after == Known(bound=1, value=predict(LAYER, OTHER.on(ARCH), best.mapping).figures.energy_fj)


def test_time_plays_no_part_in_energy() -> None:
    """Bandwidth is not solved for: nothing changes, unless there is a budget of cycles."""
    faster = [upgrade for upgrade in upgrades_of(ARCH) if upgrade.is_faster]
    base = solve_and_verify(LAYER, ARCH, SolveRequest(objective=ENERGY, time_limit=20))
    seen = []

    def solve(arch: PIMArchitecture, start: Mapping | None) -> SolvedLayer:
        seen.append(arch)
        return attrs.evolve(base, arch=arch)

    _, gains = find_gains(base, faster, solve, NO_LIMIT, never)
    assert [(gain.is_unchanged, gain.least, gain.most, gain.is_proven) for gain in gains] == [(True, 0, 0, True)] * 2
    assert seen == []
    find_gains(base, faster, solve, Budget(cycles=10**6), never)
    assert len(seen) == 2


def test_stop_keeps_the_steps_that_were_tried() -> None:
    """The one that was interrupted is not shown."""
    base = solve_and_verify(LAYER, ARCH, SolveRequest(objective=ENERGY, time_limit=20))
    answers = iter([False, False, False, True])  # asked before and after each
    _, gains = find_gains(
        base, [LARGER, OTHER], lambda arch, start: attrs.evolve(base, arch=arch), NO_LIMIT, lambda: next(answers)
    )
    assert [gain.upgrade for gain in gains] == [LARGER]
