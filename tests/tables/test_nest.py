"""A tile covers the loops inside its residency point and is fetched when a loop outside changes it."""

import pytest

from tables.counts.accesses import READ, WRITE, accesses, fetches
from tables.counts.stream import dram_stream
from tables.nest import DRAM, GLOBAL_BUFFER, MACS, PE, C, I, K, O, R, W, axis_set
from tests.tables.nests import build_dram, build_nest

NONE = (0, 0, 0)


def outside(pe: tuple[int, int, int] = NONE, buffer: tuple[int, int, int] = NONE) -> tuple[tuple[int, ...], ...]:
    """Loops outside the tiles of I, W, O in the PEs and the global buffer."""
    return (pe, buffer, NONE, NONE)


#: W has 8 x 3 x 2 x 2 = 96 elements.
LOOPS = "3K2 1C3 1S2 1K4 0R2"


@pytest.mark.parametrize(("loops", "elements"), [(0, 48), (1, 16), (2, 8), (3, 2)])
def test_tile_covers_the_loops_inside_its_point(loops: int, elements: int) -> None:
    """C3, S2 and K4 leave it one by one; R2 lies further in. As no loop is irrelevant to W, all of it comes once."""
    nest = build_nest(LOOPS, "1 1 1", outside=outside(buffer=(0, loops, 0)))
    assert nest.box(W, GLOBAL_BUFFER) == elements
    assert fetches(nest, W, GLOBAL_BUFFER) == 96 // elements
    assert accesses(nest, True, True)[DRAM, W, READ] == 96


def test_points_of_other_tensors_and_levels_do_not_matter() -> None:
    """W's tiles and fetches stay the same."""
    nest = build_nest(LOOPS, "01 01 01", outside=outside(pe=(1, 0, 1), buffer=(3, 0, 2)))
    even = build_nest(LOOPS, "01 01 01")
    for level in (PE, GLOBAL_BUFFER, DRAM):
        assert nest.box(W, level) == even.box(W, level)
        assert nest.fetch_loops(W, level) == even.fetch_loops(W, level)


def test_irrelevant_loops_of_the_own_level_are_free_until_a_relevant_one_lies_inside() -> None:
    """I outside C3 S2 K4: K is free, and so is the K2 of DRAM only while C and S are inside the tile."""
    assert build_nest(LOOPS).fetch_loops(I, GLOBAL_BUFFER) == ()
    nest = build_nest(LOOPS, outside=outside(buffer=(3, 0, 0)))
    assert nest.fetch_loops(I, GLOBAL_BUFFER) == ((1, 1), (1, C), (DRAM, K))
    assert (nest.reuse(I, GLOBAL_BUFFER), fetches(nest, I, GLOBAL_BUFFER)) == (2, 12)
    assert nest.fetch_loops(I, MACS) == ((PE, R), (1, K), (1, 1), (1, C), (DRAM, K))


def test_outputs_return_within_a_level() -> None:
    """C3 outside K4: 4 sums are written 3 times and come back twice; even, they are written once."""
    counts = accesses(build_nest("1C3 1K4", outside=outside(buffer=(0, 0, 2))), True, True)
    assert (counts[DRAM, O, WRITE], counts[DRAM, O, READ]) == (12, 8)
    even = accesses(build_nest("1C3 1K4"), True, True)
    assert (even[DRAM, O, WRITE], even[DRAM, O, READ]) == (4, 0)


def test_array_step_has_the_loops_inside_all_tiles_of_the_pes() -> None:
    """I's tile changes with K4 or C3, so nothing changes only while R2 runs."""
    nest = build_nest("1N5 0K4 0C3 0R2", "0 0 0", outside=outside(pe=(2, 1, 0)))
    assert (nest.steps(), nest.array_step()) == (120, 2)
    assert build_nest("1N5 0K4 0C3 0R2", "0 0 0").array_step() == 24


def test_pes_stay_apart_when_their_tiles_shrink() -> None:
    """Two PEs put out K = 0 and 3, then 1 and 4, then 2 and 5 of 6 outputs, in two rows of 4 bytes."""
    nest = build_nest("HK2 0K3", "0 0 0", outside=outside(pe=(0, 0, 1)))
    assert axis_set(nest, O, PE, K).tolist() == [0, 3]
    stream = dram_stream(nest, O, build_dram(4))
    # Bytes 0, 3 are one row and column; 1, 4 and 2, 5 are two each; pages are closed after each scan.
    assert (stream.columns, stream.activations) == (5, 5)
