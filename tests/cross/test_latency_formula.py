"""Predicted latency against the formula of docs/model.md, section 7, recomputed independently."""

from hypothesis import given, settings

import tables.nest
import tracesim
from tables.counts.cost import exact_cost
from tables.counts.on_chip import Machine
from tables.dram import Dram
from tests.cross.latency_formula import Formula
from tests.tracesim.naive import Naive
from tests.tracesim.test_against_naive import devices, nests, placements


def to_nest(nest: tracesim.Nest, placement: tracesim.Placement, spatial_reduction: bool) -> tables.nest.Nest:
    """The same nest as `tables` reads it."""
    rows = nest.loops.tolist()
    factors = [[1] * 8 for _ in range(4)]
    for level, dim, factor in rows:
        factors[level][dim] = factor
    # `tables` names loops of more than one iteration only, and counts those outside a tile among them.
    order = [tuple(d for m, d, factor in rows if m == level and factor > 1) for level in range(4)]
    outside = [[0] * 3 for _ in range(4)]
    for level in range(2):
        own = [factor for m, _, factor in rows if m == level]
        for t in range(3):
            outside[level][t] = sum(factor > 1 for factor in own[: nest.outside[level, t]])
    return tables.nest.Nest(
        temporal=tuple(map(tuple, factors)),
        spatial=tuple(map(tuple, nest.spatial.tolist())),
        order=tuple(order),
        stored=tuple(map(tuple, nest.stored.tolist())),
        layout=tuple(placement.order.tolist()),
        block_h=placement.block_h,
        block_w=placement.block_w,
        stride=tuple(nest.conv[:2].tolist()),
        dilation=tuple(nest.conv[2:].tolist()),
        width_bytes=tuple(nest.width_bytes.tolist()),
        spatial_reduction=spatial_reduction,
        outside=tuple(map(tuple, outside)),
        bank_counts=tuple(placement.bank_counts.tolist()),
    )


def to_machine(device: tracesim.Device) -> Machine:
    """The same machine as `tables` reads it."""
    rcd, rp, ras, rc, rtp, ccd, rl, bl = device.timing.tolist()
    return Machine(
        dram=Dram(
            device.row_bytes,
            device.column_bytes,
            device.banks,
            device.open_page,
            rcd,
            rp,
            ras,
            rc,
            rtp,
            ccd,
            rl,
            bl // 2,
        ),
        access_fj=tuple(map(tuple, device.access_fj.tolist())),
        activation_fj=device.activation_fj,
        mac_fj=device.mac_fj,
        multicast=device.multicast,
        spatial_reduction=device.spatial_reduction,
        bandwidth=tuple(tuple(map(tuple, level)) for level in device.bandwidth.tolist()),
        ports=tuple(device.ports.tolist()),
        interconnect=tuple(device.interconnect.tolist()),
        double_buffered=tuple(device.double_buffered.tolist()),
        is_bus_shared=device.shared_bus,
        pipeline_latency=device.reduction_latency,
    )


@settings(max_examples=400)
@given(nests(), placements, devices())
def test_latency_is_what_the_page_says(
    nest: tracesim.Nest, placement: tracesim.Placement, device: tracesim.Device
) -> None:
    """Every term, and the latency: the largest of them and the pipeline latency."""
    cost = exact_cost(to_nest(nest, placement, device.spatial_reduction), to_machine(device))
    expected = Formula(Naive(nest, placement, device)).terms()
    assert cost.latency_terms == expected
    assert cost.latency_cycles == max(expected.values()) + device.reduction_latency
