"""The phases before a layer is computed: its weights and its inputs come to the nodes (section 5, 1 and 2)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tracesim.array.areas import Area, Range, elements, meet
from tracesim.array.flows import INPUT, PULL, WEIGHT, WEIGHTS, Access, Flow, Phase
from tracesim.array.needs import (
    home_areas,
    input_area,
    output_area,
    part_of,
    raw_areas,
    weight_areas,
    weight_elements,
)
from tracesim.array.network import Network, derive_network
from tracesim.array.parts import Place, places, rotated, sharing_sets, tour_of
from tracesim.array.readings import Reading
from tracesim.array.records import NEAREST, C, G, Ints, K, N, P, Plan, Pool, Q, Resize, by_value, checked_plan
from tracesim.array.scan import Layout, layout_of, scan_area, scan_bytes


class Spots(NamedTuple):
    """Home boxes of a stack as arrays: `nodes` int64[homes] in order, `first`, `behind` int64[homes, 4] by axis."""

    nodes: Ints
    first: Ints
    behind: Ints


class Case(NamedTuple):
    """A plan, its network, and of each stack what lies at home on which node, and in which layout."""

    plan: Plan
    network: Network
    homes: dict[int, dict[int, Area]]
    layouts: dict[int, Layout]
    spots: dict[int, Spots]


def build_case(plan: Plan) -> Case:
    """Return the plan with what follows from it; ValueError where it is none."""
    network = derive_network(checked_plan(plan))
    known: dict[Any, dict[int, Area]] = {}
    homes = {}
    for stack in network.stacks:
        key = _home_key(plan, network, stack)
        homes[stack] = known[key] = known.get(key) or home_areas(plan, network, stack)
    layouts = {stack: layout_of(home) for stack in network.stacks if (home := plan.homes[stack]) is not None}
    spots = {key: _spots(some) for key, some in known.items()}
    by_stack = {stack: spots[_home_key(plan, network, stack)] for stack in network.stacks}
    return Case(plan, network, homes, layouts, by_stack)


def _home_key(plan: Plan, network: Network, stack: int) -> Any:
    """Return what the home boxes of a stack depend on, by value."""
    return by_value((plan.homes[stack], network.stack_shapes[stack], network.spread.get(stack)))


def step_places(case: Case, number: int) -> list[Place]:
    """Return the nodes of a layer's region."""
    return places(case.plan.array, case.plan.steps[number].grid)


def node_output(case: Case, number: int, place: Place) -> Area:
    """Return a node's outputs before pooling, in channels of the layer's stack."""
    layer = case.plan.layers[number]
    return output_area(layer, part_of(case.plan, number, place), case.network.members[number + 1].channel)


def node_inputs(case: Case, number: int, place: Place, reading: Reading) -> tuple[Area, tuple[Area, ...]]:
    """Return the inputs of a reading that a node computes with, and those that it must have before they are viewed."""
    wanted = input_area(case.network, reading, case.plan.layers[number], part_of(case.plan, number, place))
    return wanted, raw_areas(wanted, reading, case.network.stack_shapes[reading.stack])


def node_weights(case: Case, number: int, place: Place) -> tuple[Area, ...]:
    """Return what a node needs of the tensor that it reads as W."""
    return weight_areas(case.network, number, case.plan.layers[number], part_of(case.plan, number, place))


# -- weights ------------------------------------------------------------------------------------------------------


class Replica(NamedTuple):
    """Nodes that hold one copy of equal weights together: a tour, and the range of elements that each node holds."""

    tour: tuple[int, ...]
    chunks: tuple[Range, ...]


def weight_replicas(case: Case, number: int) -> list[Replica]:
    """Return the groups of nodes that share the weights of a layer; ValueError if the replicas do not divide a set.

    Where samples have weights of their own, each node holds all of its own.
    """
    step, layer, cols = case.plan.steps[number], case.plan.layers[number], case.plan.array.cols
    if layer.weight_dim >= 0:
        return []
    replicas = []
    for members in sharing_sets(step_places(case, number), (G, K, C)):
        if step.weight_replicas < 1 or len(members) % step.weight_replicas:
            raise ValueError(f"Plan.steps[{number}].weight_replicas: must divide {len(members)} nodes")
        size = len(members) // step.weight_replicas
        if layer.has_sample_weights and size > 1:
            raise ValueError(f"Plan.steps[{number}].weight_replicas: must be {len(members)}, samples have their own")
        counts = {each.node: weight_elements(layer, part_of(case.plan, number, each)) for each in members}
        tour = tour_of([place.node for place in members], cols, ())
        for start in range(0, len(tour), size):
            group = tour_of(tour[start : start + size], cols, step.tours.weights)
            replicas.append(Replica(tuple(group), tuple(cut((0, counts[group[0]]), size))))
    return replicas


def cut(whole: Range, pieces: int) -> list[Range]:
    """Return a range cut in pieces of equal size, the last ones shorter or empty."""
    size = -(-(whole[1] - whole[0]) // pieces)
    return [(min(whole[0] + t * size, whole[1]), min(whole[0] + (t + 1) * size, whole[1])) for t in range(pieces)]


def weights_phase(case: Case, number: int) -> Phase:
    """Return the all-gather of the weights in each replica."""
    dram, width = case.plan.dram, int(case.plan.layers[number].width_bytes[1])
    flows, accesses = [], []
    for replica in weight_replicas(case, number):
        for t, (first, behind) in enumerate(replica.chunks):
            if first < behind and len(replica.tour) > 1:
                path = rotated(list(replica.tour), t)
                flows.append(Flow(path, (behind - first) * width, WEIGHT, span=(first, behind)))
                count = scan_bytes(first * width, behind * width, dram)
                accesses += [Access(path[:1], False, count), Access(path[1:], True, count)]
    return Phase(WEIGHTS, number, (tuple(flows),), tuple(accesses))


# -- pull ---------------------------------------------------------------------------------------------------------


def pull_phase(case: Case, number: int) -> Phase:
    """Return the way of the inputs to the nodes, and of W where another layer has made it."""
    step, nodes = case.plan.steps[number], step_places(case, number)
    pulled: list[tuple[list[Flow], list[Access]]] = []
    viewing: list[Access] = []
    additions = 0
    for index, reading in enumerate(case.network.inputs[number]):
        for members in sharing_sets(nodes, (N, P, Q, C, G)):
            tour = tour_of([place.node for place in members], case.plan.array.cols, step.tours.pull)
            needed = node_inputs(case, number, members[0], reading)[1]
            pulled.append(_pull_set(case, INPUT, index, reading, needed, tour))
        scans, added = _view_inputs(case, number, nodes, reading)
        viewing, additions = viewing + scans, additions + added
    if (second := case.network.weights[number]) is not None:
        own = (N,) if case.plan.layers[number].has_sample_weights else ()
        for members in sharing_sets(nodes, (*own, G, K, C)):
            tour = tour_of([place.node for place in members], case.plan.array.cols, step.tours.pull_w)
            pulled.append(_pull_set(case, WEIGHT, 0, second, node_weights(case, number, members[0]), tour))
    flows = tuple(flow for made, _ in pulled for flow in made)
    accesses = viewing + [access for _, made in pulled for access in made]
    return Phase(PULL, number, (flows,), tuple(accesses), additions)


def _pull_set(
    case: Case, operand: int, index: int, reading: Reading, needed: Sequence[Area], tour: list[int]
) -> tuple[list[Flow], list[Access]]:
    """Return how the members of a sharing set get the boxes that they all need; `index`: of the reading of I."""
    layout, width = case.layouts[reading.stack], case.network.widths[reading.stack]
    flows, accesses = [], []
    for owner, (home, found) in owned(case, reading.stack, needed).items():
        path = _pull_path(case.plan, owner, tour)
        if len(path) > 1:
            parts, size = tuple(part for part, _ in found), sum(elements(part) for part, _ in found) * width
            flows.append(Flow(path, size, operand, parts, is_delivered=owner not in tour, reading=index))
        for part, box in found if len(path) > 1 else ():
            read = scan_area(part, home, layout, width, case.plan.dram)
            written = scan_area(part, box, layout, width, case.plan.dram)
            accesses += [Access(path[:1], False, read), Access(path[1:], True, written)]
    return flows, accesses


def owned(case: Case, stack: int, wanted: Sequence[Area]) -> dict[int, tuple[Area, list[tuple[Area, Area]]]]:
    """Return the nodes, in order, at which some of these areas of a stack is at home: by node its home box, and what it
    has of which area.
    """
    found: dict[int, tuple[Area, list[tuple[Area, Area]]]] = {}
    for one in wanted:
        for node, home in candidates(case, stack, one):
            if (part := meet(one, home)).c:
                found.setdefault(node, (home, []))[1].append((part, one))
    return dict(sorted(found.items()))


def candidates(case: Case, stack: int, wanted: Area) -> list[tuple[int, Area]]:
    """Return the nodes, in order, whose home box may meet an area of a stack, with that box."""
    if not wanted.c:
        return []
    spots, around = case.spots[stack], (wanted.n, (wanted.c[0][0], wanted.c[-1][1]), wanted.y, wanted.x)
    first, behind = np.array(around, np.int64).T
    may_meet = ((spots.first < behind) & (first < spots.behind)).all(axis=1)
    homes = case.homes[stack]
    return [(node, homes[node]) for node in spots.nodes[may_meet].tolist()]


def _spots(homes: dict[int, Area]) -> Spots:
    nodes = sorted(homes)
    ranges = [(home.n, home.c[0], home.y, home.x) for home in map(homes.__getitem__, nodes)]
    table = np.array(ranges, np.int64).reshape(len(nodes), 4, 2)
    return Spots(np.array(nodes, np.int64), table[:, :, 0], table[:, :, 1])


def _pull_path(plan: Plan, owner: int, tour: list[int]) -> tuple[int, ...]:
    """Return the way of what one owner has: to the nearest member unless it is one, then around the tour."""
    if owner in tour:
        return rotated(tour, tour.index(owner))
    cols = plan.array.cols
    nearest = min(sorted(tour), key=lambda node: abs(node // cols - owner // cols) + abs(node % cols - owner % cols))
    return (owner, *rotated(tour, tour.index(nearest)))


def _view_inputs(case: Case, number: int, nodes: Sequence[Place], reading: Reading) -> tuple[list[Access], int]:
    """Return what each node reads and writes of its own inputs before it computes, and the additions: it makes what it
    sees, and a sum if something is added to them.
    """
    scans = scans_of_added if reading.is_added else scans_of_sum if case.plan.layers[number].input_added else view_scans
    accesses: list[Access] = []
    additions = 0
    for place in nodes:
        found, added = scans(case, reading, place.node, *node_inputs(case, number, place, reading))
        accesses, additions = accesses + found, additions + added
    return accesses, additions


def view_scans(case: Case, reading: Reading, node: int, seen: Area, raw: Sequence[Area]) -> tuple[list[Access], int]:
    """Return what a node reads and writes to make what it sees of what it has, and the additions: it reads the raw box
    and writes the one it sees; nothing where it takes elements as they lie.

    Each element of what is pooled is added, and three for each one that is blended of four.
    """
    if not isinstance(reading.view, Pool | Resize):
        return [], 0
    accesses = [*_scans(case, reading, node, raw), *_scans(case, reading, node, [seen], is_write=True)]
    if isinstance(reading.view, Pool):
        return accesses, sum(map(elements, raw))
    return accesses, 3 * elements(seen) if reading.view.kind != NEAREST else 0


def scans_of_added(
    case: Case, reading: Reading, node: int, seen: Area, raw: Sequence[Area]
) -> tuple[list[Access], int]:
    """Return the same of what is added to something: what was made, or lies there, is read and added."""
    accesses, additions = view_scans(case, reading, node, seen, raw)
    held = [seen] if isinstance(reading.view, Pool | Resize) else raw
    return [*accesses, *_scans(case, reading, node, held)], additions + elements(seen)


def scans_of_sum(case: Case, reading: Reading, node: int, seen: Area, raw: Sequence[Area]) -> tuple[list[Access], int]:
    """Return the same of inputs to which something is added: what is taken as it lies is read, and the sum written."""
    if isinstance(reading.view, Pool | Resize):
        return view_scans(case, reading, node, seen, raw)
    return [*_scans(case, reading, node, raw), *_scans(case, reading, node, raw, is_write=True)], 0


def _scans(case: Case, reading: Reading, node: int, areas: Sequence[Area], is_write: bool = False) -> list[Access]:
    """Return a scan of each area, stored by itself."""
    layout, width, dram = case.layouts[reading.stack], case.network.widths[reading.stack], case.plan.dram
    return [Access((node,), is_write, scan_area(one, one, layout, width, dram)) for one in areas]
