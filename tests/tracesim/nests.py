"""Nests in shorthand, and a device without limits, for the simulator's tests."""

import numpy as np

from tests.shorthand import DIRECTIONS, read_loops, read_stored, read_words
from tracesim import Device, Nest, Placement

I, W, O = range(3)  # noqa: E741 -- the field's letters

FREE_DEVICE = Device(
    row_bytes=64,
    column_bytes=4,
    banks=1,
    open_page=True,
    timing=np.zeros(8, np.int64),  # tRCD tRP tRAS tRC tRTP tCCD_L RL BL
    access_fj=np.zeros((4, 2), np.int64),
    activation_fj=0,
    mac_fj=0,
    multicast=True,
    spatial_reduction=True,
    bandwidth=np.array([[[0, 1], [0, 1]]] * 3),
    ports=np.array([1, 1, 1]),
    interconnect=np.array([0, 1]),
    double_buffered=np.array([False, False]),
    shared_bus=False,
    reduction_latency=0,
)
"""A machine on which nothing takes time or energy."""


def build_nest(
    loops: str,
    stored: str = "0 0 0",
    *,
    conv: tuple[int, ...] = (1, 1, 1, 1),
    widths: tuple[int, ...] = (1, 1, 1, 1),
    outside: str = "",
) -> Nest:
    """Return a nest from its loops and the levels that store I, W and O.

    `outside` is "1W2" where two of level 1's loops lie outside its tile of W.
    """
    temporal = [(int(place), dim, factor) for place, dim, factor in read_words(loops) if place not in DIRECTIONS]
    points = np.zeros((2, 3), np.int64)
    for level, tensor, loops_outside in outside.split():
        points[int(level), "IWO".index(tensor)] = int(loops_outside)
    listed, spatial = np.array(temporal).reshape(-1, 3), np.array(read_loops(loops).spatial)
    return Nest(listed, spatial, np.array(read_stored(stored)), np.array(conv), np.array(widths), points)


def rich_case() -> tuple[Nest, Placement, Device]:
    """Return a nest that goes through every module: halos, returning sums, streams, blocks, banks, a shared bus."""
    nest = build_nest("3C2 3P2 2K2 2Q2 1R2 1K2 0S3 0P2 HK2 WP2 LC2", "02 - 01", conv=(2, 1, 1, 2), widths=(1, 2, 1, 4))
    device = FREE_DEVICE._replace(
        row_bytes=32,
        column_bytes=8,
        banks=2,
        timing=np.array([14, 14, 33, 47, 5, 4, 20, 4]),
        access_fj=np.arange(8).reshape(4, 2),
        activation_fj=1000,
        mac_fj=3,
        spatial_reduction=False,
        bandwidth=np.array([[[0, 1], [0, 1]], [[8, 1], [4, 1]], [[16, 3], [16, 1]]]),
        double_buffered=np.array([True, False]),
        shared_bus=True,
        reduction_latency=2,
    )
    return nest, Placement(np.array([1, 0, 1]), 2, 3), device


def uneven_case() -> tuple[Nest, Placement, Device]:
    """Return the rich case with another loop outside the tiles of I in the PEs, and of O in both buffers."""
    nest, placement, device = rich_case()
    return nest._replace(outside=np.array([[1, 0, 2], [0, 0, 2]])), placement, device
