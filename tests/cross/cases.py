"""Random mapped layers on random machines, for the tests that hold two independent answers against each other.

What is drawn is more than the mapper would choose from: capacities are ignored, and any order and any stored sets go.
"""

import math
from typing import Any

import attrs
from hypothesis import strategies as st

from cpsat_pim.arch import ComputeUnit, DramTimings, PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.dims import ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

MAX_MACS = 3000
MAX_OUTER_STEPS = 400
WIDTHS = st.sampled_from([1, 2, 4])
RATES = st.sampled_from([None, None, 1, 3, 0.5, 64])


@attrs.frozen(kw_only=True)
class Case:
    """A mapped layer on a machine; its repr can be pasted into a test."""

    layer: ConvWorkload
    arch: PIMArchitecture
    mapping: Mapping


@st.composite
def cases(draw: st.DrawFn, *, uneven: bool = False) -> Case:
    """A mapping by its factors, the layer whose bounds they multiply to, and a machine; its tiles may be `uneven`."""
    temporal, spatial = draw(factor_tables())
    bounds = [math.prod(row[d] for row in (*temporal, *spatial)) for d in Dim]
    layer = draw(layers(bounds))
    mapping = draw(mappings(layer, temporal, spatial))
    if uneven:
        mapping = attrs.evolve(mapping, outside=draw(points(mapping)))
    return Case(layer=layer, arch=draw(architectures()), mapping=mapping)


@st.composite
def factor_tables(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Temporal and spatial factors whose product stays small: a list of factors, each put somewhere."""
    temporal, spatial = [[1] * 8 for _ in range(4)], [[1] * 8 for _ in range(3)]
    rows = [*temporal, *spatial]
    macs = outer_steps = 1
    dims = st.sampled_from([*Dim, Dim.C, Dim.K, Dim.P])
    entries = st.tuples(st.integers(0, 6), dims, st.sampled_from([2, 3, 1, 4, 5]))
    for row, dim, factor in draw(st.lists(entries, max_size=12, unique_by=lambda entry: entry[:2])):
        is_outer = Level.PE < row <= Level.DRAM
        if macs * factor > MAX_MACS or (is_outer and outer_steps * factor > MAX_OUTER_STEPS):
            continue
        rows[row][dim] = factor
        macs *= factor
        outer_steps *= factor if is_outer else 1
    return temporal, spatial


@st.composite
def layers(draw: st.DrawFn, bounds: list[int]) -> ConvWorkload:
    """A layer with these bounds."""
    output = draw(WIDTHS)
    named: dict[str, Any] = {d.name: bounds[d] for d in Dim}
    return ConvWorkload(
        **named,
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        dilation=draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        input_bytes=draw(WIDTHS),
        weight_bytes=draw(WIDTHS),
        output_bytes=output,
        psum_bytes=draw(WIDTHS.filter(lambda width: width >= output)),
    )


@st.composite
def mappings(draw: st.DrawFn, layer: ConvWorkload, temporal: list[list[int]], spatial: list[list[int]]) -> Mapping:
    """Any orders, stored sets, layouts and blocks."""
    order = [draw(st.permutations([d for d in Dim if temporal[m][d] > 1])) for m in Level]
    stored = [draw(st.tuples(st.booleans(), st.booleans(), st.booleans())) for _ in range(3)]
    is_aligned = stored[Level.ROW_BUFFER][Tensor.I]
    return Mapping(
        temporal=temporal,
        spatial=spatial,
        order=order,
        stored=stored,
        layout=draw(st.tuples(*[st.integers(0, 1)] * 3)),
        block_h=draw(st.integers(1, layer.input_height)) if is_aligned else 0,
        block_w=draw(st.integers(1, layer.input_width)) if is_aligned else 0,
    )


@st.composite
def points(draw: st.DrawFn, mapping: Mapping) -> list[list[int]]:
    """Any residency points of the tiles that the PEs and the global buffer store."""
    most = [[len(mapping.order[m]) * mapping.stored[m][t] for t in Tensor] for m in ON_CHIP]
    return [[draw(st.integers(0, loops)) for loops in row] for row in most]


@st.composite
def architectures(draw: st.DrawFn) -> PIMArchitecture:
    """A machine with short rows and any rules; what mappings must fit plays no part."""
    column_bytes = draw(st.sampled_from([8, 16, 32]))
    timings = {name: draw(st.integers(1, 8)) for name in ("tCCD_L", "BL")}
    timings |= {name: draw(st.integers(0, 20)) for name in ("RL", "tRP", "tRAS", "tRC", "tRTP")}
    timings["tRCDRD"] = timings["tCCD_L"] + draw(st.integers(0, 20))  # opening a row takes no less than a column
    return PIMArchitecture(
        dram_timings=DramTimings(**timings, co_w=8 * column_bytes),
        hierarchy=draw(hierarchies(draw(st.sampled_from([64, 128, 256])))),
        pe_array=PEArray(
            array_shape=PhyDim2(h=4, w=4),
            compute_unit=ComputeUnit(unit_type="simd", num_macs=4, reduction_latency=draw(st.integers(0, 3))),
            interconnect_bandwidth=draw(RATES),
            exclusive_spatial=False,
        ),
        page_policy=draw(st.sampled_from(["open", "closed"])),
        multicast=draw(st.booleans()),
        spatial_reduction=draw(st.booleans()),
        shared_data_bus=draw(st.booleans()),
        uneven_residency=draw(st.booleans()),
    )


@st.composite
def hierarchies(draw: st.DrawFn, row_bytes: int) -> tuple[Any, ...]:
    """The default levels with a row of so many bytes and other rates, ports and banks."""
    levels = []
    for level in PIMArchitecture().hierarchy:
        levels.append(
            attrs.evolve(
                level,
                row_buffer_size=row_bytes,
                num_banks=draw(st.sampled_from([1, 2, 4])),
                read_bandwidth_limit=draw(RATES),
                write_bandwidth_limit=draw(RATES),
                ports=draw(st.integers(1, 3)),
                double_buffered=draw(st.booleans()),
                access_cost=draw(st.integers(0, 99)) / 1_000_000,
                write_cost=draw(st.none() | st.just(7e-6)),
            )
        )
    return tuple(levels)
