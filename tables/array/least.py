"""Least sums of costs: of a layer over its partitions, and of tables over a variable that they share."""

import numpy as np

from tables.jit import njit

#: No entry reaches it: what is not allowed costs so much.
INFINITE = 2**60


@njit
def least_of_rows(
    own: np.ndarray,
    pull: np.ndarray,
    push: np.ndarray,
    pair_of: np.ndarray,
    held: np.ndarray,
    scale: int,
    out: np.ndarray,
) -> None:
    """Lower `out`, int64[2, homes read, homes of W, homes written], to the least pair (cost, tie) of any row.

    A row is a partition. `own`, int64[2, rows, pairs]: its node program by pair of layouts; `pair_of`, int64[homes
    read, homes written]: the pair of two homes. `pull`, int64[2, rows, homes read, homes of W], and `push`, int64[2,
    rows, homes written]: what it moves. `held`, int64[2, rows]: what the bytes that it holds cost.

    Costs of node programs and of what is moved count `scale` times.
    """
    for row in range(own.shape[1]):
        for a in range(pull.shape[2]):
            for c in range(push.shape[2]):
                node = own[0, row, pair_of[a, c]]
                if node >= INFINITE:
                    continue
                node += push[0, row, c]
                rest = own[1, row, pair_of[a, c]] + push[1, row, c] + held[1, row]
                for b in range(pull.shape[3]):
                    cost = min(INFINITE, scale * (node + pull[0, row, a, b]) + held[0, row])
                    tie = min(INFINITE, rest + pull[1, row, a, b])
                    if cost < out[0, a, b, c] or (cost == out[0, a, b, c] and tie < out[1, a, b, c]):
                        out[0, a, b, c], out[1, a, b, c] = cost, tie


@njit
def least_sums(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Set `out`, int64[3, i, j], to the least pair (cost, tie) of a[:, i, k] + b[:, j, k] over k, and the first such k.

    Pairs are int64[2, ...]; sums that reach `INFINITE` are cut there.
    """
    for i in range(a.shape[1]):
        for j in range(b.shape[1]):
            best, least, rest = 0, INFINITE + 1, INFINITE + 1
            for k in range(a.shape[2]):
                cost = min(INFINITE, a[0, i, k] + b[0, j, k])
                if cost <= least:
                    tie = min(INFINITE, a[1, i, k] + b[1, j, k])
                    if cost < least or tie < rest:
                        best, least, rest = k, cost, tie
            out[0, i, j], out[1, i, j], out[2, i, j] = least, rest, best
