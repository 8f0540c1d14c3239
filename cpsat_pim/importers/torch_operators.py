"""The core ATen operators of an exported PyTorch program: which are products, which pass data on, and their shapes."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from cpsat_pim.importers.binding import check_bound
from cpsat_pim.importers.builder import NetworkBuilder
from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.orders import Channels, Places
from cpsat_pim.importers.origin import FED, Parts
from cpsat_pim.importers.products import Shape, Unmappable, sampled_taps
from cpsat_pim.importers.torch_bodies import SLICING, Body, SlicedBody, branches, loop_body, sliced_body
from cpsat_pim.importers.torch_fourier import FOURIER, axis_transforms
from cpsat_pim.importers.torch_kinds import (
    ATTENTIONS,
    CONVOLUTIONS,
    DEFORMABLE,
    EQUATIONS,
    GROUPED,
    OPERANDS,
    PACKED,
    PASSING,
    PASSING_TAGS,
    QUANTISING,
    SUMS,
    TRANSPOSED,
    TRANSPOSED_CONVOLUTIONS,
    WITHOUT_DATA,
)
from cpsat_pim.importers.torch_nodes import (
    arguments_of,
    data_dims,
    factors_of,
    for_each,
    holds_tensors,
    is_of_one,
    open_dims,
    origin_of,
    trips_of,
)
from cpsat_pim.importers.torch_order import Order
from cpsat_pim.importers.torch_pooling import front_padding, pass_on
from cpsat_pim.importers.torch_recurrent import RECURRENT, recurrent_layers


class Trace:
    """Propagates the tensors' parts through the graph, which contains their shapes."""

    def __init__(self, program: torch.export.ExportedProgram, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
        signature = program.graph_signature
        self._names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self._fed = set(signature.user_inputs)
        self._builder = builder
        symbols, by_data = open_dims(program, self._fed), data_dims(program)
        self._trips = trips_of(program, bind)
        check_bound(bind, *symbols.values(), by_data=by_data.values(), values=[loop.name for loop in self._trips])
        known = {**symbols, **by_data}.items()
        self._bound = {symbol: bind[name] for symbol, names in known for name in names if name in bind}
        self._parts: dict[Node, Parts] = {}
        self._maps, self._places = dict[Node, Any](), dict[Node, Any]()
        self._orders = [
            Order(rules, self._parts, maps, self._shape, builder.first_channels)
            for rules, maps in ((Channels(), self._maps), (Places(builder.recount), self._places))
        ]

    def follow(self, node: Node) -> None:
        """Process one node.

        Raises:
            ValueError: the shape of a product cannot be that of a layer; the message begins with the node's name.
        """
        try:
            self._parts[node] = self._result(node)
            self._maps[node], self._places[node] = (order.of(node) for order in self._orders)
        except ValueError as error:
            raise ValueError(f"{node.name}: {error}") from error

    def _result(self, node: Node) -> Parts:
        """Return the parts of a node's result; none for anything but tensors."""
        if node.op != "call_function" or not holds_tensors(node.meta.get("val")):
            return FED if node.name in self._fed else ()
        read = [self._parts[other] for other in node.all_input_nodes]
        operator = node.target
        if not isinstance(operator, torch._ops.OpOverload):
            return self._builder.merge(*read) if operator.__name__ == "getitem" else self._higher_order(node, read)
        kind = operator._schema.name.removeprefix("aten::")
        if kind in WITHOUT_DATA:
            return ()
        if any(part in kind for part in QUANTISING):
            return self._builder.merge(*read)
        if kind == "cat":
            return self._builder.concatenate(read)
        if kind in SUMS and (added := self._product_sum(kind, node)) is not None:
            return added
        if kind in PASSING or operator.is_view or PASSING_TAGS & set(operator.tags):
            return self._pass_on(kind, node, read)
        return self._product(kind, node, read)

    def _pass_on(self, kind: str, node: Node, read: list[Parts]) -> Parts:
        """Return the parts of what an operator without a product makes of tensors, pooled or padded."""
        parts = self._builder.combine(read, [*map(self._maps.get, node.all_input_nodes)])
        first = next(iter(node.all_input_nodes), None)
        if first is None or not isinstance(first.meta.get("val"), torch.Tensor):
            return parts
        try:
            data, out = self._shape(first), self._shape(node)
        except ValueError:  # a size depends on the data
            return parts
        return pass_on(kind, arguments_of(node), data, out, parts, self._builder)

    def _product(self, kind: str, node: Node, read: list[Parts]) -> Parts:
        """Add a product, including its bias or mask; skip it if it is not a layer."""
        build, macs = _RULES.get(kind), None
        try:
            if build is not None:
                return build(self, kind, node, arguments_of(node))
        except Unmappable as reason:
            kind, macs = f"{kind} ({reason})", reason.macs
        return self._builder.skip(kind, self._name(node, kind.partition(" ")[0]), *read, macs=macs)

    def _product_sum(self, kind: str, node: Node) -> Parts | None:
        """Add a sum whose terms are element-wise products of two tensors; None if the node is none.

        An element-wise function of one tensor is no product of two, though it may multiply: the square of a
        normalisation, an activation such as x * sigmoid(x).
        """
        given = arguments_of(node)
        factors, axes = factors_of(given["self"]), given.get("dim")
        if factors is None or is_of_one(factors, self._parts):
            return None
        axes = axes if isinstance(axes, list | tuple) and axes else [*range(len(self._shape(given["self"])))]
        left, right = (self._operand(factor) for factor in factors)
        return self._builder.product_sum(self._name(node, kind), left, right, axes)

    def _convolution(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        data, weight = self._operand(given["input"]), self._operand(given["weight"])
        axes = len(weight.shape) - 2
        stride, dilation = for_each(given["stride"], axes), for_each(given["dilation"], axes)
        window = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], dilation, strict=True)]
        front = front_padding(given["padding"], window)
        build: Callable[..., Parts] = partial(self._builder.convolution, padding=front)
        if kind in TRANSPOSED_CONVOLUTIONS or given.get("transposed"):
            build = partial(self._builder.transposed_convolution, padding=for_each(given["padding"], axes))
        result = build(
            self._name(node, kind, given["weight"]),
            *(data, weight, self._shape(node)),
            groups=given["groups"],
            stride=stride,
            dilation=dilation,
        )
        return self._with_others(result, node, given["input"], given["weight"])

    def _matmul(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        left, right = (given[name] for name in OPERANDS[kind])
        weight = self._operand(right)
        if kind in TRANSPOSED:
            weight = weight.transposed()
        result = self._builder.matmul(self._name(node, kind, left, right), self._operand(left), weight)
        return self._with_others(result, node, left, right)

    def _packed(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        left, right = (given[name] for name in PACKED[kind])
        weight = Operand((self._shape(left)[-1], self._shape(node)[-1]), self._parts[right])
        name = self._name(node, kind, right)
        result = self._builder.matmul(name, self._operand(left), weight, Fraction(1, 2))
        return self._with_others(result, node, left, right)

    def _deformable(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        """Add a convolution that samples its input anew for each tap."""
        tensors, out = (given["input"], given["weight"]), self._shape(node)
        sizes = sampled_taps(self._shape(tensors[0]), self._shape(tensors[1]), out)
        data, kernel = (self._operand(one).reshaped(shape) for one, shape in zip(tensors, sizes, strict=True))
        name = self._name(node, kind.rpartition(":")[2], tensors[1])
        result = self._builder.convolution(
            name, data, kernel, out, groups=given["groups"], stride=[1, 1], dilation=[1, 1]
        )
        return self._with_others(result, node, *tensors)

    def _einsum(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        """Add the product of two or more tensors along the axes that an equation names."""
        equation, names = EQUATIONS[kind] if kind in EQUATIONS else (given["equation"], ())
        tensors = [given[name] for name in names] or given["tensors"]
        result = self._builder.einsum(self._name(node, kind), equation, [self._operand(one) for one in tensors])
        return self._with_others(result, node, *tensors)

    def _attention(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        """Add attention; a further operand is a mask."""
        tensors = [given[name] for name in ("query", "key", "value")]
        query, key, value = (self._operand(tensor) for tensor in tensors)
        if len(query.shape) == 2:
            query, key, value = (operand.reshaped((1, *operand.shape)) for operand in (query, key, value))
        masks = [self._parts[other] for other in node.all_input_nodes if other not in tensors]
        return self._builder.attention(self._path(node) or node.name, query, key, value, *masks)

    def _recurrent(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        """Add the layers of a recurrent operator, one behind the other; all directions of a layer are alike."""
        if "batch_sizes" in given:
            raise Unmappable("packed sequences")
        path = self._path(node) or node.name
        parts = self._parts[given["input"]]
        states = given["hx"] if isinstance(given["hx"], list | tuple) else [given["hx"]]
        state = self._builder.merge(*(self._parts[tensor] for tensor in states))
        for layer in recurrent_layers(given, self._shape(given["input"]), self._shape):
            weight, recurrent, *projection = layer.operands(self._operand)
            parts = self._builder.recurrent(
                path if given["num_layers"] == 1 else f"{path}.l{layer.index}",
                Operand(layer.data, parts),
                weight,
                recurrent,
                state,
                len(layer.weights),
                *projection,
            )
        return parts

    def _fourier(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        """Add the transforms of the axes, one behind the other."""
        parts, name = self._parts[given["self"]], self._name(node, kind)
        for one in axis_transforms(kind, given, self._shape(given["self"]), self._shape(node)):
            own = name if len(given["dim"]) == 1 else f"{name}.axis{one.axis}"
            data, matrix = Operand((one.rows, one.parts), parts), Operand((one.parts, one.results), ())
            parts = self._builder.matmul(own, data, matrix)
        return parts

    def _grouped(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        """Add a product in which each row meets the matrix of its group, as if all groups shared the rows evenly."""
        left, right = given["self"], given["mat2"]
        rows, matrices = self._shape(left), self._operand(right)
        if len(matrices.shape) != 3:
            raise Unmappable("groups of columns")
        name = self._name(node, "grouped_mm", right)
        result = self._builder.grouped(name, math.prod(rows[:-1]), self._parts[left], matrices)
        return self._with_others(result, node, left, right)

    # Operators with a program of their own

    def _higher_order(self, node: Node, read: list[Parts]) -> Parts:
        """Follow an operator that holds a program, if it is known how often that runs."""
        kind = str(node.target)
        if kind == "flex_attention":
            return self._attention(kind, node, dict(zip(("query", "key", "value"), node.args, strict=False)))
        if kind == "with_effects" and str(node.args[1]).startswith("aten."):  # an assertion, in the order of effects
            return self._builder.merge(*read)
        try:
            if kind == "cond":
                return self._either(node, read)
            if kind == "while_loop":
                return self._loop(node, read)
        except Unmappable as reason:
            kind = f"{kind} ({reason})"
        return self._slices(sliced_body(node), read) if kind in SLICING else self._builder.skip(kind, node.name, *read)

    def _either(self, node: Node, read: list[Parts]) -> Parts:
        """Follow both branches and keep the layers of one, where they are the same."""
        results = self._builder.either([partial(self._run, body) for body in branches(node)])
        if results is None:
            raise Unmappable("its branches differ, and which one is taken is not known")
        return self._builder.merge(*results) or self._builder.merge(*read)

    def _loop(self, node: Node, read: list[Parts]) -> Parts:
        """Follow a loop: once, counted as often as it is bound to run; in one of unknown trips no layer may be."""
        trips, state, before = self._trips.get(node), self._builder.merge(*read), self._builder.progress
        results = [state]
        if trips != 0:
            with self._builder.repeated(trips or 1):
                results = self._run(loop_body(node), dict.fromkeys(node.args[2], state))
        if trips is None and self._builder.progress != before:
            self._builder.restore(before)
            raise Unmappable("the number of its trips is not known")
        return state if trips is None else self._builder.merge(*results)

    def _slices(self, body: SlicedBody, read: list[Parts]) -> Parts:
        """Follow a body that runs once for each slice, counted so often. A state comes from all that the body reads."""
        state = self._builder.merge(*read)
        with self._builder.repeated(self._shape(body.sliced[0])[0]):
            return self._builder.merge(*self._run(body, dict.fromkeys(body.carried, state)))

    def _run(self, body: Body, origins: Mapping[Node, Parts] | None = None) -> list[Parts]:
        """Follow the operators of a body, which reads tensors of these origins or of those known; return the results'
        parts.
        """
        known = {**self._parts, **(origins or {})}
        for entry, source in body.entries.items():
            self._parts[entry] = known[source]
            if parameter := self._names.get(source.name):
                self._names[entry.name] = parameter
        for node in body.operators:
            self.follow(node)
        return [self._parts[node] for node in body.results]

    def _with_others(self, result: Parts, node: Node, *operands: Node) -> Parts:
        """Combine a product with the operands that are added to it."""
        return self._builder.merge(result, *(self._parts[o] for o in node.all_input_nodes if o not in operands))

    def _operand(self, node: Node) -> Operand:
        return Operand(self._shape(node), self._parts[node], self._maps.get(node), self._places.get(node))

    # Names

    def _name(self, node: Node, kind: str, *operands: Node) -> str:
        """Return the name of the parameter without its `weight`, else the module and the operator."""
        for operand in operands:
            if not self._parts[operand] and (parameter := self._names.get(origin_of(operand).name)):
                return str(parameter).removesuffix("weight").rstrip("._") or str(parameter)
        return ".".join(filter(None, (self._path(node), kind)))

    def _path(self, node: Node) -> str:
        """Return the path of the module whose code contains the operator."""
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        return str(modules[-1][0]) if modules else ""

    def _shape(self, node: Node) -> Shape:
        """Return the sizes of a tensor, or of the first of several, with the bound sizes in place of open dims."""
        value = node.meta["val"]
        first = value[0] if isinstance(value, list | tuple) else value
        return tuple(self._size(size) for size in first.shape)

    def _size(self, size: Any) -> int:
        if isinstance(size, int):
            return size
        known = size.node.expr.subs(self._bound)
        if not known.is_Integer:
            raise ValueError(
                f"a size depends on the data ({known}), --bind {min(map(str, known.free_symbols))}=... tells it"
            )
        return int(known)


#: The rules for operators that are products.
_RULES: dict[str, Callable[[Trace, str, Node, dict[str, Any]], Parts]] = {
    kind: rule
    for kinds, rule in (
        ((*CONVOLUTIONS, *TRANSPOSED_CONVOLUTIONS), Trace._convolution),
        (DEFORMABLE, Trace._deformable),
        (OPERANDS, Trace._matmul),
        (PACKED, Trace._packed),
        ((*EQUATIONS, "einsum"), Trace._einsum),
        (ATTENTIONS, Trace._attention),
        (RECURRENT, Trace._recurrent),
        (GROUPED, Trace._grouped),
        (FOURIER, Trace._fourier),
    )
    for kind in kinds
}
