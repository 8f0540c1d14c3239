"""The table of loads: complete, consistent, and what a schedule gives."""

import pytest
from hypothesis import given, settings

from cpsat_pim.planner.rings import NO_SEARCH, Mask, Mesh, masked_instance, schedule_rings
from cpsat_pim.planner.rings.cuts import best_block
from cpsat_pim.planner.rings.instance import all_masks
from cpsat_pim.planner.rings.table import SIDES, masked_schedule, ring_load, table_keys
from tests.planner.rings.cases import masks
from tracesim.rings import block_bound, heaviest_load


def test_every_mask_of_every_mesh_is_in_the_table() -> None:
    """Sides 1 to 16: (31 * 31 - 25) = 936 masks, as the sum of rows * cols - 1 over 25 meshes; load not below bound."""
    found = [
        ring_load(Mesh(rows=rows, cols=cols), mask)
        for rows in SIDES
        for cols in SIDES
        if rows * cols > 1
        for mask in all_masks(Mesh(rows=rows, cols=cols))
    ]
    assert len(found) == 936
    assert all(1 <= one.bound <= one.load <= 2 * one.bound for one in found)


def test_meshes_of_the_target_have_210_masks() -> None:
    """4x4: (16 + 4) / 2 - 1 = 9, 4x8: 31, 8x8: (64 + 8) / 2 - 1 = 35, 16x16: (256 + 16) / 2 - 1 = 135."""
    counted = [sum(str(mesh) == name for mesh, _ in table_keys()) for name in ("4x4", "4x8", "8x8", "16x16")]
    assert counted == [9, 31, 35, 135]


def test_most_masks_of_the_target_are_proven() -> None:
    """At least 203 of 210."""
    wanted = [key for key in table_keys() if str(key[0]) in ("4x4", "4x8", "8x8", "16x16")]
    assert sum(ring_load(*key).load == ring_load(*key).bound for key in wanted) >= 203


@settings(max_examples=60, deadline=None)
@given(masks())
def test_the_table_agrees_with_what_is_quick(case: tuple[Mesh, Mask]) -> None:
    """Its bound is not below that of cuts, its load not above that of constructions."""
    schedule = schedule_rings(masked_instance(*case), NO_SEARCH)
    found = ring_load(*case)
    assert schedule.bound <= found.bound <= found.load <= schedule.load


@settings(max_examples=20, deadline=None)
@given(masks(sides=(1, 2, 4)))
def test_rings_on_demand_have_the_load_of_the_table(case: tuple[Mesh, Mask]) -> None:
    """Also where the table holds the transpose; another counter counts."""
    mesh, mask = case
    schedule = masked_schedule(mesh, mask)
    assert heaviest_load(mesh.cols, schedule.rings) == ring_load(mesh, mask).load
    assert schedule.instance == masked_instance(mesh, mask)


@pytest.mark.parametrize(("rows", "cols"), [(0b0010, 0b1000), (0b1000, 0b0010)])
def test_bounds_by_another_count(rows: int, cols: int) -> None:
    """16x16, sets of four: the best block proves what the table says to one who counts links."""
    mesh, mask = Mesh(rows=16, cols=16), Mask(rows=rows, cols=cols)
    block = best_block(masked_instance(mesh, mask))
    place = (block.y, block.x, block.height, block.width)
    assert block_bound(16, 16, masked_instance(mesh, mask).sets, place) == ring_load(mesh, mask).bound


@pytest.mark.parametrize(
    ("mesh", "mask", "says"),
    [((32, 4), (1, 1), "up to 16"), ((3, 4), (1, 1), "powers of two"), ((4, 4), (4, 0), "more than those")],
)
def test_what_is_not_in_the_table_is_refused(mesh: tuple[int, int], mask: tuple[int, int], says: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=says):
        ring_load(Mesh(rows=mesh[0], cols=mesh[1]), Mask(rows=mask[0], cols=mask[1]))
