"""Branches and loops of ONNX graphs whose conditions and numbers of trips are known, once the inputs are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import numpy as np
import onnx
from attrs import frozen
from onnx import numpy_helper

from cpsat_pim.importers.onnx_call import VENDOR, kind_of
from cpsat_pim.importers.onnx_shapes import OnnxShapes, subgraphs
from cpsat_pim.importers.onnx_tensors import Checkpoint, Tensors, node_name, reads
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Shape, Unmappable

#: The most trips of a loop that are followed one by one. A body of a hundred operators takes a few seconds then.
_MOST_TRIPS = 1000


#: What is added to a tensor's name for the part of one sequence of a batch.
_OF_ONE = "[one]"

#: The inputs that decide how much an operator computes.
_DECIDING = {
    "If": (0,),
    "Loop": (0, 1),
    f"{VENDOR}LongformerAttention": (6,),
    f"{VENDOR}QOrderedLongformerAttention": (12,),
    f"{VENDOR}DecoderAttention": (8, 9),
    f"{VENDOR}SparseAttention": (5,),
}


class Trace(Protocol):
    """What follows a graph's operators."""

    tensors: Tensors

    def run(self, graph: onnx.GraphProto) -> None:
        """Define a subgraph's constants and process its operators."""


def deciding(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names whose value decides how much a graph computes: conditions, numbers of trips, loops that data end,
    and inputs of attention that mark tokens or tell which of its keys are seen.
    """
    for node in graph.node:
        yield from (node.input[index] for index in _DECIDING.get(kind_of(node), ()) if index < len(node.input))
        if node.op_type == "Loop":
            yield node_name(node)
        for inner in subgraphs(node):
            yield from deciding(inner)


# --- Branches ---------------------------------------------------------------------------------------------------------


def branch(trace: Trace, node: onnx.NodeProto, call: dict[str, onnx.GraphProto]) -> None:
    """Follow the branch of an `If` that is taken. If that is not known, follow either where both have the same layers.

    Raises:
        Unmappable: the condition is not known, and the branches differ in their layers.
    """
    taken = trace.tensors.shapes.number(node.input[0])
    if taken is None:
        _either(trace, node, call)
        return
    graph = call["then_branch" if taken else "else_branch"]
    trace.run(graph)
    _export(trace, graph.output, node.output)


def _either(trace: Trace, node: onnx.NodeProto, call: dict[str, onnx.GraphProto]) -> None:
    """Follow both branches and keep the layers of one; the results are known in size if both agree."""
    tensors, graphs = trace.tensors, (call["else_branch"], call["then_branch"])
    before = tensors.checkpoint()
    sizes: list[list[Shape | None]] = []

    def follow(graph: onnx.GraphProto) -> list[Parts]:
        tensors.restore(before)
        trace.run(graph)
        sizes.append([tensors.shapes.sizes(info.name) for info in graph.output])
        return [tensors.origin(info.name) for info in graph.output]

    results = tensors.builder.either([partial(follow, graph) for graph in graphs])
    if results is None:
        tensors.restore(before)
        raise Unmappable(f"its condition {node.input[0]!r} is not known", bind=node.input[0])
    for name, info, one, other, parts in zip(node.output, graphs[1].output, *sizes, results, strict=False):
        if one == other:
            tensors.shapes.copy(info.name, name, with_value=False)
        tensors.parts[name] = parts or tensors.origins(node.input)


def _export(trace: Trace, inner: Sequence[onnx.ValueInfoProto], names: Sequence[str]) -> None:
    """Define a node's results as those of its subgraph."""
    for info, name in zip(inner, names, strict=False):
        trace.tensors.copy(info.name, name)


# --- Loops ------------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class _Body:
    """A loop's body: names of what it carries from trip to trip, within it and outside, and of what is stacked."""

    graph: onnx.GraphProto
    carried: Sequence[str]
    entries: Sequence[str]
    exits: Sequence[str]
    stacked: Sequence[str]


def loop(trace: Trace, node: onnx.NodeProto, call: dict[str, onnx.GraphProto]) -> None:
    """Follow a `Loop`: its body once, counted as often as it runs, or trip by trip where trips differ.

    Raises:
        Unmappable: the number of trips is not known, or too large to follow trips that differ.
    """
    graph, shapes = call["body"], trace.tensors.shapes
    told = shapes.told(node_name(node))
    limit, keep = (told, 1) if told is not None else _limit(shapes, node)
    number = len(node.input) - 2
    body = _Body(
        graph=graph,
        carried=node.input[2:],
        entries=[info.name for info in graph.input[2:]],
        exits=[info.name for info in graph.output[1 : 1 + number]],
        stacked=[info.name for info in graph.output[1 + number :]],
    )
    trips = limit if keep else 0
    if trips == 0:
        for name, source in zip(node.output, body.carried, strict=False):
            trace.tensors.copy(source, name)
        return
    if trips is None or not _at_once(trace, node, body, trips):
        trips = _one_by_one(trace, node, body, trips)
    _finish(trace, node, body, trips, axes=[0] * len(body.stacked))


def _limit(shapes: OnnxShapes, node: onnx.NodeProto) -> tuple[int | None, int]:
    """Return the most trips of a `Loop`, None if only its condition ends it, and whether it has a first one.

    Raises:
        Unmappable: one of them is not known.
    """
    limit = shapes.number(node.input[0]) if node.input[0] else None
    if node.input[0] and limit is None:
        raise Unmappable(f"its number of trips {node.input[0]!r} is not known", bind=node.input[0])
    keep = shapes.number(node.input[1]) if len(node.input) > 1 and node.input[1] else 1
    if keep is None:
        raise Unmappable(f"its condition {node.input[1]!r} is not known", bind=node.input[1])
    return limit, keep


def scan(trace: Trace, node: onnx.NodeProto, call: dict[str, onnx.GraphProto]) -> None:
    """Follow a `Scan`: its body once, counted once for each slice of the tensors that it scans.

    Raises:
        Unmappable: the length is not known.
    """
    follow = _scan_batch if trace.tensors.shapes.version("") < 9 else _scan_one
    follow(trace, node, call)


def _scan_one(trace: Trace, node: onnx.NodeProto, call: dict[str, onnx.GraphProto]) -> None:
    """Follow a `Scan` of tensors without a batch."""
    graph, tensors = call["body"], trace.tensors
    given = tensors.shapes.call(node).given
    scanned = int(given["num_scan_inputs"])
    states = len(node.input) - scanned
    body = _Body(
        graph=graph,
        carried=node.input[:states],
        entries=[info.name for info in graph.input[:states]],
        exits=[info.name for info in graph.output[:states]],
        stacked=[info.name for info in graph.output[states:]],
    )
    trips = 1
    axes = given.get("scan_input_axes") or [0] * scanned
    for name, info, axis in zip(node.input[states:], graph.input[states:], axes, strict=True):
        shape = tensors.shapes.shape(name)
        trips = shape[axis]
        position = axis % len(shape)
        tensors.shapes.shaped(info.name, name, (*shape[:position], *shape[position + 1 :]))
        tensors.parts[info.name] = tensors.origin(name)
    with tensors.builder.repeated(trips):
        _settle(trace, node, body)
    _finish(trace, node, body, trips, given.get("scan_output_axes") or [0] * len(body.stacked))


def _scan_batch(trace: Trace, node: onnx.NodeProto, call: dict[str, onnx.GraphProto]) -> None:
    """Follow a `Scan` of operator set 8, whose tensors all have the batch as first axis: the body sees one sequence."""
    tensors = trace.tensors
    sizes = {name: tensors.shapes.shape(name) for name in node.input[1:]}
    batch = next(iter(sizes.values()))[0]
    inner = onnx.NodeProto.FromString(node.SerializeToString())
    inner.input[:] = [f"{name}{_OF_ONE}" for name in node.input[1:]]
    inner.output[:] = [f"{name}{_OF_ONE}" for name in node.output]
    for name, own in zip(node.input[1:], inner.input, strict=True):
        tensors.shapes.shaped(own, name, sizes[name][1:])
        tensors.parts[own] = tensors.origin(name)
    with tensors.builder.repeated(batch):
        _scan_one(trace, inner, call)
    for name, own in ((name, own) for name, own in zip(node.output, inner.output, strict=True) if name):
        tensors.shapes.shaped(name, own, (batch, *tensors.shapes.shape(own)))
        tensors.parts[name] = tensors.origin(own)


def _at_once(trace: Trace, node: onnx.NodeProto, body: _Body, trips: int) -> bool:
    """Follow the body once for all trips; return whether that is right: the loop runs on, in the same sizes, and
    nothing that depends on the trip is unknown.
    """
    tensors = trace.tensors
    before = tensors.checkpoint()
    sizes = [tensors.shapes.sizes(name) for name in body.carried]
    with tensors.builder.repeated(trips):
        _start_trip(trace, body, None)
        _settle(trace, node, body)
    same = sizes == [tensors.shapes.sizes(name) for name in body.exits]
    goes_on = tensors.shapes.told(node_name(node)) or tensors.shapes.number(body.graph.output[0].name)
    if same and goes_on and len(tensors.builder.skipped) == len(before.progress.skipped):
        return True
    if same and goes_on and trips > _MOST_TRIPS:
        return True  # what is skipped within is reported
    tensors.restore(before)
    return False


def _settle(trace: Trace, node: onnx.NodeProto, body: _Body) -> None:
    """Follow a body that runs often once. A state that is constant only at first is not constant in later trips."""
    tensors = trace.tensors
    before = tensors.checkpoint()
    origin: dict[str, Parts] = {name: tensors.origin(name) for name in body.carried}
    for _ in range(len(body.carried) + 1):
        for entry, name in zip(body.entries, body.carried, strict=True):
            tensors.shapes.copy(name, entry, with_value=False)
            tensors.parts[entry] = origin[name]
        trace.run(body.graph)
        changed = [
            name
            for name, done in zip(body.carried, body.exits, strict=True)
            if not origin[name] and tensors.origin(done)
        ]
        if not changed:
            return
        tensors.restore(before)
        origin |= dict.fromkeys(changed, tensors.origins(reads(node)))


def _start_trip(trace: Trace, body: _Body, trip: int | None) -> None:
    """Define the number of the trip, if it is known, and the condition, which is true."""
    number, condition = body.graph.input[:2]
    for info, value, kind in ((number, trip, np.int64), (condition, True, np.bool_)):
        trace.tensors.shapes.define(numpy_helper.from_array(np.asarray(value or 0, kind), info.name))
        trace.tensors.parts[info.name] = ()
    if trip is None:
        trace.tensors.shapes.forget(number.name)


def _one_by_one(trace: Trace, node: onnx.NodeProto, body: _Body, limit: int | None) -> int:
    """Follow the body for each trip, with what is known then; return the number of trips.

    Raises:
        Unmappable: whether a trip is the last is not known, or there are too many.
    """
    tensors = trace.tensors
    before = tensors.checkpoint()
    sources, told = body.carried, tensors.shapes.told(node_name(node))
    with _undone_if_unmappable(trace, before), tensors.builder.unrolled():
        for trip in range(_MOST_TRIPS + 1):
            if trip == limit:
                return trip
            _start_trip(trace, body, trip)
            for entry, source in zip(body.entries, sources, strict=True):
                tensors.copy(source, entry)
            trace.run(body.graph)
            sources = body.exits
            goes_on = told or tensors.shapes.number(body.graph.output[0].name)
            if goes_on is None:
                raise Unmappable("whether it goes on depends on the data", bind=node_name(node))
            if not goes_on:
                return trip + 1
    raise Unmappable(f"more than {_MOST_TRIPS} trips that differ")


@contextmanager
def _undone_if_unmappable(trace: Trace, before: Checkpoint) -> Iterator[None]:
    """Forget the layers of a loop that turns out not to be known."""
    try:
        yield
    except Unmappable:
        trace.tensors.restore(before)
        raise


def _finish(trace: Trace, node: onnx.NodeProto, body: _Body, trips: int, axes: Sequence[int]) -> None:
    """Define a loop's results: what it carried last, and what it stacked along a new axis."""
    shapes, parts = trace.tensors.shapes, trace.tensors.parts
    states = len(body.exits)
    for name, done in zip(node.output[:states], body.exits, strict=False):
        trace.tensors.copy(done, name)
    for name, inner, axis in zip(node.output[states:], body.stacked, axes, strict=False):
        sizes = shapes.sizes(inner)
        if sizes is not None:
            position = axis % (len(sizes) + 1)
            shapes.shaped(name, inner, (*sizes[:position], trips, *sizes[position:]))
        parts[name] = trace.tensors.origin(inner)


#: The rules of operators with subgraphs.
CONTROL: dict[str, Callable[[Trace, onnx.NodeProto, dict[str, onnx.GraphProto]], None]] = {
    "If": branch,
    "Loop": loop,
    "Scan": scan,
}
