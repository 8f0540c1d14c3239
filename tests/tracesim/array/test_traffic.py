"""Messages flit by flit: no schedule beats the fullest link, and what nothing disturbs takes its own time."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracesim.array.plans import SIZES, array
from tracesim.array.flows import INPUT, Flow
from tracesim.array.messages import build_messages, build_roads, count_loads, hops
from tracesim.array.records import Array
from tracesim.array.traffic import Schedule, simulate_messages


def arrival(nodes: Array, flows: list[Flow], is_listed: bool = False) -> int:
    """Return when the last message of one round arrives."""
    messages = build_messages(nodes, flows)
    zero = np.zeros(1, np.int64)
    schedule = Schedule(zero - 1, zero, zero, np.array([0, messages.flits.size]), zero)
    begin, end, last = simulate_messages(nodes, build_roads(nodes), messages, schedule, is_listed)
    assert begin.tolist() == [0]
    assert end.tolist() == last.tolist()
    return int(last[0])


@st.composite
def flows(draw: Any, rows: int, cols: int) -> list[Flow]:
    """Draw flows along paths of distinct nodes."""
    numbers = st.lists(st.integers(0, rows * cols - 1), min_size=2, max_size=5, unique=True)
    paths = draw(st.lists(numbers, max_size=12)) if rows * cols > 1 else []
    return [Flow(tuple(path), draw(st.integers(1, 300)), INPUT) for path in paths]


@settings(max_examples=60)
@given(data=st.data(), size=st.sampled_from(SIZES), ports=st.integers(1, 3), host=st.booleans(), listed=st.booleans())
def test_time_is_bounded_by_loads_and_by_each_path(
    data: Any, size: tuple[int, int], ports: int, host: bool, listed: bool
) -> None:
    """At least the fullest link, bus or port, and each flow's own way; at most one message after the other."""
    nodes = array(*size, local_port_flits=ports, is_host=host)
    drawn = data.draw(flows(*size))
    messages, roads = build_messages(nodes, drawn), build_roads(nodes)
    loads = count_loads(nodes, roads, messages)
    time = arrival(nodes, drawn, listed)
    assert time >= (-(-loads // roads.rates)).max()
    if host:
        assert loads.sum() == messages.flits.sum()
        return
    lengths = [hops(nodes, a, b) for a, b in zip(messages.source.tolist(), messages.target.tolist(), strict=True)]
    assert loads[: roads.links].sum() == (messages.flits * lengths).sum()
    assert loads[roads.links :].sum() == 2 * messages.flits.sum()
    # Work is conserved: at any time one of the packets crosses a road, or its head is in a router.
    packets = -(-messages.flits // 16)
    assert time <= (messages.flits * (np.array(lengths, np.int64) + 2) + packets * lengths).sum()


@given(flits=st.integers(1, 100), source=st.integers(0, 11), target=st.integers(0, 11), delay=st.integers(0, 3))
def test_message_alone_takes_its_flits_and_a_router_latency_a_hop(
    flits: int, source: int, target: int, delay: int
) -> None:
    """One flit a cycle behind a head that takes `delay` cycles a hop."""
    nodes = array(3, 4, router_cycles=delay)
    if source != target:
        distance = abs(source // 4 - target // 4) + abs(source % 4 - target % 4)
        assert arrival(nodes, [Flow((source, target), flits * 4, INPUT)]) == flits + delay * distance


@given(size=st.sampled_from((2, 4, 6)), flits=st.integers(1, 16))
def test_all_gather_around_free_links_takes_members_less_one_rounds(size: int, flits: int) -> None:
    """A ring of 2 x n/2 nodes, one packet a chunk, no link shared: each round takes the flits and one hop."""
    cols = size // 2
    ring = [*range(cols), *range(2 * cols - 1, cols - 1, -1)]
    paths = [tuple(ring[t:] + ring[:t]) for t in range(size)]
    assert arrival(array(2, cols), [Flow(path, flits * 4, INPUT) for path in paths]) == (size - 1) * (flits + 1)


def test_packets_to_two_nodes_take_turns() -> None:
    """From the middle of 1 x 3 nodes 32 flits go each way: both links are busy from the second packet on.

    Injected: 0 to 16 to the right, 16 to 32 to the left, then again. The last packet enters its link at 48 + 1.
    """
    both = [Flow((1, 2), 128, INPUT), Flow((1, 0), 128, INPUT)]
    assert arrival(array(1, 3), both) == 48 + 1 + 16


def test_order_of_destinations_matters_where_one_link_is_the_bottleneck() -> None:
    """Node 1 of 1 x 4 sends 16 flits to node 0 and 16 to node 2, while node 0's 32 flits to node 3 hold the link 2 - 3.

    Listed: node 0 first. Round robin: node 2 first, whose own flow to node 3 is passed on sooner.
    """
    made = [Flow((1, 0), 64, INPUT), Flow((1, 2, 3), 64, INPUT)]
    # Round robin: to 2 injected at 0, there at 17, injected again, at 3 at 17 + 17. Listed: 16 cycles later.
    assert arrival(array(1, 4), made) == 34
    assert arrival(array(1, 4), made, is_listed=True) == 50


def test_empty_round_ends_at_once() -> None:
    """Nothing to send takes no time."""
    assert arrival(array(2, 2), []) == 0
