"""Waits for a link over which several tensors are loaded in the order of the steps.

docs/model.md, section 7, gives the whole formula; the symbols in the docstrings are its symbols.
"""

from tables.counts.accesses import fetches
from tables.counts.on_chip import Machine, compute_cycles
from tables.counts.walk import StreamCounts, Streams
from tables.dram import Dram, last_run_excess, own_banks, row_miss
from tables.nest import MACS, I, Nest, O, W


def link_wait(nest: Nest, machine: Machine, tensors: tuple[int, ...], streams: Streams) -> int:
    """Return the largest wait(u) of the tensors of a link: cycles that the array waits at least for its loads.

    0 where the MACs draw one of them from DRAM, or any tile is uneven: then not all change at one step.
    """
    if any(map(any, nest.outside)) or any(nest.consumers(t)[0] == MACS for t in tensors):
        return 0
    tiles = {t: fetches(nest, t, nest.consumers(t)[0]) for t in tensors}
    often = [t for t in tensors if tiles[t] == max(tiles.values())]
    waits = [
        _loads_but_edge(machine, u, streams[u]) - (tiles[u] - 1) * _hidden(nest, machine, u, often, streams)
        for u in tensors
        if u not in often and (O in (u, *often) or u == W or tiles[W] >= 3 * tiles[I])
    ]
    return max([0, *waits])


def _loads_but_edge(machine: Machine, u: int, stream: StreamCounts) -> int:
    """Return the least cycles of the link for all loads of u but the first one, of O but the last one."""
    dram, edge = machine.dram, stream.last_cycles if u == O else stream.first_cycles
    return dram.tCCD * stream.columns + row_miss(dram) * stream.activations - edge + min(0, last_run_excess(dram))


def _hidden(nest: Nest, machine: Machine, u: int, often: list[int], streams: Streams) -> int:
    """Return hide(u): the most cycles of one load of u that computation hides, as the tensors loaded `often` let it."""
    compute, (t, *_) = compute_cycles(nest, machine), often
    work = compute // fetches(nest, t, nest.consumers(t)[0])
    spare = max(0, work - sum(_least_load(nest, machine.dram, v, u, streams[v]) for v in often))
    if O in (u, *often):
        return spare
    behind = sum(compute // fetches(nest, t, level) for level in nest.consumers(t)[1:-1])
    return (2 if u == I else 1) * spare + 2 * behind


def _least_load(nest: Nest, dram: Dram, t: int, u: int, stream: StreamCounts) -> int:
    """Return least(t): cycles of the link for a load of t behind one of u, which closes a row in its own bank."""
    has_one = own_banks(nest.bank_counts[t], dram).banks == 1
    misses = (stream.fewest_rows - 1 if has_one else 0) + (u in nest.sharing(t))
    return dram.tCCD * stream.fewest_columns + misses * row_miss(dram)
