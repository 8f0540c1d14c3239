"""Regions of branches: they tile the array, and their sizes follow the work."""

from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.planner.array import Region
from cpsat_pim.planner.baselines.regions import Work, shared_out, sliced


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.integers(1, 5), st.integers(1, 5), st.data())
def test_regions_tile_the_array(macs, rows, cols, data):
    """Every node is in one region; None only if there are fewer nodes than regions."""
    count = data.draw(st.integers(1, len(macs)))
    works = shared_out(macs, count)
    assert sorted(b for work in works for b in work.branches) == list(range(len(macs)))
    assert all(work.macs == sum(macs[b] for b in work.branches) and work.branches for work in works)
    regions = sliced(Region(0, 0, rows, cols), works)
    assert (regions is None) == (count > rows * cols)
    if regions is not None:
        nodes = [(y, x) for r in regions for y in range(r.y, r.y + r.h) for x in range(r.x, r.x + r.w)]
        assert sorted(nodes) == [(y, x) for y in range(rows) for x in range(cols)]


def test_works_that_cannot_be_halved_by_work_are_split_otherwise():
    """Work of 5 and five times 1 on 2 x 3 nodes: halves would need 1 and 5 nodes, which no cut gives."""
    works = [Work(branches=(b,), macs=macs) for b, macs in enumerate((5, 1, 1, 1, 1, 1))]
    regions = sliced(Region(0, 0, 2, 3), works)
    assert [region.size for region in regions] == [1] * 6


def test_sizes_are_in_proportion_to_work():
    """Work of 4, 2, 2 of 8 on 4 x 4 nodes: halves, and one of them halved."""
    works = [Work(branches=(b,), macs=macs) for b, macs in enumerate((4, 2, 2))]
    regions = sliced(Region(0, 0, 4, 4), works)
    assert [region.size for region in regions] == [8, 4, 4]


def test_largest_branches_are_shared_out_first():
    """5, 4, 3, 2 on two regions: 5 + 2 and 4 + 3."""
    assert [work.macs for work in shared_out([2, 3, 4, 5], 2)] == [7, 7]
    assert [work.branches for work in shared_out([1, 9, 2], 2)] == [(1,), (2, 0)]
