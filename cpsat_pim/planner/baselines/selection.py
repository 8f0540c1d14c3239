"""Algorithm 2 of NicePIM: segment mappings, and the candidate of every layer, that fit and take least time together.

As printed, with these departures. Its tables are read as the text means them: PerfTab_seg[n_reg][cap][l] is the least
time of the first l layers of a region within `cap` (lines 13 to 17 swap two indices), so line 25 takes its last entry
and not a sum over l. Capacity is counted in quanta, sizes rounded up, so what is chosen fits. Line 25 gives every
region of a segment the same capacity, each on nodes of its own: a node may hold as much as the largest of them.
"""

from collections.abc import Sequence

import numpy as np
from attrs import frozen

#: No time reaches it.
_NEVER = 2**60


@frozen(kw_only=True)
class Candidate:
    """A way to map a layer: its time (in the objective's integers) and its quanta of a node's capacity."""

    perf: int
    size: int


#: Candidates of every layer of every region of a segment mapping.
SegmentMapping = Sequence[Sequence[Sequence[Candidate]]]


@frozen(kw_only=True)
class Selected:
    """Of every segment: the index of its mapping, and of each of its layers (by region) the index of its candidate."""

    mapping: int
    candidates: tuple[tuple[int, ...], ...]


def select(segments: Sequence[Sequence[SegmentMapping]], quanta: int) -> list[Selected] | None:
    """The choice of least time that takes at most `quanta`; None if nothing fits."""
    perf = np.zeros(quanta + 1, dtype=np.int64)  # PerfTab[cap][n_seg]: the least time within cap
    chosen: list[tuple[np.ndarray, np.ndarray, list[list[_Region]]]] = []
    for mappings in segments:
        regions = [[_Region(region, quanta) for region in mapping] for mapping in mappings]
        own = np.stack([np.max([region.perf for region in one], axis=0) for one in regions])  # line 25
        best, least = own.argmin(axis=0), own.min(axis=0)
        perf, share = _added(perf, least)
        chosen.append((best, share, regions))
    return None if perf[quanta] >= _NEVER else _trace_back(chosen, quanta)


class _Region:
    """Tables of one region: the least time of all its layers by capacity, and the candidates that make it."""

    def __init__(self, layers: Sequence[Sequence[Candidate]], quanta: int) -> None:
        self.layers = layers
        self.perf = np.zeros(quanta + 1, dtype=np.int64)
        self._chosen: list[np.ndarray] = []
        for candidates in layers:
            self._add(candidates)

    def _add(self, candidates: Sequence[Candidate]) -> None:
        """One more layer (lines 13 to 21)."""
        options = np.full((len(candidates), len(self.perf)), _NEVER, dtype=np.int64)
        for at, one in enumerate(candidates):
            if one.size < len(self.perf):
                options[at, one.size :] = self.perf[: len(self.perf) - one.size] + one.perf
        self._chosen.append(options.argmin(axis=0))
        self.perf = np.minimum(options.min(axis=0), _NEVER)

    def candidates(self, cap: int) -> tuple[int, ...]:
        """The candidate of each layer within a capacity."""
        found = []
        for candidates, chosen in zip(reversed(self.layers), reversed(self._chosen), strict=True):
            at = int(chosen[cap])
            found.append(at)
            cap -= candidates[at].size
        return tuple(reversed(found))


def _added(before: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """PerfTab with one more segment, and how much of each capacity that segment takes (lines 23 to 31)."""
    quanta = len(before)
    perf, share = np.full(quanta, _NEVER, dtype=np.int64), np.zeros(quanta, dtype=np.int64)
    for cap in range(quanta):
        both = before[cap::-1] + own[: cap + 1]  # the segment takes 0, 1, ... cap
        share[cap] = both.argmin()
        perf[cap] = min(int(both.min()), _NEVER)
    return perf, share


def _trace_back(chosen: Sequence[tuple[np.ndarray, np.ndarray, list[list[_Region]]]], cap: int) -> list[Selected]:
    """CSTab[CAP] and CLTab[CAP]."""
    found = []
    for best, share, regions in reversed(chosen):
        own = int(share[cap])
        mapping = int(best[own])
        found.append(Selected(mapping=mapping, candidates=tuple(r.candidates(own) for r in regions[mapping])))
        cap -= own
    return list(reversed(found))
