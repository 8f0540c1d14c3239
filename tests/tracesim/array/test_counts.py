"""Bytes, DRAM use and loads of random plans, against counts of single elements."""

import numpy as np
from hypothesis import given, settings

from tests.tracesim.array.plans import plans
from tracesim.array import Figures, simulate_plan
from tracesim.array.added import node_added
from tracesim.array.arithmetic import mask
from tracesim.array.inputs import Case, build_case, node_inputs, node_output, node_weights, step_places
from tracesim.array.needs import home_areas
from tracesim.array.outputs import held_pieces
from tracesim.array.records import C, G, N, P, Plan, Q


def owner_of(case: Case, stack: int) -> np.ndarray:
    """Return int64[N, C, H, W]: the node where an element is at home."""
    owner = np.full(case.network.stack_shapes[stack], -1)
    for node, area in home_areas(case.plan, case.network, stack).items():
        owner[mask(owner.shape, area) == 1] = node
    return owner


def expected_pull_bytes(case: Case, number: int) -> int:
    """Every node needs its elements; each that is not at home on it comes in one message.

    Of a set with an element at home on a member that makes members - 1 messages, else one a member: as many as nodes
    lack it.
    """
    places, added = step_places(case, number), case.network.added[number]
    wanted = [
        (read, place.node, node_inputs(case, number, place, read)[1])
        for place in places
        for read in case.network.inputs[number]
    ]
    wanted += [(case.network.weights[number], place.node, node_weights(case, number, place)) for place in places]
    wanted += [
        (read, piece.node, node_added(case, number, read, piece)[1])
        for read in added
        for piece in held_pieces(case, number)
    ]
    total = 0
    for reading, node, areas in wanted:
        if reading is not None:
            owner = owner_of(case, reading.stack)
            lacking = (mask(owner.shape, *areas) == 1) & (owner != node)
            total += int(lacking.sum()) * case.network.widths[reading.stack]
    return total


@settings(max_examples=30)
@given(plan=plans(is_host=False))
def test_pulled_bytes_are_those_that_nodes_lack(plan: Plan) -> None:
    """Counted element by element for each node."""
    case, figures = build_case(plan), simulate_plan(plan)
    for phase in figures.phases:
        if phase.phase == "pull":
            assert phase.bytes == expected_pull_bytes(case, phase.layer)


@settings(max_examples=30)
@given(plan=plans(is_host=False))
def test_pushed_bytes_are_those_made_elsewhere(plan: Plan) -> None:
    """Where C is not split, nothing is pooled and each output has one home: those whose home is another node."""
    case, figures = build_case(plan), simulate_plan(plan)
    for phase in figures.phases:
        grid = plan.steps[phase.layer].grid
        is_split = C in grid.row_digits[:, 0] or C in grid.col_digits[:, 0]
        is_spread = phase.layer + 1 in case.network.spread
        if phase.phase == "push" and not (is_split or is_spread) and plan.layers[phase.layer].pool is None:
            owner = owner_of(case, case.network.members[phase.layer + 1].stack)
            made = [
                (p.node, mask(owner.shape, node_output(case, phase.layer, p))) for p in step_places(case, phase.layer)
            ]
            assert phase.bytes == sum(int(((marks == 1) & (owner != node)).sum()) for node, marks in made)


def check_figures(plan: Plan, figures: Figures) -> None:
    """What holds of any plan's figures."""
    for phase in figures.phases:
        assert phase.link_bound_cycles <= phase.network_cycles
        lasted = phase.end_cycle - phase.begin_cycle
        assert lasted == max(phase.network_cycles, phase.dram_cycles, phase.compute_cycles) or phase.phase == "join"
        if phase.phase == "reduce":
            sizes = plan.layers[phase.layer].bounds[[N, P, Q, G]].prod() * plan.layers[phase.layer].bounds[5]
            digits_of_c = [f for side in plan.steps[phase.layer].grid[1:] for d, f in side.tolist() if d == C]
            assert phase.additions == sizes * (np.prod(digits_of_c, dtype=int) - 1)
    assert figures.latency_cycles == max(phase.end_cycle for phase in figures.phases)
    assert figures.energy_fj == (
        figures.noc_energy_fj + figures.dram_energy_fj + figures.node_energy_fj + figures.add_energy_fj
    )
    assert figures.peak_bytes == figures.use_bytes.max()
    assert (figures.use_bytes >= 0).all()


@settings(max_examples=30)
@given(plan=plans())
def test_no_network_time_is_below_the_fullest_link(plan: Plan) -> None:
    """And phases last as long as the slowest of network, DRAM and node program; mesh or host."""
    check_figures(plan, simulate_plan(plan))


@settings(max_examples=30)
@given(plan=plans(is_host=False))
def test_host_reads_and_writes_what_the_mesh_does_but_for_sums(plan: Plan) -> None:
    """Weights, pull and push touch the same columns whichever way the data go, where nothing is passed on."""
    mesh = simulate_plan(plan)
    host = simulate_plan(plan._replace(array=plan.array._replace(is_host=True)))
    for one, other in zip(mesh.phases, host.phases, strict=True):
        if one.phase != "reduce":
            assert (one.columns, one.activations, one.additions) == (other.columns, other.activations, other.additions)
    np.testing.assert_array_equal(mesh.use_bytes, host.use_bytes)
