"""Drafts: mappings in a form in which any part can be drawn or changed without regard to the others."""

from collections.abc import Sequence
from typing import TypeVar

import attrs
from attrs import field, frozen

from cpsat_pim.base.dims import ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.base.validate import as_table, as_tuple
from cpsat_pim.mapper.search.completion import input_blocks
from cpsat_pim.mapping import Factors, Mapping, Stored
from cpsat_pim.workload import ConvWorkload

_T = TypeVar("_T")

#: Where a loop may run: rows of a draft's factors. First the temporal loops of the levels, then the array's directions.
PLACES = PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM, H, W, LANES = range(7)

#: The largest input block.
LAST = 1 - 2**-20

Order = tuple[tuple[Dim, ...], ...]

#: Of every tensor in the PEs and in the global buffer, the tile that covers all loops.
EVEN_POINTS = ((0.0,) * len(Tensor),) * len(ON_CHIP)


@frozen(kw_only=True)
class Draft:
    """A mapping of which no part depends on another.

    `factors[place][dim]`; `order[m]` has all dims, outermost first, with a loop there or not; `block` says which of the
    possible input blocks is meant, from 0, the smallest, to below 1, the largest. `points[m][t]` likewise says which of
    the possible residency points: from 0, even, to below 1, the innermost.
    """

    factors: tuple[Factors, ...] = field(converter=as_table)
    order: Order = field(converter=as_table)
    stored: tuple[Stored, Stored, Stored] = field(converter=as_table)
    layout: tuple[int, int, int] = field(default=(0, 0, 0), converter=as_tuple)
    block: float = LAST
    points: tuple[tuple[float, ...], ...] = field(default=EVEN_POINTS, converter=as_table)

    @classmethod
    def of(cls, mapping: Mapping, layer: ConvWorkload) -> "Draft":
        """The draft of a mapping, whose input block and residency points must be those of the declared space."""
        block = LAST
        if mapping.stored[Level.ROW_BUFFER][Tensor.I]:
            blocks = input_blocks(layer, mapping)
            block = _share(blocks, (mapping.block_h, mapping.block_w))
        return cls(
            factors=(*mapping.temporal, *mapping.spatial),
            order=[(*order, *(d for d in Dim if d not in order)) for order in mapping.order],
            stored=mapping.stored,
            layout=mapping.layout,
            block=block,
            points=[
                [_share(residency_points(mapping.order[m], t), mapping.outside[m][t]) for t in Tensor] for m in ON_CHIP
            ],
        )

    def to_mapping(self, layer: ConvWorkload) -> Mapping:
        """The mapping, legal or not."""
        order = [tuple(d for d in self.order[m] if self.factors[m][d] > 1) for m in Level]
        mapping = Mapping(
            temporal=self.factors[:H],
            spatial=self.factors[H:],
            order=order,
            stored=self.stored,
            layout=self.layout,
            outside=[[self._outside(order[m], m, t) for t in Tensor] for m in ON_CHIP],
        )
        if not self.stored[Level.ROW_BUFFER][Tensor.I]:
            return mapping
        block_h, block_w = _at(self.block, input_blocks(layer, mapping))
        return attrs.evolve(mapping, block_h=block_h, block_w=block_w)

    def _outside(self, order: tuple[Dim, ...], m: Level, t: Tensor) -> int:
        """The loops outside a tile that a level stores."""
        return _at(self.points[m][t], residency_points(order, t)) if self.stored[m][t] else 0

    def moved(self, dim: int, prime: int, source: int, target: int) -> "Draft":
        """A prime factor of a dim in another place."""
        rows = [list(row) for row in self.factors]
        rows[source][dim] //= prime
        rows[target][dim] *= prime
        return attrs.evolve(self, factors=rows)


def residency_points(order: tuple[Dim, ...], tensor: Tensor) -> list[int]:
    """How many loops of a level may lie outside its tile of a tensor: none, or the last of them changes the tile."""
    return [0, *(count for count, d in enumerate(order, 1) if d in RELEVANT[tensor])]


def _at(share: float, choices: Sequence[_T]) -> _T:
    """The choice that a share from 0 to below 1 means."""
    return choices[int(share * len(choices))]


def _share(choices: Sequence[_T], choice: _T) -> float:
    """A share that means a choice."""
    return (choices.index(choice) + 0.5) / len(choices)
