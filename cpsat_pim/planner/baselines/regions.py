"""Regions for the branches of a segment: branches shared out by their work, the array cut in two again and again.

NicePIM, section VI-A: the region of every branch is chosen so that work is balanced, and a slicing tree places regions
whose sizes are proportional to their work. The paper leaves open which branch goes where and how the tree is cut. Here
the largest branch goes to the region with the least work; regions are halved by work, and the longer side is cut.
"""

from collections.abc import Iterator, Sequence

from attrs import frozen

from cpsat_pim.planner.array import Region


@frozen(kw_only=True)
class Work:
    """A region to be: the branches that run on it, by number, and their MACs."""

    branches: tuple[int, ...] = ()
    macs: int = 0


def shared_out(macs: Sequence[int], regions: int) -> list[Work]:
    """Branches by region, the most work first; each region has a branch."""
    works = [Work() for _ in range(regions)]
    for branch in sorted(range(len(macs)), key=lambda b: -macs[b]):
        least = min(range(regions), key=lambda r: works[r].macs)
        works[least] = Work(branches=(*works[least].branches, branch), macs=works[least].macs + macs[branch])
    return sorted(works, key=lambda work: -work.macs)


def sliced(region: Region, works: Sequence[Work]) -> list[Region] | None:
    """A region for each work, in their order; None if there are more works than nodes."""
    if len(works) > region.size:
        return None
    if len(works) == 1:
        return [region]
    for first, rest in _splits(works):
        for left, right in _cuts(region, sum(work.macs for work in first), sum(work.macs for work in works)):
            found = sliced(left, first), sliced(right, rest)
            if found[0] is not None and found[1] is not None:
                placed = dict(zip([*first, *rest], [*found[0], *found[1]], strict=True))
                return [placed[work] for work in works]
    return None


def _splits(works: Sequence[Work]) -> Iterator[tuple[Sequence[Work], Sequence[Work]]]:
    """Works in two groups, the best first: of about equal work; then of all numbers, of which some fit any cut."""
    yield _halved(works)
    for number in range(1, len(works)):
        yield works[:number], works[number:]


def _halved(works: Sequence[Work]) -> tuple[list[Work], list[Work]]:
    """Works in two groups of about equal work."""
    first, rest = [works[0]], list[Work]()
    for work in works[1:]:
        smaller = min((first, rest), key=lambda group: sum(one.macs for one in group))
        smaller.append(work)
    return first, rest


def _cuts(region: Region, part: int, whole: int) -> list[tuple[Region, Region]]:
    """Ways to cut a region in two, the best first: along its longer side, in proportion to the work."""
    y, x, h, w = region.to_list()
    rows = [(Region(y, x, n, w), Region(y + n, x, h - n, w)) for n in _nearest(h, part, whole)]
    columns = [(Region(y, x, h, n), Region(y, x + n, h, w - n)) for n in _nearest(w, part, whole)]
    return rows + columns if h > w else columns + rows


def _nearest(size: int, part: int, whole: int) -> list[int]:
    """Numbers from 1 to size - 1, those next to size * part / whole first."""
    return sorted(range(1, size), key=lambda n: abs(n * whole - size * part))
