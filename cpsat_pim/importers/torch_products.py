"""The operators of an exported PyTorch program that are products."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from torch.fx import Node

from cpsat_pim.importers.builder import NetworkBuilder
from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.origin import Parts
from cpsat_pim.importers.products import Shape, Unmappable, sampled_taps
from cpsat_pim.importers.torch_complex import has_complex, real_convolution, real_einsum, real_matmul, real_product_sum
from cpsat_pim.importers.torch_fourier import FOURIER, axis_transforms
from cpsat_pim.importers.torch_kinds import (
    ATTENTIONS,
    CONVOLUTIONS,
    DEFORMABLE,
    EQUATIONS,
    GROUPED,
    OPERANDS,
    PACKED,
    TRANSPOSED,
    TRANSPOSED_CONVOLUTIONS,
)
from cpsat_pim.importers.torch_nodes import arguments_of, factors_of, for_each, is_of_one, origin_of
from cpsat_pim.importers.torch_pooling import front_padding
from cpsat_pim.importers.torch_recurrent import RECURRENT, recurrent_layers


class Products:
    """Adds the products of a graph to a network, as the parts and maps of their operands are known.

    `names`: the parameters by the names of their nodes. `bound`: sizes in place of symbols.
    """

    def __init__(self, names: Mapping[str, str], bound: Mapping[Any, int], builder: NetworkBuilder) -> None:
        self._names = {**names}
        self._bound = bound
        self._builder = builder
        self._parts: dict[Node, Parts] = {}
        self._maps, self._places = dict[Node, Any](), dict[Node, Any]()

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
        if has_complex(*factors):
            are_complex = has_complex(factors[0]), has_complex(factors[1])
            left, right, axes = real_product_sum(left, right, axes, are_complex)
        return self._builder.product_sum(self._name(node, kind), left, right, axes)

    def _convolution(self, kind: str, node: Node, given: dict[str, Any]) -> Parts:
        data, weight = self._operand(given["input"]), self._operand(given["weight"])
        if has_complex(given["input"]):
            data, weight = real_convolution(data, weight)
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
        data, weight = self._operand(left), self._operand(right)
        if kind in TRANSPOSED:
            weight = weight.transposed()
        if has_complex(left):
            data, weight = real_matmul(data, weight)
        result = self._builder.matmul(self._name(node, kind, left, right), data, weight)
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
        operands = [self._operand(one) for one in tensors]
        if has_complex(*tensors):
            equation, operands = real_einsum(equation, operands)
        result = self._builder.einsum(self._name(node, kind), equation, operands)
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
_RULES: dict[str, Callable[[Products, str, Node, dict[str, Any]], Parts]] = {
    kind: rule
    for kinds, rule in (
        ((*CONVOLUTIONS, *TRANSPOSED_CONVOLUTIONS), Products._convolution),
        (DEFORMABLE, Products._deformable),
        (OPERANDS, Products._matmul),
        (PACKED, Products._packed),
        ((*EQUATIONS, "einsum"), Products._einsum),
        (ATTENTIONS, Products._attention),
        (RECURRENT, Products._recurrent),
        (GROUPED, Products._grouped),
        (FOURIER, Products._fourier),
    )
    for kind in kinds
}
