"""A plan simulated: every phase of every step counted, its messages sent flit by flit, and the totals of it all."""

from typing import Any, NamedTuple

import numpy as np

from tracesim.array.added import pull_with_added
from tracesim.array.alike import alone_in, content_of
from tracesim.array.capacity import DramUse
from tracesim.array.flows import COMPUTE, PHASE_NAMES, Phase, flows_of
from tracesim.array.inputs import Case, build_case, weights_phase
from tracesim.array.messages import Messages, Roads, build_messages, build_roads, count_loads, longest_chain
from tracesim.array.outputs import join_phases, push_phase, reduce_phase
from tracesim.array.records import LISTED, Ints, Plan
from tracesim.array.traffic import Schedule, simulate_messages


class PhaseFigures(NamedTuple):
    """What happens in a phase of a layer's step.

    `begin_cycle`, `end_cycle`: of the simulated phase. `network_cycles`: until the last message arrives, simulated;
    `estimated_network_cycles`: the estimate of section 6. `link_bound_cycles`: no schedule of these messages is faster,
    as it is the time of the fullest link, bus or port. `dram_cycles`: of the fullest node.
    """

    segment: int
    layer: int
    phase: str
    begin_cycle: int
    end_cycle: int
    network_cycles: int
    estimated_network_cycles: int
    link_bound_cycles: int
    dram_cycles: int
    compute_cycles: int
    max_link_flits: int
    flits: int
    flit_hops: int
    bytes: int
    columns: int
    activations: int
    additions: int


class Figures(NamedTuple):
    """Totals of a plan (docs/array.md, section 8), its phases in order, and its nodes.

    `estimated_latency_cycles`: as section 6 estimates it; `latency_cycles`: simulated. `link_flits` int64[roads]: as
    `Roads` numbers them. `use_bytes` int64[steps, nodes]: of DRAM, steps in order of execution.
    """

    latency_cycles: int
    estimated_latency_cycles: int
    energy_fj: int
    noc_energy_fj: int
    dram_energy_fj: int
    node_energy_fj: int
    add_energy_fj: int
    flits: int
    flit_hops: int
    message_bytes: int
    dram_columns: int
    dram_activations: int
    peak_bytes: int
    fits: bool
    phases: tuple[PhaseFigures, ...]
    link_flits: Ints
    use_bytes: Ints


class Counted(NamedTuple):
    """A phase and what it amounts to: its messages round by round, the flits by road, what nodes read and write.

    `columns` int64[2, nodes] (reads, writes); `activations` int64[nodes].
    """

    phase: Phase
    rounds: tuple[Messages, ...]
    loads: Ints
    columns: Ints
    activations: Ints


def simulate_plan(plan: Plan, *, alike_once: bool = True) -> Figures:
    """Return what happens when the plan is carried out; ValueError where it is none.

    `alike_once`: segments of one layer in which the same happens are simulated once.
    """
    case, roads = build_case(plan), build_roads(plan.array)
    use = DramUse(case)
    figures: list[PhaseFigures] = []
    pieces: dict[Any, _Piece] = {}
    sums = _Sums(roads.rates.size)
    now = estimate = 0
    for number in range(len(plan.segments)):
        layer = alone_in(plan, number) if alike_once else None
        key = number if layer is None else content_of(case, layer)
        if key not in pieces:
            pieces[key] = _simulate_piece(case, roads, number, use)
        piece = pieces[key]
        figures += [
            one._replace(
                segment=number,
                layer=one.layer if layer is None else layer,
                begin_cycle=now + one.begin_cycle,
                end_cycle=now + one.end_cycle,
            )
            for one in piece.figures
        ]
        use.add(number, piece.staging)
        sums.add(piece.counted)
        now, estimate = now + piece.cycles, estimate + piece.estimated_cycles
    return _total(case, sums, tuple(figures), now, estimate, use.by_step())


class _Piece(NamedTuple):
    """A segment by itself, from cycle 0: its phases, and what each of its layers stages, int64[nodes]."""

    figures: list[PhaseFigures]
    counted: list[Counted]
    staging: list[Ints]
    cycles: int
    estimated_cycles: int


def _simulate_piece(case: Case, roads: Roads, number: int, use: DramUse) -> _Piece:
    segment = case.plan.segments[number]
    phases = {layer: step_phases(case, layer) for region in segment for layer in region}
    regions = [[count_phase(case, roads, p) for layer in region for p in phases[layer]] for region in segment]
    joins = [count_phase(case, roads, phase) for phase in join_phases(case, number)]
    made, cycles, lasted = _simulate_segment(case, roads, number, regions, joins, 0)
    staging = [use.staging(layer, phases[layer]) for region in segment for layer in region]
    return _Piece(made, [phase for region in regions for phase in region] + joins, staging, cycles, lasted)


class _Sums:
    """Columns read and written, and flits by road, of all phases."""

    def __init__(self, roads: int) -> None:
        self.columns = [0, 0]
        self.loads = np.zeros(roads, np.int64)

    def add(self, counted: list[Counted]) -> None:
        """Add some phases."""
        for phase in counted:
            self.loads += phase.loads
            for way in (0, 1):
                self.columns[way] += int(phase.columns[way].sum())


def step_phases(case: Case, layer: int) -> list[Phase]:
    """Return the phases of a layer's step in order."""
    compute = Phase(COMPUTE, layer, compute_cycles=case.plan.steps[layer].node_cycles)
    return [
        weights_phase(case, layer),
        pull_with_added(case, layer),
        compute,
        reduce_phase(case, layer),
        push_phase(case, layer),
    ]


def count_phase(case: Case, roads: Roads, phase: Phase) -> Counted:
    """Return the messages of a phase, what they load, and what nodes read and write."""
    array = case.plan.array
    rounds = tuple(build_messages(array, flows) for flows in phase.rounds)
    loads = sum((count_loads(array, roads, messages) for messages in rounds), np.zeros(roads.rates.size, np.int64))
    columns = np.zeros((2, array.rows * array.cols), np.int64)
    activations = np.zeros(array.rows * array.cols, np.int64)
    for access in phase.accesses:
        columns[int(access.is_write), list(access.nodes)] += access.scanned.columns
        activations[list(access.nodes)] += access.scanned.activations
    return Counted(phase, rounds, loads, columns, activations)


# -- time ---------------------------------------------------------------------------------------------------------


def dram_cycles(case: Case, columns: Ints, activations: Ints) -> int:
    """Return the time of the fullest node's columns int64[2, nodes] and activations int64[nodes]."""
    dram = case.plan.dram
    by_node = columns.sum(axis=0) * dram.nCCD_L + activations * (dram.nRP + dram.nRCDRD)
    return int(by_node.max())


def link_bound(roads: Roads, loads: Ints) -> int:
    """Return the cycles that the fullest link, bus or port needs."""
    return int((-(-loads // roads.rates)).max())


def estimated_network(case: Case, roads: Roads, counted: Counted) -> int:
    """Return the estimate of section 6: the fullest link or port, and the hops that follow each other."""
    flows = flows_of(counted.phase)
    if not flows or case.plan.array.is_host:
        return link_bound(roads, counted.loads)
    return link_bound(roads, counted.loads) + case.plan.array.router_cycles * longest_chain(case.plan.array, flows)


def _floor(case: Case, counted: Counted) -> int:
    """Return what a phase lasts at least: its DRAM accesses, or its node program."""
    return max(dram_cycles(case, counted.columns, counted.activations), counted.phase.compute_cycles)


def _simulate_segment(
    case: Case, roads: Roads, number: int, regions: list[list[Counted]], joins: list[Counted], start: int
) -> tuple[list[PhaseFigures], int, int]:
    """Return the figures of a segment's phases, the cycle at which it ends, and how long it lasts by the estimate."""
    schedule, messages = build_schedule(case, regions)
    is_listed = case.plan.send_order == LISTED
    begin, end, arrival = simulate_messages(case.plan.array, roads, messages, schedule, is_listed)
    figures, at = [], 0
    for counted in (phase for region in regions for phase in region):
        last = at + max(1, len(counted.rounds)) - 1
        network = int(arrival[last] - begin[at])
        figures.append(phase_figures(case, roads, number, counted, (start + begin[at], start + end[last]), network))
        at = last + 1
    finish = start + int(end.max())
    join_cycles = _join_cycles(case, joins)
    figures += [phase_figures(case, roads, number, counted, (finish, finish + join_cycles), 0) for counted in joins]
    return figures, finish + join_cycles, _estimate_segment(case, roads, regions) + join_cycles


def _join_cycles(case: Case, joins: list[Counted]) -> int:
    """Return how long the sums at the end of a segment take: they are one phase."""
    if not joins:
        return 0
    columns = sum((counted.columns for counted in joins), np.zeros_like(joins[0].columns))
    activations = sum((counted.activations for counted in joins), np.zeros_like(joins[0].activations))
    return dram_cycles(case, columns, activations)


def _estimate_segment(case: Case, roads: Roads, regions: list[list[Counted]]) -> int:
    """Return the time of the slowest region, or of the fullest road over all phases."""
    alone = [
        sum(max(estimated_network(case, roads, phase), _floor(case, phase)) for phase in region) for region in regions
    ]
    loads = sum((phase.loads for region in regions for phase in region), np.zeros(roads.rates.size, np.int64))
    return max(*alone, link_bound(roads, loads))


def build_schedule(case: Case, regions: list[list[Counted]]) -> tuple[Schedule, Messages]:
    """Return the rounds of the regions' phases, one behind the other in each region, and all their messages."""
    following: list[int] = []
    phase_start: list[int] = []
    floor: list[int] = []
    starts: list[int] = []
    batches: list[Messages] = []
    for region in regions:
        starts.append(len(following))
        for counted in region:
            rounds = counted.rounds or (build_messages(case.plan.array, ()),)
            phase_start += [len(phase_start)] * len(rounds)
            floor += [0] * (len(rounds) - 1) + [_floor(case, counted)]
            following += range(len(following) + 1, len(following) + 1 + len(rounds))
            batches += rounds
        following[-1] = -1
    first = np.cumsum([0, *(batch.flits.size for batch in batches)])
    following_, phase_start_, floor_, starts_ = (
        np.array(column, np.int64) for column in (following, phase_start, floor, starts)
    )
    return Schedule(following_, phase_start_, floor_, first, starts_), _one_behind_the_other(batches, first)


def _one_behind_the_other(batches: list[Messages], first: Ints) -> Messages:
    """Return the messages of all batches, with the numbers that they have among all."""
    shifted = [
        batch._replace(before=np.where(batch.before < 0, -1, batch.before + offset))
        for batch, offset in zip(batches, first, strict=False)
    ]
    return Messages(*(np.concatenate(column) for column in zip(*shifted, strict=True)))


# -- figures ------------------------------------------------------------------------------------------------------


def phase_figures(
    case: Case, roads: Roads, segment: int, counted: Counted, when: tuple[int, int], network: int
) -> PhaseFigures:
    """Return the figures of a phase that lasts from one cycle to another."""
    flits, flit_hops, payload = _moved(case, roads, counted)
    return PhaseFigures(
        segment=segment,
        layer=counted.phase.layer,
        phase=PHASE_NAMES[counted.phase.kind],
        begin_cycle=int(when[0]),
        end_cycle=int(when[1]),
        network_cycles=network,
        estimated_network_cycles=estimated_network(case, roads, counted),
        link_bound_cycles=link_bound(roads, counted.loads),
        dram_cycles=dram_cycles(case, counted.columns, counted.activations),
        compute_cycles=counted.phase.compute_cycles,
        max_link_flits=int(counted.loads[: roads.links].max()),
        flits=flits,
        flit_hops=flit_hops,
        bytes=payload,
        columns=int(counted.columns.sum()),
        activations=int(counted.activations.sum()),
        additions=counted.phase.additions,
    )


def _moved(case: Case, roads: Roads, counted: Counted) -> tuple[int, int, int]:
    """Return flits, flits times hops, and bytes. Through a host a broadcast is one message, a crossing is a hop."""
    flit_hops = int(counted.loads[: roads.links].sum())
    if case.plan.array.is_host:
        sizes = [flow.data_bytes for flow in flows_of(counted.phase)]
        return sum(-(-size // case.plan.array.flit_bytes) for size in sizes), flit_hops, sum(sizes)
    flits = sum(int(messages.flits.sum()) for messages in counted.rounds)
    return flits, flit_hops, sum(int(messages.payload.sum()) for messages in counted.rounds)


def _total(
    case: Case, sums: _Sums, phases: tuple[PhaseFigures, ...], latency: int, estimate: int, use: Ints
) -> Figures:
    """Return the totals over all phases."""
    array, dram = case.plan.array, case.plan.dram
    flit_hops = sum(phase.flit_hops for phase in phases)
    noc = flit_hops * 8 * array.flit_bytes * array.hop_fj_per_bit
    reads, writes = sums.columns
    activations = sum(phase.activations for phase in phases)
    words = dram.column_bytes // dram.word_bytes
    dram_fj = words * (reads * dram.read_fj + writes * dram.write_fj) + activations * dram.activation_fj
    node_fj = sum(step.node_energy_fj * step.grid.region[2] * step.grid.region[3] for step in case.plan.steps)
    add_fj = sum(phase.additions for phase in phases) * dram.mac_fj
    return Figures(
        latency_cycles=latency,
        estimated_latency_cycles=estimate,
        energy_fj=noc + dram_fj + node_fj + add_fj,
        noc_energy_fj=noc,
        dram_energy_fj=dram_fj,
        node_energy_fj=node_fj,
        add_energy_fj=add_fj,
        flits=sum(phase.flits for phase in phases),
        flit_hops=flit_hops,
        message_bytes=sum(phase.bytes for phase in phases),
        dram_columns=reads + writes,
        dram_activations=activations,
        peak_bytes=int(use.max()),
        fits=bool(use.max() <= array.capacity_bytes),
        phases=phases,
        link_flits=sums.loads,
        use_bytes=use,
    )
