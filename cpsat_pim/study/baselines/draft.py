"""Drafts: an encoding of mappings in which every part can be drawn or changed independently of the others."""

from collections.abc import Sequence
from typing import TypeVar

import attrs
from attrs import field, frozen

from cpsat_pim.base.dims import ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.base.validate import as_table, as_tuple
from cpsat_pim.mapper.search.placement import input_blocks
from cpsat_pim.mapping import OWN_BANKS, Banks, Factors, Mapping, Stored
from cpsat_pim.workload import ConvWorkload

_T = TypeVar("_T")

#: Where a loop may run, as rows of a draft's factors: the temporal loops of the levels, then the array's directions.
PLACES = PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM, H, W, LANES = range(7)

#: The value of `block` that selects the largest input block.
LAST = 1 - 2**-20

Order = tuple[tuple[Dim, ...], ...]

#: Even residency: every tile in the PEs and the global buffer covers all loops of its level.
EVEN_POINTS = ((0.0,) * len(Tensor),) * len(ON_CHIP)


@frozen(kw_only=True)
class Draft:
    """A mapping encoded so that no part depends on another.

    `factors[place][dim]` are loop factors. `order[m]` lists all dims, outermost first, whether they have a loop at
    level m or not. `block` selects one of the possible input blocks, from 0 (the smallest) to below 1 (the largest).
    `points[m][t]` likewise selects one of the possible residency points, from 0 (even) to below 1 (the innermost).
    `banks` as in `Mapping`.
    """

    factors: tuple[Factors, ...] = field(converter=as_table)
    order: Order = field(converter=as_table)
    stored: tuple[Stored, Stored, Stored] = field(converter=as_table)
    layout: tuple[int, int, int] = field(default=(0, 0, 0), converter=as_tuple)
    block: float = LAST
    points: tuple[tuple[float, ...], ...] = field(default=EVEN_POINTS, converter=as_table)
    banks: Banks = field(default=OWN_BANKS, converter=as_tuple)

    @classmethod
    def of(cls, mapping: Mapping, layer: ConvWorkload) -> "Draft":
        """Encode a mapping. Its input block and residency points must belong to the declared search space."""
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
            banks=mapping.banks,
        )

    def to_mapping(self, layer: ConvWorkload) -> Mapping:
        """Decode the mapping, which may be illegal."""
        order = [tuple(d for d in self.order[m] if self.factors[m][d] > 1) for m in Level]
        mapping = Mapping(
            temporal=self.factors[:H],
            spatial=self.factors[H:],
            order=order,
            stored=self.stored,
            layout=self.layout,
            outside=[[self._outside(order[m], m, t) for t in Tensor] for m in ON_CHIP],
            banks=self.banks,
        )
        if not self.stored[Level.ROW_BUFFER][Tensor.I]:
            return mapping
        block_h, block_w = _at(self.block, input_blocks(layer, mapping))
        return attrs.evolve(mapping, block_h=block_h, block_w=block_w)

    def _outside(self, order: tuple[Dim, ...], m: Level, t: Tensor) -> int:
        """Return the number of loops outside the tile of a tensor that a level stores."""
        return _at(self.points[m][t], residency_points(order, t)) if self.stored[m][t] else 0

    def moved(self, dim: int, prime: int, source: int, target: int) -> "Draft":
        """Return the draft with a prime factor of a dim moved to another place."""
        rows = [list(row) for row in self.factors]
        rows[source][dim] //= prime
        rows[target][dim] *= prime
        return attrs.evolve(self, factors=rows)


def residency_points(order: tuple[Dim, ...], tensor: Tensor) -> list[int]:
    """Return the possible residency points: the numbers of loops of a level that may lie outside its tile of a tensor.
    0 is possible, and each number whose innermost outside loop changes the tile.
    """
    return [0, *(count for count, d in enumerate(order, 1) if d in RELEVANT[tensor])]


def _at(share: float, choices: Sequence[_T]) -> _T:
    """Return the choice that a number from 0 to below 1 selects."""
    return choices[int(share * len(choices))]


def _share(choices: Sequence[_T], choice: _T) -> float:
    """Return a number that selects a choice: the inverse of `_at`."""
    return (choices.index(choice) + 0.5) / len(choices)
