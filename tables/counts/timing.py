"""What the walk of array steps and tiles (`tables.counts.pipeline`) goes by: the nest, the banks and the clock."""

from typing import NamedTuple

from tables.counts.visits import Tile
from tables.dram import Dram
from tables.nest import Ints

#: A level's way to the MACs is numbered as one more level.
TO_MACS = 3
#: Links: one into each level and to the MACs for each tensor; the shared bus; one for each part that shares a bank.
BUS = 12
BANK = BUS + 1
#: Slots of the clock, in cycles: the end of the last array step; when each LINK is free; by level and tensor when the
#: tile is READY (or its slot is free), and its LAST use; by level, tensor and age when the last two slots were FREED.
NOW, LINK = 0, 1
READY = LINK + BANK + 3
LAST = READY + 9
FREED = LAST + 9
SLOTS = FREED + 18
#: Rows of one tensor are numbered so far from those of another one.
APART = 2**40


class Timing(NamedTuple):
    """A mapped nest as `run_pipeline` walks it.

    Loops are those outside the array step, outermost first, then, if a tensor is drawn from DRAM, those inside it.

    - `factors` int[l], of which the first `outer` lie outside the array step. `steps` int[3, l, 5]: by how much an
      iteration moves the scan of each tensor, as in `tables.counts.walk.walk_stream`.
    - `stored` int[3 levels, 3]; `deepest` int[3, 3]: the innermost relevant loop outside the tile, -1 if none.
    - `returns` bool[4, l]: loops whose later iterations bring tiles of O back, at each level and at the MACs' steps.
    - `parent` int[3, 3]; `link` int[4, 3] into each level and to the MACs; `innermost` int[3]: level, or DRAM.
    - `is_double` int[3]; `part` int[3]: as in `tables.nest.Nest`.
    - `load` int[3, 3], `drain` int[3]: cycles of a tile from and to a parent on chip.
    - `draw` int[3]: cycles of what an array step's MACs take from a level on chip; `first_draw`: of O on first visits.
    - `array_step`: its steps. `rereads_copies`: as in `Nest`.
    """

    factors: Ints
    outer: int
    steps: Ints
    stored: Ints
    deepest: Ints
    returns: Ints
    parent: Ints
    link: Ints
    innermost: Ints
    is_double: Ints
    part: Ints
    load: Ints
    drain: Ints
    draw: Ints
    first_draw: int
    array_step: int
    rereads_copies: int


class Banks(NamedTuple):
    """What the DRAM does.

    `at` and `held` int[3, 5]: the positions of each tensor's tile now and in the last array step. By part `state` and
    open `rows` as in `tables.counts.walk`. `patterns` int[3, n, 2]: where the visits of each tensor's patterns begin
    and end.
    """

    at: Ints
    held: Ints
    state: Ints
    rows: Ints
    patterns: Ints


class Tiles(NamedTuple):
    """What one scan of each tensor reads, the DRAM, and the `banks` int[3] of each tensor, of which the largest number
    is a multiple of each.
    """

    i: Tile
    w: Tile
    o: Tile
    dram: Dram
    banks: Ints
