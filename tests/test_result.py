"""What a solved layer tells of its mapping."""

import attrs

from tests.report.results import MAPPING, solved_layer


def test_tile_info_lists_the_tiles_that_levels_hold() -> None:
    """K = 8 is 2 PEs x 4 in the global buffer, which holds I; the PEs hold W and O."""
    tiles = solved_layer().tile_info
    assert {level: list(held) for level, held in tiles.items()} == {
        "PE": ["W", "O"],
        "GLOBAL_BUFFER": ["I"],
        "ROW_BUFFER": [],
        "DRAM": ["I", "W", "O"],
    }
    assert tiles["PE"]["W"] == {"R": 1, "S": 1, "C": 6, "K": 1, "G": 1}
    assert tiles["DRAM"]["O"] == {"P": 4, "Q": 1, "K": 8, "N": 1, "G": 1}


def test_tile_info_leaves_out_the_loops_outside_an_uneven_tile() -> None:
    """Of C = 6 the PE's loop is 3 and its lanes are 2: they are all that the tile of W covers; that of O has no C."""
    uneven = solved_layer(mapping=attrs.evolve(MAPPING, outside=((0, 1, 0), (0, 0, 0)))).tile_info
    assert uneven["PE"]["W"]["C"] == 2
    assert uneven["PE"]["O"] == solved_layer().tile_info["PE"]["O"]
