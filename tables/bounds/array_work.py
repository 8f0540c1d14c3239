"""Lower bounds on the cycles of the array with a given tile: steps, streamed outputs, waits for partial sums, ports.

`x` is the state of the enumeration (`tables.bounds.tile_state.TILE_STATE`), `layer` a `LAYER` record.
"""

from tables.bounds.layer import INFINITE_COST, Record
from tables.bounds.sweeps import SWEPT
from tables.jit import borrowing_njit
from tables.nest import Ints, O


@borrowing_njit
def min_work(x: Record, layer: Record, steps: int, visits: int) -> int:
    """Return the fewest cycles of the array, with its waits for partial sums, over the levels from which it may take
    them; `visits`: how often the PEs take each tile of outputs at least.
    """
    least, passes = INFINITE_COST, visits if x.in_pe[O] else x.class_loops_left[O]
    for buffers in range(4):
        if not layer.is_offered[O, x.in_pe[O], buffers]:
            continue
        work = steps
        if buffers:
            work = work_cycles(x, layer, steps, buffers, visits)
        elif passes > 1:  # the stream; its last column is the end, and two slots hide one write-out of each tile
            column, excess = layer.dram[0], layer.dram[2]
            stream = max(0, column * ((2 * passes - 1) * layer.min_columns[O] - 1) + excess)
            hidden = steps // passes if layer.is_double[0] else 0
            work = steps + max(0, stream - hidden) if x.in_pe[O] else max(steps, stream)
        least = min(least, work)
    return least


@borrowing_njit
def work_cycles(x: Record, layer: Record, steps: int, buffers: int, visits: int) -> int:
    """Return a lower bound on the cycles of the array if a buffer gives it outputs: C + X of docs/model.md, section 7.

    PEs wait while partial sums leave and return, `visits` - 1 times for all tiles. MACs read and write them step by
    step over one link.
    """
    parent = 1 if buffers & 2 else 2
    if x.in_pe[O]:
        return steps + move_cycles(layer, parent, visits - 1)
    return max(steps, move_cycles(layer, parent, x.class_loops_left[O]))


@borrowing_njit
def move_cycles(layer: Record, parent: int, times: int) -> int:
    """Return the cycles in which a level gives and takes all partial sums so many times."""
    total, moved = 0, times * layer.needed[O] * layer.widths[O, parent]
    for way in range(2):
        size, cycles = layer.sum_rates[parent - 1, way]
        total += -(-moved * cycles // size) if size else 0
    return total


@borrowing_njit
def has_relevant_loops(x: Record, t: int) -> bool:
    """Return whether the global buffer has loops that are relevant to a tensor."""
    return bool(x.looped_classes > (x.class_buffer_loops[t] > 1))


@borrowing_njit
def min_visits(x: Record, t: int, free: int) -> int:
    """Return how often the PEs take each tile of a tensor at least, where its irrelevant loops are `free`."""
    visits = 1 if free & 2 else x.class_buffer_loops[t]
    visits *= 1 if free & 1 and not has_relevant_loops(x, t) else x.class_loops_outside[t]
    return int(visits * (x.revisits if free & SWEPT and t != x.swept else 1))


@borrowing_njit
def port_cycles(rate: Ints, load: int, pes: Ints) -> int:
    """Return the cycles that `load` bytes take over all ports; `rate`: a row of `LAYER.rates`."""
    ports = pes[0] * pes[1] * pes[2] * pes[3] if rate[3] else 1
    return int(-(-load * rate[1] // (rate[0] * rate[2] * ports)))
