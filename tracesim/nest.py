"""The walk over the temporal loops, and the identity of the tile each level would hold (sections 3 and 4)."""

from typing import NamedTuple

import numpy as np

from tracesim.axes import OUTPUT
from tracesim.jit import Record, kernel, record_type
from tracesim.records import Flags, Ints
from tracesim.tiles import Geometry

MAX_LOOPS = 32
"""Four levels of eight dims."""

ODOMETER = record_type(
    loops=(),
    outer=(),
    digits=(MAX_LOOPS,),
    factors=(MAX_LOOPS,),
    identity=(3, 4),
    identity_step=(MAX_LOOPS, 3, 4),
    tiles=(3, 4),
    coordinate=(3, 5),
    coordinate_step=(MAX_LOOPS, 3, 5),
)
"""A counter over `loops` temporal loops, outermost first, with `digits` and `factors`.

- `outer`: the first loops, whose iterations are array steps: those outside the PEs or outside some tile in them.
- `identity` [tensor][level 0..2, STEP_SET]: the tile's number, a mixed-radix number of the indices of the tensor's
  relevant loops outside the tile. `identity_step` [loop]: what one iteration of the loop adds to it. `tiles`: how many
  numbers there are.
- `coordinate` [tensor][axis]: of the first element that the current step uses. When a tile is entered all loops inside
  it are at 0, so it is also the tile's first element. `coordinate_step` [loop]: what one iteration adds to it.
"""


def set_loops(odometer: Record, loops: Ints, geometry: Geometry) -> None:
    """Set an odometer of zeros to the loops (rows level, dim, factor)."""
    odometer.loops = loops.shape[0]
    odometer.outer = geometry.points[0].max()
    odometer.tiles[:] = 1
    for loop in range(odometer.loops - 1, -1, -1):
        level, dim, factor = loops[loop]
        odometer.factors[loop] = factor
        for tensor in range(3):
            coefficients = geometry.coefficients[tensor, :, dim]
            odometer.coordinate_step[loop, tensor] = coefficients * geometry.weights[level, dim]
            for held_at in range(4):
                if coefficients.any() and loop < geometry.points[held_at, tensor]:
                    odometer.identity_step[loop, tensor, held_at] = odometer.tiles[tensor, held_at]
                    odometer.tiles[tensor, held_at] *= factor


@kernel
def advance_array_step(odometer: Record) -> bool:
    """Go to the next array step; after the last one back to the first, and return False."""
    return advance(odometer, 0, odometer.outer)


@kernel
def advance_step(odometer: Record) -> bool:
    """Go to the next step of the array step; after its last one back to its first, and return False."""
    return advance(odometer, odometer.outer, odometer.loops)


@kernel
def advance(odometer: Record, first: int, end: int) -> bool:
    """Go to the next iteration of the loops first..end-1; after their last one back to 0, and return False."""
    for loop in range(end - 1, first - 1, -1):
        digit = odometer.digits[loop]
        if digit + 1 < odometer.factors[loop]:
            turn(odometer, loop, 1)
            return True
        if digit:
            turn(odometer, loop, -digit)
    return False


@kernel
def turn(odometer: Record, loop: int, by: int) -> None:
    """Add `by` to the digit of a loop, and update the identities and coordinates."""
    odometer.digits[loop] += by
    for tensor in range(3):
        for held_at in range(4):
            odometer.identity[tensor, held_at] += by * odometer.identity_step[loop, tensor, held_at]
        for axis in range(5):
            odometer.coordinate[tensor, axis] += by * odometer.coordinate_step[loop, tensor, axis]


@kernel
def steps_in_array_step(odometer: Record) -> int:
    """Return the number of steps in an array step."""
    steps = 1
    for loop in range(odometer.outer, odometer.loops):
        steps *= odometer.factors[loop]
    return steps


@kernel
def first_visit(visited: Flags, level: int, tile: int) -> bool:
    """Return whether a tile of O is entered for the first time, and remember it in `visited` bool[level][tile]."""
    first = not visited[level, tile]
    visited[level, tile] = True
    return first


class Visits(NamedTuple):
    """Counts of a walk over all array steps, as if every level stored every tensor (levels change independently).

    `entered` int64[level 0..2][tensor]: tiles entered. `first` int64[level]: first visits of O's tiles. `array_steps`,
    and `steps_each`, the steps of each.
    """

    entered: Ints
    first: Ints
    array_steps: int
    steps_each: int


@kernel
def count_visits(odometer: Record, stop: Ints) -> Visits:
    """Walk all array steps, or until `stop` int64[1] is set, and count the tiles entered."""
    entered = np.zeros((3, 3), np.int64)
    first = np.zeros(3, np.int64)
    held = np.full((3, 3), -1, np.int64)
    visited = np.zeros((3, odometer.tiles[OUTPUT, 0]), np.bool_)
    array_steps = 0
    while True:
        for level in range(3):
            for tensor in range(3):
                tile = odometer.identity[tensor, level]
                if tile != held[level, tensor]:
                    held[level, tensor] = tile
                    entered[level, tensor] += 1
                    if tensor == OUTPUT and first_visit(visited, level, tile):
                        first[level] += 1
        array_steps += 1
        if stop[0] or not advance_array_step(odometer):
            return Visits(entered, first, array_steps, steps_in_array_step(odometer))
