"""The core ATen operators of an exported PyTorch program: which are products, and which pass data on."""

from collections.abc import Mapping
from functools import partial

import torch
from torch.fx import Node

from cpsat_pim.importers.binding import check_bound
from cpsat_pim.importers.builder import NetworkBuilder
from cpsat_pim.importers.orders import Channels, Places
from cpsat_pim.importers.origin import FED, Parts
from cpsat_pim.importers.products import Unmappable
from cpsat_pim.importers.torch_bodies import SLICING, Body, SlicedBody, branches, loop_body, sliced_body
from cpsat_pim.importers.torch_kinds import JOINING, PASSING, PASSING_TAGS, QUANTISING, SUMS, WITHOUT_DATA
from cpsat_pim.importers.torch_nodes import arguments_of, data_dims, holds_tensors, open_dims, trips_of
from cpsat_pim.importers.torch_order import Order
from cpsat_pim.importers.torch_pooling import pass_on
from cpsat_pim.importers.torch_products import Products


class Trace(Products):
    """Propagates the tensors' parts through the graph, which contains their shapes."""

    def __init__(self, program: torch.export.ExportedProgram, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
        signature = program.graph_signature
        self._fed = set(signature.user_inputs)
        symbols, by_data = open_dims(program, self._fed), data_dims(program)
        self._trips = trips_of(program, bind)
        check_bound(bind, *symbols.values(), by_data=by_data.values(), values=[loop.name for loop in self._trips])
        known = {**symbols, **by_data}.items()
        bound = {symbol: bind[name] for symbol, names in known for name in names if name in bind}
        super().__init__({**signature.inputs_to_parameters, **signature.inputs_to_buffers}, bound, builder)
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
        if kind in JOINING:
            return self._builder.concatenate(read)
        if kind in SUMS and (added := self._product_sum(kind, node)) is not None:
            return added
        if kind in PASSING or operator.is_view or PASSING_TAGS & set(operator.tags):
            return self._pass_on(kind, node, read)
        return self._product(kind, node, read)

    def _pass_on(self, kind: str, node: Node, read: list[Parts]) -> Parts:
        """Return the parts of what an operator without a product makes of tensors, pooled or padded."""
        parts = self._builder.combine(read, *(order.of_operands(node) for order in self._orders))
        first = next(iter(node.all_input_nodes), None)
        if first is None or not isinstance(first.meta.get("val"), torch.Tensor):
            return parts
        try:
            data, out = self._shape(first), self._shape(node)
        except ValueError:  # a size depends on the data
            return parts
        return pass_on(kind, arguments_of(node), data, out, parts, self._builder)

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
