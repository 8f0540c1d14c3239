"""What `simulate_plan` is given: plain arrays, ints and tuples of them.

A tensor is named by a number: 0 is the network's input, n + 1 the output of layer n. Layers are numbered in the order
of the network's file. Nodes are numbered row by row over the whole array. Pairs of sizes are (width, height).
No part size, no footprint and no count is given: the simulator derives them from bounds and placement.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

R, S, P, Q, C, K, N, G = range(8)
"""Dims, in the order of `Layer.bounds`."""

AXIS_N, AXIS_C, AXIS_H, AXIS_W = range(4)
"""Axes of a tensor, in the order of the digits of a `Home`."""

ALONE, CONCAT, ADD = range(3)
"""How the tensors of `Layer.after` become one input."""

NEAREST, LINEAR, CORNERS = range(3)
"""Kinds of `Resize`."""

ROUND_ROBIN, LISTED = range(2)
"""Orders in which a node sends its messages."""


class Array(NamedTuple):
    """The nodes and what connects them (docs/array.md, sections 1, 6 and 7).

    `is_host`: the nodes of a row share a bus to the host, and there is no path between nodes; else a mesh.
    """

    rows: int
    cols: int
    flit_bytes: int
    hop_fj_per_bit: int
    router_cycles: int
    local_port_flits: int
    capacity_bytes: int
    is_host: bool = False


class Dram(NamedTuple):
    """The DRAM of a node: sizes in bytes, energies in femtojoules, JEDEC times in cycles of the node's clock.

    `read_fj`, `write_fj`: of one word of `word_bytes`. `mac_fj`: of one addition.
    """

    column_bytes: int
    row_bytes: int
    word_bytes: int
    read_fj: int
    write_fj: int
    activation_fj: int
    mac_fj: int
    nCCD_L: int
    nRP: int
    nRCDRD: int


class Pool(NamedTuple):
    """A pooling window over a tensor: (width, height) each. `pad` lies in front, `size` is that of the result."""

    window: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    size: tuple[int, int]


class Resize(NamedTuple):
    """A tensor with other rows and columns, `size` (width, height): each element is one of the source, or blends some.

    `kind`: NEAREST, LINEAR or CORNERS (docs/array.md, section 2).
    """

    size: tuple[int, int]
    kind: int = 0


Digits = tuple[tuple[int, int, int], ...]
"""Digits of an index, outermost first: (axis of what is read, count, step along that axis)."""


class Reorder(NamedTuple):
    """A tensor whose elements are counted along other axes: N, C, H, W are made of digits of those that it has.

    `axes`: of each one. `roll`, `roll_behind`: by how many columns and rows the tensor is rolled before and behind.
    """

    axes: tuple[Digits, Digits, Digits, Digits]
    roll: tuple[int, int] = (0, 0)
    roll_behind: tuple[int, int] = (0, 0)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """N, C, H and W as they are seen."""
        n, c, h, w = (math.prod(count for _, count, _ in axis) for axis in self.axes)
        return n, c, h, w

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as they are seen."""
        return self.shape[3], self.shape[2]


View = Pool | Resize | Reorder | None
"""How a reader sees a tensor."""


class Added(NamedTuple):
    """A tensor that is added to a layer's input or output, as it is seen; `channels`: those taken, None: all."""

    tensor: int
    view: View = None
    channels: tuple[tuple[int, int], ...] | None = None


class Layer(NamedTuple):
    """A layer of the network (docs/array.md, section 2).

    `bounds` int64[8]: R S P Q C K N G. `conv` int64[4]: stride_w, stride_h, dilation_w, dilation_h.
    `pad`: (left, top) zeros in front of the input. `width_bytes` int64[4]: of an element of I, W, O and of a partial
    sum. `after`: numbers of the tensors it reads. `weight_dim`: K or C, the dim along the width of the tensor that is
    read as W; -1 where the layer has weights of its own. `channels`, `weight_channels`: ranges of those that it takes
    of what it reads as I, side by side, and as W, in the order of its own; None: all. `views`: of each tensor that
    is concatenated, or of the sum, how it is pooled, resized or reordered before; none: all as `input_pool` says.
    `weight_view`: how the tensor that is read as W is reordered.
    `has_heads`: N counts heads that share W, and they lie along channels, block g * N + n of inputs and outputs each.
    `has_sample_weights`: W differs between samples, as where it is read, or cached, by sample.
    `added`: tensors that are added to its output, which is not pooled then. `input_added`: to its input, as it sees it.
    """

    bounds: Ints
    conv: Ints
    pad: tuple[int, int]
    width_bytes: Ints
    after: tuple[int, ...]
    join: int = ALONE
    pool: Pool | None = None
    input_pool: Pool | None = None
    weight_dim: int = -1
    channels: tuple[tuple[int, int], ...] | None = None
    weight_channels: tuple[tuple[int, int], ...] | None = None
    views: tuple[View, ...] = ()
    has_heads: bool = False
    has_sample_weights: bool = False
    added: tuple[Added, ...] = ()
    input_added: tuple[Added, ...] = ()
    weight_view: Reorder | None = None


class Tours(NamedTuple):
    """Tours that replace the default ones of the same nodes: each an int64[members] of node numbers."""

    weights: tuple[Ints, ...] = ()
    pull: tuple[Ints, ...] = ()
    pull_w: tuple[Ints, ...] = ()
    reduce: tuple[Ints, ...] = ()


class Grid(NamedTuple):
    """A region of nodes and what its rows and columns count.

    `region`: y, x, h, w. `row_digits`, `col_digits` int64[n, 2]: rows (dim or axis, factor), outermost first.
    """

    region: tuple[int, int, int, int]
    row_digits: Ints
    col_digits: Ints


class Step(NamedTuple):
    """How a layer is run: its partition, its weights' replicas, and its node program's simulated figures."""

    grid: Grid
    weight_replicas: int
    node_cycles: int
    node_energy_fj: int
    tours: Tours = Tours()


class Home(NamedTuple):
    """Where a stack lies. The layout is BHWC[Cn] if `is_channel_last`, else BCHW[Cn], with n = `group` channels."""

    grid: Grid
    is_channel_last: bool = False
    group: int = 1


class Plan(NamedTuple):
    """A network and all that a plan decides.

    `input_shape`: N, C, H, W of tensor 0, `input_bytes` of its elements. `steps`: by layer. `homes`: by tensor; of a
    stack only that of its first member is looked at. `segments`: each a tuple of regions, each a tuple of layers that
    run one after the other on the region of their steps.
    """

    array: Array
    dram: Dram
    input_shape: tuple[int, int, int, int]
    input_bytes: int
    layers: tuple[Layer, ...]
    steps: tuple[Step, ...]
    homes: tuple[Home | None, ...]
    segments: tuple[tuple[tuple[int, ...], ...], ...]
    send_order: int = ROUND_ROBIN


def digits(*pairs: tuple[int, int]) -> Ints:
    """Return (dim, factor) pairs as the int64[n, 2] of a `Grid`."""
    return np.array(pairs, np.int64).reshape(-1, 2)


def by_value(one: Any) -> Any:
    """Return a value made of tuples and arrays so that equal ones are equal keys."""
    if isinstance(one, np.ndarray):
        return one.shape, one.tobytes()
    return tuple(map(by_value, one)) if isinstance(one, list | tuple) else one


def checked_plan(plan: Plan) -> Plan:
    """Return the plan; ValueError where a record of it is not what the simulator reads."""
    _require_positive("Array", plan.array, "rows cols flit_bytes local_port_flits")
    _require_positive("Dram", plan.dram, "column_bytes row_bytes word_bytes")
    if plan.dram.row_bytes % plan.dram.column_bytes:
        raise ValueError(f"Dram.row_bytes: must be whole columns (got {plan.dram.row_bytes})")
    if plan.dram.column_bytes % plan.dram.word_bytes:
        raise ValueError(f"Dram.column_bytes: must be whole words (got {plan.dram.column_bytes})")
    if len(plan.steps) != len(plan.layers) or len(plan.homes) != len(plan.layers) + 1:
        raise ValueError("Plan: must have a step for each layer and a home, or None, for each tensor")
    for number, layer in enumerate(plan.layers):
        _check_layer(number, layer)
    for number, step in enumerate(plan.steps):
        _check_grid(plan.array, step.grid, f"Plan.steps[{number}]", (N, P, Q, K, C, G))
    for number, home in enumerate(plan.homes):
        if home is not None:
            _check_grid(plan.array, home.grid, f"Plan.homes[{number}]", (AXIS_N, AXIS_C, AXIS_H, AXIS_W))
    _check_segments(plan)
    return plan


def _check_layer(number: int, layer: Layer) -> None:
    if (layer.bounds.shape, layer.conv.shape, layer.width_bytes.shape) != ((8,), (4,), (4,)):
        raise ValueError(f"Plan.layers[{number}]: must have 8 bounds, 4 numbers of conv and 4 widths")
    if min(layer.bounds.min(), layer.conv.min(), layer.width_bytes.min()) < 1:
        raise ValueError(f"Plan.layers[{number}]: bounds, conv and widths must be positive")
    if not layer.after or max(layer.after) > number or min(layer.after) < 0:
        raise ValueError(f"Plan.layers[{number}].after: must be tensors from before the layer (got {layer.after})")
    if layer.weight_dim not in (-1, C, K) or len(layer.after) < 1 + (layer.join != ALONE):
        raise ValueError(f"Plan.layers[{number}]: its join or weight_dim is none")
    if layer.join == ALONE and len(layer.after) != (1 if layer.weight_dim < 0 else 2):
        raise ValueError(f"Plan.layers[{number}].after: reads one tensor, or two without weights (got {layer.after})")
    if any(not 0 <= added.tensor <= number or layer.pool for added in layer.added):
        raise ValueError(f"Plan.layers[{number}].added: must be earlier tensors, the output not pooled")
    if layer.views and (layer.input_pool or len(layer.views) != (len(layer.after) if layer.join == CONCAT else 1)):
        raise ValueError(f"Plan.layers[{number}].views: must be of each tensor of I (got {layer.views})")


def _check_grid(array: Array, grid: Grid, name: str, allowed: tuple[int, ...]) -> None:
    y, x, h, w = grid.region
    if min(y, x) < 0 or min(h, w) < 1 or y + h > array.rows or x + w > array.cols:
        raise ValueError(f"{name}.region: must lie in {array.rows} x {array.cols} nodes (got {grid.region})")
    for side, have, want in ((grid.row_digits, "rows", h), (grid.col_digits, "columns", w)):
        if np.prod(side[:, 1]) != want or (side[:, 1] < 1).any() or not np.isin(side[:, 0], allowed).all():
            raise ValueError(f"{name}: digits of its {have} must multiply to {want} (got {side.tolist()})")


def _check_segments(plan: Plan) -> None:
    listed = [layer for segment in plan.segments for region in segment for layer in region]
    if sorted(listed) != list(range(len(plan.layers))):
        raise ValueError(f"Plan.segments: must list each layer once (got {listed})")
    for segment in plan.segments:
        regions = [{plan.steps[layer].grid.region for layer in region} for region in segment]
        if any(len(region) != 1 for region in regions):
            raise ValueError(f"Plan.segments: layers of a region must share it (got {regions})")
        taken = np.zeros((plan.array.rows, plan.array.cols), np.int64)
        for y, x, h, w in (next(iter(region)) for region in regions):
            taken[y : y + h, x : x + w] += 1
        if taken.max() > 1:
            raise ValueError(f"Plan.segments: regions of a segment must not overlap (got {regions})")


def _require_positive(owner: str, record: Any, names: str) -> None:
    for name in names.split():
        if getattr(record, name) < 1:
            raise ValueError(f"{owner}.{name}: must be positive (got {getattr(record, name)})")
