"""The Hybrid Cost Model's estimator: each equation by hand, the paper's table, and where it is exact and where not."""

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables.counts.stream import dram_stream
from tables.estimators import COVERS, ESTIMATORS
from tables.estimators.hybrid_cost_model import (
    crossing_offsets,
    crossing_probability,
    danger_zone,
    hybrid_activations,
    hybrid_cost_model_activations,
    linear_width,
    micro_trace,
    open_line,
)
from tests.tables.nests import WINDOWS, I, O, W, build_dram, build_nest

# -- HCM: algorithm 1 ---------------------------------------------------------------------------------------------


def trace_elements(tile_h: int, tile_w: int, w_total: int, offset: int, row: int) -> int:
    """Algorithm 1 as it is printed, element by element."""
    active, activations = -1, 0
    for h in range(tile_h):
        for w in range(tile_w):
            row_id = (offset + h * w_total + w) // row
            if row_id != active:
                activations += 1
                active = row_id
    return activations


@settings(deadline=None)  # the first example compiles
@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 40), st.integers(0, 40), st.integers(1, 32))
def test_micro_trace_counts_what_algorithm_1_counts(
    tile_h: int, tile_w: int, extra: int, offset: int, row: int
) -> None:
    """Taking a line at once is the same as element by element, compiled or not."""
    expected = trace_elements(tile_h, tile_w, tile_w + extra, offset, row)
    assert micro_trace(tile_h, tile_w, tile_w + extra, offset, row) == expected
    assert getattr(micro_trace, "py_func", micro_trace)(tile_h, tile_w, tile_w + extra, offset, row) == expected


@pytest.mark.parametrize(
    ("start", "length", "active", "expected"),
    [
        (3, 4, -1, 1),  # bytes 3-6 of row 0
        (3, 4, 0, 0),  # row 0 is open
        (3, 6, 0, 1),  # bytes 3-8: row 1 is new
        (3, 14, 1, 3),  # bytes 3-16: rows 0, 1, 2; row 1 was open, but is closed by row 0
    ],
)
def test_open_line_counts_rows_that_are_not_open(start: int, length: int, active: int, expected: int) -> None:
    """A line opens its first row unless open, and every row after it (rows of 8)."""
    assert open_line(start, length, active, 8) == expected
    assert getattr(open_line, "py_func", open_line)(start, length, active, 8) == expected


def test_micro_trace_thrashes_only_when_addresses_fall() -> None:
    """HCM 3.1 promises A, B, A, B. Rows of 8, two lines of 4 from 6: 6 7|8 9 and 10.. 13: rows 0, 1, so 2.

    The pattern needs a line to start before the last one's end in the row before, that is w_total < tile_w: lines of 4
    from 6 and (w_total = 0) 6 again touch A B A B = 4. No tensor is laid out so.
    """
    assert micro_trace(2, 4, 4, 6, 8) == 2
    assert micro_trace(2, 4, 0, 6, 8) == 4


# -- HCM: Eq. 1-7 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "row", "expected"),
    [
        (451, 1024, range(574, 1024)),  # Z = [1024 - 451 + 1, 1023]
        (1, 8, range(8, 8)),  # a unit cannot cross
        (8, 8, range(1, 8)),  # a full row fits at 0 only
        (9, 8, range(8)),  # [0, 7]
        (1351, 1024, range(1024)),  # [-326, 1023], cut off at 0
    ],
)
def test_danger_zone_holds_the_offsets_that_cross(width: int, row: int, expected: range) -> None:
    """HCM Eq. 4."""
    assert danger_zone(width, row) == expected
    assert set(expected) == {o for o in range(row) if o + width > row}


def test_crossing_probability_follows_equation_5() -> None:
    """Multiples of g in Z over P/g."""
    # S = 224, P = 1024: g = 32, P/g = 32; in [574, 1023] lie 576 = 18*32 .. 992 = 31*32: 14.
    assert list(crossing_offsets(451, 224, 1024)) == [32 * k for k in range(18, 32)]
    assert crossing_probability(451, 224, 1024) == 14 / 32
    # S = 448: g = 64, P/g = 16; 576 .. 960: 7.
    assert crossing_probability(451, 448, 1024) == 7 / 16
    # Without a step there is one offset, 0: a row or less does not cross, more does.
    assert crossing_probability(8, 0, 8) == 0
    assert crossing_probability(9, 0, 8) == 1


@settings(deadline=None)  # the first example compiles
@given(st.integers(1, 100), st.integers(1, 200), st.integers(1, 64), st.integers(1, 3))
def test_crossing_probability_is_exact_over_whole_periods(width: int, step: int, row: int, periods: int) -> None:
    """Eq. 5 is the share of crossing tiles among any whole number of periods from offset 0."""
    tiles = periods * row // math.gcd(step, row)
    crossing = sum(i * step % row + width > row for i in range(tiles))
    assert crossing_probability(width, step, row) == pytest.approx(crossing / tiles)


@pytest.mark.parametrize(
    ("tiles", "start", "crossing"),
    [
        (4, 0, 1),  # a whole period, 0 2 4 6: only 6 + 3 > 8
        (3, 0, 0),  # 0 2 4: none, where Eq. 5 and 6 say 3/4 of a tile
        (5, 0, 1),  # 0 2 4 6 0: one, not 5/4
        (4, 1, 1),  # 1 3 5 7: 5 + 3 = 8 fits, 7 crosses
    ],
)
def test_crossing_probability_is_an_estimate_otherwise(tiles: int, start: int, crossing: int) -> None:
    """Eq. 6's "exact quantities" are not exact: a broken period may hold another share (P = 8, S = 2, width 3)."""
    assert sum((start + 2 * i) % 8 + 3 > 8 for i in range(tiles)) == crossing
    assert crossing_probability(3, 2, 8) == 1 / 4
    assert (tiles * crossing_probability(3, 2, 8) == crossing) == (tiles % 4 == 0)


def test_crossing_probability_misses_a_shifted_start() -> None:
    """Offsets i*S start at 0. A tile of 3 with S = 4, P = 8: from 1 it is at 1 and 5 and never crosses, from 2 at 6."""
    assert crossing_probability(3, 4, 8) == 0  # 0 and 4
    assert sum((1 + 4 * i) % 8 + 3 > 8 for i in range(2)) == 0
    assert sum((2 + 4 * i) % 8 + 3 > 8 for i in range(2)) == 1


def test_hybrid_activations_add_safe_and_crossing_tiles() -> None:
    """HCM Eq. 1: 12 tiles of 1 x 3, S = 2, P = 8: N_crossing = 3 at cost 2, N_safe = 9 at cost 1."""
    assert hybrid_activations(12, 1, 3, 2, 2, 8) == 9 * 1 + 3 * 2


# -- HCM: table 1 -------------------------------------------------------------------------------------------------

#: H, W, tile, stride; then table 1's truth and model, and the truth of all positions, in activations a tile.
TABLE_1 = [
    (100, 1024, 3, 1, "3.0000", "3.0000", "3.000"),
    (224, 224, 3, 1, "1.4324", "1.4375", "1.434"),
    (224, 224, 3, 2, "1.4324", "1.4375", "1.434"),
    (224, 224, 7, 2, "2.3119", "2.3125", "2.313"),
]


def exhaust(height: int, width: int, tile: int, stride: int, columns: range, keeps_row: bool = False) -> Fraction:
    """Mean activations of the tiles whose left edge is in `columns`, row-major, every element read, rows of 1024.

    `keeps_row`: the row stays open from one tile to the next.
    """
    activations = tiles = 0
    active = -1
    for top, left in product(range(0, height - tile + 1, stride), columns):
        tiles += 1
        active = active if keeps_row else -1
        for h, w in product(range(tile), range(tile)):
            row = ((top + h) * width + left + w) // 1024
            activations += row != active
            active = row
    return Fraction(activations, tiles)


def hybrid(width: int, tile: int, stride: int) -> float:
    """Activations a tile of the hybrid model, S = stride * W."""
    return hybrid_activations(1, tile, tile, width, stride * width, 1024)


@pytest.mark.parametrize(("height", "width", "tile", "stride", "truth", "model", "_all"), TABLE_1)
def test_table_1_is_reproduced(
    height: int, width: int, tile: int, stride: int, truth: str, model: str, _all: str
) -> None:
    """All eight numbers come out, to the last digit, under one reading.

    Model: W_tile = (tile - 1)*W + tile, S = stride*W, Z cut off at 0, O_cross = the multiples of g in Z.
    Truth: the tiles of the first column only, (H - tile)//stride + 1 of them, each with no row open at first:

    - 3x3, stride 1: 222 tiles; 14 of each 32 cross (Eq. 5), 6 whole periods 84; of the last 30 the missing two,
      i = 30 and 31, are at 576 and 800, both in Z, so 12. (222 + 96)/222 = 1.43243.
    - 3x3, stride 2: 111 tiles, every second of these: (111 + 48)/111, the same.
    - 7x7, stride 2: 109 tiles of 1351 elements, 2 rows from offsets up to 697, else 3: 11 and 5 of the 16 multiples of
      64; 6 periods 30, of the last 13 (missing: 704, 128, 576, of which 704 costs 3) 4. (218 + 34)/109 = 2.31193.
    """
    assert f"{hybrid(width, tile, stride):.4f}" == model
    assert f"{float(exhaust(height, width, tile, stride, range(1))):.4f}" == truth


def test_table_1_fractions_are_the_derived_ones() -> None:
    """The arithmetic of the docstring above, and the model's: 1 + 14/32, 1 + 7/16, (11*2 + 5*3)/16."""
    assert exhaust(224, 224, 3, 1, range(1)) == Fraction(318, 222)
    assert exhaust(224, 224, 3, 2, range(1)) == Fraction(159, 111)
    assert exhaust(224, 224, 7, 2, range(1)) == Fraction(252, 109)
    assert hybrid(224, 3, 1) == 1 + 14 / 32
    assert hybrid(224, 3, 2) == 1 + 7 / 16
    assert hybrid(224, 7, 2) == (11 * 2 + 5 * 3) / 16


@pytest.mark.parametrize(("height", "width", "tile", "stride", "_truth", "model", "everywhere"), TABLE_1)
def test_table_1_is_not_of_all_positions(
    height: int, width: int, tile: int, stride: int, _truth: str, model: str, everywhere: str
) -> None:
    """Over all positions in both directions the truth is 3.000, 1.434, 1.434, 2.313, so the paper's is not "all tiles".

    The model stays within 0.25 % of it: 1.4375/1.43414 = 1.00234. The other columns shift the multiples of 32 that the
    model knows; were all offsets equally likely, it would be 1 + 450/1024 = 1.4395. Broken periods do the rest.
    """
    mean = float(exhaust(height, width, tile, stride, range(0, width - tile + 1, stride)))
    assert f"{mean:.3f}" == everywhere
    assert float(model) == pytest.approx(mean, rel=0.0025)


def test_table_1_needs_rows_to_be_closed_between_tiles() -> None:
    """With a row that stays open the second line is 0.65 (column) or 0.87 (all), below 1: algorithm 1 starts afresh.

    Column: 224 lines are 49 rows (50176/1024), each opened once. Of the tiles that cross one of the 48 boundaries all
    but the first find the upper row closed again and re-open both: 2 * (96 - 48). Together 145.
    """
    assert exhaust(224, 224, 3, 1, range(1), keeps_row=True) == Fraction(49 + 2 * (96 - 48), 222)
    assert float(exhaust(224, 224, 3, 1, range(222), keeps_row=True)) == pytest.approx(0.8673, abs=5e-5)


def test_table_1_rejects_the_other_readings() -> None:
    """Each word of the reading is needed for some line."""
    # W_tile = tile_w: no multiple of 32 in [1022, 1023]: 1.0000 for 1.4375.
    assert crossing_probability(3, 224, 1024) == 0
    # S = stride: g = 1 and every offset crosses (2051 > 1024); 1022 offsets cost 3, 2 cost 4: 3.0020 for 3.0000.
    assert hybrid_activations(1, 3, 3, 1024, 1, 1024) == (1022 * 3 + 2 * 4) / 1024
    # Z not cut off: 21 multiples of 64 from -320 to 960, a probability of 21/16.
    assert len([o for o in range(-326, 1024) if o % 64 == 0]) == 21
    # O_cross = all of Z: 698 offsets cost 2, 326 cost 3: 2.3184 for 2.3125.
    costs = [trace_elements(7, 7, 224, o, 1024) for o in danger_zone(linear_width(7, 7, 224), 1024)]
    assert (costs.count(2), costs.count(3)) == (698, 326)
    assert f"{sum(costs) / len(costs):.4f}" == "2.3184"


# -- HCM on a nest ------------------------------------------------------------------------------------------------


def test_hybrid_cost_model_counts_the_fetches_of_a_nest() -> None:
    """Rows of 16: S = 8, so offsets 0 and 8 by turns, cost 1 and 2, four tiles: 6. Closed pages open just these.

    The Ks are inside Q: the tile is held. Outside it all is fetched 6 times.
    """
    assert hybrid_cost_model_activations(build_nest(WINDOWS), 16) == 6
    assert dram_stream(build_nest(WINDOWS), I, build_dram(16)).activations == 6
    assert hybrid_cost_model_activations(build_nest("3K3 2K2 2Q4 1Q2 1S3 1P4"), 16) == 36


def test_hybrid_cost_model_counts_planes_in_channel_first_order() -> None:
    """Two channels of 40 bytes: planes start at 0 and 40; S = gcd(8, 40) = 8, so 8 planes at 1.5 = 12.

    Truth: 0, 8, 16, 24 and 40, 48, 56, 64 mod 16 are four 0s and four 8s, but a tile's second plane finds
    another row open, always: 12 too.
    """
    nest = build_nest(WINDOWS + " 1C2")
    assert hybrid_cost_model_activations(nest, 16) == 12
    assert dram_stream(nest, I, build_dram(16)).activations == 12


def test_hybrid_cost_model_widens_lines_in_channel_last_order() -> None:
    """NHWGC, C = 2 of 4 in a tile, W = 4: a line is 16 bytes, a tile's line 3*4 + 2 = 14, its reach 3*16 + 14 = 62.

    Rows of 32: S = gcd(2*16, 2) = 2, so 16 offsets. Safe: none (62 > 32). Rows touched from o: (o + 61)//32 + 1 = 2 for
    o = 0, 2; else 3 for the other 14. 4*2 = 8 tiles: 8*(2*2 + 14*3)/16 = 23.
    """
    nest = build_nest("3Q4 3C2 1Q2 1S3 1P4 1C2", layout=(1, 0, 0))
    assert hybrid_cost_model_activations(nest, 32) == 23
    # Tiles start at 32q and 32q + 2 only, and all of these touch 2 rows: Eq. 5 takes offsets as equally likely.
    assert dram_stream(nest, I, build_dram(32)).activations == 8 * 2


def test_hybrid_cost_model_spans_the_array_and_single_steps() -> None:
    """Stored nowhere, each of Q2 * P4 = 8 steps fetches one element for each of 2 array rows.

    The array's Q is outside T0's (Q = 2*h + q), so the two are 2 lines of 4 apart and reach over 9 bytes, more than a
    row of 8: always 2 rows, 16.
    """
    nest = build_nest("0Q2 0P4 HQ2", stored="- - -")
    assert hybrid_cost_model_activations(nest, 8) == 16
    assert dram_stream(nest, I, build_dram(8)).activations == 16


@settings(deadline=None)  # the first example compiles
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.integers(1, 3), st.sampled_from([4, 8, 16, 32]))
def test_hybrid_cost_model_is_exact_for_whole_periods(
    filters: int, outputs: int, width: int, periods: int, row_bytes: int
) -> None:
    """One plane, one loop, a whole number of periods: the closed-page count, not only on average."""
    step = outputs * width
    tiles = periods * row_bytes // math.gcd(step, row_bytes)
    nest = build_nest(f"3Q{tiles} 1Q{outputs} 1S{filters} 1P{width}")
    exact = dram_stream(nest, I, build_dram(row_bytes)).activations
    assert hybrid_cost_model_activations(nest, row_bytes) == pytest.approx(exact)


def test_hybrid_cost_model_covers_the_input_only() -> None:
    """W and O are refused by name and value."""
    assert COVERS["hybrid_cost_model"] == (I,)
    for t in (W, O):
        with pytest.raises(ValueError, match=rf"hybrid_cost_model\.t: must be the input, 0 \(got {t}\)"):
            ESTIMATORS["hybrid_cost_model"](build_nest(WINDOWS), t, build_dram(16))
