"""Lower bounds on the cycles of a tile whose tensors all share a link, a bus or a bank (docs/solver.md, B21).

`x` is the state of the enumeration (`tables.bounds.tile_state.TILE_STATE`), `layer` a `LAYER` record.
"""

from tables.bounds.layer import INFINITE_COST, Record, elements_of
from tables.bounds.tile_passes import fewest_passes, most_passes, pass_cycles, tiles_of
from tables.jit import borrowing_njit
from tables.nest import I, O, W


@borrowing_njit
def link_cycles(x: Record, layer: Record, steps: int, first_i: int, first_w: int, end: int) -> int:
    """Return a lower bound on the cycles of start, work, waits for the link, and end; 0 if none is known.

    `first_i`, `first_w`, `end`: cycles of the first loads of I and W and of O's last write-out at least.

    Of some tensors the passes are not known, only that they are a multiple of `fewest_passes`. Either it is known all
    the same which tensor has most tiles. Or there is one such tensor, and it has fewer tiles than one of the others,
    or so many that the link is busy with its loads.
    """
    for t in range(3):
        k = x.buffers[t]
        is_held = not x.open_dims if k == 2 else x.in_pe[t] and not x.inner_open and not k
        if not (layer.is_linked[t] and is_held):
            return 0
    taken = _tiles_taken(x, layer, I), _tiles_taken(x, layer, W), _tiles_taken(x, layer, O)
    times = _most_times(x, I), _most_times(x, W), _most_times(x, O)
    unknown, number, most, is_clear = 0, 0, 0, False
    for t in range(3):
        u, v = (t + 1) % 3, (t + 2) % 3
        is_clear |= taken[t] > max(times[u] * taken[u], times[v] * taken[v])
        if times[t] > 1:
            unknown, number = t, number + 1
        else:
            most = max(most, taken[t])
    if is_clear or not number:
        return _waiting_cycles(x, layer, steps, taken, times, first_i, first_w, end)
    if number > 1:
        return 0
    few, bound = taken[unknown], INFINITE_COST
    if few < most:
        fewer = min(times[unknown], (most - 1) // few)
        multiples = fewer if unknown == I else 1, fewer if unknown == W else 1, fewer if unknown == O else 1
        bound = _waiting_cycles(x, layer, steps, taken, multiples, first_i, first_w, end)
    if few * times[unknown] >= most:
        busy = _further_passes(x, layer, unknown, -(-most // few))
        for t in range(3):
            busy += x.streams[t] - max(0, layer.dram[2])
        bound = min(bound, busy)
    return bound


@borrowing_njit
def _tiles_taken(x: Record, layer: Record, t: int) -> int:
    """Return how many tiles of a tensor the level next to DRAM takes at least."""
    return tiles_of(x, layer, t, x.buffers[t]) * fewest_passes(x, t, x.buffers[t], x.free[t])


@borrowing_njit
def _most_times(x: Record, t: int) -> int:
    """Return how many times as many it takes at most."""
    return most_passes(x, t, x.buffers[t]) // fewest_passes(x, t, x.buffers[t], x.free[t])


@borrowing_njit
def _further_passes(x: Record, layer: Record, t: int, times: int) -> int:
    """Return the cycles that a stream takes longer if there are so many times the fewest passes."""
    return (times - 1) * fewest_passes(x, t, x.buffers[t], x.free[t]) * pass_cycles(x, layer, t)


@borrowing_njit
def _waiting_cycles(x: Record, layer: Record, steps: int, taken: tuple[int, int, int],
                    times: tuple[int, int, int], first_i: int, first_w: int, end: int) -> int:  # fmt: skip
    """Return start, work, wait(u) and end for the tensor u for which they are most.

    T are the tensors of which most tiles are `taken`. Of another one there are up to `times` as many: its loads and
    what is hidden of them grow by the same with each multiple, so their difference is least at one end.
    """
    column, miss, excess = layer.dram[0], layer.dram[1], max(0, layer.dram[2])
    most, busy = max(taken), 0
    for u in range(3):
        if taken[u] == most:
            continue
        loads, spans, is_known, has_outputs = 0, 1, True, u == O
        for t in range(3):
            if taken[t] == most:
                has_outputs |= t == O
                loads += column * _scan_columns(x, layer, t) + (miss if _share_bank(layer, t, u) else 0)
        if not has_outputs:  # T is the other one of I and W
            t = I + W - u
            is_known = not (x.buffers[t] and x.in_pe[t])
            if u == I:
                spans, is_known = 2, is_known and taken[W] >= 3 * taken[I] * times[I]
        if not is_known:
            continue
        edges = (first_w if u == I else first_i if u == W else first_i + first_w) + (0 if u == O else end)
        waiting = INFINITE_COST
        for multiple in (1, times[u]):
            tiles = (multiple * taken[u] - 1) * spans
            hidden = max(0, -(-tiles * steps // most) - tiles * loads)
            waiting = min(waiting, x.streams[u] - excess + _further_passes(x, layer, u, multiple) - hidden)
        busy = max(busy, edges + steps + waiting)
    return busy


@borrowing_njit
def _share_bank(layer: Record, t: int, u: int) -> bool:
    """Return whether two tensors are known to lie in one bank."""
    most = layer.most_fetched
    return bool(most >= 0 and (t == most or layer.is_beside[t]) and (u == most or layer.is_beside[u]))


@borrowing_njit
def _scan_columns(x: Record, layer: Record, t: int) -> int:
    """Return the columns that the bytes of a tensor's tile fill; one of I in the PEs may have gaps."""
    k = x.buffers[t]
    if k:
        size = x.size[t]
    else:
        size = elements_of(t, x.array, layer) if t != I else -(-layer.needed[I] // tiles_of(x, layer, I, k))
    return int(-(-size * layer.widths[t, 3] // layer.dram[5]))
