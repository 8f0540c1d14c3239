"""The walk against the simulator, and the sweep against enumeration and CP-SAT."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.lowering import lower, predicted_ticks
from cpsat_pim.compiler.mapping import Contraction, Mapping, contraction_of
from cpsat_pim.compiler.search import best_mapping, space_of
from cpsat_pim.compiler.search.crosscheck import solve_as_model
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import read_device
from cpsat_pim.device.rules import rules_of
from tables.commands.sweep import best_tiling, count_mappings, is_legal, lower_bound, share_of, sweep
from tests.compiler.strategies import contractions, mappings
from tracesim.commands import simulate

TARGETS = {name: target_of(read_device(name)) for name in ("attacc", "attacc-no-power-limit")}
SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)


def bound(kernel: str, **sizes: int) -> Contraction:
    """The contraction of a shipped kernel."""
    given_sizes = shipped_kernel(kernel).bind(sizes)
    return contraction_of(given_sizes, given_sizes.statements[0])


@SLOW
@given(st.data())
@pytest.mark.parametrize("name", TARGETS)
def test_walk_is_the_simulators_tick(name: str, data: st.DataObject) -> None:
    """Every mapping takes exactly the ticks that the simulator, which shares no code with the walk, needs for its
    commands."""
    target = TARGETS[name]
    _, contraction = data.draw(contractions())
    mapping = data.draw(mappings(contraction, target))
    lowered = lower(mapping, contraction, target)
    trace = simulate(rules_of(target.device), lowered.stream)
    assert trace.finish == lowered.ticks == predicted_ticks(mapping, contraction, target)


@pytest.mark.parametrize(("depth", "is_allowed"), [(32, True), (48, False), (64, False), (65, True), (80, True)])
def test_row_that_the_queue_still_needs_is_refused(depth: int, is_allowed: bool) -> None:
    """Three vectors walk over 16 outputs of `depth` elements: 16 x 2, 3, 4, 5 columns of rows of 32.

    Of two rows exactly, 32 columns lie between the visits of a row, which a queue of 33 entries reaches over; of 16 x 5
    columns, 48 do.
    """
    contraction, target = bound("gemm", B=3, N=16, K=depth), TARGETS["attacc"]
    for order in ("output-stationary", "input-stationary"):
        mapping = Mapping(
            splits=(1, 1, 1, 1),
            owners=(-1, -1, -1, -1),
            is_tree=True,
            output_tile=2,
            depth_tile=4,
            order=order,
            overlaps_loads=True,
        )
        assert (mapping.problem(contraction, target) is None) == is_allowed
        if is_allowed:
            lowered = lower(mapping, contraction, target)
            assert simulate(target.rules, lowered.stream).finish == lowered.ticks


def test_one_column_a_core_takes_what_hand_arithmetic_says() -> None:
    """One load, one MAC, one drain: ACT at 1, the load beside it, MAC at 1 + nRCDRD = 20, drain a tick later."""
    contraction = bound("gemv", B=1, N=1, K=1)
    best = best_mapping(contraction, TARGETS["attacc"])
    assert best is not None
    assert best.ticks == 21


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        ("gemv", {"B": 3, "N": 97, "K": 50}),
        ("gemm", {"B": 2, "N": 200, "K": 64}),
        ("red", {"B": 5, "N": 1000}),
    ],
)
def test_pruned_sweep_finds_the_optimum_of_the_full_one(kernel: str, sizes: dict[str, int]) -> None:
    """Lower bounds exclude no better mapping: the sweep with them returns the time of walking everything."""
    contraction, target = bound(kernel, **sizes), TARGETS["attacc"]
    pruned, full = (best_mapping(contraction, target, 6, prunes=prunes) for prunes in (True, False))
    assert pruned is not None
    assert full is not None
    assert pruned.time_ps == full.time_ps
    assert full.walked == full.mappings > pruned.walked


@SLOW
@given(st.data())
def test_lower_bound_is_below_every_tiling(data: st.DataObject) -> None:
    """No tiling of a cut takes fewer ticks than the cut's bound."""
    target = TARGETS["attacc"]
    _, contraction = data.draw(contractions(10**6))
    space = space_of(contraction, target, 6)
    split, owner = data.draw(st.integers(0, len(space.splits) - 1)), data.draw(st.integers(0, len(space.owners) - 1))
    share = share_of(space.arrays, split, owner, data.draw(st.integers(0, 1)))
    if is_legal(space.arrays, target.timing, share):
        moves = int(space.arrays.drain_moves[owner]), int(space.arrays.load_moves[owner])
        least = best_tiling(space.arrays, target.timing, share, owner)[0]
        assert lower_bound(space.arrays, target.timing, share, *moves) <= least


def test_mappings_are_counted_exactly() -> None:
    """The declared size of the space is the number of mappings that a sweep without bounds walks."""
    space = space_of(bound("gemv", B=2, N=40, K=300), TARGETS["attacc"], 3)
    best = sweep(space.arrays, TARGETS["attacc"].timing, False)
    assert best.walked == count_mappings(space.arrays, TARGETS["attacc"].timing)


@pytest.mark.parametrize(
    ("kernel", "sizes", "channels"),
    [("gemv", {"B": 2, "N": 60, "K": 48}, 4), ("gemm", {"B": 3, "N": 33, "K": 40}, 4), ("red", {"B": 7, "N": 500}, 16)],
)
def test_cp_sat_proves_the_optimum_of_the_sweep(kernel: str, sizes: dict[str, int], channels: int) -> None:
    """CP-SAT, told the rules of the space instead of its rows, proves the same least time."""
    contraction = bound(kernel, **sizes)
    best = best_mapping(contraction, TARGETS["attacc"], channels)
    model = solve_as_model(contraction, TARGETS["attacc"], channels)
    assert best is not None
    assert model.is_proven
    assert model.time_ps == best.time_ps


def test_best_gemv_is_not_worse_than_attaccs_own_distribution() -> None:
    """AttAcc splits heads over channels, outputs over bank groups and the depth over banks: one mapping of the
    space."""
    from cpsat_pim.compiler.mapping import Mapping

    contraction, target = bound("gemv", B=32, N=512, K=128), TARGETS["attacc"]
    fixed = Mapping(splits=(16, 1, 1, 1), owners=(2, 2, 2, 3), is_tree=True, depth_tile=2, overlaps_drains=True)
    best = best_mapping(contraction, target, 16)
    assert best is not None
    assert best.ticks <= predicted_ticks(fixed, contraction, target)
    assert np.prod(best.mapping.splits) <= 16
