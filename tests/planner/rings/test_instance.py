"""Meshes, masks and sharing sets."""

import re
from itertools import product

import pytest
from hypothesis import given

from cpsat_pim.planner.rings import Instance, Mask, Mesh, digits_instance, masked_instance
from cpsat_pim.planner.rings.instance import all_masks, read_mask, read_mesh
from tests.planner.rings.cases import masks


@given(masks())
def test_a_set_shares_all_fixed_digits(case: tuple[Mesh, Mask]) -> None:
    """Two nodes lie in one set exactly if they agree in every digit that is not free."""
    mesh, mask = case
    found = {node: s for s, nodes in enumerate(masked_instance(mesh, mask).sets) for node in nodes}

    def fixed(node: int) -> tuple[int, int]:
        y, x = divmod(node, mesh.cols)
        return y & ~mask.rows, x & ~mask.cols

    for a, b in product(range(mesh.nodes), repeat=2):
        assert (found[a] == found[b]) == (fixed(a) == fixed(b))


@pytest.mark.parametrize(("sides", "count"), [((4, 4), 15), ((4, 8), 31), ((8, 8), 63), ((16, 16), 255)])
def test_all_masks_are_as_many_as_digits_allow(sides: tuple[int, int], count: int) -> None:
    """Each digit is free or not, and not all are fixed: 2^digits - 1."""
    assert len(list(all_masks(Mesh(rows=sides[0], cols=sides[1])))) == count


def test_sets_of_figure_12_lie_four_apart() -> None:
    """NicePIM, section VIII-E: on 16x16, neighbours in a set are 4 apart in height and width, 16 nodes a set."""
    instance = masked_instance(Mesh(rows=16, cols=16), Mask(rows=0b1100, cols=0b1100))
    assert len(instance.sets) == 16
    assert instance.sets[0] == tuple(16 * y + x for y in (0, 4, 8, 12) for x in (0, 4, 8, 12))


@given(masks())
def test_digits_of_base_two_are_a_mask(case: tuple[Mesh, Mask]) -> None:
    """The general digits give the same sets."""
    mesh, mask = case

    def digits(side: int, free: int) -> list[tuple[int, bool]]:
        return [(2, bool(free >> place & 1)) for place in reversed(range((side - 1).bit_length()))]

    general = digits_instance(mesh, digits(mesh.rows, mask.rows), digits(mesh.cols, mask.cols))
    assert set(general.sets) == set(masked_instance(mesh, mask).sets)


def test_digits_of_any_base() -> None:
    """Rows 6 = 3 x 2 with the outer digit free: rows y, y + 2, y + 4 share."""
    instance = digits_instance(Mesh(rows=6, cols=2), [(3, True), (2, False)], [(2, False)])
    assert instance.sets == ((0, 4, 8), (1, 5, 9), (2, 6, 10), (3, 7, 11))


def test_a_mask_is_read_as_it_is_written() -> None:
    """Most significant digit first; a side of one node has no digits."""
    mesh = read_mesh("4x16")
    assert read_mask("10x0011", mesh) == Mask(rows=2, cols=3)
    for one in (mesh, Mesh(rows=1, cols=8)):
        assert all(read_mask(mask.digits(one), one) == mask for mask in all_masks(one))


@pytest.mark.parametrize(
    ("text", "mesh", "says"),
    [
        ("11x1", "4x4", "must be 2 and 2 binary digits for a 4x4 mesh, like 11x11 (got '11x1')"),
        ("00x00", "4x4", "at least one digit must be free"),
        ("11", "4x4", "must be 2 and 2 binary digits"),
        ("11x11", "3x4", "powers of two (got 3x4)"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(text: str, mesh: str, says: str) -> None:
    """With the rule and what was got."""
    with pytest.raises(ValueError, match=re.escape(says)):
        read_mask(text, read_mesh(mesh))


@pytest.mark.parametrize("text", ["4", "0x4", "4x99", "axb", "1x1"])
def test_a_mesh_that_is_none_is_refused(text: str) -> None:
    """Sides from 1 to 32, two nodes at least."""
    with pytest.raises(ValueError, match=r"must (be|have)"):
        read_mesh(text)


@pytest.mark.parametrize("sets", [[], [[0]], [[0, 4]], [[0, 1], [1, 2]], [[0, 0]]])
def test_sets_that_do_not_fit_are_refused(sets: list[list[int]]) -> None:
    """None, too small, outside of the mesh, overlapping, a node twice."""
    with pytest.raises(ValueError, match=r"Instance\.sets: "):
        Instance(mesh=Mesh(rows=2, cols=2), sets=sets)
