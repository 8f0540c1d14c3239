"""What the tensors of a network are: shapes, stacks, sums, and what each layer reads (docs/array.md, section 2)."""

from typing import NamedTuple

from tracesim.array.readings import Member, Reading, Shape, as_seen, reading_of, taken_of
from tracesim.array.records import ADD, ALONE, CONCAT, Added, C, G, K, Layer, N, P, Plan, Q, Reorder, View
from tracesim.array.reorders import check_digits


class Sum(NamedTuple):
    """A sum of tensors, which lies where the first one does.

    `finisher`: the layer that finishes it. `segment`: its segment. `is_joined`: made at the end of that segment.
    """

    operands: tuple[int, ...]
    finisher: int
    segment: int
    is_joined: bool


class Network(NamedTuple):
    """Tensors by number: `shapes` (N, C, H, W), `widths` in bytes, `members`. `stacks`: members by first member.

    `stack_shapes` by first member. `sums` by first operand. `spread`: by operand of a sum that has one element along
    some axes where the sum has more, these axes. `inputs`: by layer, a reading for each view, then for each tensor that
    is added. `weights`: by layer; None where it has weights of its own. `added`: by layer, what is added to its output.
    """

    shapes: tuple[Shape, ...]
    widths: tuple[int, ...]
    members: tuple[Member, ...]
    stacks: dict[int, tuple[int, ...]]
    stack_shapes: dict[int, Shape]
    sums: dict[int, Sum]
    spread: dict[int, tuple[int, ...]]
    inputs: tuple[tuple[Reading, ...], ...]
    weights: tuple[Reading | None, ...]
    added: tuple[tuple[Reading, ...], ...]


def derive_network(plan: Plan) -> Network:
    """Return the tensors of the plan's network; ValueError where they do not fit together."""
    shapes = (plan.input_shape, *(_output_shape(plan, layer) for layer in range(len(plan.layers))))
    widths = (plan.input_bytes, *(int(layer.width_bytes[2]) for layer in plan.layers))
    stacks = _find_stacks(plan, shapes)
    members = _place_members(stacks, shapes)
    stack_shapes = {first: _stack_shape(stack, shapes, widths) for first, stack in stacks.items()}
    inputs = tuple(_read_inputs(plan, layer, members, shapes) for layer in range(len(plan.layers)))
    weights = tuple(_read_weights(plan, layer, members, shapes) for layer in range(len(plan.layers)))
    added = tuple(_read_added(layer.added, members, shapes) for layer in plan.layers)
    sums = _find_sums(plan)
    spread = _find_spread(sums, shapes)
    network = Network(shapes, widths, members, stacks, stack_shapes, sums, spread, inputs, weights, added)
    _check_sums(plan, network)
    _check_order(plan, network)
    _check_inputs(plan, network)
    return network


def _output_shape(plan: Plan, number: int) -> Shape:
    layer = plan.layers[number]
    b = layer.bounds.tolist()
    width, height = layer.pool.size if layer.pool else (b[P], b[Q])
    samples, blocks = blocks_of(layer)
    return samples, blocks * b[K], height, width


def blocks_of(layer: Layer) -> tuple[int, int]:
    """Return the samples of what a layer reads and makes, and the blocks of channels: its groups, or their heads."""
    samples, groups = int(layer.bounds[N]), int(layer.bounds[G])
    return (1, groups * samples) if layer.has_heads else (samples, groups)


def _find_stacks(plan: Plan, shapes: tuple[Shape, ...]) -> dict[int, tuple[int, ...]]:
    """Return the members of each stack, by its first one. Members stand in the order in which readers list them."""
    listed = [after for layer in plan.layers if layer.join == CONCAT for after in seen_alike(layer, shapes)]
    order = list(dict.fromkeys(tensor for after in listed for tensor in after))
    group = {tensor: {tensor} for tensor in range(len(plan.layers) + 1)}
    for layer in plan.layers:
        seen = [*zip(layer.after, views_of(layer), strict=False)]
        if layer.join == CONCAT and len(set(seen)) < len(seen):
            raise ValueError(f"a layer concatenates a tensor twice, seen in one way (got {layer.after})")
    for after in listed:
        together = set().union(*(group[tensor] for tensor in after))
        for tensor in together:
            group[tensor] = together
    stacks = [tuple(sorted(group[tensor], key=order.index)) for tensor in order]
    alone = [(tensor,) for tensor in group if tensor not in order]
    return {stack[0]: stack for stack in stacks + alone}


def _place_members(stacks: dict[int, tuple[int, ...]], shapes: tuple[Shape, ...]) -> tuple[Member, ...]:
    members = {}
    for first, stack in stacks.items():
        channel = 0
        for tensor in stack:
            members[tensor] = Member(first, channel)
            channel += shapes[tensor][1]
    return tuple(members[tensor] for tensor in range(len(shapes)))


def _stack_shape(stack: tuple[int, ...], shapes: tuple[Shape, ...], widths: tuple[int, ...]) -> Shape:
    n, _, height, width = shapes[stack[0]]
    for tensor in stack:
        if (shapes[tensor][0], *shapes[tensor][2:]) != (n, height, width) or widths[tensor] != widths[stack[0]]:
            raise ValueError(f"tensors {stack} are concatenated, but differ in more than their channels")
    return n, sum(shapes[tensor][1] for tensor in stack), height, width


def views_of(layer: Layer) -> tuple[View, ...]:
    """Return how the layer sees each tensor of I."""
    return layer.views or (layer.input_pool,) * len(_listed(layer))


def seen_alike(layer: Layer, shapes: tuple[Shape, ...]) -> list[tuple[int, ...]]:
    """Return the tensors of I that may lie in one stack: of one size but for channels, and seen in one way."""
    listed = _listed(layer)
    return [tuple(listed[at] for at in places) for places in _places_alike(layer, shapes)]


def _places_alike(layer: Layer, shapes: tuple[Shape, ...]) -> list[tuple[int, ...]]:
    """Return the places of these tensors among those that the layer lists."""
    found: dict[object, tuple[int, ...]] = {}
    for at, (tensor, view) in enumerate(zip(_listed(layer), views_of(layer), strict=False)):
        key = view, shapes[tensor][0], shapes[tensor][2:]
        found[key] = (*found.get(key, ()), at)
    return list(found.values())


def _listed(layer: Layer) -> tuple[int, ...]:
    """Return the tensors that are side by side in I; a sum under the name of its first operand."""
    return layer.after if layer.join == CONCAT else layer.after[:1]


def _read_inputs(
    plan: Plan, number: int, members: tuple[Member, ...], shapes: tuple[Shape, ...]
) -> tuple[Reading, ...]:
    """Return a reading for each stack of what the layer lists, then for what is added; ValueError without channels."""
    layer = plan.layers[number]
    listed, views, alike = _listed(layer), views_of(layer), _places_alike(layer, shapes)
    pieces = as_seen(taken_of(listed, shapes, layer.channels), alike, views)
    own = tuple(
        reading_of(
            tuple(listed[at] for at in places),
            [piece for piece in pieces if piece.place in places],
            members,
            views[places[0]],
        )
        for places in alike
    )
    added = _read_added(layer.input_added, members, shapes)
    return (*own, *(reading._replace(is_added=True) for reading in added))


def _read_weights(plan: Plan, number: int, members: tuple[Member, ...], shapes: tuple[Shape, ...]) -> Reading | None:
    layer = plan.layers[number]
    if layer.weight_dim < 0:
        return None
    has_own = layer.has_sample_weights or blocks_of(layer)[0] == 1
    if layer.join != ALONE or (layer.bounds[[0, 1]] != 1).any() or not has_own:
        raise ValueError(f"layer {number} reads W from a tensor: it must have R = S = 1, W by sample, and no join")
    tensors = layer.after[1:2]
    return reading_of(tensors, taken_of(tensors, shapes, layer.weight_channels), members, layer.weight_view)


def _read_added(adds: tuple[Added, ...], members: tuple[Member, ...], shapes: tuple[Shape, ...]) -> tuple[Reading, ...]:
    """Return a reading for each tensor that a layer adds to its input or output."""
    return tuple(
        reading_of((added.tensor,), taken_of((added.tensor,), shapes, added.channels), members, added.view)
        for added in adds
    )


# -- sums ---------------------------------------------------------------------------------------------------------


def _find_sums(plan: Plan) -> dict[int, Sum]:
    """Return the sums by first operand, those that others need first."""
    operands: dict[int, tuple[int, ...]] = {}
    for number, layer in enumerate(plan.layers):
        if layer.join == ADD and operands.setdefault(layer.after[0], layer.after) != layer.after:
            raise ValueError(f"layer {number} adds {layer.after}, another one {operands[layer.after[0]]}")
    sums: dict[int, Sum] = {}
    for first in operands:
        _finish_sum(plan, operands, sums, first, ())
    finishers = [(total.finisher, total.segment) for total in sums.values()]
    if len(set(finishers)) < len(finishers):
        raise ValueError(f"a layer finishes two sums at once (got {sums})")
    return sums


def _finish_sum(
    plan: Plan, operands: dict[int, tuple[int, ...]], sums: dict[int, Sum], first: int, within: tuple[int, ...]
) -> None:
    """Add the sum to `sums`, behind all sums that are its operands."""
    if first in sums:
        return
    if first in within:
        raise ValueError(f"sums {within} are operands of each other")
    for tensor in operands[first][1:]:
        if tensor in operands:
            _finish_sum(plan, operands, sums, tensor, (*within, first))
    done = [first - 1] + [sums[t].finisher if t in sums else t - 1 for t in operands[first][1:]]
    spot = {layer: spot_of(plan, layer) for layer in done}
    finisher = max(done, key=lambda layer: (spot[layer][0], layer))
    segment = spot[finisher][0]
    beside = any(spot[layer][0] == segment and spot[layer][1] != spot[finisher][1] for layer in done)
    late = any(sums[t].is_joined and sums[t].segment == segment for t in operands[first][1:] if t in sums)
    sums[first] = Sum(operands[first], finisher, segment, beside or late)


def spot_of(plan: Plan, layer: int) -> tuple[int, int, int]:
    """Return a layer's segment, region and place in it; of -1, the network's input, what is before all of them."""
    for s, segment in enumerate(plan.segments):
        for r, region in enumerate(segment):
            if layer in region:
                return s, r, region.index(layer)
    return -1, 0, 0


def _find_spread(sums: dict[int, Sum], shapes: tuple[Shape, ...]) -> dict[int, tuple[int, ...]]:
    """Return by operand the axes along which it has one element and its sum has more, where there are such axes."""
    found = {
        tensor: tuple(axis for axis in range(4) if shapes[tensor][axis] == 1 < shapes[first][axis])
        for first, total in sums.items()
        for tensor in total.operands
    }
    return {tensor: axes for tensor, axes in found.items() if axes}


def _check_sums(plan: Plan, network: Network) -> None:
    """The operands of a sum have equal homes; those that are not spread over it lie at equal places of equal stacks."""
    for total in network.sums.values():
        whole = [t for t in total.operands if t not in network.spread]
        places = {(network.shapes[t], network.widths[t], network.members[t].channel) for t in whole}
        if len(places) > 1 or len({network.stack_shapes[network.members[t].stack] for t in whole}) > 1:
            raise ValueError(f"tensors {total.operands} are added, but differ in shape or place in their stacks")
        if len({str(plan.homes[network.members[t].stack]) for t in total.operands}) > 1:
            raise ValueError(f"tensors {total.operands} are added, but have different homes")
        for tensor in set(total.operands) - set(whole):
            _check_spread(network, total, tensor)


def _check_spread(network: Network, total: Sum, tensor: int) -> None:
    """What is spread over a sum lies by itself, nobody else reads it, and its other axes are those of the sum."""
    axes, shape, whole = network.spread[tensor], network.shapes[tensor], network.shapes[total.operands[0]]
    alone = network.stacks[network.members[tensor].stack] == (tensor,) and tensor > 0
    other_sums = [one for one in network.sums.values() if tensor in one.operands and one != total]
    is_read = any(tensor in read_tensors(network, layer) for layer in range(len(network.inputs)))
    is_shaped = all(axis in axes or shape[axis] == whole[axis] for axis in range(4))
    if other_sums or is_read or not (alone and is_shaped):
        raise ValueError(f"tensor {tensor} is spread over the sum {total.operands}: it has another use or shape")


# -- checks -------------------------------------------------------------------------------------------------------


def _check_order(plan: Plan, network: Network) -> None:
    """A layer comes in a later segment than what it reads, or later in the same region."""
    for number in range(len(plan.layers)):
        for tensor in read_tensors(network, number):
            total = network.sums.get(tensor)
            if total and _is_behind(plan, total.operands[1:], number):  # it makes an operand of the first one itself
                total = None
            mine, made = spot_of(plan, number), spot_of(plan, total.finisher if total else tensor - 1)
            same_region = mine[:2] == made[:2] and mine[2] > made[2] and not (total and total.is_joined)
            if not (mine[0] > made[0] or same_region):
                raise ValueError(f"layer {number} reads tensor {tensor} before it is finished")


def _is_behind(plan: Plan, tensors: tuple[int, ...], number: int) -> bool:
    """Whether a layer that joins nothing is, directly or not, needed to make some of the tensors."""
    ahead, seen = list(tensors), set[int]()
    while ahead:
        layer = ahead.pop() - 1
        if layer >= number and layer not in seen:
            seen.add(layer)
            adds = (*plan.layers[layer].added, *plan.layers[layer].input_added)
            ahead += (*plan.layers[layer].after, *(added.tensor for added in adds))
    return number in seen and plan.layers[number].join == ALONE


def _check_inputs(plan: Plan, network: Network) -> None:
    for number, layer in enumerate(plan.layers):
        b, readings = layer.bounds.tolist(), network.inputs[number]
        seen = [_seen_samples_channels(network, reading) for reading in readings]
        own = sum(count for (_, count), reading in zip(seen, readings, strict=True) if not reading.is_added)
        for reading, (n, count) in zip(readings, seen, strict=True):
            samples, blocks = blocks_of(layer)
            if (have := (n, count if reading.is_added else own)) != (samples, blocks * b[C]):
                raise ValueError(f"layer {number}: reads N, C = {have}, must be {(samples, blocks * b[C])}")
            if network.widths[reading.stack] != layer.width_bytes[0]:
                raise ValueError(f"layer {number}: reads elements of another width than its input_bytes")
        sizes = {viewed_size(network, reading) for reading in readings}
        if len(sizes) > 1:
            raise ValueError(f"layer {number}: reads tensors of different sizes (got {sorted(sizes)})")
        _check_weights(plan, network, number)
        _check_added(plan, network, number)


def _check_added(plan: Plan, network: Network, number: int) -> None:
    for reading in network.added[number]:
        tensor = reading.tensors[0]
        taken = _seen_samples_channels(network, reading)
        have = (*taken, *viewed_size(network, reading)[::-1])
        if have != network.shapes[number + 1] or network.widths[tensor] != plan.layers[number].width_bytes[2]:
            raise ValueError(f"layer {number}: adds a tensor of {have} to its output of {network.shapes[number + 1]}")


def _check_weights(plan: Plan, network: Network, number: int) -> None:
    layer, reading = plan.layers[number], network.weights[number]
    if reading is None:
        return
    b = layer.bounds.tolist()
    rows, other = (C, K) if layer.weight_dim == K else (K, C)
    width, height = viewed_size(network, reading)
    have = *_seen_samples_channels(network, reading), height * width
    must = blocks_of(layer)[0] if layer.has_sample_weights else 1, b[G] * b[rows], b[other]
    if have != must or network.widths[reading.stack] != layer.width_bytes[1]:
        raise ValueError(f"layer {number}: reads W of shape {have}, must be {must}")


def _seen_samples_channels(network: Network, reading: Reading) -> tuple[int, int]:
    """Return N and C of what is read, as it is seen; each element is seen once if reordered."""
    n, _, height, width = network.stack_shapes[reading.stack]
    taken = sum(count for _, count in reading.spans)
    if not isinstance(reading.view, Reorder):
        return n, taken
    check_digits(reading.view, (n, taken, height, width))
    return reading.view.shape[:2]


def viewed_size(network: Network, reading: Reading) -> tuple[int, int]:
    """Return the width and height of a stack as it is read."""
    _, _, height, width = network.stack_shapes[reading.stack]
    return reading.view.size if reading.view else (width, height)


def read_tensors(network: Network, layer: int) -> tuple[int, ...]:
    """Return the tensors whose elements a layer reads; a sum under the name of its first operand."""
    readings = (*network.inputs[layer], network.weights[layer], *network.added[layer])
    return tuple(tensor for reading in readings if reading for tensor in reading.tensors)
