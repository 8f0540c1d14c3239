"""Products of complex tensors of PyTorch programs, as products of their real elements.

A complex element has two real ones, side by side. The second operand of a product, or the constant one, turns those of
an element into those of the result, as a matrix of 2 x 2. So a product of two complex elements is four real ones, and
one of a complex and a real element is two.
"""

import itertools
import string
from collections.abc import Sequence

from torch.fx import Node

from cpsat_pim.importers.counted import Operand
from cpsat_pim.importers.products import product_sum


def has_complex(*nodes: Node) -> bool:
    """Return whether one of these tensors is complex."""
    return any(node.meta["val"].is_complex() for node in nodes)


def real_matmul(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Return the real operands of a complex matrix product, the constant one as the second."""
    if not left.parts and right.parts:
        left, right = right.transposed(), left.transposed()
    columns = right.shape if len(right.shape) > 1 else (*right.shape, 1)
    return _doubled(left, -1), _doubled(Operand(columns, right.parts), -1, -2)


def real_convolution(data: Operand, weight: Operand) -> tuple[Operand, Operand]:
    """Return the real operands of a complex convolution, transposed or not."""
    return _doubled(data, 1 - len(weight.shape)), _doubled(weight, 0, 1)


def real_einsum(equation: str, operands: Sequence[Operand]) -> tuple[str, list[Operand]]:
    """Return the equation and the real operands of a complex Einstein sum: `ij,jk->ik` becomes `ija,jkab->ikb`."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    first, *others = [letter for letter in string.ascii_letters if letter not in equation][: len(operands)]
    axes = [first, *(f"{before}{after}" for before, after in itertools.pairwise((first, *others)))]
    if others and operands[1].parts and not operands[0].parts:
        axes[:2] = axes[1], axes[0]
    spelled = ",".join(f"{term}{own}" for term, own in zip(terms.split(","), axes, strict=True))
    last = (first, *others)[-1] if arrow else ""
    return f"{spelled}{arrow}{result}{last}", [
        _with_axes(operand, *(2 for _ in own)) for operand, own in zip(operands, axes, strict=True)
    ]


def real_product_sum(
    left: Operand, right: Operand, summed: Sequence[int], are_complex: tuple[bool, bool]
) -> tuple[Operand, Operand, list[int]]:
    """Return the real operands of a sum of element-wise products, and the axes along which these are added.

    `are_complex`: whether the left one is, and the right one. What is no product stays as it is.
    """
    rank = max(len(left.shape), len(right.shape))
    added = [axis % rank for axis in summed]
    if product_sum(left.shape, right.shape, added) is None:
        return left, right, added
    own = [(1, 1 + is_complex) for is_complex in are_complex]
    if all(are_complex):
        own = [(2, 2), (2, 1)] if right.parts and not left.parts else [(2, 1), (2, 2)]
    return _with_axes(left, *own[0]), _with_axes(right, *own[1]), [*added, rank]


def _with_axes(operand: Operand, *sizes: int) -> Operand:
    """Return a tensor with further axes."""
    return Operand((*operand.shape, *sizes), operand.parts)


def _doubled(operand: Operand, *axes: int) -> Operand:
    """Return a tensor with twice as many elements along some axes."""
    doubled = [axis % len(operand.shape) for axis in axes]
    return Operand([size * (1 + (axis in doubled)) for axis, size in enumerate(operand.shape)], operand.parts)
