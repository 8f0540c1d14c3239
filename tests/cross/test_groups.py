"""Orders in which a group's loop, or that of another class, separates the loops of a class, so that tiles come back.
Figures that fall or change when tiles come back have valid bounds: the master problem contains each of these mappings.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.arch.pe_array import PEArray, PhyDim2
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from tests.cross.test_bounds import contains
from tests.cross.test_solver_against_enumeration import with_dram


def nest(loops: Sequence[str], stored: Sequence[str], h: str = "", **choices: Any) -> Mapping:
    """A mapping: `loops` of PE, global buffer, row buffer and DRAM, outermost first ("C3 G2"); `stored` tensors of the
    first three; factors over the array's height.
    """
    factors = [{Dim[loop[0]]: int(loop[1:]) for loop in row.split()} for row in (*loops, h)]
    *temporal, height = ([row.get(d, 1) for d in Dim] for row in factors)
    return Mapping(
        temporal=temporal,
        spatial=(height, [1] * 8, [1] * 8),
        order=[[*row] for row in factors[:4]],
        stored=[[t.name in row for t in Tensor] for row in stored],
        **choices,
    )


def changed(arch: PIMArchitecture, level: Level, **figures: Any) -> PIMArchitecture:
    """A machine with another memory."""
    hierarchy = list(arch.hierarchy)
    hierarchy[level] = attrs.evolve(hierarchy[level], **figures)
    return attrs.evolve(arch, hierarchy=hierarchy)


def rows(row_bytes: int, banks: int = 1, column_bits: int = 64) -> PIMArchitecture:
    """Short rows."""
    hierarchy = list(PIMArchitecture().hierarchy)
    hierarchy[Level.ROW_BUFFER] = attrs.evolve(hierarchy[Level.ROW_BUFFER], row_buffer_size=row_bytes)
    arch = PIMArchitecture(hierarchy=hierarchy, dram_timings={"co_w": column_bits})
    return with_dram(arch, num_banks=banks)


def slow_pes(arch: PIMArchitecture, **figures: Any) -> PIMArchitecture:
    """Nothing but what PEs read takes time on the chip."""
    arch = changed(arch, Level.PE, bypass_defined=True, ports=4, **figures)
    arch = changed(arch, Level.GLOBAL_BUFFER, read_bandwidth_limit=None, write_bandwidth_limit=None)
    return changed(arch, Level.ROW_BUFFER, stores=(False,) * 3)


#: name: layer, machine, objective, mapping, and its cost where it was worked out.
CASES = {
    # K outside G: both tiles of I come twice, 4 loads of 2 columns in a row take 14 + 7*4 + 29 = 71 cycles. The MACs
    # draw them from the row buffer in all 256 steps, and the last 2 columns of O take 8: 71 + 256 + 8. Simulated: the
    # same.
    "inputs in use for a quarter of the steps": (
        ConvWorkload(P=8, Q=8, K=2, G=2),
        PIMArchitecture(),
        "latency",
        nest(("P8 Q8", "", "", "K2 G2"), ("WO", "", "I"), block_h=8, block_w=8),
        335,
    ),
    # C outside G: both tiles of O go out and back and out, 12 columns, 14 + 11*4 + 29 = 87 cycles. The first 2 columns
    # of I take 14 + 4 + 29 = 47: 47 + 87 + 256. Simulated: the same.
    "outputs in use for a quarter of the steps": (
        ConvWorkload(P=8, Q=8, C=2, G=2),
        PIMArchitecture(),
        "latency",
        nest(("P8 Q8", "", "", "C2 G2"), ("IW", "", "O")),
        390,
    ),
    # Groups have no loop at the level: K between N and P makes both tiles of W come twice, 4 columns, 14 + 3*4 + 29 =
    # 55 cycles, so W's term is 55 + 96 + 8. O's is larger: the first column takes 14 + 29 = 43; each of 8 tiles of O is
    # worked on for 12 of 96 steps, but its first write-out, of 2 columns, takes 14 + 4 + 29 = 47; the last one takes 8:
    # 43 + 96 + (47 - 12) + 8 = 182. The pipeline takes longer, 190 cycles by the simulator, so that is predicted.
    "weights in use for a quarter of the steps": (
        ConvWorkload(P=2, Q=6, K=2, N=2, G=2),
        PIMArchitecture(),
        "latency",
        nest(("Q6 G2", "", "", "N2 K2 P2"), ("IO", "", "W")),
        190,
    ),
    # All loads of 43 + 55 + 103 cycles on one bus, and the 16 steps of W's last tile.
    "weights in use behind a shared bus": (
        ConvWorkload(P=2, K=8, N=2, G=2, output_bytes=8, psum_bytes=8),
        PIMArchitecture(shared_data_bus=True),
        "latency",
        nest(("P2 K8", "", "N2 G2", ""), ("WO", "", "I"), block_h=1, block_w=2),
        217,
    ),
    # P between C and R makes both tiles of O, a row each, come back: the last write-out finds its row open.
    "outputs that return without a loop of groups": (
        ConvWorkload(R=8, P=2, C=3, G=8, input_bytes=2),
        slow_pes(
            attrs.evolve(rows(8), pe_array=PEArray(array_shape=PhyDim2(h=8, w=1))), read_bandwidth_limit=Fraction(1, 16)
        ),
        "latency",
        nest(("", "C3 P2 R8", "", ""), ("IWO", "IW", ""), h="G8", layout=(0, 0, 1)),
        None,
    ),
    # Partial sums of P's tiles lie in rows p and 5 + p of two banks, and stay open for all K; outputs of half the width
    # would lie in rows of one bank.
    "partial sums in rows of two banks": (
        ConvWorkload(R=8, P=5, C=2, K=4, N=2, G=2, psum_bytes=2),
        rows(16, banks=2, column_bits=32),
        "energy",
        nest(("", "N2 G2", "", "P5 C2 K4 R8"), ("", "IO", ""), layout=(0, 0, 1)),
        None,
    ),
    # Partial sums of 3 B of one P fill a row, outputs of 2 B would have some in two.
    "partial sums of three bytes": (
        ConvWorkload(R=2, P=3, C=2, K=2, G=2, output_bytes=2, psum_bytes=3),
        rows(12, column_bits=48),
        "energy",
        nest(("", "G2", "", "P3 C2 K2 R2"), ("", "IO", ""), layout=(0, 0, 1)),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_tiles_that_come_back_cost_what_they_do(name: str) -> None:
    """The mapping is legal, costs what hand arithmetic says, and the master problem up to that cost contains it."""
    layer, arch, kind, mapping, cycles = CASES[name]
    assert not check_mapping(layer, arch, mapping)
    if cycles is not None:
        assert predict(layer, arch, mapping).figures.latency_cycles - arch.pipeline_latency == cycles
    assert contains(layer, arch, Objective.named(kind), build_tables(layer, arch), mapping)


def test_outputs_that_return_round_groups_end_in_an_open_row() -> None:
    """C outside G brings both tiles of outputs back, each a row: the last write-out finds its row open, where G outside
    C, with fewer fetches, opens it. PEs that take 3072 cycles for their operands hide everything else.
    """
    arch = slow_pes(
        attrs.evolve(rows(64), pe_array=PEArray(array_shape=PhyDim2(h=64, w=1))), read_bandwidth_limit=Fraction(1, 256)
    )
    arch = changed(arch, Level.GLOBAL_BUFFER, bypass_defined=True)
    layer, values = ConvWorkload(C=3, G=128, input_bytes=2), []
    for order in ("C3 G2", "G2 C3"):
        mapping = nest(("", "", "", order), ("IWO", "IWO", ""), h="G64")
        assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)
        values.append(predict(layer, arch, mapping).figures.latency_cycles)
    assert values[0] < values[1]


def test_outputs_that_stay_while_groups_change_are_written_once() -> None:
    """With G outside C none comes back, and the last write-out is what it is, neither less nor more."""
    layer, arch = ConvWorkload(R=3, S=3, P=13, Q=13, C=192, K=192, G=2), PIMArchitecture()
    mapping = nest(("P13 K2", "R3 S3 C2", "", "G2 K6 C24"), ("O", "IW", "W"), h="K16")
    mapping = attrs.evolve(mapping, spatial=(mapping.spatial[0], (1, 1, 1, 13, 1, 1, 1, 1), (1, 1, 1, 1, 4, 1, 1, 1)))
    assert contains(layer, arch, Objective.named("latency"), build_tables(layer, arch), mapping)
