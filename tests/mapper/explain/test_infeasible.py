"""Why a layer has no mapping: expected by hand, by trying every set of limits, or by the whole space."""

import itertools
import threading
from typing import Any

import attrs
import pytest

from cpsat_pim.arch import ComputeUnit, PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.arch.reading import change_arch
from cpsat_pim.base.dims import BUFFERS, Dim, Direction, Level
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.explain import Conflict, Oracle, Problem, Threshold, find_conflict
from cpsat_pim.mapper.explain.oracle import violations
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.mapping.dataflow import Dataflow
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_solver_against_enumeration import machine

PRODUCT = ConvWorkload(C=8, K=8)


def arch_with(**changes: Any) -> PIMArchitecture:
    """The default machine with other fields: `PE__entries`."""
    return change_arch(PIMArchitecture(), {f"hierarchy.{key.replace('__', '.')}": v for key, v in changes.items()})


def fixed(table: str, place: int, dim: Dim, factor: int) -> Constraints:
    """One fixed factor."""
    rows: list[list[int | None]] = [[None] * 8 for _ in range(4 if table == "temporal" else 3)]
    rows[place][dim] = factor
    return Constraints(**{table: rows})


def oracle_of(
    arch: PIMArchitecture,
    layer: ConvWorkload = PRODUCT,
    constraints: Constraints = FREE,
    budget: Budget = NO_LIMIT,
    time_limit: float = 60.0,
    stop: threading.Event | None = None,
) -> Oracle:
    """Return the oracle of a problem."""
    request = SolveRequest(objective=Objective.named("energy"), time_limit=time_limit)
    return Oracle(Problem(layer=layer, arch=arch, constraints=constraints, budget=budget), request, stop)


def names(conflict: Conflict) -> list[str]:
    """Of its limits, alphabetically."""
    return sorted(member.limit.name for member in conflict.members)


def check_shown(oracle: Oracle, conflict: Conflict) -> None:
    """No mapping is known to keep the conflict, and what is shown for each member keeps all the others."""
    kept = frozenset(member.limit for member in conflict.members)
    assert oracle.decide(kept).feasible is False
    for member in conflict.members:
        problem = oracle.only(kept - {member.limit}).problem()
        assert problem is not None
        assert member.without is not None
        assert violations(problem, member.without) == []


def test_budget_of_cycles_leaves_double_buffers_as_they_are() -> None:
    """To fill a buffer as a whole would make room and take longer: that is no way to lift a limit of time."""
    arch = arch_with(PE__entries=5, PE__bypass_defined=True)
    limits = {limit.name for limit in oracle_of(arch).limits}
    in_time = {limit.name for limit in oracle_of(arch, budget=Budget(cycles=10**6)).limits}
    assert limits - in_time == {f"hierarchy.{level}.double_buffered" for level in ("PE",)}


# --- Conflicts by hand -----------------------------------------------------------------------------------------------


def test_forced_tiles_conflict_with_half_a_buffer() -> None:
    """One byte of each tensor needs 3, and half of 5 are 2: five limits, each a way out, 6 entries enough."""
    oracle = oracle_of(arch_with(PE__entries=5, PE__bypass_defined=True))
    conflict = find_conflict(oracle)
    stores = [f"hierarchy.PE.stores.{t}" for t in "IWO"]
    assert names(conflict) == sorted(["hierarchy.PE.entries", "hierarchy.PE.double_buffered", *stores])
    assert conflict.is_smallest
    assert all(member.is_way_out for member in conflict.members)
    assert [m.threshold for m in conflict.members if m.threshold] == [Threshold(least=6, most=6)]
    check_shown(oracle, conflict)


def test_forced_tile_conflicts_with_half_of_its_own_buffer() -> None:
    """W has half of 1 byte and needs one; what the others have, and that they are stored, does not matter."""
    entries = {"I": 64, "W": 1, "O": 64}
    oracle = oracle_of(arch_with(PE__entries=entries, PE__bypass_defined=True))
    conflict = find_conflict(oracle)
    assert names(conflict) == ["hierarchy.PE.double_buffered", "hierarchy.PE.entries.W", "hierarchy.PE.stores.W"]
    assert all(member.is_way_out for member in conflict.members)
    assert [m.threshold for m in conflict.members if m.threshold] == [Threshold(least=2, most=2)]
    check_shown(oracle, conflict)


def test_no_buffer_for_a_tensor_conflicts_with_storing_it() -> None:
    """A constraint wants O in the PEs, which have no buffer for it: two bytes are enough, as half of them is used."""
    entries = {"I": 64, "W": 64, "O": 0}
    stored = [[None, None, True], [None] * 3, [None] * 3]
    oracle = oracle_of(arch_with(PE__entries=entries), constraints=Constraints(stored=stored))
    conflict = find_conflict(oracle)
    assert names(conflict) == ["hierarchy.PE.entries.O", "stored.PE.O"]
    assert [m.threshold for m in conflict.members if m.threshold] == [Threshold(least=2, most=2)]
    check_shown(oracle, conflict)


def test_fixed_loop_conflicts_with_a_buffer() -> None:
    """32 of K in PEs that must hold O: of psums of 4 B these take 128, W 32 more; 127 B are too few for O alone."""
    layer = ConvWorkload(C=8, K=64, output_bytes=4, psum_bytes=4)
    arch = arch_with(PE__entries=127, PE__bypass_defined=True, PE__double_buffered=False)
    oracle = oracle_of(arch, layer, fixed("temporal", Level.PE, Dim.K, 32))
    conflict = find_conflict(oracle)
    assert names(conflict) == ["hierarchy.PE.entries", "hierarchy.PE.stores.O", "temporal.PE.K"]
    way_out = {m.limit.name: (m.is_way_out, m.threshold) for m in conflict.members}
    # On the whole machine I takes 1 B and W 32 besides; without O these fit 127 B.
    assert way_out["hierarchy.PE.entries"] == (True, Threshold(least=161, most=161))
    assert way_out["hierarchy.PE.stores.O"] == way_out["temporal.PE.K"] == (True, None)
    check_shown(oracle, conflict)


@pytest.mark.parametrize("direction", [Direction.H, Direction.W])
def test_fixed_spread_conflicts_with_the_array(direction: Direction) -> None:
    """A factor of 32 over 16 rows, or columns."""
    constraints = fixed("spatial", direction, Dim.K, 32)
    conflict = find_conflict(oracle_of(PIMArchitecture(), ConvWorkload(C=8, K=64), constraints))
    side = direction.name.lower()
    assert names(conflict) == [f"pe_array.array_shape.{side}", f"spatial.{direction.name}.K"]
    assert conflict.members[0].threshold == Threshold(least=32, most=32)


def test_lanes_spread_what_their_unit_can() -> None:
    """A reduction tree does not spread K; a scalar has no lanes; a unit made for C does not spread K."""
    constraints = fixed("spatial", Direction.INTERNAL, Dim.K, 4)
    for unit, name in (
        (ComputeUnit(unit_type="reduction_tree", num_macs=4), "unit_type"),
        (ComputeUnit(), "unit_type"),
        (ComputeUnit(unit_type="simd", num_macs=4, internal_dim=Dim.C), "internal_dim"),
        (ComputeUnit(unit_type="simd", num_macs=2), "num_macs"),
    ):
        arch = PIMArchitecture(pe_array=PEArray(array_shape=PhyDim2(h=2, w=2), compute_unit=unit))
        conflict = find_conflict(oracle_of(arch, PRODUCT, constraints))
        assert names(conflict) == [f"pe_array.compute_unit.{name}", "spatial.INTERNAL.K"]


def test_dim_over_two_directions_conflicts_with_exclusive_use() -> None:
    """Eq. 13, and two factors."""
    rows = [[None] * 8, [None] * 8, [None] * 8]
    for direction in (Direction.H, Direction.W):
        rows[direction] = [2 if dim is Dim.K else None for dim in Dim]  # type: ignore[list-item]
    conflict = find_conflict(oracle_of(PIMArchitecture(), PRODUCT, Constraints(spatial=rows)))
    assert names(conflict) == ["pe_array.exclusive_spatial", "spatial.H.K", "spatial.W.K"]


def test_factor_that_does_not_divide_conflicts_with_nothing_else() -> None:
    """3 does not divide 8: that constraint alone."""
    conflict = find_conflict(oracle_of(PIMArchitecture(), PRODUCT, fixed("temporal", Level.DRAM, Dim.K, 3)))
    assert (names(conflict), conflict.reasons) == (
        ["temporal.DRAM.K"],
        ("K: the fixed factors 3 do not divide the bound 8",),
    )
    assert conflict.members[0].is_way_out


def test_constraint_conflicts_with_what_a_level_cannot_store() -> None:
    """The machine says no, the constraint yes."""
    constraints = Constraints(stored=[[None, True, None], [None] * 3, [None] * 3])
    conflict = find_conflict(oracle_of(arch_with(PE__stores=[True, False, True]), PRODUCT, constraints))
    assert names(conflict) == ["hierarchy.PE.stores.W", "stored.PE.W"]


def test_filter_needs_some_level_to_store_inputs() -> None:
    """Where none can, each of the three is a way out."""
    layer = ConvWorkload(R=3, P=4, C=4, K=4)
    no_inputs = {f"{level.name}__stores": [False, True, True] for level in BUFFERS}
    conflict = find_conflict(oracle_of(arch_with(**no_inputs), layer))
    assert names(conflict) == sorted(f"hierarchy.{level.name}.stores.I" for level in BUFFERS)
    assert all(member.is_way_out for member in conflict.members)


def test_narrow_columns_are_a_limit() -> None:
    """Partial sums of 4 B need columns of 32 bits."""
    layer = ConvWorkload(C=8, K=8, psum_bytes=4)
    conflict = find_conflict(oracle_of(change_arch(PIMArchitecture(), {"dram_timings.co_w": 16}), layer))
    assert names(conflict) == ["dram_timings.co_w"]
    assert conflict.members[0].threshold == Threshold(least=32, most=32)


def test_two_conflicts_have_to_be_lifted_together() -> None:
    """PEs with too little for what they must store, and a DRAM of 79 B for tensors of 8 + 64 + 8 B."""
    arch = arch_with(PE__entries=5, PE__bypass_defined=True, DRAM__entries=79)
    oracle = oracle_of(arch)
    conflict = find_conflict(oracle)
    assert names(conflict) == ["hierarchy.DRAM.entries"]
    (member,) = conflict.members
    assert (member.is_way_out, member.threshold) == (False, Threshold(least=80, most=80))
    assert conflict.correction is not None
    assert len(conflict.correction) == 2
    assert member.limit in conflict.correction
    assert oracle.decide(frozenset(oracle.limits) - frozenset(conflict.correction)).feasible


# --- Conflicts by trial ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [2, 5])
def test_no_fewer_limits_conflict(entries: int) -> None:
    """One MAC: every set of limits against every mapping there is."""
    layer = ConvWorkload(psum_bytes=2)
    oracle = oracle_of(arch_with(PE__entries=entries, PE__bypass_defined=True), layer)
    lifted = oracle.only(frozenset()).problem()
    assert lifted is not None
    space = [mapping for mapping in every_mapping(layer, lifted.arch) if mapping.layout == (0, 0, 0)]

    def is_feasible(kept: tuple[Any, ...]) -> bool:
        problem = oracle.only(frozenset(kept)).problem()
        return problem is not None and any(not violations(problem, mapping) for mapping in space)

    conflict = find_conflict(oracle)
    size = next(
        n
        for n in range(len(oracle.limits) + 1)
        if not all(is_feasible(kept) for kept in itertools.combinations(oracle.limits, n))
    )
    assert (len(conflict.members), conflict.is_smallest) == (size, True)
    check_shown(oracle, conflict)


def test_budget_is_compared_with_the_least_of_the_space() -> None:
    """MACs alone take more than 1 fJ: the budget is the conflict, and ends where the machine's least energy begins."""
    layer, arch = ConvWorkload(K=2), machine("IWO", "WO", "")
    least = min(predict(layer, arch, mapping).figures.energy_fj for mapping in every_mapping(layer, arch))
    conflict = find_conflict(oracle_of(arch, layer, budget=Budget(fj=1)))
    assert names(conflict) == ["budget.fj"]
    (member,) = conflict.members
    assert (member.is_way_out, member.threshold) == (True, Threshold(least=least, most=least))


def test_array_may_be_too_small_for_what_a_dataflow_has_left_to_spread() -> None:
    """With K 2 in the DRAM its other 3 have to be spread, over an array of 2 x 2."""
    arch = machine("IWO", "IWO", "")
    arch = attrs.evolve(arch, pe_array=attrs.evolve(arch.pe_array, array_shape=PhyDim2(h=2, w=2)))
    kept = attrs.evolve(fixed("temporal", Level.DRAM, Dim.K, 2), dataflow=Dataflow.ROW)
    oracle = oracle_of(arch, ConvWorkload(R=2, K=6), kept, time_limit=20)
    conflict = find_conflict(oracle)
    assert any(name.startswith("pe_array.array_shape") for name in names(conflict))
    check_shown(oracle, conflict)


def test_dataflow_without_its_dims_is_a_conflict() -> None:
    """Nothing is row stationary without a filter: the solver says so."""
    oracle = oracle_of(
        machine("IWO", "IWO", ""), ConvWorkload(C=4, K=2), Constraints(dataflow=Dataflow.ROW), time_limit=20
    )
    conflict = find_conflict(oracle)
    assert (names(conflict), conflict.is_smallest) == (["dataflow"], True)
    check_shown(oracle, conflict)


def test_fixed_bank_counts_conflict_with_the_banks_of_the_node() -> None:
    """8 + 4 + 4 banks are not on a node of eight: it would do if the counts were free, or if banks were not counted."""
    arch = attrs.evolve(PIMArchitecture(), node_banks=8)
    oracle = oracle_of(arch, constraints=Constraints(bank_counts=(8, 4, 4)))
    conflict = find_conflict(oracle)
    assert conflict is not None
    assert sorted(names(conflict)) == ["bank_counts", "node_banks"]
    assert conflict.reasons == ("banks: I|W|O takes 16 banks, the node has 8",)
    check_shown(oracle, conflict)


def test_stop_leaves_what_is_known() -> None:
    """Asked to stop, nothing is solved; what the smallest mappings prove is reported, and no more."""
    stop = threading.Event()
    stop.set()
    arch = arch_with(PE__entries=5, PE__bypass_defined=True)
    oracle = oracle_of(arch, constraints=Constraints(dataflow=Dataflow.ROW), stop=stop)
    conflict = find_conflict(oracle)
    assert not conflict.is_smallest
    assert "hierarchy.PE.entries" in names(conflict)
    assert [member.is_way_out for member in conflict.members] == [None] * len(conflict.members)
    assert conflict.correction is None
