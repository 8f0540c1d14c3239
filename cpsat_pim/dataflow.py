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
from enum import StrEnum

from cpsat_pim.dims import RELEVANT, Dim, Direction, Level, Tensor
from cpsat_pim.mapping import Mapping


class Dataflow(StrEnum):
    """Which tensor stays in the PEs."""

    WEIGHT = "WS"
    OUTPUT = "OS"
    INPUT = "IS"
    ROW = "RS"


#: In the seed's order, which breaks ties.
_STATIONARY = {Dataflow.WEIGHT: Tensor.W, Dataflow.OUTPUT: Tensor.O, Dataflow.INPUT: Tensor.I}


def classify_dataflow(mapping: Mapping) -> Dataflow:
    """The class of a mapping (section 7.1 and the rules above)."""
    if _is_row_stationary(mapping):
        return Dataflow.ROW
    candidates = [flow for flow, holds in _descriptions(mapping).items() if holds]
    return min(candidates or _STATIONARY, key=lambda flow: tile_visits(mapping, _STATIONARY[flow]))


def tile_visits(mapping: Mapping, tensor: Tensor) -> int:
    """How often a PE takes a new tile of a tensor; for a tensor that PEs do not store, a new operand.

    Loops outside the tile replace it, except those that are irrelevant to the tensor and lie inside all relevant ones.
    """
    kept = len(mapping.covered(Level.PE, tensor)) if mapping.stored[Level.PE][tensor] else 0
    nest = [(d, mapping.temporal[m][d]) for m in reversed(Level) for d in mapping.order[m]]
    loops = nest[: len(nest) - kept]
    last = max((i for i, (dim, _) in enumerate(loops) if dim in RELEVANT[tensor]), default=-1)
    return math.prod(factor for _, factor in loops[: last + 1])


def _descriptions(mapping: Mapping) -> dict[Dataflow, bool]:
    """Which of 7.1.1 to 7.1.3 describe the mapping."""
    return {
        Dataflow.WEIGHT: _is_weight_stationary(mapping),
        Dataflow.OUTPUT: _is_output_stationary(mapping),
        Dataflow.INPUT: _are_opposite(mapping, (Dim.C,), (Dim.K,)),
    }


def _is_row_stationary(mapping: Mapping) -> bool:
    """The filter over one direction, output channels over the other (7.1.4)."""
    return _are_opposite(mapping, (Dim.R, Dim.S), (Dim.K,))


def _is_weight_stationary(mapping: Mapping) -> bool:
    """Weights stay in the PEs, K is spread over them (7.1.1)."""
    return mapping.stored[Level.PE][Tensor.W] and mapping.array_factor(Dim.K) > 1


def _is_output_stationary(mapping: Mapping) -> bool:
    """Outputs stay in the PEs, their positions are spread over them, and the reduction is temporal (7.1.2)."""
    is_spread = any(mapping.array_factor(d) > 1 for d in (Dim.P, Dim.Q, Dim.N))
    is_reduction_spread = any(mapping.array_factor(d) > 1 for d in (Dim.R, Dim.S, Dim.C))
    return mapping.stored[Level.PE][Tensor.O] and is_spread and not is_reduction_spread


def _are_opposite(mapping: Mapping, ones: tuple[Dim, ...], others: tuple[Dim, ...]) -> bool:
    """One of some dims runs over one direction of the array and one of the others over the other."""

    def runs(dims: tuple[Dim, ...], direction: Direction) -> bool:
        return any(mapping.spatial[direction][d] > 1 for d in dims)

    return any(runs(ones, a) and runs(others, b) for a, b in ((Direction.H, Direction.W), (Direction.W, Direction.H)))
