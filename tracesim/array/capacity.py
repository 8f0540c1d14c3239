"""Bytes of each node's DRAM that a step uses: weights, homes of live tensors, staging (docs/array.md, section 6)."""

from typing import Any, NamedTuple

import numpy as np

from tracesim.array.added import node_added
from tracesim.array.alike import home_content
from tracesim.array.areas import elements, meet
from tracesim.array.flows import HOST, OUTPUT, Phase, flows_of
from tracesim.array.inputs import Case, node_inputs, node_output, step_places, weight_replicas
from tracesim.array.needs import member_area
from tracesim.array.network import read_tensors
from tracesim.array.outputs import finished_sum, held_pieces
from tracesim.array.parts import split
from tracesim.array.readings import Reading
from tracesim.array.records import C, Ints, Pool, Resize, by_value


class Life(NamedTuple):
    """The steps, in order of execution, at which a tensor is stored: from `birth` to `death`, both included."""

    birth: int
    death: int


def steps_in_order(case: Case) -> list[int]:
    """Return the layers segment by segment, region by region."""
    return [layer for segment in case.plan.segments for region in segment for layer in region]


class DramUse:
    """The bytes of all nodes at all steps. What layers stage is added segment by segment; equal parts count once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._steps = 0
        self._use = np.zeros((len(case.plan.layers), case.plan.array.rows * case.plan.array.cols), np.int64)

    def staging(self, number: int, phases: list[Phase]) -> Ints:
        """Return int64[nodes]: what a layer's step holds besides weights and homes."""
        return staging_bytes(self.case, number, phases)

    def add(self, segment: int, staging: list[Ints]) -> None:
        """Add what the layers of the next segment stage, in order."""
        assert len(staging) == sum(map(len, self.case.plan.segments[segment]))
        for held in staging:
            self._use[self._steps] += held
            self._steps += 1

    def by_step(self) -> Ints:
        """Return int64[steps, nodes] in bytes, steps in order of execution."""
        self._use += weight_bytes(self.case)
        known: dict[Any, Ints] = {}
        for tensor, life in lives(self.case).items():
            key = home_content(self.case, tensor)
            if key not in known:
                known[key] = home_bytes(self.case, tensor)
            self._use[life.birth : life.death + 1] += known[key]
        return self._use


def weight_bytes(case: Case) -> Ints:
    """Return int64[nodes]: the chunks of all layers' weights, which stay for good."""
    held, known = _nothing(case), dict[Any, Ints]()
    for number, (layer, step) in enumerate(zip(case.plan.layers, case.plan.steps, strict=True)):
        key = by_value((layer._replace(after=(), added=(), input_added=()), step))
        if key not in known:
            known[key] = _weights_of(case, number)
        held += known[key]
    return held


def _weights_of(case: Case, number: int) -> Ints:
    """Return int64[nodes]: the chunks of a layer's weights."""
    held, width = _nothing(case), int(case.plan.layers[number].width_bytes[1])
    for replica in weight_replicas(case, number):
        for node, (first, behind) in zip(replica.tour, replica.chunks, strict=True):
            held[node] += (behind - first) * width
    return held


def home_bytes(case: Case, tensor: int) -> Ints:
    """Return int64[nodes]: what is at home of a tensor, without padding."""
    held, whole = _nothing(case), member_area(case.network, tensor)
    for node, home in case.homes[case.network.members[tensor].stack].items():
        held[node] += elements(meet(whole, home)) * case.network.widths[tensor]
    return held


def staging_bytes(case: Case, number: int, phases: list[Phase]) -> Ints:
    """Return int64[nodes]: what a step holds besides weights and homes."""
    held = _nothing(case)
    for flow in (flow for phase in phases for flow in flows_of(phase) if flow.operand != OUTPUT):
        held[[node for node in flow.path[1:] if node != HOST]] += flow.data_bytes
    layer, widths = case.plan.layers[number], case.plan.layers[number].width_bytes
    is_split = split(case.plan.steps[number].grid, C) > 1
    stays = case.homes[case.network.members[number + 1].stack] if layer.pool is None else {}
    for place in step_places(case, number):
        for reading in _stored_views(case, number):
            held[place.node] += elements(node_inputs(case, number, place, reading)[0]) * int(widths[0])
        made = node_output(case, number, place)
        at_home = elements(meet(made, stays[place.node])) if place.node in stays and not is_split else 0
        held[place.node] += (elements(made) - at_home) * int(widths[3] if is_split else widths[2])
    for added in (one for one in case.network.added[number] if isinstance(one.view, Pool | Resize)):
        for piece in held_pieces(case, number):
            held[piece.node] += elements(node_added(case, number, added, piece)[0]) * int(widths[2])
    for piece in held_pieces(case, number) if is_split else []:
        at_home = elements(meet(piece.part, stays[piece.node])) if piece.node in stays else 0
        held[piece.node] += (elements(piece.part) - at_home) * int(widths[2])
    return held


def _stored_views(case: Case, number: int) -> list[Reading]:
    """Return what a layer reads that nodes write as they see it: what is pooled or resized, or a sum."""
    has_sum = bool(case.plan.layers[number].input_added)
    return [
        reading
        for reading in case.network.inputs[number]
        if isinstance(reading.view, Pool | Resize) or (has_sum and not reading.is_added)
    ]


def lives(case: Case) -> dict[int, Life]:
    """Return from when to when each tensor is stored; one that is added where another lies is not among them.

    In a segment of several regions whatever is stored at any time is stored all the time.
    """
    order = steps_in_order(case)
    when = {layer: step for step, layer in enumerate(order)}
    found = {}
    for tensor in range(len(case.plan.layers) + 1):
        uses = _uses(case, tensor, when)
        birth = when.get(tensor - 1, 0)
        if tensor == 0 or not _is_added_in_passing(case, tensor):
            found[tensor] = _whole_segments(case, Life(birth, max(uses, default=len(order) - 1)))
    return found


def _uses(case: Case, tensor: int, when: dict[int, int]) -> list[int]:
    """Return the steps that read a tensor or finish a sum with it."""
    network = case.network
    readers = [when[layer] for layer in when if tensor in read_tensors(network, layer)]
    return readers + [when[total.finisher] for total in network.sums.values() if tensor in total.operands]


def _is_added_in_passing(case: Case, tensor: int) -> bool:
    """Whether a layer's output only finishes a sum that lies elsewhere, so that it is never stored by itself."""
    total = finished_sum(case, tensor - 1)
    if total is None or total.operands[0] == tensor or tensor in case.network.spread:
        return False
    sums = [other for other in case.network.sums.values() if tensor in other.operands]
    is_read = any(tensor in read_tensors(case.network, layer) for layer in range(len(case.plan.layers)))
    return sums == [total] and not is_read


def _whole_segments(case: Case, life: Life) -> Life:
    """Extend a life to all steps of a segment of several regions that it touches."""
    first = 0
    for segment in case.plan.segments:
        last = first + sum(len(region) for region in segment) - 1
        if len(segment) > 1 and life.birth <= last and first <= life.death:
            life = Life(min(life.birth, first), max(life.death, last))
        first = last + 1
    return life


def _nothing(case: Case) -> Ints:
    return np.zeros(case.plan.array.rows * case.plan.array.cols, np.int64)
