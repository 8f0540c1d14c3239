"""Dominance between labels of a resource-constrained shortest path."""

import numpy as np

from tables.jit import njit


@njit
def undominated(states: np.ndarray, usage: np.ndarray, out: np.ndarray) -> None:
    """Mark in `out`, bool[labels], the labels that no other one of their state dominates.

    `states`, int64[labels]: equal states lie next to each other, and of these the cheapest label first. `usage`,
    int64[labels, resources]. A label is dominated by one that comes before it and uses no more of any resource.
    """
    start = 0
    for i in range(states.shape[0]):
        if states[i] != states[start]:
            start = i
        out[i] = True
        for j in range(start, i):
            if not out[j]:
                continue
            is_less = True
            for k in range(usage.shape[1]):
                if usage[j, k] > usage[i, k]:
                    is_less = False
                    break
            if is_less:
                out[i] = False
                break
