"""The validator's capacities: tiles and tensors that fit to the byte. Sizes are counted by hand."""

import itertools
import math
from typing import Any

import attrs
import pytest

from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.mapping import BANKS, Mapping
from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import (
    DRAM,
    GLOBAL_BUFFER,
    NAMES,
    PE,
    ROOMY,
    ROW_BUFFER,
    build_arch,
    build_mapping,
    change_level,
    violations,
)

# --- Capacity (Eq. 2, 3, 17, 22) -------------------------------------------------------------------------------------


def fits_exactly(layer: ConvWorkload, mapping: Mapping, level: int, size: int, **fields: Any) -> bool:
    """Whether a mapping is legal with so many bytes at a level, and with one byte less only that level complains."""
    room = [ROOMY] * 4
    room[level] = size
    assert violations(layer, mapping, build_arch(*room, **fields)) == []
    room[level] = size - 1
    (violation,) = violations(layer, mapping, build_arch(*room, **fields))
    return violation.startswith(f"{NAMES[level]}: ") and f" = {size} B, there are {size - 1} B" in violation


CONV = ConvWorkload(R=3, S=2, P=4, Q=2, C=2, K=4, stride=(2, 1), dilation=(1, 3), psum_bytes=4)
# PE: P=2, R=3, S=2. Global buffer: and C=2, P=4 (two PEs), Q=2. Row buffer: and K=2.
# As two PEs loop over P and the filter is 3 x 2 (strided, dilated), I and O come through a buffer: I from level 1 or 2.
NEST = "3K2 2K2 1Q2 HP2 0C2 0P2 0R3 0S2"


@pytest.mark.parametrize(
    ("level", "stored", "size"),
    [
        # I of a PE: width 2*(2-1) + 1*(3-1) + 1 = 5, height 1*0 + 3*(2-1) + 1 = 4, 2 channels.
        (PE, "01 - 1", 2 * 5 * 4),
        # W of a PE: R * S * C.
        (PE, "1 0 1", 3 * 2 * 2),
        # O of a PE: P=2, 4 bytes a partial sum.
        (PE, "1 - 0", 2 * 4),
        (PE, "01 0 0", 40 + 12 + 8),
        # I at the global buffer: width 2*(4-1) + 2 + 1 = 9, height (2-1) + 3 + 1 = 5, 2 channels.
        (GLOBAL_BUFFER, "1 - 0", 9 * 5 * 2),
        # O at the global buffer: P * Q, 4 bytes; the lanes and K are no part of it.
        (GLOBAL_BUFFER, "02 - 1", 4 * 2 * 4),
        (GLOBAL_BUFFER, "1 1 1", 90 + 12 + 32),
        # W at the row buffer: two of K.
        (ROW_BUFFER, "1 2 1", 2 * 12),
        # O at the row buffer: two of K, nothing comes back from DRAM, 1 byte each.
        (ROW_BUFFER, "1 - 12", 2 * 4 * 2),
    ],
)
def test_tiles_fit_to_the_byte(level: int, stored: str, size: int) -> None:
    """A tile may take all of its level; with a byte less the level and the sizes are named."""
    side = int("2" in stored.split()[Tensor.I])
    assert fits_exactly(CONV, build_mapping(NEST, stored, block_h=side, block_w=side), level, size)


@pytest.mark.parametrize(
    ("level", "stored", "outside", "size"),
    [
        # C, P, R and S loop in the PE. W without C: R * S; I without C and P: one position, 3 x 4 (dilated), a channel.
        (PE, "1 01 1", (0, 1, 0), 3 * 2),
        (PE, "01 - 1", (2, 0, 0), 3 * 4),
        # O without C and P: a partial sum of 4 bytes.
        (PE, "1 - 01", (0, 0, 2), 4),
        # Q and K loop at the global buffer below: I without Q has 4 rows, W without Q and K as much as the PEs.
        (GLOBAL_BUFFER, "1 - 0", (1, 0, 0), 9 * 4 * 2),
        (GLOBAL_BUFFER, "1 1 0", (1, 2, 0), 9 * 4 * 2 + 12),
        (GLOBAL_BUFFER, "1 - 1", (0, 0, 1), 90 * 2 // 2 + 4 * 2 * 4),
    ],
)
def test_uneven_tiles_take_the_room_of_the_loops_they_cover(
    level: int, stored: str, outside: tuple[int, ...], size: int
) -> None:
    """Other tiles, and those of other levels, keep theirs."""
    points = [[0] * 3, [0] * 3]
    points[level] = [*outside]
    mapping = build_mapping("3K2 1Q2 1K2 HP2 0C2 0P2 0R3 0S2", stored, outside=points)
    assert fits_exactly(CONV, mapping, level, size, uneven_residency=True)


def test_bypassed_tensor_takes_no_room() -> None:
    """With room for W alone, W is legal; the large I and O, which are stored further out, are not in the sum."""
    assert violations(CONV, build_mapping(NEST, "1 0 1"), build_arch(12)) == []


def test_array_factors_and_lanes_count_where_they_should() -> None:
    """Lanes are in a PE's tile, PEs are not: K = 2 lanes x 4 PEs is W of 2 at the PE, of 8 at the global buffer."""
    layer, loops, array = ConvWorkload(K=8), "HK4 LK2", {"exclusive_spatial": False}
    assert fits_exactly(layer, build_mapping(loops, "- 0 -"), PE, 2, array=array)
    assert fits_exactly(layer, build_mapping(loops, "- 1 -"), GLOBAL_BUFFER, 8, array=array)


#: Levels and, of CONV's NEST, who stores what where and the bytes of each tile there, as counted above.
SEPARATE = [(PE, "01 0 0", (40, 12, 8)), (GLOBAL_BUFFER, "1 1 1", (90, 12, 32)), (ROW_BUFFER, "12 2 12", (90, 24, 16))]


@pytest.mark.parametrize("tight", ["I", "W", "O"])
@pytest.mark.parametrize(("level", "stored", "sizes"), SEPARATE)
def test_separate_buffers_each_fit_to_the_byte(level: int, stored: str, sizes: tuple[int, ...], tight: str) -> None:
    """A tile may take all of its own buffer, not a byte of another's, and the one that is too large is named."""
    entries = {t.name: sizes[t] for t in Tensor}
    mapping = build_mapping(NEST, stored, block_h=1, block_w=1) if "2" in stored else build_mapping(NEST, stored)
    assert violations(CONV, mapping, change_level(build_arch(), level, entries=entries)) == []
    size, entries = entries[tight], dict.fromkeys(entries, ROOMY) | {tight: entries[tight] - 1}
    assert violations(CONV, mapping, change_level(build_arch(), level, entries=entries)) == [
        f"{NAMES[level]}: the tiles take {tight} {size} = {size} B, there are {size - 1} B for {tight}"
    ]


def test_double_buffering_halves_each_separate_buffer() -> None:
    """W of 6 bytes needs 12, however much the others have; 0 for O, which the level then cannot store."""
    layer, mapping = ConvWorkload(K=6), build_mapping("0K6", "- 1 -")
    arch = change_level(build_arch(), GLOBAL_BUFFER, entries={"I": 99, "W": 12, "O": 0}, double_buffered=True)
    assert violations(layer, mapping, arch) == []
    found = violations(layer, mapping, change_level(arch, GLOBAL_BUFFER, entries={"I": 99, "W": 11, "O": 0}))
    assert found == ["Gbuf: the tiles take W 6 = 6 B, there are 5 B for W (half of 11 B: double buffered)"]
    assert violations(layer, build_mapping("0K6", "- - 1"), arch) == [
        "Gbuf: cannot store O",
        "Gbuf: the tiles take O 6 = 6 B, there are 0 B for O",
    ]


@pytest.mark.parametrize("level", [PE, GLOBAL_BUFFER])
def test_double_buffering_halves_the_room(level: int) -> None:
    """A tile of 6 bytes needs 12 where loading overlaps; 11 bytes have two halves of 5."""
    layer, mapping = ConvWorkload(K=6), build_mapping("0K6", f"- {level} -")
    arch = change_level(build_arch(), level, entries=12, double_buffered=True)
    assert violations(layer, mapping, arch) == []
    found = violations(layer, mapping, change_level(arch, level, entries=11))
    assert found == [f"{NAMES[level]}: the tiles take W 6 = 6 B, there are 5 B (half of 11 B: double buffered)"]


def test_double_buffering_means_nothing_at_the_row_buffer() -> None:
    """A row buffer has one copy, whatever its field says."""
    arch = change_level(build_arch(), ROW_BUFFER, entries=6, double_buffered=True)
    assert violations(ConvWorkload(K=6), build_mapping("0K6", "- 2 -"), arch) == []


@pytest.mark.parametrize(
    ("loops", "width"),
    [
        ("3K2 3C2 0N3", 1),  # each tile of O is done before the next
        ("3C2 3K2 0N3", 4),  # C outside K: each tile comes back
        ("3C2 2K2 0N3", 1),  # K is inside the tile, C outside changes nothing: the one tile stays
        ("3C2 3K2 2C2 0N3", 4),
        ("3K2 2C2 2P2", 1),
        ("3P2 3R2 3K2 0N3", 4),
    ],
)
def test_spilled_partial_sums_are_wide_in_the_row_buffer(loops: str, width: int) -> None:
    """O in the row buffer has 4 bytes exactly if a tile returns from DRAM: a reduction loop outside a loop of O."""
    bounds = {dim.name: math.prod(int(w[2:]) for w in loops.split() if w[1] == dim.name) for dim in Dim}
    inside = math.prod(int(w[2:]) for w in loops.split() if w[0] in "02" and w[1] in "PQKNG")
    mapping = build_mapping(loops, "1 - 2")
    assert fits_exactly(ConvWorkload(**bounds, psum_bytes=4), mapping, ROW_BUFFER, inside * width)


# --- Row-aligned input (Eq. 8, 9, 17) --------------------------------------------------------------------------------


def test_input_blocks_have_sizes_of_the_space() -> None:
    """Sizes along an axis: divisors of I, the steps of tiles, and the tile, none larger than the tile.

    I is 5 x 9, and so is its tile. Heights: 1 and 5 divide 5; steps of 1 and 2 outputs, of stride 1. Widths: 1, 3 and 9
    divide 9; steps of 1, 2 and 4 outputs, of stride 2.
    """
    heights, widths = {1, 2, 5}, {1, 2, 3, 4, 8, 9}
    for block_h, block_w in itertools.product(range(-1, 7), range(-1, 11)):
        found = violations(CONV, build_mapping(NEST, "12 - 1", block_h=block_h, block_w=block_w))
        high = f"Row: block_h of I must be one of 1, 2, 5 (got {block_h})"
        wide = f"Row: block_w of I must be one of 1, 2, 3, 4, 8, 9 (got {block_w})"
        assert found == [high] * (block_h not in heights) + [wide] * (block_w not in widths)


def test_input_blocks_are_no_larger_than_the_tile() -> None:
    """A tile of 2 x 1 positions of an I of 4 x 4: heights 1 and 2, width 1."""
    layer = ConvWorkload(P=4, Q=4)
    mapping = build_mapping("3P4 3Q2 2Q2", "2 - -", block_h=2, block_w=1)
    assert violations(layer, mapping) == []
    assert violations(layer, attrs.evolve(mapping, block_h=4, block_w=2)) == [
        "Row: block_h of I must be one of 1, 2 (got 4)",
        "Row: block_w of I must be 1 (got 2)",
    ]


def test_input_that_is_not_row_aligned_has_no_block() -> None:
    """Without I in the row buffer the block is 0 x 0."""
    found = violations(CONV, build_mapping(NEST, "1 2 1", block_h=1))
    assert found == ["Row: stores no I, so block_h must be 0 (got 1)"]


def test_input_tile_larger_than_its_block_must_fit_too() -> None:
    """The tile is 4 x 4, its blocks are 1 x 1: 16 bytes."""
    layer = ConvWorkload(P=4, Q=4)
    assert fits_exactly(layer, build_mapping("0P4 0Q4", "2 - -", block_h=1, block_w=1), ROW_BUFFER, 16)


# --- DRAM capacity ---------------------------------------------------------------------------------------------------


def test_packed_tensors_fit_dram_to_the_byte() -> None:
    """I 6 x 2 B, W 6 x 4 x 3 B, O 4 x 1 B: 12 + 72 + 4."""
    layer = ConvWorkload(C=6, K=4, input_bytes=2, weight_bytes=3)
    assert fits_exactly(layer, build_mapping("3K4 3C6", "- - 0"), DRAM, 88)


@pytest.mark.parametrize(
    ("loops", "stored", "arch", "o_bytes"),
    [
        ("3K4 3C6", "- - 0", {}, 4),  # each tile is finished before the next
        ("3C6 3K4", "- - 0", {}, 16),  # each tile comes back
        ("3C6 0K4", "- - 0", {}, 4),  # one tile
        ("3K4 3C6", "- - -", {}, 16),  # nobody holds O: every addition after the first reads it back
        ("3K4 0C6", "- - -", {}, 16),
        ("1C6 1K4", "- - 01", {}, 4),  # each tile comes back to the PEs, none to the global buffer
        ("3K4 3C3 LC2", "- - 0", {}, 4),
        ("3K4 3C3 LC2", "- - 0", {"spatial_reduction": False}, 4),
    ],
)
def test_spilled_partial_sums_are_wide_in_dram(loops: str, stored: str, arch: dict[str, Any], o_bytes: int) -> None:
    """O takes 4 x 4 B if DRAM gives any of it back, else 4 x 1 B; I has 6 and W 24."""
    layer = ConvWorkload(C=6, K=4, psum_bytes=4)
    assert fits_exactly(layer, build_mapping(loops, stored), DRAM, 6 + 24 + o_bytes, **arch)


@pytest.mark.parametrize(("outside", "o_bytes"), [((0, 0, 0), 4), ((0, 0, 2), 16)])
@pytest.mark.parametrize("level", [PE, GLOBAL_BUFFER])
def test_sums_spill_from_uneven_tiles_that_return(level: int, outside: tuple[int, ...], o_bytes: int) -> None:
    """C outside K at one level, which holds all four sums, or one."""
    points = [[0] * 3, [0] * 3]
    points[level] = [*outside]
    layer = ConvWorkload(C=6, K=4, psum_bytes=4)
    mapping = build_mapping(f"{level}C6 {level}K4", f"- - {level}", outside=points)
    assert fits_exactly(layer, mapping, DRAM, 6 + 24 + o_bytes, uneven_residency=True)


def test_lanes_that_add_in_dram_spill_unless_reduced() -> None:
    """Two lanes of one output and no buffer for O: added on the way there is one write, else the second reads."""
    layer, mapping = ConvWorkload(C=2, psum_bytes=4), build_mapping("LC2")
    assert fits_exactly(layer, mapping, DRAM, 2 + 2 + 1)
    assert fits_exactly(layer, mapping, DRAM, 2 + 2 + 4, spatial_reduction=False)


@pytest.mark.parametrize(
    ("loops", "w_bytes"),
    [
        ("3K3 0K3", 16),  # 3 blocks of 3 B, two to a row of 8 B: 2 rows
        ("3K9", 16),  # 9 blocks of 1 B, eight to a row
        ("3K2 0K9", 32),  # 2 blocks of 9 B, two rows each
        ("0K8", 8),
        ("3K3 0K8", 24),  # a row each
    ],
)
def test_row_aligned_weights_are_padded_to_rows(loops: str, w_bytes: int) -> None:
    """Small blocks share rows without crossing their ends, large ones have rows of their own; I and O are packed."""
    layer = ConvWorkload(K=math.prod(int(word[2:]) for word in loops.split()))
    assert fits_exactly(layer, build_mapping(loops, "- 2 -"), DRAM, w_bytes + 1 + layer.K)


def test_row_aligned_input_keeps_partial_blocks_whole() -> None:
    """I of 6 x 6 in blocks of 4 x 4, as its tile: 2 x 2 blocks of 16 B, two rows of 8 B each; W 9 and O 16 bytes."""
    mapping = build_mapping("3P2 3Q2 2P2 2Q2 0R3 0S3", "2 - -", block_h=4, block_w=4)
    assert fits_exactly(ConvWorkload(P=4, Q=4, R=3, S=3), mapping, DRAM, 64 + 9 + 16)


@pytest.mark.parametrize(("text", "size"), [("I|W|O", 72), ("I|WO", 80), ("IW|O", 88), ("IWO", 96)])
def test_tensors_of_a_part_fit_one_bank_in_whole_rows(text: str, size: int) -> None:
    """I 12 B, W 72 B, O 4 B, in rows of 8 B where they share a bank: 16, 72, 8. Each bank is a part of the DRAM."""
    layer = ConvWorkload(C=6, K=4, input_bytes=2, weight_bytes=3)
    mapping, banks = build_mapping("3K4 3C6", "- - 0", banks=BANKS[text]), text.count("|") + 1
    room = {"node_banks": banks}
    assert violations(layer, mapping, build_arch(ROOMY, ROOMY, ROOMY, banks * size, **room)) == []
    found = violations(layer, mapping, build_arch(ROOMY, ROOMY, ROOMY, banks * (size - 1), **room))
    assert f" = {size} B, there are {size - 1} B in each" in found[-1]


def test_a_tensor_fits_its_banks() -> None:
    """W of 72 B takes two of four banks, of 36 B each; I of 12 B and O of 4 B one each."""
    layer = ConvWorkload(C=6, K=4, input_bytes=2, weight_bytes=3)
    mapping = build_mapping("3K4 3C6", "- - 0", bank_counts=(1, 2, 1))
    assert violations(layer, mapping, build_arch(ROOMY, ROOMY, ROOMY, 4 * 36, node_banks=4)) == []
    found = violations(layer, mapping, build_arch(ROOMY, ROOMY, ROOMY, 4 * 35, node_banks=4))
    assert found == ["Dram: 2 banks take W 72 = 72 B, there are 35 B in each"]
