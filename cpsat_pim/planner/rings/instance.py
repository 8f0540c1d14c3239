"""What is to be exchanged: a mesh of nodes, and the sets of nodes that share data.

Nodes are numbered row by row: node `y * cols + x` lies in row y and column x.

On a mesh whose sides are powers of two a row number has log2(rows) binary digits and a column number log2(cols). A
partition of a layer fixes some of these digits within a sharing set and lets the others run: the set is a product of
free digits, and all sets of one exchange are translates of each other. So two bit masks say the whole instance.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from attrs import field, frozen

from cpsat_pim.base.validate import Rule, as_table, complain, is_integer

Digit: TypeAlias = tuple[int, bool]
"""A digit of a row or column number: its base, and whether it is free within a sharing set."""

#: Longest side of a mesh. Cuts are counted over all rectangles, of which a square mesh has about side^4 / 4.
LONGEST_SIDE = 32

_side = Rule(
    f"must be an integer from 1 to {LONGEST_SIDE}",
    lambda v: is_integer(v) and 1 <= v <= LONGEST_SIDE,
    {"type": "integer", "minimum": 1, "maximum": LONGEST_SIDE},
)


@frozen(kw_only=True)
class Mesh:
    """A mesh of nodes; neighbours are joined by a link in each direction.

    Raises:
        ValueError: a side is out of range, or there is only one node.
    """

    rows: int = field(validator=_side)
    cols: int = field(validator=_side)

    def __attrs_post_init__(self) -> None:
        if self.nodes < 2:
            raise ValueError("Mesh: must have at least two nodes (got 1x1)")

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}"

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.rows * self.cols

    @property
    def links(self) -> int:
        """Number of directed links."""
        return 2 * (self.rows * (self.cols - 1) + (self.rows - 1) * self.cols)

    @property
    def transposed(self) -> "Mesh":
        """Rows and columns exchanged."""
        return Mesh(rows=self.cols, cols=self.rows)


@frozen(kw_only=True)
class Mask:
    """The free digits of row numbers and of column numbers, as integers: 0b1100 lets the two most significant of four
    digits run.
    """

    rows: int
    cols: int

    @property
    def transposed(self) -> "Mask":
        """Rows and columns exchanged."""
        return Mask(rows=self.cols, cols=self.rows)

    def digits(self, mesh: Mesh) -> str:
        """As on the command line: `1100x1100`; a side of one node has no digits."""
        return "x".join(_digits(mask, side) for mask, side in ((self.rows, mesh.rows), (self.cols, mesh.cols)))


def _digits(mask: int, side: int) -> str:
    count = (side - 1).bit_length()
    return f"{mask:0{count}b}" if count else ""


def _is_partition_of_part(sets: Any) -> bool:
    nodes = [node for one in sets for node in one]
    return len(set(nodes)) == len(nodes)


@frozen(kw_only=True)
class Instance:
    """A mesh and its sharing sets, each of at least two nodes, no node in two of them.

    Raises:
        ValueError: a set is too small, a node is outside of the mesh, or it lies in two sets.
    """

    mesh: Mesh
    sets: tuple[tuple[int, ...], ...] = field(converter=as_table)
    mask: Mask | None = None

    @sets.validator
    def _check_sets(self, attribute: Any, sets: Any) -> None:
        if not sets:
            complain(self, attribute, "must hold at least one set", sets)
        for one in sets:
            if len(one) < 2:
                complain(self, attribute, "a set must have at least two nodes", one)
            for node in one:
                if not is_integer(node) or not 0 <= node < self.mesh.nodes:
                    complain(self, attribute, f"a node must be an integer from 0 to {self.mesh.nodes - 1}", node)
        if not _is_partition_of_part(sets):
            complain(self, attribute, "no node may be named twice", sets)

    @property
    def name(self) -> str:
        """For headings: `16x16 free 1100x1100`."""
        if self.mask is None:
            return f"{self.mesh}, {len(self.sets)} sets"
        return f"{self.mesh} free {self.mask.digits(self.mesh)}"

    @property
    def steps(self) -> int:
        """Steps of the ring exchange: a set of n nodes needs n - 1; the largest set decides."""
        return max(len(one) for one in self.sets) - 1


# --- Instances of two masks --------------------------------------------------------------------------------------


def masked_instance(mesh: Mesh, mask: Mask) -> Instance:
    """Return the instance in which the digits of a mask run within a sharing set.

    Sets come in the order of their offsets (row offset first), their nodes row by row.

    Raises:
        ValueError: a side is no power of two, no digit is free, or the mask has more digits than the mesh.
    """
    check_mask(mesh, mask)
    rows, cols = _subsets(mask.rows), _subsets(mask.cols)
    offsets = [(y, x) for y in _subsets(mesh.rows - 1 & ~mask.rows) for x in _subsets(mesh.cols - 1 & ~mask.cols)]
    sets = [[(y0 + y) * mesh.cols + x0 + x for y in rows for x in cols] for y0, x0 in offsets]
    return Instance(mesh=mesh, sets=sets, mask=mask)


def digits_instance(mesh: Mesh, rows: Sequence[Digit], cols: Sequence[Digit]) -> Instance:
    """Return the instance of a partition: its digits of row and column numbers, outermost first, of any bases.

    On a mesh whose sides are powers of two, with digits of base 2, this is `masked_instance`.

    Raises:
        ValueError: the bases of a side do not multiply to it, or no digit is free.
    """
    for side, digits in ((mesh.rows, rows), (mesh.cols, cols)):
        if math.prod(base for base, _ in digits) != side:
            raise ValueError(f"digits must multiply to the side {side} (got bases {[base for base, _ in digits]})")
    (free_y, fixed_y), (free_x, fixed_x) = _positions(rows), _positions(cols)
    if len(free_y) * len(free_x) == 1:
        raise ValueError("at least one digit must be free (got none): a set of one node has nothing to share")
    offsets = [(y, x) for y in fixed_y for x in fixed_x]
    return Instance(
        mesh=mesh, sets=[[(y0 + y) * mesh.cols + x0 + x for y in free_y for x in free_x] for y0, x0 in offsets]
    )


def _positions(digits: Sequence[Digit]) -> tuple[list[int], list[int]]:
    """All positions with the fixed digits at 0, and all with the free digits at 0."""
    sums = {True: [0], False: [0]}
    place = math.prod(base for base, _ in digits)
    for base, is_free in digits:
        place //= base
        sums[is_free] = [position + place * value for position in sums[is_free] for value in range(base)]
    return sums[True], sums[False]


def check_mask(mesh: Mesh, mask: Mask) -> None:
    """Raise the ValueError of a mask that does not fit a mesh."""
    if mesh.rows & (mesh.rows - 1) or mesh.cols & (mesh.cols - 1):
        raise ValueError(f"free digits need sides that are powers of two (got {mesh}); name the sets instead")
    if not 0 <= mask.rows < mesh.rows or not 0 <= mask.cols < mesh.cols:
        raise ValueError(f"the free digits {mask.rows:b}x{mask.cols:b} are more than those of a {mesh} mesh")
    if not mask.rows and not mask.cols:
        raise ValueError("at least one digit must be free (got none): a set of one node has nothing to share")


def all_masks(mesh: Mesh) -> Iterator[Mask]:
    """All masks of a mesh but the empty one; rows outermost."""
    for rows in range(mesh.rows):
        for cols in range(mesh.cols):
            if rows or cols:
                yield Mask(rows=rows, cols=cols)


def _subsets(mask: int) -> list[int]:
    """All numbers whose binary digits lie within a mask, in increasing order."""
    return [n for n in range(mask + 1) if n & mask == n]


# --- Text --------------------------------------------------------------------------------------------------------


def read_mesh(text: str) -> Mesh:
    """`16x16`: rows x columns.

    Raises:
        ValueError: it is not a mesh.
    """
    found = re.fullmatch(r"([0-9]{1,3})x([0-9]{1,3})", text)
    if not found:
        raise ValueError(f"must be rows x columns, like 16x16 (got {text!r})")
    return Mesh(rows=int(found[1]), cols=int(found[2]))


def read_mask(text: str, mesh: Mesh) -> Mask:
    """`1100x1100`: the free digits of rows x columns, most significant digit first.

    Raises:
        ValueError: it is not a mask of this mesh.
    """
    counts = [(side - 1).bit_length() for side in (mesh.rows, mesh.cols)]
    parts = text.split("x")
    if len(parts) != 2 or any(not re.fullmatch(f"[01]{{{n}}}", part) for part, n in zip(parts, counts, strict=True)):
        example = "x".join("1" * n for n in counts)
        rule = f"must be {counts[0]} and {counts[1]} binary digits for a {mesh} mesh, like {example}"
        raise ValueError(f"{rule} (got {text!r})")
    mask = Mask(rows=int(parts[0] or "0", 2), cols=int(parts[1] or "0", 2))
    check_mask(mesh, mask)
    return mask
