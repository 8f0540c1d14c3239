"""Dataflow class of a mapping: weight, output, input or row stationary (section 7.1).

The seed describes each class by what the PE array is spread over (H and W are its two directions) and by what stays in
the PEs. A mapping can match several descriptions or none, so the class is decided in three steps:

1. RS (7.1.4) if the filter (R or S) runs over one direction and K over the other: "mixed", so nothing needs to stay.
2. Else the descriptions that hold are candidates:
   WS (7.1.1): K is spread over the array, and PEs store W.
   OS (7.1.2): some of P, Q, N is spread over the array, none of R, S, C is, and PEs store O.
   IS (7.1.3): C runs over one direction and K over the other.
3. Of the candidates, or of all three if there is none, the class is that of the most stationary tensor: the one whose
   PE tile is replaced least often. The first in the seed's order W, O, I wins a tie.

The third step is ours: the seed names no rule for a mapping that matches two classes (a C x K array with resident
weights is both 7.1.1 and 7.1.3) or none.
"""

import math
from collections.abc import Sequence
from enum import StrEnum

from cpsat_pim.base.dims import RELEVANT, Dim, Direction, Level, Tensor
from cpsat_pim.mapping import Mapping


class Dataflow(StrEnum):
    """The tensor that stays in the PEs, as a class of mappings."""

    WEIGHT = "WS"
    OUTPUT = "OS"
    INPUT = "IS"
    ROW = "RS"


#: The tensor that stays, in the seed's order, which breaks ties; RS has no such tensor.
STATIONARY = {Dataflow.WEIGHT: Tensor.W, Dataflow.OUTPUT: Tensor.O, Dataflow.INPUT: Tensor.I}


#: The spread over the PE array: factors per dim over its two directions.
Spread = Sequence[Sequence[int]]


def classify_dataflow(mapping: Mapping) -> Dataflow:
    """Return the class of a mapping (section 7.1 and the rules above)."""
    classes = possible_dataflows(mapping.spatial, mapping.stored[Level.PE])
    if len(classes) == 1:
        return classes[0]
    return min(classes, key=lambda flow: tile_visits(mapping, STATIONARY[flow]))


def possible_dataflows(spread: Spread, in_pe: Sequence[bool]) -> list[Dataflow]:
    """Return the classes that mappings with this spatial spread and these stored tensors can have; loop orders decide
    between several.

    `spread`: factors over H, W; `in_pe`: whether PEs store I, W, O.
    """
    if _are_opposite(spread, (Dim.R, Dim.S), (Dim.K,)):
        return [Dataflow.ROW]
    descriptions = {
        Dataflow.WEIGHT: _is_weight_stationary(spread, in_pe),
        Dataflow.OUTPUT: _is_output_stationary(spread, in_pe),
        Dataflow.INPUT: _are_opposite(spread, (Dim.C,), (Dim.K,)),
    }
    return [flow for flow, holds in descriptions.items() if holds] or list(descriptions)


def tile_visits(mapping: Mapping, tensor: Tensor) -> int:
    """Return how often a PE gets a new tile of a tensor or, if PEs do not store the tensor, a new operand.

    Loops outside the tile replace it, except irrelevant loops inside all relevant ones.
    """
    kept = len(mapping.covered(Level.PE, tensor)) if mapping.stored[Level.PE][tensor] else 0
    nest = [(d, mapping.temporal[m][d]) for m in reversed(Level) for d in mapping.order[m]]
    loops = nest[: len(nest) - kept]
    last = max((i for i, (dim, _) in enumerate(loops) if dim in RELEVANT[tensor]), default=-1)
    return math.prod(factor for _, factor in loops[: last + 1])


def _is_weight_stationary(spread: Spread, in_pe: Sequence[bool]) -> bool:
    """Weights stay in the PEs, and K is spread over them (7.1.1)."""
    return in_pe[Tensor.W] and _is_spread(spread, (Dim.K,))


def _is_output_stationary(spread: Spread, in_pe: Sequence[bool]) -> bool:
    """Outputs stay in the PEs, their positions are spread over them, and the reduction is temporal (7.1.2)."""
    is_reduction_spread = _is_spread(spread, (Dim.R, Dim.S, Dim.C))
    return in_pe[Tensor.O] and _is_spread(spread, (Dim.P, Dim.Q, Dim.N)) and not is_reduction_spread


def _is_spread(spread: Spread, dims: tuple[Dim, ...]) -> bool:
    """Return whether one of the dims is spread over the array."""
    return any(spread[Direction.H][d] * spread[Direction.W][d] > 1 for d in dims)


def _are_opposite(spread: Spread, ones: tuple[Dim, ...], others: tuple[Dim, ...]) -> bool:
    """Return whether one of `ones` is spread over one direction of the array, and one of `others` over the other
    (7.1.3, 7.1.4).
    """

    def runs(dims: tuple[Dim, ...], direction: Direction) -> bool:
        return any(spread[direction][d] > 1 for d in dims)

    return any(runs(ones, a) and runs(others, b) for a, b in ((Direction.H, Direction.W), (Direction.W, Direction.H)))
