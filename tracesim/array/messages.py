"""Messages and the links, ports or buses that they take (docs/array.md, sections 6 and 7)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tracesim.array.flows import HOST, Flow
from tracesim.array.records import Array, Ints

EAST, WEST, SOUTH, NORTH = range(4)


class Messages(NamedTuple):
    """Messages int64[n]: numbers of the nodes `source` and `target` (through a host: see `Roads`), `flits`, `payload`
    in bytes, and `before`, the message that brings the same data to the source; -1 if they begin there.
    """

    source: Ints
    target: Ints
    flits: Ints
    payload: Ints
    before: Ints


class Roads(NamedTuple):
    """What carries messages. `rates` int64[n]: flits a cycle, `delays` int64[n]: cycles before the head enters.

    Of a mesh of n nodes, in this order: n links each to the east, west, south and north, by the node they leave; n
    injection ports; n ejection ports. Of a host: a bus for each row. There the messages' ends are nodes, or
    `nodes + row` for the host's side of the bus of a row. `links`: how many of them are links or buses.
    """

    rates: Ints
    delays: Ints
    links: int


def build_roads(array: Array) -> Roads:
    """Return the links and ports of a mesh, or the buses of a host."""
    nodes = array.rows * array.cols
    if array.is_host:
        return Roads(np.ones(array.rows, np.int64), np.zeros(array.rows, np.int64), array.rows)
    ports = np.full(2 * nodes, array.local_port_flits)
    rates = np.concatenate([np.ones(4 * nodes, np.int64), ports])
    delays = np.concatenate([np.full(4 * nodes, array.router_cycles), 0 * ports])
    return Roads(rates, delays, 4 * nodes)


@lru_cache(maxsize=1 << 17)
def route(array: Array, source: int, target: int) -> tuple[int, ...]:
    """Return the roads from one end to another in order: XY between ports, or one bus."""
    nodes, cols = array.rows * array.cols, array.cols
    if array.is_host:
        return (source // cols if source < nodes else source - nodes,)
    y, x = divmod(source, cols)
    to_y, to_x = divmod(target, cols)
    found = [4 * nodes + source]
    while x != to_x:
        found.append((EAST if to_x > x else WEST) * nodes + y * cols + x)
        x += 1 if to_x > x else -1
    while y != to_y:
        found.append((SOUTH if to_y > y else NORTH) * nodes + y * cols + x)
        y += 1 if to_y > y else -1
    return (*found, 5 * nodes + target)


def hops(array: Array, source: int, target: int) -> int:
    """Return the links between two nodes of a mesh."""
    cols = array.cols
    return abs(source // cols - target // cols) + abs(source % cols - target % cols)


def build_messages(array: Array, flows: Sequence[Flow]) -> Messages:
    """Return the messages of flows. Through a host each is cut in crossings of buses: one up, one down a channel."""
    source: list[int] = []
    target: list[int] = []
    flits: list[int] = []
    payload: list[int] = []
    before: list[int] = []
    for flow in flows:
        edges = _crossings(array, flow) if array.is_host else _edges(flow)
        before += _earlier(array, flow, len(source), len(edges))
        source += [a for a, _ in edges]
        target += [b for _, b in edges]
        flits += [-(-flow.data_bytes // array.flit_bytes)] * len(edges)
        payload += [flow.data_bytes] * len(edges)
    return Messages(*(np.array(column, np.int64) for column in (source, target, flits, payload, before)))


def _edges(flow: Flow) -> list[tuple[int, int]]:
    return list(zip(flow.path, flow.path[1:], strict=False))


def _earlier(array: Array, flow: Flow, first: int, count: int) -> list[int]:
    """Return by message of a flow the one that brings its data, if the first of them has this number."""
    if flow.path[0] == HOST:
        return [-1] * count
    if array.is_host:
        return [-1] + [first] * (count - 1)
    return [-1, *range(first, first + count - 1)]


def _crossings(array: Array, flow: Flow) -> list[tuple[int, int]]:
    """Return how a flow crosses buses: from its first node up to the host, and down each channel of the others."""
    nodes, cols = array.rows * array.cols, array.cols
    rows = sorted({node // cols for node in flow.path[1:] if node != HOST})
    down = [(nodes + row, nodes + row) for row in rows]
    if flow.path[0] == HOST:
        return down
    own = flow.path[0]
    return [(own, nodes + own // cols), *down]


def count_loads(array: Array, roads: Roads, messages: Messages) -> Ints:
    """Return int64[roads]: the flits that each of them carries."""
    loads = np.zeros(roads.rates.size, np.int64)
    pairs, totals = _by_pair(messages)
    for (source, target), flits in zip(pairs, totals, strict=True):
        loads[list(route(array, source, target))] += flits
    return loads


def _by_pair(messages: Messages) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the pairs of ends that messages have, and the flits between them."""
    totals: dict[tuple[int, int], int] = {}
    for pair, flits in zip(
        zip(messages.source.tolist(), messages.target.tolist(), strict=True), messages.flits.tolist(), strict=True
    ):
        totals[pair] = totals.get(pair, 0) + flits
    return list(totals), list(totals.values())


def longest_chain(array: Array, flows: Sequence[Flow]) -> int:
    """Return the hops that follow each other: the longest delivery, then the longest edge as often as a tour has it."""
    longest = 0
    for operand in {(flow.operand, flow.reading) for flow in flows}:
        delivery = edge = edges = 0
        for flow in (flow for flow in flows if (flow.operand, flow.reading) == operand):
            lengths = [hops(array, a, b) for a, b in _edges(flow)]
            delivery = max(delivery, lengths[0] if flow.is_delivered else 0)
            tour = lengths[1:] if flow.is_delivered else lengths
            edge, edges = max(edge, *tour, 0), len(tour)
        longest = max(longest, delivery + edge * edges)
    return longest
