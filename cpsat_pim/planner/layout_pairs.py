"""Pairs of layouts of I and O: those that occur among the homes of a layer, each with a node problem of its own."""

from collections.abc import Sequence

import numpy as np

from cpsat_pim.planner.nodes import FREE_LAYOUTS, Layouts, layout_index
from cpsat_pim.planner.partition import Home


def layout_pairs(reads: Sequence[Home], writes: Sequence[Home], is_tied: bool) -> list[Layouts]:
    """Return the pairs that occur; one free pair if node programs choose their own."""
    return [(a, b) for a in _layouts(reads) for b in _layouts(writes)] if is_tied else [FREE_LAYOUTS]


def pair_indices(pairs: list[Layouts], reads: Sequence[Home], writes: Sequence[Home]) -> np.ndarray:
    """Return which pair is that of two homes: int64[homes read, homes written]."""
    if pairs == [FREE_LAYOUTS]:
        return np.zeros((len(reads), len(writes)), dtype=np.int64)
    read, written = ([layout_index(home.layout) for home in homes] for homes in (reads, writes))
    return np.array([[pairs.index((a, b)) for b in written] for a in read], dtype=np.int64)


def _layouts(homes: Sequence[Home]) -> list[int | None]:
    return list(dict.fromkeys(layout_index(home.layout) for home in homes))
