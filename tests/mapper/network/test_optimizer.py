"""The programming interface of the seeds' listings 6-8, as a user would type them (with layers that take seconds)."""

import itertools
import re
from typing import Any

import attrs
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture, PIMOptimizer
from cpsat_pim.arch import ComputeUnit, MemoryHierarchy, MemoryLevel, PEArray, PhyDim2
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import access_energies_fj
from cpsat_pim.mapper.network.optimizer import OptimizationResult, bypass_of
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping import Stored
from cpsat_pim.mapping.constraints import Constraints, NetworkConstraints

WORKLOADS = [
    ConvWorkload(name="L1", R=3, S=3, P=8, Q=8, C=3, K=8, N=1),
    ConvWorkload(name="L2", R=1, S=1, P=8, Q=8, C=16, K=16, N=1),
    ConvWorkload(name="L3", C=64, K=32),
]


def narrow_machine() -> PIMArchitecture:
    """The default machine with 8 bypass choices: PEs that hold O or not, a buffer that holds I and W or not."""
    pe, buffer, *rest = PIMArchitecture().hierarchy
    pe = attrs.evolve(pe, stores=(False, False, True))
    return PIMArchitecture(hierarchy=(pe, attrs.evolve(buffer, entries=1024, stores=(True, True, False)), *rest))


def test_listing_6_runs_as_typed(capsys: pytest.CaptureFixture[str]) -> None:
    """Basic usage, down to the format strings."""
    arch = PIMArchitecture()
    workload = ConvWorkload(
        name="small",
        R=3, S=3,
        P=4, Q=4,
        C=4, K=8,
        N=1,
        stride=(1, 1),
    )  # fmt: skip
    optimizer = PIMOptimizer(
        arch=arch,
        verbose=True,
        time_limit=3.0,
    )
    result = optimizer.optimize(
        workloads=[workload],
        objective="latency",
        enable_row_activation=True,
    )
    mapping = result.mappings[0]
    print(f"Latency: {mapping.latency:.2f} cycles")
    print(f"Energy: {mapping.energy:.2f} nJ")
    print(f"Row Activations: {mapping.row_activations:.0f}")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["small", "Latency", "Energy", "Row Activations"]
    assert lines[0].startswith(f"small: {mapping.status}, latency {mapping.latency}, gap ")
    assert mapping.simulated is not None
    assert result.objective_value == mapping.latency


@pytest.fixture(scope="module")
def shared() -> OptimizationResult:
    """Listing 7's three layers under one bypass choice."""
    optimizer = PIMOptimizer(arch=PIMArchitecture(), time_limit=20.0)
    return optimizer.optimize(workloads=WORKLOADS, objective="energy", fix_bypass=True, enable_row_activation=True)


def test_listing_7_reports_every_layer_by_its_name(shared: OptimizationResult) -> None:
    """Latencies and layouts, in the order of the workloads."""
    for i, mapping in enumerate(shared.mappings):
        assert mapping.workload is WORKLOADS[i]
        assert f"{mapping.latency:.2f}".endswith(".00")
        assert set(mapping.layout) == {"I", "W", "O"}


def test_fixed_bypass_is_shared(shared: OptimizationResult) -> None:
    """All layers store the same in the PEs and the global buffer; by themselves these layers would not."""
    assert len({str((m.bypass[0], m.bypass[1])) for m in shared.mappings}) == 1
    free = PIMOptimizer(arch=PIMArchitecture(), time_limit=20.0).optimize(workloads=WORKLOADS, objective="energy")
    assert len({str((m.bypass[0], m.bypass[1])) for m in free.mappings}) > 1
    assert free.status is shared.status is Status.OPTIMAL
    assert free.objective_value is not None
    assert shared.objective_value is not None
    assert free.objective_value <= shared.objective_value == sum(m.predicted.energy_fj for m in shared.mappings)


def test_fixed_bypass_is_shared_without_a_proof_too() -> None:
    """Listing 7's objective, in a time that proves little: the answers are bounded from below and share a choice."""
    optimizer = PIMOptimizer(arch=PIMArchitecture(), time_limit=2.0)
    result = optimizer.optimize(workloads=WORKLOADS, objective="latency", fix_bypass=True)
    assert {m.mapping and bypass_of(m.mapping) for m in result.mappings} == {result.bypass}
    assert result.bound is not None
    assert result.objective_value is not None
    assert result.bound <= result.objective_value == sum(m.latency for m in result.mappings)


def with_bypass(arch: PIMArchitecture, choice: tuple[Stored, Stored]) -> PIMArchitecture:
    """The machine on which the PEs and the global buffer store exactly this."""
    levels = list(arch.hierarchy)
    for m, stores in zip((Level.PE, Level.GLOBAL_BUFFER), choice, strict=True):
        levels[m] = attrs.evolve(levels[m], bypass_defined=True, stores=stores)
    return attrs.evolve(arch, hierarchy=tuple(levels))


def test_fixed_bypass_is_the_best_of_all_choices() -> None:
    """Against solving both layers on each of the 8 machines that have no choice."""
    arch, objective = narrow_machine(), Objective.named("energy")
    layers, both = WORKLOADS[:2], (False, True)
    choices = [((False, False, o), (i, w, False)) for i, w, o in itertools.product(both, both, both)]
    totals = {}
    for choice in choices:
        request = SolveRequest(objective=objective, then=None)
        solved = [solve_and_verify(layer, with_bypass(arch, choice), request) for layer in layers]
        assert all(s.status is Status.OPTIMAL for s in solved)
        totals[choice] = sum(s.predicted.energy_fj for s in solved)
    result = PIMOptimizer(arch=arch, time_limit=20.0).optimize(workloads=layers, objective="energy", fix_bypass=True)
    assert len(totals) == 8
    assert result.objective_value == result.bound == min(totals.values())
    assert result.bypass is not None
    assert totals[result.bypass] == min(totals.values())
    assert [m.mapping and bypass_of(m.mapping) for m in result.mappings] == [result.bypass] * 2


def test_fixed_bypass_without_any_mapping_is_infeasible() -> None:
    """A PE of one byte that must hold all three tensors holds none."""
    levels = list(PIMArchitecture().hierarchy)
    levels[0] = attrs.evolve(levels[0], entries=1, bypass_defined=True)
    optimizer = PIMOptimizer(arch=PIMArchitecture(hierarchy=tuple(levels)), time_limit=30.0)
    result = optimizer.optimize(workloads=WORKLOADS[2:], objective="energy", fix_bypass=True)
    assert (result.status, result.objective_value, result.mappings[0].mapping) == (Status.INFEASIBLE, None, None)


def test_equal_layers_get_equal_answers_under_their_own_names() -> None:
    """Solved once."""
    twins = [WORKLOADS[2], attrs.evolve(WORKLOADS[2], name="twin")]
    result = PIMOptimizer(arch=PIMArchitecture()).optimize(workloads=twins, objective="energy")
    assert [m.workload.name for m in result.mappings] == ["L3", "twin"]
    assert result.mappings[0].mapping == result.mappings[1].mapping
    assert result.objective_value == 2 * result.mappings[0].predicted.energy_fj


def test_listing_8_machine_can_be_mapped_on() -> None:
    """A custom machine, its hierarchy put together level by level."""
    pe_array = PEArray(
        array_shape=PhyDim2(h=16, w=16),
        compute_unit=ComputeUnit(
            unit_type="tensor_core",
            num_macs=8,
            mac_energy=0.56e-3,
        ),
    )
    hierarchy = MemoryHierarchy()
    hierarchy.add_level(
        MemoryLevel(
            name="PELocalBuffer",
            entries=512,
            blocksize=1,
            instances=256,  # 16x16 PEs
            latency=1.0,
            access_cost=0.001,
        )
    )
    hierarchy.add_level(
        MemoryLevel(
            name="GlobalBuffer",
            entries=65536,
            blocksize=64,
            instances=1,
            latency=5.0,
            access_cost=0.02,
        )
    )
    hierarchy.add_level(MemoryLevel(name="RowBuffer", entries=3072, row_buffer_size=1024, access_cost=0.01))
    hierarchy.add_level(MemoryLevel(name="LocalDRAM", entries=2**24, access_cost=0.2))
    arch = PIMArchitecture(
        pe_array=pe_array,
        hierarchy=hierarchy,
    )
    result = PIMOptimizer(arch=arch, time_limit=20.0).optimize(workloads=WORKLOADS[2:], objective="energy")
    assert result.status is Status.OPTIMAL
    assert result.mappings[0].simulated is not None
    assert result.mappings[0].predicted.differences(result.mappings[0].simulated) == []


def test_row_activations_can_be_switched_off() -> None:
    """No energy and no time for them: DRAM is as fast as its columns, and the energy is that of MACs and accesses."""
    optimizer = PIMOptimizer(arch=PIMArchitecture(), time_limit=20.0)
    result = optimizer.optimize(workloads=WORKLOADS[2:], objective="energy", enable_row_activation=False)
    solved = result.mappings[0]
    costs, counts = access_energies_fj(PIMArchitecture()), solved.predicted.accesses
    accesses_fj = sum(counts[m][t][way] * costs[m][way] for m in Level for t in Tensor for way in (0, 1))
    assert solved.predicted.energy_fj == 64 * 32 * 560 + accesses_fj
    # Default timings: a column every 4 cycles, the last one with RL 25 and a burst of 4.
    assert solved.predicted.dram_cycles == (max(solved.predicted.column_accesses) - 1) * 4 + 25 + 4


def test_no_workloads_are_refused() -> None:
    """A sum over nothing is no answer."""
    with pytest.raises(ValueError, match="workloads: must be at least one"):
        PIMOptimizer(arch=PIMArchitecture()).optimize(workloads=[])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time_limit": float("nan")}, "PIMOptimizer.time_limit: must be a positive number of at most 1e7 (got nan)"),
        ({"time_limit": -1.0}, "PIMOptimizer.time_limit: must be a positive number of at most 1e7 (got -1.0)"),
        ({"seed": -1}, "PIMOptimizer.seed: must be an integer from 0 to 2147483647 (got -1)"),
        ({"arch": "default"}, "PIMOptimizer.arch: must be a PIMArchitecture (got 'default')"),
    ],
)
def test_options_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    """A time that is no number would never be over."""
    with pytest.raises(ValueError, match=re.escape(message)):
        PIMOptimizer(**changes)


@pytest.mark.parametrize("fix_bypass", [False, True])
def test_constraints_hold_for_all_workloads_or_for_those_that_are_named(fix_bypass: bool) -> None:
    """Also under a bypass that is shared: that of the layer which may not store I anywhere is then that of both."""
    layers = [ConvWorkload(name="one", P=2, C=2, K=2), ConvWorkload(name="other", P=2, C=2, K=2)]
    without = Constraints(stored=[[False, None, None], [False, None, None], [None] * 3])
    constraints = NetworkConstraints(layers={"other": without})
    optimizer = PIMOptimizer(arch=narrow_machine(), time_limit=20)
    result = optimizer.optimize(layers, "energy", fix_bypass=fix_bypass, constraints=constraints)
    assert result.status is Status.OPTIMAL
    one, other = (solved.mapping for solved in result.mappings)
    assert one is not None
    assert other is not None
    assert not any(other.stored[m][Tensor.I] for m in range(2))
    if fix_bypass:
        assert bypass_of(one) == bypass_of(other)
