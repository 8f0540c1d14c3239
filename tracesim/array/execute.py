"""A plan carried out on integers, element by element: for small networks.

The messages of the simulator carry values between the nodes' memories. A node computes with what lies in its own DRAM
only; every element that it uses must be there, nothing arrives twice or where it already is, and nothing arrives that
is not needed. So messages that are missing, superfluous or wrong end in an `ExecutionError` or in wrong outputs.
Pooling adds up its window: unlike a maximum that shows an element which is counted twice.
"""

from typing import NamedTuple

import numpy as np

from tracesim.array.added import node_added
from tracesim.array.areas import Area
from tracesim.array.arithmetic import convolve_part, mask, view_held, window_sizes
from tracesim.array.flows import ADDED, HOST, INPUT, WEIGHT, Flow, Phase, flows_of
from tracesim.array.inputs import Case, build_case, node_inputs, node_output, node_weights, step_places, weight_replicas
from tracesim.array.needs import Part, member_area, part_of, weight_elements
from tracesim.array.network import Sum, blocks_of, spot_of, viewed_size
from tracesim.array.outputs import finished_sum, held_pieces
from tracesim.array.parts import Place, split
from tracesim.array.readings import Reading, reader_channels, seen_channels
from tracesim.array.records import C, G, Ints, K, N, P, Plan, Q, Reorder
from tracesim.array.reorders import elements_at
from tracesim.array.simulator import step_phases
from tracesim.array.stores import Store, collect, empty_store, home_boxes, require, store_tensor


class Outcome(NamedTuple):
    """`outputs`: each tensor as it lies at home, int64[N, C, H, W]; sums under their first operand. `macs`: done."""

    outputs: dict[int, Ints]
    macs: int


def execute_plan(plan: Plan, inputs: Ints, weights: dict[int, Ints]) -> Outcome:
    """Carry out a plan. `inputs` int64[N, C, H, W]; `weights` by layer int64[N, G, K, C, S, R], N = 1 where
    samples share them.

    ExecutionError where an element is not where it must be. Outputs are not compared with anything here.
    """
    case = build_case(plan)
    homes = {stack: empty_store(case, case.network.stack_shapes[stack]) for stack in case.network.stacks}
    store_tensor(case, homes, 0, np.broadcast_to(inputs, (plan.array.rows * plan.array.cols, *inputs.shape)))
    macs = 0
    for number, segment in enumerate(plan.segments):
        for layer in (layer for region in segment for layer in region):
            macs += _run_step(case, homes, layer, weights)
        for total in case.network.sums.values():
            if total.is_joined and spot_of(plan, total.finisher)[0] == number:
                store_tensor(case, homes, total.operands[0], _add_up(case, homes, total))
    outputs = {tensor: collect(case, homes, tensor) for tensor in range(len(plan.layers) + 1)}
    return Outcome(outputs, macs)


def _run_step(case: Case, homes: dict[int, Store], number: int, weights: dict[int, Ints]) -> int:
    """Run a layer, store its output at home, and return its MACs."""
    weighing, pulling, _, reducing, pushing = step_phases(case, number)
    boxes = _gather_weights(case, homes, number, weights, weighing, pulling)
    sums, macs = _compute(case, number, _pull_inputs(case, homes, number, pulling), boxes)
    held = sums if split(case.plan.steps[number].grid, C) == 1 else _reduce(case, number, sums, reducing)
    _check_held(case, number, held)
    _add_fetched(case, homes, number, held, pulling)
    output = _push(case, number, held, pushing)
    total = finished_sum(case, number)
    store_tensor(case, homes, number + 1, output)
    if total:
        store_tensor(case, homes, total.operands[0], _add_up(case, homes, total))
    return macs


# -- inputs and weights -------------------------------------------------------------------------------------------


def _gather_weights(
    case: Case, homes: dict[int, Store], number: int, weights: dict[int, Ints], weighing: Phase, pulling: Phase
) -> dict[int, Ints]:
    """Return each node's weight box int64[n, g, k, c, S, R], from its chunk and what it receives."""
    if case.network.weights[number] is not None:
        return _pulled_weights(case, number, _pull_weights(case, homes, number, pulling))
    boxes = {place.node: _weight_box(case, number, place, weights[number]) for place in step_places(case, number)}
    present = {node: np.zeros(box.size, np.int64) for node, box in boxes.items()}
    for replica in weight_replicas(case, number):
        for node, chunk in zip(replica.tour, replica.chunks, strict=True):
            present[node][slice(*chunk)] += 1
    for flow in flows_of(weighing):
        for source, target in _hand_over(case, flow):
            require(present[source][slice(*flow.span)].all(), "a node sends weights that it does not have")
            present[target][slice(*flow.span)] += 1
    require(all((marks == 1).all() for marks in present.values()), "a weight is not on its node exactly once")
    return boxes


def _weight_box(case: Case, number: int, place: Place, weights: Ints) -> Ints:
    """Return a node's part of all weights, int64[N, G, K, C, S, R]; one sample where samples share them."""
    part, layer = part_of(case.plan, number, place), case.plan.layers[number]
    samples = part.n if layer.has_sample_weights else (0, 1)
    box = weights[slice(*samples), slice(*part.g), slice(*part.k), slice(*part.c)]
    require(box.size == weight_elements(layer, part), "a weight box has the wrong size")
    return box


def _pulled_weights(case: Case, number: int, store: Store) -> dict[int, Ints]:
    """Return each node's weight box out of the tensor that is read as W."""
    layer, reading = case.plan.layers[number], case.network.weights[number]
    assert reading is not None  # the caller has looked
    groups, inputs, outputs = (int(layer.bounds[dim]) for dim in (G, C, K))
    along_k = layer.weight_dim == K
    boxes = {}
    for place in step_places(case, number):
        whole = _taken(reading, store.values[place.node])
        shaped = whole.reshape(-1, groups, *((inputs, outputs) if along_k else (outputs, inputs)))
        by_k = shaped.swapaxes(2, 3) if along_k else shaped
        boxes[place.node] = _weight_box(case, number, place, by_k[..., None, None])
    return boxes


def _taken(reading: Reading, values: Ints) -> Ints:
    """Return of a stack's values those of the channels that a layer takes, in its order and as it sees them."""
    channels, view = reader_channels(reading), reading.view
    if not isinstance(view, Reorder):
        return values[:, channels]
    taken: Ints = values[elements_at(view, [np.arange(size) for size in view.shape], channels, values.shape)]
    return taken


def _pull_inputs(case: Case, homes: dict[int, Store], number: int, pulling: Phase) -> list[Store]:
    """Return what each node has of each reading of I when the phase is over."""
    stores = []
    for index, reading in enumerate(case.network.inputs[number]):
        needed = {place.node: node_inputs(case, number, place, reading)[1] for place in step_places(case, number)}
        flows = [flow for flow in flows_of(pulling) if (flow.operand, flow.reading) == (INPUT, index)]
        stores.append(_pull(case, homes[reading.stack], needed, flows))
    return stores


def _pull_weights(case: Case, homes: dict[int, Store], number: int, pulling: Phase) -> Store:
    """Return what each node has of the tensor that is read as W when the phase is over."""
    reading = case.network.weights[number]
    assert reading is not None  # the caller has looked
    needed = {place.node: node_weights(case, number, place) for place in step_places(case, number)}
    return _pull(case, homes[reading.stack], needed, [flow for flow in flows_of(pulling) if flow.operand == WEIGHT])


def _add_fetched(case: Case, homes: dict[int, Store], number: int, held: Store, pulling: Phase) -> None:
    """Let nodes add to what they hold of the output what they have fetched for it."""
    first = case.network.members[number + 1].channel
    own = slice(first, first + case.network.shapes[number + 1][1])
    for index, reading in enumerate(case.network.added[number]):
        needed = {piece.node: node_added(case, number, reading, piece)[1] for piece in held_pieces(case, number)}
        flows = [flow for flow in flows_of(pulling) if (flow.operand, flow.reading) == (ADDED, index)]
        store = _pull(case, homes[reading.stack], needed, flows)
        for node in needed:
            values, present = _seen(reading, store.values[node], store.present[node])
            wanted = held.present[node, :, own]
            require(not (wanted & ~present).any(), "a node adds what it did not fetch")
            held.values[node, :, own] += values * wanted


def _pull(case: Case, home: Store, wanted: dict[int, tuple[Area, ...]], flows: list[Flow]) -> Store:
    """Return what each node has of a stack behind these flows: what it needs, and all that is at home there."""
    store = Store(home.values.copy(), home.present.copy())
    needed = np.zeros_like(store.present)
    for node, areas in wanted.items():
        needed[node] = mask(needed.shape[1:], *areas)
    for flow in flows:
        part = mask(needed.shape[1:], *flow.parts)
        for source, target in _hand_over(case, flow):
            require(not (part & ~needed[target]).any(), "a node receives an input that it does not need")
            _move(store, source, target, part)
    require(not (needed & ~store.present).any(), "an input does not come to a node that needs it")
    return store


def _hand_over(case: Case, flow: Flow) -> list[tuple[int, int]]:
    """Return who gives the flow's data to whom, in order."""
    if case.plan.array.is_host:
        return [(flow.path[0], node) for node in flow.path[1:]]
    return list(zip(flow.path, flow.path[1:], strict=False))


def _move(store: Store, source: int, target: int, part: Ints) -> None:
    """Copy the elements that `part` marks from node to node."""
    require(not (part & ~store.present[source]).any(), "a node sends an element that it does not have")
    require(not (part & store.present[target]).any(), "an element comes to a node that has it already")
    store.values[target][part == 1] = store.values[source][part == 1]
    store.present[target] |= part


# -- compute and reduce -------------------------------------------------------------------------------------------


def _compute(case: Case, number: int, inputs: list[Store], boxes: dict[int, Ints]) -> tuple[Store, int]:
    """Return each node's (partial) sums, in channels of the layer's stack, and the MACs; each is done exactly once."""
    layer = case.plan.layers[number]
    channels = np.arange(blocks_of(layer)[1] * int(layer.bounds[C]))
    done = np.zeros(layer.bounds[[N, P, Q, K, C, G]], np.int64)
    store, first = _before_pooling(case, number), case.network.members[number + 1].channel
    for place in step_places(case, number):
        part = part_of(case.plan, number, place)
        # Where only its range of C is empty, the node has outputs none the less: zeros, which are added like others.
        store.present[place.node] = mask(store.present.shape[1:], node_output(case, number, place))
        if _is_empty(part):
            continue
        done[tuple(slice(*of) for of in part)] += 1
        values, present = _joined_inputs(case, number, place, inputs)
        sums = convolve_part(layer, part, values, present, channels, boxes[place.node])
        store.values[place.node][:, first : first + sums.shape[1]] = sums
    require(bool((done == 1).all()), "a MAC is not done exactly once")
    return store, int(done.sum() * layer.bounds[0] * layer.bounds[1])


def _is_empty(part: Part) -> bool:
    return any(low >= high for low, high in part)


def _joined_inputs(case: Case, number: int, place: Place, inputs: list[Store]) -> tuple[Ints, Ints]:
    """Return the values and the presence of a node's inputs as the layer sees them, in the order of its channels."""
    layer, readings = case.plan.layers[number], case.network.inputs[number]
    width, height = viewed_size(case.network, readings[0])
    samples, blocks = blocks_of(layer)
    shape = (samples, blocks * int(layer.bounds[C]), height, width)
    values, present = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for reading, store in zip(readings, inputs, strict=True):
        seen, found = _seen(reading, store.values[place.node], store.present[place.node])
        if reading.is_added:
            values += seen
            present &= found
        elif isinstance(reading.view, Reorder):
            own = slice(*seen_channels(reading))
            values[:, own], present[:, own] = seen, found
        else:
            at = np.concatenate(
                [first + np.arange(n) for first, (_, n) in zip(reading.firsts, reading.spans, strict=True)]
            )
            values[:, at], present[:, at] = seen, found
    return values, present


def _seen(reading: Reading, values: Ints, present: Ints) -> tuple[Ints, Ints]:
    """Return the values and the presence of what a reader takes of a stack, in its order and as it sees them."""
    if isinstance(reading.view, Reorder):
        return _taken(reading, values), _taken(reading, present)
    seen, found = _viewed(reading, values, present)
    channels = reader_channels(reading)
    return seen[:, channels], found[:, channels]


def _viewed(reading: Reading, values: Ints, present: Ints) -> tuple[Ints, Ints]:
    """Return the values and the presence of a stack as a reader sees it."""
    if reading.view is None or isinstance(reading.view, Reorder):
        return values, present
    sums, found = view_held(values, present, reading.view)
    return sums, (found == window_sizes(reading.view, *values.shape[2:])).astype(np.int64)


def _before_pooling(case: Case, number: int) -> Store:
    """Return an empty store for a layer's output before pooling."""
    n, channels, height, width = case.network.stack_shapes[case.network.members[number + 1].stack]
    if case.plan.layers[number].pool:
        height, width = case.plan.layers[number].bounds[[Q, P]].tolist()
    return empty_store(case, (n, channels, height, width))


def _reduce(case: Case, number: int, sums: Store, reducing: Phase) -> Store:
    """Return the finished sums where the flows leave them. Along its path a chunk takes up what each node has."""
    held, host = _before_pooling(case, number), np.zeros(sums.values.shape[1:], np.int64)
    for flow in flows_of(reducing):
        part = mask(host.shape, *flow.parts)
        for node in flow.path:
            has = node == HOST or not (part & ~sums.present[node]).any() or flow.path[0] == HOST
            require(has, "a node adds partial sums that it does not have")
        if flow.path[-1] == HOST:
            host += sums.values[flow.path[0]] * part
        else:
            added = host if flow.path[0] == HOST else sum(sums.values[node] for node in flow.path)
            held.values[flow.path[-1]][part == 1] = (added * part)[part == 1]
            held.present[flow.path[-1]] |= part
    return held


def _check_held(case: Case, number: int, held: Store) -> None:
    """What nodes hold is what the push begins with, and each output is held once."""
    expected = np.zeros_like(held.present)
    for piece in held_pieces(case, number):
        expected[piece.node] = mask(expected.shape[1:], piece.part)
    require(bool((expected == held.present).all()), "a node does not hold the outputs that it sends")
    whole = mask(expected.shape[1:], _before_pooling_area(case, number))
    require(bool((expected.sum(axis=0) == whole).all()), "an output is not held exactly once")


def _before_pooling_area(case: Case, number: int) -> Area:
    bounds = case.plan.layers[number].bounds
    return member_area(case.network, number + 1)._replace(y=(0, int(bounds[Q])), x=(0, int(bounds[P])))


# -- push and sums ------------------------------------------------------------------------------------------------


def _push(case: Case, number: int, held: Store, pushing: Phase) -> Ints:
    """Return int64[nodes, N, C, H, W]: the output, each element on the node where it is at home."""
    pool, stack = case.plan.layers[number].pool, case.network.members[number + 1].stack
    whole = mask(case.network.stack_shapes[stack], member_area(case.network, number + 1))
    home = np.stack([whole * mask(whole.shape, area) for area in home_boxes(case, stack)])
    pooled = [view_held(v, p, pool) if pool else (v * p, p) for v, p in zip(held.values, held.present, strict=True)]
    values, found = (np.stack([pair[i] for pair in pooled]) for i in (0, 1))
    arrived, count = values * home, found * home
    for flow in flows_of(pushing):
        source, target = flow.path
        part = mask(whole.shape, *flow.parts)
        require(not (part & ~home[target]).any(), "an output goes where it is not at home")
        require(bool((found[source][part == 1] > 0).all()), "a node sends an output that it does not have")
        arrived[target] += values[source] * part
        count[target] += found[source] * part
    sizes = window_sizes(pool, *held.values.shape[3:]) if pool else 1
    require(bool((count == home * sizes).all()), "an output does not come home exactly once")
    return arrived


def _add_up(case: Case, homes: dict[int, Store], total: Sum) -> Ints:
    """Return int64[nodes, N, C, H, W]: the sum of operands, each taken from the node's own home."""
    stores = [homes[case.network.members[tensor].stack] for tensor in total.operands]
    stack = case.network.members[total.operands[0]].stack
    whole = mask(case.network.stack_shapes[stack], member_area(case.network, total.operands[0]))
    wanted = np.stack([whole * mask(whole.shape, area) for area in home_boxes(case, stack)])
    has = all(not (wanted & ~store.present).any() for store in stores)
    require(has, "a node adds an operand that it does not have")
    added = np.zeros(wanted.shape, np.int64)
    for store in stores:
        added += store.values
    return added
