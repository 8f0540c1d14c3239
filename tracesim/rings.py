"""What happens when rings exchange data on a mesh, and whether a bound on their load is proven.

Everything here is counted hop by hop and node by node: a message steps from node to neighbour, along its row first,
then along its column; a cut is counted by looking at every link; a certificate of link weights is added up. Nothing is
solved, and nothing is taken over from the one who found the rings or the certificate.

Nodes are numbered row by row. A link is the pair (node, neighbour). Loads are in chunks a step.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

Link: TypeAlias = tuple[int, int]
Rings: TypeAlias = Sequence[Sequence[int]]


class Exchange(NamedTuple):
    """What was seen in an exchange.

    Attributes:
        steps: until every node held every chunk of its set.
        step_loads: the load of the heaviest link, step by step.
        link_chunks: how many chunks each link carried over all steps.
        hops: links that chunks passed, over all steps.
    """

    steps: int
    step_loads: tuple[int, ...]
    link_chunks: Mapping[Link, int]
    hops: int


class SetBound(NamedTuple):
    """What shows that no ring over a set is shorter than a length, the links having weights.

    A ring leaves every node once and enters every node once, and leaves every proper part of the set at least once.
    So if leaving[i] + entering[j] + (the values of the parts that hold i and not j) is at most the weight of the route
    from i to j, for all i and j, then no ring is shorter than the sum of all these numbers.

    Attributes:
        leaving: of each node, in the order of the set.
        entering: likewise.
        parts: proper parts of the set and their values, which are at least 0.
    """

    leaving: Sequence[int]
    entering: Sequence[int]
    parts: Sequence[tuple[Sequence[int], int]] = ()


# --- Walking -----------------------------------------------------------------------------------------------------


def walk(cols: int, source: int, target: int) -> Iterator[Link]:
    """The links of the way from one node to another on a mesh of so many columns."""
    here = source
    while here % cols != target % cols:
        there = here + (1 if here % cols < target % cols else -1)
        yield here, there
        here = there
    while here != target:
        there = here + (cols if here < target else -cols)
        yield here, there
        here = there


def exchange(cols: int, rings: Rings) -> Exchange:
    """Let every node send what it received last to the next one of its ring, until all nodes hold all chunks.

    Raises:
        ValueError: some node still lacks a chunk after as many steps as the largest ring has nodes.
    """
    held = {node: {node} for ring in rings for node in ring}
    wanted = {node: set(ring) for ring in rings for node in ring}
    newest = {node: node for node in held}
    step_loads: list[int] = []
    total = Counter[Link]()
    while held != wanted:
        if len(step_loads) == max(map(len, rings)):
            raise ValueError(f"nodes lack chunks after {len(step_loads)} steps")
        sent = [
            (node, ring[(i + 1) % len(ring)], newest[node])
            for ring in rings
            for i, node in enumerate(ring)
            if len(step_loads) < len(ring) - 1
        ]
        used = Counter(link for source, target, _ in sent for link in walk(cols, source, target))
        for _, target, chunk in sent:
            held[target].add(chunk)
            newest[target] = chunk
        step_loads.append(max(used.values()))
        total.update(used)
    return Exchange(len(step_loads), tuple(step_loads), total, sum(total.values()))


def heaviest_load(cols: int, rings: Rings) -> int:
    """The load of the heaviest link in the first step, in which all rings send."""
    return max(ring_loads(cols, rings).values())


def ring_loads(cols: int, rings: Rings) -> Counter[Link]:
    """How many routes of the rings use each link; links that none uses are absent."""
    pairs = [(ring[i - 1], node) for ring in rings for i, node in enumerate(ring)]
    return Counter(link for source, target in pairs for link in walk(cols, source, target))


def covers(sets: Rings, rings: Rings) -> bool:
    """Whether each ring visits every node of its set once."""
    return len(sets) == len(rings) and all(sorted(a) == sorted(b) for a, b in zip(sets, rings, strict=True))


# --- Certificates ------------------------------------------------------------------------------------------------


def mesh_links(rows: int, cols: int) -> list[Link]:
    """All links of a mesh."""
    nodes = [(y, x) for y in range(rows) for x in range(cols)]
    near = [(y, x, y + dy, x + dx) for y, x in nodes for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))]
    return [(y * cols + x, v * cols + u) for y, x, v, u in near if 0 <= v < rows and 0 <= u < cols]


def block_bound(rows: int, cols: int, sets: Rings, block: Sequence[int]) -> int:
    """The load that a block (first row, first column, height, width) proves: sets that it splits over links out of it.

    Raises:
        ValueError: no link leaves the block.
    """
    y0, x0, height, width = block
    inside = {y * cols + x for y in range(y0, y0 + height) for x in range(x0, x0 + width)}
    leaving = [link for link in mesh_links(rows, cols) if link[0] in inside and link[1] not in inside]
    if not leaving:
        raise ValueError("no link leaves the block")
    split = sum(1 for nodes in sets if 0 < len(inside.intersection(nodes)) < len(nodes))
    return -(-split // len(leaving))


def exchange_block_bound(rows: int, cols: int, sets: Rings, block: Sequence[int]) -> int:
    """The chunks over the heaviest link that a block proves of any exchange: those that must enter it, over its links.

    Raises:
        ValueError: no link enters the block.
    """
    y0, x0, height, width = block
    inside = {y * cols + x for y in range(y0, y0 + height) for x in range(x0, x0 + width)}
    entering = [link for link in mesh_links(rows, cols) if link[0] not in inside and link[1] in inside]
    if not entering:
        raise ValueError("no link enters the block")
    chunks = sum(len(set(nodes) - inside) for nodes in sets if inside.intersection(nodes))
    return -(-chunks // len(entering))


def weights_bound(
    rows: int, cols: int, sets: Rings, weights: Mapping[Link, int], set_bounds: Sequence[SetBound]
) -> Fraction:
    """The load that link weights prove: what all rings weigh at least, over the weight of all links.

    Rings load a link of weight w with w each, so the sum over links of weight times load is at least what all rings
    weigh; were no load above L, it would be at most L times the weight of all links.

    Raises:
        ValueError: a weight or a part's value is negative, all weights are 0, a weight is not on a link, or a set's
            numbers exceed a route.
    """
    if min(weights.values(), default=0) < 0 or not any(weights.values()):
        raise ValueError("weights must be at least 0, and one of them positive")
    if not set(weights) <= set(mesh_links(rows, cols)):
        raise ValueError("a weight is not on a link of the mesh")
    lengths = [_set_length(cols, nodes, weights, bound) for nodes, bound in zip(sets, set_bounds, strict=True)]
    return Fraction(sum(lengths), sum(weights.values()))


def _set_length(cols: int, nodes: Sequence[int], weights: Mapping[Link, int], bound: SetBound) -> int:
    """The least length of a ring over one set, once its proof has been checked."""
    parts = [(set(part), value) for part, value in bound.parts]
    for part, value in parts:
        if value < 0 or not part < set(nodes) or not part:
            raise ValueError(f"a part must be a proper part of the set, its value at least 0 (got {part}, {value})")
    for i, source in enumerate(nodes):
        for j, target in enumerate(nodes):
            if i != j:
                crossed = sum(value for part, value in parts if source in part and target not in part)
                length = sum(weights.get(link, 0) for link in walk(cols, source, target))
                if bound.leaving[i] + bound.entering[j] + crossed > length:
                    raise ValueError(f"the proof exceeds the route from {source} to {target}")
    return sum(bound.leaving) + sum(bound.entering) + sum(value for _, value in parts)
