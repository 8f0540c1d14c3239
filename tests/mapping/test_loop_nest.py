"""The drawing of a loop nest: where each tile is kept."""

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapping import BANKS
from cpsat_pim.mapping.loop_nest import format_nest
from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import build_mapping

LAYER = ConvWorkload(K=8, C=3, P=2)
LOOPS = "3K2 1K2 1C3 HP2 0K2"
STORED = "01 01 0"


def drawn(**fields: object) -> list[str]:
    """The lines of the nest from the row buffer on."""
    return format_nest(LAYER, PIMArchitecture(), build_mapping(LOOPS, STORED, **fields)).splitlines()[2:]


def test_level_names_its_tiles_and_what_bypasses_it() -> None:
    """W at the global buffer: K = 2 x 2 of C = 3; at the PE K = 2; I: P = 2 and C, then one."""
    assert drawn() == [
        "RowBuffer (m=2) [ ] bypass I W O",
        "GlobalBuffer (m=1) [ I 6  W 12 ] bypass O",
        "|    for K in [0:2)",
        "|      for C in [0:3)",
        "PE array: 2 of 16 x 16 PEs",
        "|        parallel-for P in [0:2)  over H",
        "PELocalBuffer (m=0) [ I 1  W 2  O 2 ]",
        "|          for K in [0:2)",
        "MAC lanes: 1 of 4 (simd)",
        "|            O[n,g,k,q,p] += I[n,g,c,h,w] * W[g,k,c,s,r]",
    ]


def test_uneven_tile_is_drawn_right_outside_the_loops_that_it_covers() -> None:
    """W at the global buffer within K: 2 x 3; I within both loops: 2; in the PE O within K: one."""
    assert drawn(outside=((0, 0, 1), (2, 1, 0))) == [
        "RowBuffer (m=2) [ ] bypass I W O",
        "GlobalBuffer (m=1) [ ] bypass O",
        "|    for K in [0:2)",
        "GlobalBuffer (m=1) [ W 6 ]",
        "|      for C in [0:3)",
        "GlobalBuffer (m=1) [ I 2 ]",
        "PE array: 2 of 16 x 16 PEs",
        "|        parallel-for P in [0:2)  over H",
        "PELocalBuffer (m=0) [ I 1  W 2 ]",
        "|          for K in [0:2)",
        "PELocalBuffer (m=0) [ O 1 ]",
        "MAC lanes: 1 of 4 (simd)",
        "|            O[n,g,k,q,p] += I[n,g,c,h,w] * W[g,k,c,s,r]",
    ]


def test_sizes_are_those_of_one_element_for_the_smallest_layer() -> None:
    """Nothing loops, so nothing can lie outside a tile."""
    text = format_nest(evolve(LAYER, K=1, C=1, P=1), PIMArchitecture(), build_mapping("", STORED))
    assert "GlobalBuffer (m=1) [ I 1  W 1 ] bypass O" in text


def test_tensors_that_share_a_bank_are_named() -> None:
    """Behind the tensors in DRAM; nothing where each has a bank of its own."""
    texts = [
        format_nest(LAYER, PIMArchitecture(), build_mapping(LOOPS, STORED, banks=BANKS[text])).splitlines()[0]
        for text in ("I|W|O", "IO|W")
    ]
    assert texts[1] == f"{texts[0]} banks IO|W"
    several = build_mapping(LOOPS, STORED, bank_counts=(8, 4, 4))
    assert format_nest(LAYER, PIMArchitecture(), several).startswith(f"{texts[0]} bank counts I 8 W 4 O 4\n")
