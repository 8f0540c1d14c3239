"""Predicted latency, term by term, as section 7 of the machine model defines it, counted by hand."""

from typing import Any

import pytest

from tables.counts.accesses import accesses
from tables.counts.cost import latency_terms, transfers
from tables.counts.on_chip import Machine, array_timing, cycles_for
from tables.counts.walk import StreamCounts, Streams
from tables.nest import Nest
from tests.tables.nests import DRAM, I, O, W, build_nest

UNLIMITED = ((0, 1), (0, 1))

#: 3 channels and 5 positions in the global buffer, of which the PE holds 2 positions of a channel; all else in DRAM.
#: C is outside P, so the PE's tile of O comes 6 times (20 tiles); and outside K, so the global buffer's comes twice.
NEST = "3C2 3K4 1C3 1P5 0P2"
#: Steps, all of them with every loop: 2 * 4 * 3 * 5 * 2. Two of them with the same tiles in the PE.
STEPS = 240

STREAMS = (
    StreamCounts(
        0,
        0,
        cycles=500,
        first_cycles=50,
        last_cycles=0,
        stall_cycles=70,
        steady_stall_cycles=60,
        second_stall_cycles=0,
        closed_cycles=510,
        fewest_columns=0,
        fewest_rows=0,
    ),
    StreamCounts(
        0,
        0,
        cycles=400,
        first_cycles=30,
        last_cycles=0,
        stall_cycles=40,
        steady_stall_cycles=10,
        second_stall_cycles=15,
        closed_cycles=420,
        fewest_columns=0,
        fewest_rows=0,
    ),
    StreamCounts(
        0,
        0,
        cycles=300,
        first_cycles=0,
        last_cycles=20,
        stall_cycles=8,
        steady_stall_cycles=0,
        second_stall_cycles=0,
        closed_cycles=340,
        fewest_columns=0,
        fewest_rows=0,
    ),
)
#: The PE's first tiles: after their DRAM scan 2 B of I, 1 B of W at 1 B a cycle; O's last one of 2 sums at 2 B a cycle.
HEAD_I, HEAD_W, END = 50 + 2, 30 + 1, 2 + 20
#: An output tile goes to the global buffer 6 times (4 B at 2 a cycle) and comes back 5 times (4 B at 1 a cycle); for
#: DRAM's stream of O the array waits as long as that says.
RETURNS, SPILLS = 20 * (5 * 2 + 5 * 4), 8
SINGLE = (70 - 60) + (40 - 10) + 8


def nest_of(loops: str, stored: str = "01 01 01", **fields: Any) -> Nest:
    """A nest of bytes, but for partial sums of two."""
    return build_nest(loops, stored, width_bytes=(1, 1, 1, 2), **fields)


def machine(**fields: Any) -> Machine:
    """Two slots everywhere, and nothing limited but the global buffer: 1 B a cycle is read, 2 B are written."""
    free = Machine(
        dram=DRAM,
        access_fj=((0, 0),) * 4,
        activation_fj=0,
        mac_fj=0,
        multicast=True,
        spatial_reduction=True,
        bandwidth=(UNLIMITED, ((1, 1), (2, 1)), UNLIMITED),
        ports=(1, 1, 1),
        interconnect=(0, 1),
        double_buffered=(True, True),
        is_bus_shared=False,
        pipeline_latency=0,
    )
    return free._replace(**fields)


def terms_of(nest: Nest, of: Machine, streams: Streams = STREAMS) -> dict[str, int]:
    """Return the terms of the latency."""
    return latency_terms(nest, of, accesses(nest, of.multicast, of.spatial_reduction), streams)


def busy_of(nest: Nest, of: Machine) -> dict[str, int]:
    """Return the transfer times of ports and interconnect."""
    return transfers(nest, of, accesses(nest, of.multicast, of.spatial_reduction))


@pytest.mark.parametrize(("rate", "cycles"), [((0, 1), 0), ((1, 1), 7), ((3, 1), 3), ((7, 1), 1), ((1, 2), 14)])
def test_cycles_are_rounded_up(rate: tuple[int, int], cycles: int) -> None:
    """Seven bytes at any rate, also half a byte a cycle; no limit, no time."""
    assert cycles_for(7, rate) == cycles


# --- Terms -----------------------------------------------------------------------------------------------------------


def test_terms_start_with_the_slower_operand_and_end_with_the_last_output() -> None:
    """The array waits for returning sums and for late tiles; those of I and W may be late while O's stream takes its
    time. W's second tile is loaded during I's first.
    """
    terms = terms_of(nest_of(NEST), machine())
    array = HEAD_I + STEPS + RETURNS + END
    assert terms["compute"] == array + SPILLS
    assert terms["dram_I"] == array + 70
    assert terms["dram_W"] == array + 40 - 15  # less than the 52 - 31 cycles that I's first tile takes longer
    assert terms["dram_O"] == array + SPILLS


def test_second_tile_is_loaded_ahead_no_longer_than_the_other_operand_takes() -> None:
    """Of 30 stall cycles of W's second tile, the 21 until I's first tile has arrived are hidden."""
    streams = (STREAMS[I], STREAMS[W]._replace(second_stall_cycles=30), STREAMS[O])
    assert terms_of(nest_of(NEST), machine(), streams)["dram_W"] == HEAD_I + STEPS + RETURNS + END + 40 - 21


def test_shared_bus_brings_one_operand_after_the_other() -> None:
    """Nothing is loaded ahead; the bus itself is busy for all streams, and the array for one tile's steps more.

    A tile of I in the global buffer is used for 240 / 2 steps, one of W for 240 / 8.
    """
    terms = terms_of(nest_of(NEST), machine(is_bus_shared=True))
    array = HEAD_I + HEAD_W + STEPS + RETURNS + END
    assert [terms[name] for name in ("compute", "dram_W")] == [array + SPILLS, array + 40]
    assert terms["dram_bus"] == 500 + 400 + 300 + 30


def test_one_slot_in_the_pes_hides_no_move_into_them() -> None:
    """The PEs take 2 * 4 * 3 * 5 tiles of I of 2 B, of which the first is part of the start; W's take less.

    All but the last of O's 120 tiles leave before the next one comes, so I's 119 moves of 2 cycles take place while
    O's tiles leave and return. The interconnect, at 1 B a cycle, has 240 of I, 24 of W, and of O 240 sums out and 200
    back.
    """
    terms = terms_of(nest_of(NEST), machine(double_buffered=(False, True), interconnect=(1, 1)))
    returns = 119 * 2 + 100 * 4
    assert terms["compute"] == HEAD_I + STEPS + returns + SPILLS + END
    assert terms["interconnect"] == HEAD_I + 240 + 24 + 2 * (240 + 200) + END


def test_moves_into_one_slot_take_place_while_sums_return() -> None:
    """The PEs take 30 tiles of I, of 8 B, and 10 of O, which change with every third of them; 8 of these come back.

    Whenever one of O of 2 B leaves in a cycle and another comes in 2, one of I moves in 8 cycles.
    """
    terms = terms_of(nest_of("3C5 3P2 1C3 0C8"), machine(double_buffered=(False, True)))
    assert terms["compute"] == (50 + 8) + 240 + 29 * 8 + SPILLS + (20 + 1)


def test_moves_into_one_slot_that_sums_do_not_cover_add_up() -> None:
    """At 4 cycles a byte O's 9 tiles leave in 4 cycles, and 8 come back in 8: 9 times I moves meanwhile in 1 cycle.

    The other 20 moves of I wait by themselves.
    """
    slow = machine(double_buffered=(False, True), bandwidth=(UNLIMITED, ((1, 4), (1, 2)), UNLIMITED))
    terms = terms_of(nest_of("3C5 3P2 1C3 0P2"), slow)
    returns = 9 * (2 * 2 * 2) + 8 * (2 * 2 * 4)
    assert terms["compute"] == (50 + 2 * 4) + 60 + returns + 20 * (2 * 4) + SPILLS + (20 + 2 * 2 * 2)


def test_outputs_that_do_not_return_are_not_waited_for() -> None:
    """With C innermost no output tile returns, to the PE or to the global buffer."""
    terms = terms_of(nest_of("3K4 3P5 1C6 0P2"), machine())
    assert terms["compute"] == HEAD_I + STEPS + SINGLE + END


def test_what_macs_draw_from_dram_has_no_head() -> None:
    """W is stored nowhere: its 40 cycles before a step are no part of the start, nor of what I has ahead."""
    streams = (STREAMS[I]._replace(first_cycles=5), STREAMS[W]._replace(first_cycles=40), STREAMS[O])
    terms = terms_of(nest_of("3K4 3P5 1C6 0P2", "01 - 01"), machine(), streams)
    assert terms["dram_I"] == 5 + 2 + STEPS + 70 + END


@pytest.mark.parametrize(("is_shared", "first", "last"), [(True, 2 * 8, 3 * 8), (False, 6 * 8, 6 * 8)])
def test_pes_share_operands_and_sums_or_move_each_by_itself(is_shared: bool, first: int, last: int) -> None:
    """2 x 3 PEs: three read the same 8 inputs, at 1 B a cycle; two add up the same 8 sums of 2 B, at 2 B a cycle."""
    terms = terms_of(nest_of("3K4 0P8 HC2 WK3"), machine(multicast=is_shared, spatial_reduction=is_shared))
    assert terms["compute"] == (50 + first) + 4 * 8 + SINGLE + (20 + last)


# --- Operands past the PEs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("multicast", "array_step"), [(True, 4 * 8 // 2), (False, 8 * 8 // 2)])
def test_array_step_lasts_as_long_as_its_operands(multicast: bool, array_step: int) -> None:
    """8 steps of 4 weights from the global buffer, twice as many if two PEs get each their own, at 2 B a cycle."""
    slow = machine(multicast=multicast, bandwidth=(UNLIMITED, ((2, 1), (0, 1)), UNLIMITED))
    assert array_timing(nest_of("1K2 0P8 HP2 LC4", "0 1 0"), slow).array_cycles == 2 * array_step


@pytest.mark.parametrize(("reduction", "sums"), [(True, 8), (False, 32)])
def test_sums_that_no_pe_stores_are_read_and_written(reduction: bool, sums: int) -> None:
    """8 steps of an output of 2 B, or of its 4 lanes: read at 1 B a cycle, written at 3, each rounded up."""
    slow = machine(spatial_reduction=reduction, bandwidth=(UNLIMITED, ((1, 1), (3, 1)), UNLIMITED))
    expected = 2 * sums + -(-2 * sums // 3)
    assert array_timing(nest_of("0P8 LC4", "0 0 1"), slow).array_cycles == expected


# --- The row buffer --------------------------------------------------------------------------------------------------


def test_row_buffer_loads_only_while_no_tile_is_taken_from_it() -> None:
    """One slot: W's stream, the 12 moves of 1 B out of it at 4 cycles each, and the last move's 96 / 12 steps."""
    slow = machine(bandwidth=(UNLIMITED, UNLIMITED, ((1, 4), (0, 1))))
    streams = (STREAMS[I], STREAMS[W]._replace(cycles=10_000), STREAMS[O])
    terms = terms_of(nest_of("3K4 2C3 0P8", "0 02 0"), slow, streams)
    assert terms["dram_W"] == 10_000 + 12 * 4 + 96 // 12 + 20


def test_row_buffer_of_outputs_also_gives_sums_back() -> None:
    """24 tiles of 4 B move in at 4 B a cycle, 16 of them come back at 2 B a cycle; the stream starts with the array."""
    slow = machine(bandwidth=(UNLIMITED, UNLIMITED, ((2, 1), (4, 1))))
    streams = (STREAMS[I], STREAMS[W], STREAMS[O]._replace(cycles=10_000))
    terms = terms_of(nest_of("3K4 2C3 2P2 0P4", "0 0 02"), slow, streams)
    assert terms["dram_O"] == 10_000 + (24 * 1 + 16 * 2) + 96 // 24 + 50


# --- Ports and interconnect ------------------------------------------------------------------------------------------

#: Two PEs add up an output each of 8 positions. Moved: I 16 once, W 2 four times, O 32 sums; the PEs read 64 operands
#: of I and of W and drain 64 sums, and write 16 of I, 8 of W and 64 sums.
PAIR = "3K4 0P8 HC2"


@pytest.mark.parametrize(
    ("ports", "cycles"),
    [
        (1, 30),  # (16 + 8 + 2 * 32) / 3
        (2, 22),  # no tensor has more than a port: 2 * 32 / 3, which is more than 88 / 6
    ],
)
def test_ports_move_a_tensor_each_or_all_of_them(ports: int, cycles: int) -> None:
    """The global buffer reads 16 of I, 8 of W and 32 sums."""
    slow = machine(bandwidth=(UNLIMITED, ((3, 1), (0, 1)), UNLIMITED), ports=(1, ports, 1))
    assert busy_of(nest_of(PAIR), slow)["global_buffer"] == cycles


def test_slower_direction_counts() -> None:
    """The PEs, two of them, at 3 B a cycle each: 256 B are read, 152 B written; at 1 B a cycle 76 cycles."""
    both = [machine(bandwidth=(((3, 1), write), UNLIMITED, UNLIMITED)) for write in ((3, 1), (1, 1))]
    assert [busy_of(nest_of(PAIR), of)["pe"] for of in both] == [-(-256 // 6), 76]


@pytest.mark.parametrize(
    ("loops", "crossing"),
    [
        (PAIR, 16 + 8 + 2 * 32),
        (NEST, 240 + 24 + 2 * (240 + 200)),  # without the 80 + 40 sums that go on to DRAM and come from there
    ],
)
def test_interconnect_carries_what_crosses_into_the_array(loops: str, crossing: int) -> None:
    """And out of it, returning sums included."""
    assert busy_of(nest_of(loops), machine(interconnect=(1, 1)))["interconnect"] == crossing
