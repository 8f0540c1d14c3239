"""Layers in whose steps the same happens: equal blocks of a network, planned alike, are simulated once.

What a step does depends on its layer, its partition, and where lies what it reads, writes and adds. It does not depend
on the numbers of layers and tensors. Whatever the simulator looks at is part of the content, as it stands in the plan.
"""

from typing import Any

from tracesim.array.inputs import Case
from tracesim.array.outputs import finished_sum
from tracesim.array.readings import Reading
from tracesim.array.records import Plan, by_value


def content_of(case: Case, number: int) -> Any:
    """Return all that a layer's step depends on, by value."""
    layer, step = case.plan.layers[number], case.plan.steps[number]
    total = finished_sum(case, number)
    operands = total.operands if total else ()
    return by_value(
        (
            layer._replace(after=(), added=(), input_added=()),
            step,
            [_read(case, reading) for reading in case.network.inputs[number]],
            _read(case, case.network.weights[number]),
            [_read(case, reading) for reading in case.network.added[number]],
            _placed(case, number + 1),
            [_placed(case, tensor) for tensor in operands],
            operands.index(number + 1) if number + 1 in operands else -1,
        )
    )


def home_content(case: Case, tensor: int) -> Any:
    """Return all that the bytes of a tensor at home depend on, by value."""
    return by_value(_placed(case, tensor))


def _read(case: Case, reading: Reading | None) -> Any:
    if reading is None:
        return None
    return reading.spans, reading.firsts, reading.view, reading.is_added, _stack(case, reading.stack)


def _placed(case: Case, tensor: int) -> Any:
    """Where a tensor lies: its place in its stack, its shape and width, and the stack."""
    network, member = case.network, case.network.members[tensor]
    spread = network.spread.get(tensor)
    return member.channel, network.shapes[tensor], network.widths[tensor], spread, _stack(case, member.stack)


def _stack(case: Case, stack: int) -> Any:
    return case.plan.homes[stack], case.network.stack_shapes[stack], case.network.widths[stack]


def alone_in(plan: Plan, segment: int) -> int | None:
    """Return the layer that a segment consists of; None if there are several."""
    layers = [layer for region in plan.segments[segment] for layer in region]
    return layers[0] if len(layers) == 1 else None
