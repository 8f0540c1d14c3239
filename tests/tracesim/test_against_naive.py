"""The simulator against the naive one, on random tiny nests."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tracesim.naive import Naive
from tracesim import Device, Nest, Placement, Trace, simulate
from tracesim.records import Flags, Ints

MAX_MACS = 400
MAX_ARRAY_STEPS = 80
PLACES = ("3", "2", "1", "0", "H", "W", "L", "0", "1", "0")
SOME_DIMS_MORE_OFTEN = tuple(range(8)) + 2 * (4, 5)  # C and K, which make sums return


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    """A nest of loops of 1 to 4 at any level, and lanes and PEs, as long as the product stays small."""
    entries = draw(
        st.lists(
            st.tuples(st.sampled_from(PLACES), st.sampled_from(SOME_DIMS_MORE_OFTEN), st.sampled_from([2, 3, 1, 4])),
            min_size=2,
            max_size=14,
            unique_by=lambda entry: entry[:2],
        )
    )
    spatial = np.ones((3, 8), np.int64)
    loops, macs, array_steps = [], 1, 1
    for place, dim, factor in entries:
        if macs * factor > MAX_MACS or (place in "321" and array_steps * factor > MAX_ARRAY_STEPS):
            continue
        macs *= factor
        if place in "HWL":
            spatial["HWL".index(place), dim] = factor
        else:
            loops.append((int(place), dim, factor))
            array_steps *= factor if place != "0" else 1
    loops.sort(key=lambda loop: -loop[0])
    stored = np.array(draw(st.lists(st.booleans(), min_size=9, max_size=9))).reshape(3, 3)
    conv = np.array(draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2))))
    widths = np.array(draw(st.tuples(*[st.sampled_from([1, 2, 4])] * 4)))
    listed = np.array(loops, np.int64).reshape(-1, 3)
    return Nest(listed, spatial, stored, conv, widths, draw(points(listed, stored, array_steps)))


@st.composite
def points(draw: st.DrawFn, loops: Ints, stored: Flags, array_steps: int) -> Ints:
    """Any of a level's loops outside each tile that it stores, at the PEs as long as the array steps stay few."""
    most = [most_outside(loops, array_steps), int((loops[:, 0] == 1).sum())]
    return np.array([draw(st.tuples(*[st.integers(0, n)] * 3)) for n in most]) * stored[:2]


def most_outside(loops: Ints, array_steps: int) -> int:
    """Return how many of the PEs' loops may lie outside a tile."""
    steps = array_steps * np.cumprod(loops[loops[:, 0] == 0, 2])
    return int((steps <= MAX_ARRAY_STEPS).sum())


@st.composite
def devices(draw: st.DrawFn) -> Device:
    """A device with rows of a few columns and short timings of all proportions."""
    column_bytes = draw(st.sampled_from([4, 8]))
    fractions = st.tuples(st.integers(0, 4), st.integers(1, 2))
    return Device(
        row_bytes=column_bytes * draw(st.integers(1, 6)),
        column_bytes=column_bytes,
        banks=draw(st.integers(1, 3)),
        open_page=draw(st.booleans()),
        timing=np.array(draw(st.lists(st.integers(0, 12), min_size=8, max_size=8))),
        access_fj=np.array(draw(st.lists(st.integers(0, 99), min_size=8, max_size=8))).reshape(4, 2),
        activation_fj=draw(st.integers(0, 999)),
        mac_fj=draw(st.integers(0, 99)),
        multicast=draw(st.booleans()),
        spatial_reduction=draw(st.booleans()),
        bandwidth=np.array(draw(st.lists(fractions, min_size=6, max_size=6))).reshape(3, 2, 2),
        ports=np.array(draw(st.tuples(*[st.integers(1, 3)] * 3))),
        interconnect=np.array(draw(fractions)),
        double_buffered=np.array(draw(st.tuples(st.booleans(), st.booleans()))),
        shared_bus=draw(st.booleans()),
        reduction_latency=draw(st.integers(0, 3)),
    )


placements = st.builds(
    lambda order, h, w, counts: Placement(np.array(order), h, w, bank_counts=np.array(counts)),
    st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    st.integers(1, 5),
    st.integers(1, 5),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
)


@settings(max_examples=700, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(nests(), placements, devices())
def test_simulate_agrees_with_the_naive_reference(nest: Nest, placement: Placement, device: Device) -> None:
    """Every number of the trace is what the MAC-by-MAC reference counts."""
    simulated, naive = simulate(nest, placement, device), Naive(nest, placement, device).trace()
    for field, got, expected in zip(Trace._fields, simulated, naive, strict=True):
        np.testing.assert_array_equal(got, expected, err_msg=field)
