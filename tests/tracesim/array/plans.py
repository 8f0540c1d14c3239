"""Small plans of the networks of `networks.py`, with any partition, home, replication and segments."""

from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.tracesim.array.networks import NETWORKS
from tracesim.array.inputs import build_case, step_places, weight_replicas
from tracesim.array.network import derive_network
from tracesim.array.parts import sharing_sets
from tracesim.array.records import (
    ADD,
    LISTED,
    ROUND_ROBIN,
    Array,
    C,
    Dram,
    G,
    Grid,
    Home,
    K,
    Layer,
    N,
    P,
    Plan,
    Q,
    Step,
    Tours,
    digits,
)

DRAM = Dram(
    column_bytes=8,
    row_bytes=32,
    word_bytes=2,
    read_fj=10,
    write_fj=20,
    activation_fj=300,
    mac_fj=7,
    nCCD_L=2,
    nRP=5,
    nRCDRD=6,
)


def array(rows: int, cols: int, **fields: Any) -> Array:
    """Return a mesh of flits of 4 bytes."""
    given = {"flit_bytes": 4, "hop_fj_per_bit": 1, "router_cycles": 1, "local_port_flits": 1, "capacity_bytes": 1 << 30}
    return Array(rows, cols, **{**given, **fields})


def step(region: tuple[int, int, int, int], h: Any = (), w: Any = (), replicas: int = 1, cycles: int = 5) -> Step:
    """Return a step on a region, with digits as (dim, factor) pairs."""
    return Step(Grid(region, digits(*h), digits(*w)), replicas, cycles, 1000)


def home(region: tuple[int, int, int, int], h: Any = (), w: Any = (), last: bool = False, group: int = 1) -> Home:
    """Return a home on a region, with digits as (axis, factor) pairs."""
    return Home(Grid(region, digits(*h), digits(*w)), last, group)


# -- plans --------------------------------------------------------------------------------------------------------

SIZES = ((1, 1), (1, 2), (2, 2), (3, 2), (2, 4))


@st.composite
def plans(draw: Any, networks: Any = NETWORKS, is_host: bool | None = None) -> Plan:
    """Draw a plan of one of the networks."""
    shape, layers = draw(st.sampled_from(networks))(draw)
    rows, cols = draw(st.sampled_from(SIZES))
    host = draw(st.booleans()) if is_host is None else is_host
    nodes = array(rows, cols, is_host=host, local_port_flits=draw(st.integers(1, 2)))
    segments = draw(segmented(layers, rows, cols))
    steps = tuple(draw(steps_of(layers[n], region)) for n, region in sorted(regions_of(segments).items()))
    homes = draw(homes_of(layers, rows, cols))
    order = draw(st.sampled_from((ROUND_ROBIN, LISTED)))
    names = tuple(tuple(region for _, region in segment) for segment in segments)
    plan = Plan(nodes, DRAM, shape, 1, tuple(layers), steps, homes, names, order)
    try:
        derive_network(plan)
    except ValueError as refused:
        assume("before it is finished" not in str(refused))
        raise
    return plan


@st.composite
def segmented(draw: Any, layers: list[Layer], rows: int, cols: int) -> Any:
    """Draw segments as tuples of (region, layers); layers that do not need each other may lie side by side.

    Some cannot be carried out, as a layer reads what another region of its segment makes.
    """
    segments: list[Any] = []
    number = 0
    while number < len(layers):
        pair = number + 1 < len(layers) and number + 1 not in layers[number + 1].after and cols > 1
        pair = pair and not any(other.join == ADD for other in layers[number : number + 2])
        if pair and draw(st.booleans()):
            at = draw(st.integers(1, cols - 1))
            segments.append((((0, 0, rows, at), (number,)), ((0, at, rows, cols - at), (number + 1,))))
            number += 2
            continue
        last = segments[-1] if segments else ()
        if last and layers[number].join != ADD and draw(st.booleans()):
            at = draw(st.integers(0, len(last) - 1))
            region, before = last[at]
            segments[-1] = (*last[:at], (region, (*before, number)), *last[at + 1 :])
        else:
            segments.append(((draw(rectangles(rows, cols)), (number,)),))
        number += 1
    return segments


def regions_of(segments: Any) -> dict[int, tuple[int, int, int, int]]:
    """Return the region of each layer."""
    return {number: region for segment in segments for region, numbers in segment for number in numbers}


@st.composite
def rectangles(draw: Any, rows: int, cols: int) -> tuple[int, int, int, int]:
    """Draw a region of the array, often all of it."""
    if draw(st.booleans()):
        return 0, 0, rows, cols
    h, w = draw(st.integers(1, rows)), draw(st.integers(1, cols))
    return draw(st.integers(0, rows - h)), draw(st.integers(0, cols - w)), h, w


@st.composite
def factored(draw: Any, product: int, names: tuple[int, ...]) -> list[tuple[int, int]]:
    """Draw (name, factor) pairs of this product, a name perhaps several times."""
    pairs = []
    while product > 1:
        factor = draw(st.sampled_from([f for f in range(2, product + 1) if product % f == 0]))
        pairs.append((draw(st.sampled_from(names)), factor))
        product //= factor
    return pairs


@st.composite
def steps_of(draw: Any, of: Layer, region: tuple[int, int, int, int]) -> Step:
    """Draw a partition, and a number of replicas that divides the nodes which share weights."""
    h, w = (draw(factored(side, (N, P, Q, K, C, G))) for side in region[2:])
    sharing = int(np.prod([factor for dim, factor in h + w if dim in (N, P, Q)]))
    counts = [f for f in range(1, sharing + 1) if sharing % f == 0]
    replicas = sharing if of.has_sample_weights else draw(st.sampled_from(counts))
    return step(region, h, w, replicas, draw(st.integers(1, 30)))


@st.composite
def homes_of(draw: Any, layers: list[Layer], rows: int, cols: int) -> tuple[Home, ...]:
    """Draw a home for each tensor; one for all tensors that are added."""
    added = {tensor for each in layers if each.join == ADD for tensor in each.after}
    common = draw(a_home(rows, cols))
    return tuple(common if tensor in added else draw(a_home(rows, cols)) for tensor in range(len(layers) + 1))


@st.composite
def a_home(draw: Any, rows: int, cols: int) -> Home:
    """Draw a home."""
    region = draw(rectangles(rows, cols))
    h, w = (draw(factored(side, (0, 1, 2, 3))) for side in region[2:])
    return home(region, h, w, draw(st.booleans()), draw(st.sampled_from((1, 2, 3))))


def values_of(plan: Plan, seed: int) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Return an input and weights by layer, small random integers other than zero."""
    random = np.random.default_rng(seed)
    weights = {}
    for number, each in enumerate(plan.layers):
        r, s, _, _, c, k, n, g = each.bounds.tolist()
        weights[number] = random.integers(1, 9, (n if each.has_sample_weights else 1, g, k, c, s, r))
    return random.integers(1, 9, plan.input_shape), weights


@st.composite
def toured(draw: Any, plan: Plan) -> Plan:
    """Draw the plan with other tours of all its sharing sets."""
    case = build_case(plan)
    steps = []
    for number, given in enumerate(plan.steps):
        nodes = step_places(case, number)
        replicas = [replica.tour for replica in weight_replicas(case, number)]
        pull, pull_w, reduce = (
            [[place.node for place in members] for members in sharing_sets(nodes, dims)]
            for dims in ((N, P, Q, C, G), (G, K, C), (N, P, Q, K, G))
        )
        tours = Tours(
            *(tuple(draw(shuffled(members)) for members in sets) for sets in (replicas, pull, pull_w, reduce))
        )
        steps.append(given._replace(tours=tours))
    return plan._replace(steps=tuple(steps))


@st.composite
def shuffled(draw: Any, nodes: Any) -> np.ndarray:
    """Draw an order of the nodes."""
    return np.array(draw(st.permutations(list(nodes))), np.int64)
