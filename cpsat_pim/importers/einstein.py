"""Convert Einstein sums to layers, and those of two operands to products of matrices, which can be followed."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import frozen

from cpsat_pim.importers.products import Shape
from cpsat_pim.workload import ConvWorkload

#: The sizes of axes by letter.
Sizes = dict[str, int]


def einsum_sizes(equation: str, shapes: Sequence[Shape]) -> list[Sizes]:
    """Return the sizes of the axes longer than 1, by letter, of each operand of an Einstein sum, then of its result.

    A letter that occurs twice in an operand takes its diagonal, which has the letter once.
    """
    terms, arrow, out = equation.replace(" ", "").partition("->")
    spelled = [_letters(term, len(shape)) for term, shape in zip(terms.split(","), shapes, strict=True)]
    operands = [
        {letter: size for letter, size in zip(letters, shape, strict=True) if size > 1}
        for letters, shape in zip(spelled, shapes, strict=True)
    ]
    kept = set(out.replace("...", _ELLIPSIS)) if arrow else _implicit(terms)
    sizes = {letter: size for operand in operands for letter, size in operand.items()}
    return [*operands, {letter: size for letter, size in sizes.items() if letter in kept}]


def einstein_sum(ours: Sizes, theirs: Sizes, kept: Iterable[str]) -> ConvWorkload:
    """Convert the product of two operands whose axes are summed unless they are `kept`: shared axes are C if summed,
    else G; an axis of one operand is P or K. One that is summed in one operand alone is summed before the product.
    """
    both, kept = ours.keys() & theirs.keys(), set(kept)
    return ConvWorkload(
        G=_product(ours, both & kept),
        C=_product(ours, both - kept),
        P=_product(ours, (ours.keys() - both) & kept),
        K=_product(theirs, (theirs.keys() - both) & kept),
    )


@frozen(kw_only=True)
class MatrixForm:
    """An Einstein sum of two operands as a product of matrices [..., rows, channels] x [..., channels, outputs].

    `left`, `right`: the axes of the operands in this order, and their shapes behind it (`left_shape`, `right_shape`).
    `out`: the shape of the product, `spelled`: with all of its axes, which `order` brings in those of the result.
    """

    left: tuple[int, ...]
    left_shape: Shape
    right: tuple[int, ...]
    right_shape: Shape
    out: Shape
    spelled: Shape
    order: tuple[int, ...]


def matrix_form(equation: str, left: Shape, right: Shape) -> MatrixForm | None:
    """Return an Einstein sum of operands of these shapes as a product of matrices.

    None if an axis is taken twice, repeated, or summed in one operand alone.
    """
    ours, theirs, result = _spelled(equation, left, right)
    sizes = dict(zip(theirs, right, strict=True)) | dict(zip(ours, left, strict=True))
    where = {letter: (letter in ours, letter in theirs, letter in result) for letter in (*result, *ours, *theirs)}
    kinds = (True, True, True), (True, False, True), (False, True, True), (True, True, False)
    batch, rows, columns, summed = ([letter for letter, own in where.items() if own == kind] for kind in kinds)
    is_simple = all(len(term) == len({*term}) for term in (ours, theirs, result)) and {*where.values()} <= {*kinds}
    if not is_simple or any(sizes[letter] != size for letter, size in zip(theirs, right, strict=True)):
        return None
    outer, inner = [sizes[letter] for letter in batch], [_product(sizes, some) for some in (rows, summed, columns)]
    made = [*batch, *rows, *columns]
    return MatrixForm(
        left=tuple(ours.index(letter) for letter in (*batch, *rows, *summed)),
        left_shape=(*outer, inner[0], inner[1]),
        right=tuple(theirs.index(letter) for letter in (*batch, *summed, *columns)),
        right_shape=(*outer, inner[1], inner[2]),
        out=(*outer, inner[0], inner[2]),
        spelled=tuple(sizes[letter] for letter in made),
        order=tuple(made.index(letter) for letter in result),
    )


def _spelled(equation: str, left: Shape, right: Shape) -> tuple[str, str, str]:
    """Return the terms of two operands and of their result with ellipses spelled out."""
    terms, arrow, out = equation.replace(" ", "").partition("->")
    ours, theirs = (_letters(term, len(shape)) for term, shape in zip(terms.split(","), (left, right), strict=True))
    if not arrow:
        out = "..." + "".join(sorted(_implicit(terms.replace(".", "")) - {*_ELLIPSIS, ","}))
    return ours, theirs, out.replace("...", "".join(sorted({*ours, *theirs} & {*_ELLIPSIS})))


#: The axes of an ellipsis, the last one last.
_ELLIPSIS = "0123456789"


def _letters(term: str, rank: int) -> str:
    """Return a term with an ellipsis spelled out."""
    return term.replace("...", _ELLIPSIS[len(_ELLIPSIS) - rank + len(term.replace("...", "")) :])


def _implicit(terms: str) -> set[str]:
    """Return the output axes of an equation that names none: letters that occur once, and the ellipsis."""
    return {letter for letter, times in Counter(terms).items() if times == 1} | set(_ELLIPSIS)


def _product(sizes: Sizes, letters: Iterable[str]) -> int:
    return math.prod(sizes[letter] for letter in letters)
