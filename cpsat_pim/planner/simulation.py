"""A plan handed to the simulator, which shares no code with the prediction, and what the two say differently."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.base.units import to_fj
from cpsat_pim.evaluate.cost import access_energies_fj
from cpsat_pim.planner.array import HOST, NodeArray, Region
from cpsat_pim.planner.evaluate import LINK_WAYS, PlanCost
from cpsat_pim.planner.partition import TENSOR_DIMS, Digits, channel_group
from cpsat_pim.planner.plan import LISTED, LayerPlan, Plan
from cpsat_pim.planner.sizes import Change, with_batch
from cpsat_pim.planner.tensors import Graph, LayerTask, Reading
from cpsat_pim.planner.tours import EXCHANGES
from cpsat_pim.workload.joins import ADD, CONCAT, RESIZES, View, view_of
from cpsat_pim.workload.joins import Pool as NetworkPool
from cpsat_pim.workload.joins import Resize as NetworkResize
from cpsat_pim.workload.network import INPUT, Network, NetworkNode
from cpsat_pim.workload.reorders import AXES, Reorder
from tracesim import array as simulator
from tracesim.array import records

#: Totals that must be equal; the simulated latency is the simulator's own.
EXACT = (
    "energy_fj",
    "noc_energy_fj",
    "dram_energy_fj",
    "node_energy_fj",
    "add_energy_fj",
    "flits",
    "flit_hops",
    "message_bytes",
    "dram_columns",
    "dram_activations",
    "peak_bytes",
)
#: Counts of a phase that must be equal.
PHASE_EXACT = ("max_link_flits", "flits", "flit_hops", "bytes", "columns", "activations", "additions", "dram_cycles")
#: All figures of a phase; the time of the network is simulated.
_PHASE_KEYS = ("network_cycles", *PHASE_EXACT)
_COMPUTE, _JOIN = "compute", "join"


def simulate(network: Network, graph: Graph, plan: Plan) -> simulator.Figures:
    """What happens when a plan is carried out."""
    return simulator.simulate_plan(to_records(network, graph, plan))


def differences(graph: Graph, predicted: PlanCost, simulated: simulator.Figures) -> list[str]:
    """Figures that must be equal and are not, and the estimate of the latency, which is defined as one."""
    ours, theirs = predicted.to_dict(), simulated_document(graph, predicted.rates.array, simulated)
    lines = [_difference(key, ours[key], theirs[key]) for key in EXACT if ours[key] != theirs[key]]
    if ours["link_flits"] != (links := theirs["link_flits"]):
        unequal = [way for way in links if ours["link_flits"].get(way) != links[way]]
        lines.append(f"link_flits: predicted and simulated differ on some links: {', '.join(unequal)}")
    if ours["latency_cycles"] != (estimated := theirs["estimated_latency_cycles"]):
        lines.append(f"latency: predicted {ours['latency_cycles']}, estimated {estimated}")
    found = _phases(theirs)
    return lines + [
        _difference(f"{place}: {key}", phase[key], found[place][key])
        for place, phase in _phases(ours).items()
        for key in PHASE_EXACT
        if phase[key] != found[place][key]
    ]


def _difference(name: str, predicted: int, simulated: int) -> str:
    return f"{name}: predicted {predicted}, simulated {simulated}"


def _phases(document: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return the phases of all steps, and the sums at the ends of segments, by name."""
    own = {f"{step['layer']}: {name}": phase for step in document["steps"] for name, phase in step["phases"].items()}
    return own | {f"segment {number}: join": phase for number, phase in document["joins"].items()}


def link_flits(array: NodeArray, simulated: simulator.Figures) -> dict[str, list[int]]:
    """Return the simulated flits over each link, by the node that it leaves; over a host, over each row's bus."""
    if array.interconnect == HOST:
        return {"bus": simulated.link_flits.tolist()}
    links = simulated.link_flits[: 4 * array.nodes].reshape(4, array.nodes)
    return dict(zip(LINK_WAYS, links.tolist(), strict=True))


def simulated_document(graph: Graph, array: NodeArray, simulated: simulator.Figures) -> dict[str, Any]:
    """The simulated figures with the keys of the prediction, and the latency as section 6 estimates it."""
    return {
        **{key: int(getattr(simulated, key)) for key in ("latency_cycles", *EXACT)},
        "estimated_latency_cycles": int(simulated.estimated_latency_cycles),
        "link_flits": link_flits(array, simulated),
        "steps": _steps(graph, simulated.phases),
        "joins": _joins(simulated.phases),
    }


def _steps(graph: Graph, phases: Iterable[simulator.PhaseFigures]) -> list[dict[str, Any]]:
    """Return the steps in the order of execution: cycles as simulated, and the figures of each exchange."""
    found: dict[str, dict[str, Any]] = {}
    for phase in (one for one in phases if one.phase != _JOIN):
        name = graph.tasks[phase.layer].name
        step = found.setdefault(name, {"layer": name, "cycles": 0, "node_cycles": 0, "phases": {}})
        step["cycles"] += phase.end_cycle - phase.begin_cycle
        step["node_cycles"] += phase.compute_cycles
        if phase.phase != _COMPUTE:
            step["phases"][phase.phase] = {key: int(getattr(phase, key)) for key in _PHASE_KEYS}
    return list(found.values())


def _joins(phases: Iterable[simulator.PhaseFigures]) -> dict[str, dict[str, int]]:
    """Return the sums at the end of each segment, which are one phase: counts add up, DRAM works at all of them."""
    found: dict[str, dict[str, int]] = {}
    for phase in (one for one in phases if one.phase == _JOIN):
        join = found.setdefault(str(phase.segment), dict.fromkeys(_PHASE_KEYS, 0))
        for key in ("columns", "activations", "additions"):
            join[key] += int(getattr(phase, key))
        join["dram_cycles"] = phase.end_cycle - phase.begin_cycle
    return found


# --- Records ---------------------------------------------------------------------------------------------------------


def to_records(network: Network, graph: Graph, plan: Plan) -> simulator.Plan:
    """The plan as the simulator reads it: bounds, digits and timings, without any size that follows from them."""
    numbers = {INPUT: 0, **{node.name: i + 1 for i, node in enumerate(network.layers)}}
    order = {name: number - 1 for name, number in numbers.items()}
    tensors = list(numbers)
    return simulator.Plan(
        array=_array(plan.array),
        dram=_dram(plan.array),
        input_shape=_input_shape(graph),
        input_bytes=graph.stacks[graph.stack_of[INPUT]].element_bytes,
        layers=tuple(_layer(graph, node, numbers) for node in network.layers),
        steps=tuple(_step(plan.layers[node.name]) for node in network.layers),
        homes=tuple(_home(plan, graph, name) for name in tensors),
        segments=tuple(
            tuple(tuple(order[name] for name in one.layers) for one in regions) for regions in plan.segments
        ),
        send_order=records.LISTED if plan.send_order == LISTED else records.ROUND_ROBIN,
    )


def _array(array: NodeArray) -> simulator.Array:
    return simulator.Array(
        rows=array.rows,
        cols=array.cols,
        flit_bytes=array.flit_bytes,
        hop_fj_per_bit=array.hop_fj_per_bit,
        router_cycles=array.router_cycles,
        local_port_flits=array.local_port_flits,
        capacity_bytes=array.capacity_bytes,
        is_host=array.interconnect == HOST,
    )


def _dram(array: NodeArray) -> simulator.Dram:
    node, timings = array.node, array.node.dram_timings
    read_fj, write_fj = access_energies_fj(node)[Level.DRAM]
    return simulator.Dram(
        column_bytes=node.column_bytes,
        row_bytes=node.row_bytes,
        word_bytes=node.hierarchy[Level.DRAM].word_bytes,
        read_fj=read_fj,
        write_fj=write_fj,
        activation_fj=to_fj(node.activation_energy),
        mac_fj=to_fj(node.pe_array.compute_unit.mac_energy),
        nCCD_L=timings.tCCD_L,
        nRP=timings.tRP,
        nRCDRD=timings.tRCDRD,
    )


def _input_shape(graph: Graph) -> tuple[int, int, int, int]:
    """(N, C, H, W) of the input by itself, which may be one of several in its stack."""
    stack = graph.stacks[graph.stack_of[INPUT]]
    at = stack.members.index(INPUT)
    n, channels, h, w = stack.shape
    stop = stack.offsets[at + 1] if at + 1 < len(stack.members) else channels
    return n, stop - stack.offsets[at], h, w


def _layer(graph: Graph, node: NetworkNode, numbers: dict[str, int]) -> simulator.Layer:
    task = graph.task(node.name)
    layer = task.workload
    after = node.after or (INPUT,)
    joins = {ADD: records.ADD, CONCAT: records.CONCAT}
    return simulator.Layer(
        bounds=np.array(layer.bounds, np.int64),
        conv=np.array([*layer.stride, *layer.dilation], np.int64),
        pad=task.pad,
        width_bytes=np.array(layer.width_bytes, np.int64),
        after=tuple(numbers[name] for name in after),
        join=joins[node.join] if node.join is not None and len(after) > 1 else records.ALONE,
        pool=_pool(node.pool),
        input_pool=_pool(node.input_pool),
        channels=node.channels,
        weight_channels=node.weight_channels,
        views=_views(graph, node, after) if node.views else (),
        has_heads=task.has_heads,
        has_sample_weights=task.has_sample_weights,
        added=_added(node.adds, task.adds, numbers),
        input_added=_added(node.input_adds, [one for one in task.beside if one.is_added], numbers),
        weight_view=_weight_view(task),
        weight_dim=-1 if task.weight_rows is None else Dim[task.weight_rows],
    )


def _views(graph: Graph, node: NetworkNode, after: tuple[str, ...]) -> tuple[records.View, ...]:
    """How the layer sees each tensor of its input; all samples of a batch, where it is reordered."""
    listed, views = after if node.join == CONCAT else after[:1], with_batch(node, graph.batch).views
    seen = (view_of(views, name, listed[:at].count(name)) for at, name in enumerate(listed))
    return tuple(_view(view.change if view else None) for view in seen)


def _weight_view(task: LayerTask) -> records.Reorder | None:
    """How the layer sees the tensor that is W."""
    view = task.reads_weights.view if task.reads_weights else None
    return _reorder(view) if isinstance(view, Reorder) else None


def _reorder(view: Reorder) -> records.Reorder:
    n, c, h, w = (tuple((AXES.index(axis), count, step) for axis, count, step in digits) for digits in view.axes)
    return records.Reorder((n, c, h, w), view.roll, view.roll_behind)


def _added(
    adds: Mapping[str, View] | None, readings: Sequence[Reading], numbers: Mapping[str, int]
) -> tuple[records.Added, ...]:
    """What the layer adds; all samples of a batch, where it is reordered."""
    read = zip((adds or {}).items(), readings, strict=True)
    return tuple(records.Added(numbers[name], _view(one.view), view.channels) for (name, view), one in read)


def _view(view: Change) -> records.View:
    if isinstance(view, Reorder):
        return _reorder(view)
    if isinstance(view, NetworkResize):
        return records.Resize(view.size, RESIZES.index(view.kind))
    return _pool(view)


def _pool(pool: NetworkPool | None) -> simulator.Pool | None:
    return None if pool is None else simulator.Pool(pool.window, pool.stride, pool.pad, pool.size)


def _step(layer: LayerPlan) -> simulator.Step:
    partition = layer.partition
    tours = {key: tuple(np.array(tour, np.int64) for tour in layer.tours.get(key, ())) for key in EXCHANGES}
    return simulator.Step(
        grid=_grid(partition.region, partition.h, partition.w, tuple(dim.name for dim in Dim)),
        weight_replicas=partition.replicas,
        node_cycles=layer.node_cycles,
        node_energy_fj=layer.node_energy_fj,
        tours=simulator.Tours(**tours),
    )


def _home(plan: Plan, graph: Graph, tensor: str) -> simulator.Home:
    home = plan.homes[graph.stack_of[tensor]]
    return simulator.Home(
        grid=_grid(home.region, home.h, home.w, TENSOR_DIMS),
        is_channel_last=home.layout.startswith("BHWC"),
        group=channel_group(home.layout),
    )


def _grid(region: Region, h: Digits, w: Digits, names: tuple[str, ...]) -> simulator.Grid:
    rows, cols = (records.digits(*((names.index(dim), factor) for dim, factor in side)) for side in (h, w))
    return simulator.Grid((region.y, region.x, region.h, region.w), rows, cols)
