"""How often a tile's tensors are taken from DRAM, and how long each of their tiles is in use (docs/solver.md).

`x` is the state of the enumeration (`tables.bounds.tile_state.TILE_STATE`), `layer` a `LAYER` record.
"""

from tables.bounds.array_work import min_visits
from tables.bounds.layer import CLASS_OF, Record
from tables.jit import borrowing_njit
from tables.nest import O


@borrowing_njit
def tiles_of(x: Record, layer: Record, t: int, buffers: int) -> int:
    """Return how many tiles of a tensor the level next to DRAM takes in one pass over all of them."""
    tiles = 1
    for d in range(8):
        if CLASS_OF[d] != t:
            tiles *= layer.bounds[d] // x.extents[d] if buffers else x.outer_loops[d]
    return int(tiles)


@borrowing_njit
def fewest_passes(x: Record, t: int, buffers: int, free: int) -> int:
    """Return how often at least the level next to DRAM takes all tiles of a tensor: if what may be free is."""
    if buffers:
        return 1 if free & 1 else int(x.class_loops_outside[t])
    return min_visits(x, t, free)


@borrowing_njit
def most_passes(x: Record, t: int, buffers: int) -> int:
    """Return how often at most it takes them: in each iteration of the irrelevant loops outside it."""
    return int(x.class_loops_outside[t] if buffers else x.class_outer_loops[t])


@borrowing_njit
def pass_cycles(x: Record, layer: Record, t: int) -> int:
    """Return the cycles of the columns that another pass adds at least, which reads outputs back and writes them."""
    elements = (2 if t == O else 1) * layer.needed[t]
    return int(elements * layer.widths[t, 3] // layer.dram[5] * layer.dram[0])


@borrowing_njit
def residence(x: Record, layer: Record, t: int, buffers: int, free: int, steps: int) -> int:
    """Return a lower bound on the steps for which a tile from DRAM is in use, plus what makes the stream longer.

    If all loops that may be free are, each tile is fetched `least` times, and in use for its share of the steps. Else
    it is fetched at least twice as often, at most once in each iteration, and the stream has more columns.
    """
    if x.open_dims if buffers else not x.in_pe[t] or x.inner_open:
        return 0
    tiles, most = tiles_of(x, layer, t, buffers), most_passes(x, t, buffers)
    least = fewest_passes(x, t, buffers, free)
    if least == most:
        return int(steps // (tiles * least))
    return int(min(steps // (tiles * least), steps // (tiles * most) + least * pass_cycles(x, layer, t)))
