"""Plans small enough to count every figure by hand. One byte an element, 4 a partial sum and a flit, 8 a column."""

from typing import Any

import numpy as np
import pytest

from tests.tracesim.array.networks import layer
from tests.tracesim.array.plans import DRAM, array, home, step
from tracesim.array import Figures, simulate_plan
from tracesim.array.records import ADD, AXIS_C, AXIS_W, LISTED, Added, C, K, P, Plan, Pool, Tours

ROW = (0, 0, 1, 2)
SQUARE = (0, 0, 2, 2)


def build(shape: Any, layers: Any, steps: Any, homes: Any, segments: Any = None, **fields: Any) -> Plan:
    """Return a plan that runs its layers one after the other, on an array of its first step's region."""
    region = steps[0].grid.region
    nodes = fields.pop("nodes", array(region[2], region[3]))
    order = segments or tuple(((number,),) for number in range(len(layers)))
    return Plan(nodes, DRAM, shape, 1, tuple(layers), tuple(steps), tuple(homes), order, **fields)


def by_phase(figures: Figures, name: str, layer_number: int = 0) -> Any:
    """Return the figures of a phase."""
    return next(p for p in figures.phases if p.phase == name and p.layer == layer_number)


# -- two nodes that split K and share the input -------------------------------------------------------------------


def split_k() -> Plan:
    """P = 4, C = 2, K = 2: each node makes one channel of four pixels; at home each node has two pixels."""
    halves = home(ROW, w=[(AXIS_W, 2)])
    return build((1, 2, 1, 4), [layer(P=4, C=2, K=2)], [step(ROW, w=[(K, 2)])], [halves, halves], send_order=LISTED)


def test_shared_input_is_exchanged_once_both_ways() -> None:
    """Each node lacks the other's 2 pixels x 2 channels = 4 bytes = 1 flit, one hop away."""
    pull = by_phase(simulate_plan(split_k()), "pull")
    assert (pull.bytes, pull.flits, pull.flit_hops, pull.max_link_flits) == (8, 2, 2, 1)
    # Read: the whole home box, 4 bytes. Written: bytes 2, 3, 6, 7 (or 0, 1, 4, 5) of 8. One column, one row each.
    assert (pull.columns, pull.activations) == (4, 4)
    # A node reads and writes: 2 columns x 2 + 2 activations x (5 + 6). A flit: injected at 0, on the link from 1 to 2.
    assert (pull.dram_cycles, pull.network_cycles, pull.estimated_network_cycles) == (26, 2, 2)


def test_outputs_that_are_elsewhere_at_home_are_pushed() -> None:
    """Each node has one channel of the other's two pixels: 2 bytes, 1 flit."""
    push = by_phase(simulate_plan(split_k()), "push")
    assert (push.bytes, push.flits, push.flit_hops, push.columns, push.activations) == (4, 2, 2, 4, 4)


def test_totals_add_up_over_phases() -> None:
    """Latency 0 + 26 + 5 + 0 + 26; energies as in the comments."""
    figures = simulate_plan(split_k())
    assert figures.latency_cycles == figures.estimated_latency_cycles == 57
    assert figures.noc_energy_fj == 4 * 8 * 4 * 1  # 4 flit-hops of 32 bits at 1 fJ
    assert figures.dram_energy_fj == 4 * (4 * 10 + 4 * 20) + 8 * 300  # 4 words a column; 4 read, 4 written; 8 rows
    assert figures.node_energy_fj == 2 * 1000
    assert figures.energy_fj == 128 + 2880 + 2000


def test_peak_counts_weights_homes_and_staging() -> None:
    """A node: 2 weights; homes 4 + 4; received 4; its 4 outputs less 2 that are at home: 16 bytes."""
    figures = simulate_plan(split_k())
    assert figures.use_bytes.tolist() == [[16, 16]]
    assert figures.peak_bytes == 16


# -- four nodes: replicas, a remote home, partial sums ------------------------------------------------------------


def split_c(**fields: Any) -> Plan:
    """P = K = C = 4: rows split C, columns split P. The input lies on node 0; outputs where the reduce leaves them."""
    return build(
        (1, 4, 1, 4),
        [layer(P=4, C=4, K=4)],
        [step(SQUARE, h=[(C, 2)], w=[(P, 2)], replicas=1)],
        [home((0, 0, 1, 1), last=True), home(SQUARE, h=[(AXIS_C, 2)], w=[(AXIS_W, 2)])],
        **fields,
    )


def test_weights_are_gathered_within_a_replica() -> None:
    """The two nodes of a row hold 4 of the same 4 x 2 weights each, and exchange them."""
    weights = by_phase(simulate_plan(split_c()), "weights")
    assert (weights.bytes, weights.flits, weights.flit_hops, weights.max_link_flits) == (16, 4, 4, 1)
    assert (weights.columns, weights.activations, weights.dram_cycles) == (8, 8, 26)


def test_pull_takes_each_box_from_its_owner() -> None:
    """Nodes 1, 2, 3 get 2 channels of 2 pixels from node 0: hops 1, 1, 2; node 0 injects 3 flits."""
    pull = by_phase(simulate_plan(split_c()), "pull")
    assert (pull.bytes, pull.flits, pull.flit_hops, pull.max_link_flits) == (12, 3, 4, 2)
    # BHWC of 4 pixels x 4 channels: each box touches one of the two columns. Node 0: 3 columns x 2 + 3 x 11.
    assert (pull.columns, pull.activations, pull.dram_cycles) == (6, 6, 39)
    # The port takes 3 cycles, and the flit to node 3 goes last: links from 3 and from 4 on, there at 5.
    assert (pull.link_bound_cycles, pull.estimated_network_cycles, pull.network_cycles) == (3, 5, 5)


def test_partial_sums_are_scattered_along_the_largest_part() -> None:
    """Parts of K 4, Q 1, P 2: K is cut in 2. Each node sends 2 x 2 sums of 4 bytes: 4 flits, one hop."""
    reduce = by_phase(simulate_plan(split_c()), "reduce")
    assert (reduce.bytes, reduce.flits, reduce.flit_hops, reduce.additions) == (64, 16, 16, 16)
    # Each node reads both halves of its 32 bytes (2 columns, 1 row each) and writes 4 bytes: 5 columns, 3 rows.
    assert (reduce.columns, reduce.activations, reduce.dram_cycles) == (20, 12, 43)
    assert (reduce.network_cycles, reduce.estimated_network_cycles) == (5, 5)


def test_nothing_is_pushed_that_the_reduce_has_left_at_home() -> None:
    """Node (i, j) ends with channels [2i, 2i + 2) of pixels [2j, 2j + 2), where they are at home."""
    figures = simulate_plan(split_c())
    assert by_phase(figures, "push").bytes == by_phase(figures, "push").columns == 0
    assert figures.latency_cycles == 26 + 39 + 5 + 43
    assert figures.add_energy_fj == 16 * 7
    # Weights 4, output at home 4, weights received 4, sums 32; node 0 the input of 16, others 4 received of it.
    assert figures.use_bytes.tolist() == [[60, 48, 48, 48]]


def test_chunk_of_several_groups_has_a_box_in_each() -> None:
    """K = 2 of both groups is cut in two: chunk t is channels t and 2 + t, 8 bytes of sums, one way each."""
    whole = home((0, 0, 1, 1))
    plan = build((1, 4, 1, 1), [layer(C=2, K=2, G=2)], [step(ROW, w=[(C, 2)])], [whole, whole])
    reduce = by_phase(simulate_plan(plan), "reduce")
    assert (reduce.bytes, reduce.flits, reduce.additions) == (16, 4, 4)
    # A node reads each chunk in two scans of a column, and writes its own in two: 6 columns and rows.
    assert (reduce.columns, reduce.activations, reduce.dram_cycles) == (12, 12, 6 * 2 + 6 * 11)


def test_given_tours_say_who_passes_on_what() -> None:
    """All of a 1 x 4 row share 4 bytes of weights, one each. The default tour ends with an edge of 3 hops.

    0 2 3 1 has edges of 2, 1, 2 and 1 hops. Each edge carries 3 messages of a flit.
    """
    row = (0, 0, 1, 4)
    base = step(row, w=[(P, 4)])
    homes = [home(row, w=[(AXIS_W, 4)])] * 2
    given = base._replace(tours=Tours(weights=(np.array([0, 2, 3, 1]),)))
    plans = [build((1, 2, 1, 4), [layer(P=4, C=2, K=2)], [each], homes) for each in (base, given)]
    default, other = (by_phase(simulate_plan(plan), "weights") for plan in plans)
    assert (default.flit_hops, default.max_link_flits) == (3 * (1 + 1 + 1 + 3), 3)
    # To the east: 0 - 1 - 2 and 2 - 3; to the west: 3 - 2 - 1 and 1 - 0.
    assert (other.flit_hops, other.max_link_flits) == (3 * (2 + 1 + 2 + 1), 3)
    # Three edges follow each other; the estimate takes the longest one each time.
    assert (default.estimated_network_cycles, other.estimated_network_cycles) == (3 + 3 * 3, 3 + 3 * 2)


def test_host_carries_everything_over_the_buses_of_rows() -> None:
    """Two channels. A message within a channel crosses its bus twice; a whole box of sums goes up, a chunk down."""
    figures = simulate_plan(split_c(nodes=array(2, 2, is_host=True)))
    weights, pull, reduce = (by_phase(figures, name) for name in ("weights", "pull", "reduce"))
    assert (weights.flits, weights.flit_hops, weights.max_link_flits) == (4, 8, 4)  # 2 x (up + down) a bus
    assert (pull.flits, pull.flit_hops, pull.max_link_flits) == (3, 6, 4)  # bus 0: 2 + 1 + 1, bus 1: 2
    assert (reduce.flits, reduce.flit_hops, reduce.max_link_flits) == (36, 36, 18)  # 8 up and 1 down a node
    # A node reads its 32 bytes in one scan (4 columns, 1 row) and writes 4: 5 x 2 + 2 x 11.
    assert (reduce.columns, reduce.dram_cycles, reduce.additions) == (20, 32, 16)
    assert figures.latency_cycles == 26 + 39 + 5 + 32


def test_host_broadcast_crosses_the_bus_of_each_channel_once() -> None:
    """One input box of 8 bytes on node 0, needed by all four nodes, which split K: 2 flits up, and down twice."""
    plan = build(
        (1, 2, 1, 4),
        [layer(P=4, C=2, K=4)],
        [step(SQUARE, h=[(K, 2)], w=[(K, 2)])],
        [home((0, 0, 1, 1)), home(SQUARE, h=[(AXIS_C, 2)], w=[(AXIS_C, 2)])],
        nodes=array(2, 2, is_host=True),
    )
    pull = by_phase(simulate_plan(plan), "pull")
    assert (pull.bytes, pull.flits, pull.flit_hops, pull.max_link_flits) == (8, 2, 6, 4)
    assert pull.columns == 1 + 3  # read once, written by the three that lack it
    # Nothing overlaps on bus 0: 2 flits up, then 2 down. Bus 1 meanwhile.
    assert pull.network_cycles == 4


# -- pooling and sums ---------------------------------------------------------------------------------------------


def test_pooling_windows_over_two_nodes_are_combined_at_home() -> None:
    """Windows [-1, 2) and [1, 4) of 4 pixels: node 0 has a part of both, and sends that of the second."""
    pool = Pool((3, 1), (2, 1), (1, 0), (2, 1))
    halves = home(ROW, w=[(AXIS_W, 2)])
    plan = build((1, 1, 1, 4), [layer(P=4, pool=pool)], [step(ROW, w=[(P, 2)], replicas=2)], [halves, halves])
    push = by_phase(simulate_plan(plan), "push")
    assert (push.bytes, push.flits, push.additions) == (1, 1, 4)
    # Each reads its 2 pixels and writes its own part of its window; node 1 reads and writes what arrives.
    assert (push.columns, push.activations, push.dram_cycles) == (6, 6, 4 * 2 + 4 * 11)


def residual(segments: Any, regions: Any) -> Plan:
    """Two layers of 1 channel x 4 pixels whose outputs are added and read by a third, all at home in halves."""
    halves = home(ROW, w=[(AXIS_W, 2)])
    steps = [step(region, w=[(P, 2)] * (region[3] - 1), replicas=region[3]) for region in regions]
    layers = [layer(P=4), layer(P=4), layer((1, 2), P=4, join=ADD)]
    return build((1, 1, 1, 4), layers, steps, [halves] * 4, segments, nodes=array(1, 2))


def test_last_operand_adds_at_home() -> None:
    """Each node reads the other operand's 2 pixels: a column and a row; nothing moves. 4 additions."""
    figures = simulate_plan(residual(None, [ROW, ROW, ROW]))
    push = by_phase(figures, "push", 1)
    assert (push.bytes, push.columns, push.activations, push.additions) == (0, 2, 2, 4)
    assert by_phase(figures, "push", 0).columns == 0
    # Weights of 3 layers; input alive at step 0, 1; output 1 from step 0; output 2 never stored; output 3 at step 2.
    assert figures.use_bytes.tolist() == [[3 + 2 + 2] * 2, [3 + 2 + 2] * 2, [3 + 2 + 2] * 2]


def test_operands_of_two_regions_are_added_at_the_end_of_the_segment() -> None:
    """Each node reads both operands' 2 pixels and writes the sum: 3 columns and rows, behind the segment."""
    segments = (((0,), (1,)), ((2,),))
    figures = simulate_plan(residual(segments, [(0, 0, 1, 1), (0, 1, 1, 1), ROW]))
    join = by_phase(figures, "join", 1)
    assert (join.columns, join.activations, join.additions, join.dram_cycles) == (6, 6, 4, 3 * 2 + 3 * 11)
    # In each region a node reads 2 bytes and one writes them, before and after 5 cycles: 13 + 5 + 13.
    assert (join.begin_cycle, join.end_cycle) == (31, 31 + 39)


def test_reader_adds_what_others_read_alone() -> None:
    """Each node reads its 2 pixels of both operands and writes the sum: 3 columns and rows; nothing moves."""
    halves = home(ROW, w=[(AXIS_W, 2)])
    layers = [layer(P=4), layer(P=4), layer((1,), P=4, input_added=(Added(2),))]
    figures = simulate_plan(build((1, 1, 1, 4), layers, [step(ROW, w=[(P, 2)], replicas=2)] * 3, [halves] * 4))
    pull = by_phase(figures, "pull", 2)
    assert (pull.bytes, pull.columns, pull.activations, pull.additions) == (0, 6, 6, 4)
    assert pull.dram_cycles == 3 * 2 + 3 * 11
    # Weights of 3 layers; input alive at steps 0 and 1; outputs 1 and 2 to the end, output 3, and the sum, at step 2.
    assert figures.use_bytes.tolist() == [[3 + 2 + 2] * 2, [3 + 2 + 2 + 2] * 2, [3 + 2 + 2 + 2 + 2] * 2]


def test_layer_that_reads_a_sum_of_its_own_segment_is_refused() -> None:
    """The sum is there at the end of the segment only."""
    with pytest.raises(ValueError, match="before it is finished"):
        simulate_plan(residual((((0, 2), (1,)),), [(0, 0, 1, 1), (0, 1, 1, 1), (0, 0, 1, 1)]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"segments": (((0,), (0,)),)}, "each layer once"),
        ({"homes": (None, None)}, "needs one"),
        ({"input_shape": (1, 3, 1, 4)}, "reads N, C"),
        ({"input_bytes": 2}, "width"),
        ({"steps": (step(ROW, w=[(K, 3)]),)}, "must multiply to 2"),
        ({"steps": (step((0, 1, 1, 2), w=[(K, 2)]),)}, "must lie in"),
        ({"steps": (step(ROW, w=[(K, 2)], replicas=2),)}, "must divide 1"),
        ({"dram": DRAM._replace(row_bytes=12)}, "whole columns"),
    ],
)
def test_plans_that_are_none_are_refused(change: dict[str, Any], message: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(ValueError, match=message):
        simulate_plan(split_k()._replace(**change))


def test_a_single_node_moves_nothing() -> None:
    """On a 1 x 1 array everything is at home: the latency is the node program's."""
    whole = home((0, 0, 1, 1))
    figures = simulate_plan(build((1, 2, 4, 4), [layer(P=4, Q=4, C=2, K=3)], [step((0, 0, 1, 1))], [whole, whole]))
    assert (figures.latency_cycles, figures.energy_fj, figures.flits) == (5, 1000, 0)
    assert np.array_equal(figures.use_bytes, [[6 + 32 + 48]])
