"""The messages and scans of docs/array.md, section 5, element by element and from the page alone; for tiny layers."""

from collections import defaultdict
from itertools import product


class Phase:
    """What a phase moves: messages (source, destination, bytes) and, for each node, columns and rows of its scans."""

    def __init__(self, cols, flit_bytes, column_bytes, row_bytes):
        self.cols, self.flit_bytes, self.column_bytes, self.row_bytes = cols, flit_bytes, column_bytes, row_bytes
        self.links, self.inject, self.eject = defaultdict(int), defaultdict(int), defaultdict(int)
        self.flits = self.flit_hops = self.bytes = 0
        self.reads, self.writes, self.rows = defaultdict(int), defaultdict(int), defaultdict(int)

    def send(self, a, b, size):
        """One message along the row, then along the column, link by link."""
        flits = -(-size // self.flit_bytes)
        self.flits, self.bytes = self.flits + flits, self.bytes + size
        self.inject[a] += flits
        self.eject[b] += flits
        y, x = divmod(a, self.cols)
        to_y, to_x = divmod(b, self.cols)
        while (y, x) != (to_y, to_x):
            step = (y, x + (1 if to_x > x else -1)) if x != to_x else (y + (1 if to_y > y else -1), x)
            self.links[(y, x), step] += flits
            self.flit_hops += flits
            y, x = step

    def scan(self, counts, node, offsets, width):
        """One scan of elements at these offsets (in elements): distinct columns and rows."""
        touched = [offset * width + i for offset in offsets for i in (0, width - 1)]
        counts[node] += len({byte // self.column_bytes for byte in touched})
        self.rows[node] += len({byte // self.row_bytes for byte in touched})


def digits(local, sides):
    """Part indices from the digits of one side, the last one fastest: {dim: (index, split)}."""
    found = {}
    weight = 1
    for _, factor in sides:
        weight *= factor
    for dim, factor in sides:
        weight //= factor
        index, split = found.get(dim, (0, 1))
        found[dim] = (index * factor + (local // weight) % factor, split * factor)
    return found


def part_index(i, j, h, w, dim):
    """(part index, split) of a dim on the node at local (i, j): the digits of h are the outer ones."""
    outer, outer_split = digits(i, h).get(dim, (0, 1))
    inner, inner_split = digits(j, w).get(dim, (0, 1))
    return outer * inner_split + inner, outer_split * inner_split


def part(i, j, h, w, dim, bound):
    """The range of a dim's part."""
    index, split = part_index(i, j, h, w, dim)
    size = -(-bound // split)
    return range(min(index * size, bound), min((index + 1) * size, bound))


def nodes_of(region, cols):
    """(number, i, j) of a region's nodes, row by row."""
    y, x, h, w = region
    return [((y + i) * cols + x + j, i, j) for i in range(h) for j in range(w)]


def owners(shape, home, cols):
    """The node on which each element (n, c, y, x) lies, and the box of ranges of each node."""
    region, h, w = home
    where, boxes = {}, {}
    for number, i, j in nodes_of(region, cols):
        ranges = [part(i, j, h, w, dim, bound) for dim, bound in zip("NCHW", shape, strict=True)]
        boxes[number] = ranges
        for element in product(*ranges):
            assert element not in where  # every element lies on one node
            where[element] = number
    assert len(where) == shape[0] * shape[1] * shape[2] * shape[3]
    return where, boxes


def offset(element, ranges, last):
    """Place of an element in a box stored as N C H W, or N H W C."""
    order = (0, 2, 3, 1) if last else (0, 1, 2, 3)
    place = 0
    for axis in order:
        place = place * len(ranges[axis]) + element[axis] - ranges[axis].start
    return place


def snake(members, cols):
    """The default tour of a set."""
    rows = sorted({m // cols for m in members})
    tour = []
    for place, row in enumerate(rows):
        line = sorted(m for m in members if m // cols == row)
        tour += line if place % 2 == 0 else line[::-1]
    return tour


def sets_by(region, cols, h, w, dims):
    """Nodes that agree in the part indices of some dims."""
    found = defaultdict(list)
    for number, i, j in nodes_of(region, cols):
        found[tuple(part_index(i, j, h, w, dim)[0] for dim in dims)].append((number, i, j))
    return list(found.values())


def distance(a, b, cols):
    """Links between two nodes."""
    return abs(a // cols - b // cols) + abs(a % cols - b % cols)


def pull(phase, layer, pad, partition, shape, home, last, width, cols):
    """Deliver and gather the input boxes of a layer without groups that reads the whole of one tensor."""
    region, h, w = partition
    where, boxes = owners(shape, home, cols)
    for members in sets_by(region, cols, h, w, "NPQCG"):
        _, i, j = members[0]
        needed = input_box(layer, pad, i, j, h, w, shape)
        tour = snake([m[0] for m in members], cols)
        by_owner = defaultdict(list)
        for element in product(*needed):
            by_owner[where[element]].append(element)
        chunks = defaultdict(list)
        for owner in sorted(by_owner):
            elements, size = by_owner[owner], len(by_owner[owner]) * width
            if owner in tour:
                to = owner
            else:
                to = min(tour, key=lambda m: (distance(owner, m, cols), m))
                phase.send(owner, to, size)
                phase.scan(phase.writes, to, [offset(e, needed, last) for e in elements], width)
            if owner not in tour or len(tour) > 1:
                phase.scan(phase.reads, owner, [offset(e, boxes[owner], last) for e in elements], width)
            chunks[to].append(elements)
        for at, member in enumerate(tour):
            for elements in chunks[member]:
                for step in range(len(tour) - 1):
                    a, b = tour[(at + step) % len(tour)], tour[(at + step + 1) % len(tour)]
                    phase.send(a, b, len(elements) * width)
                    phase.scan(phase.writes, b, [offset(e, needed, last) for e in elements], width)


def input_box(layer, pad, i, j, h, w, shape):
    """The ranges of a node's input, clipped to the tensor; empty if the part is."""
    parts = {dim: part(i, j, h, w, dim, getattr(layer, dim)) for dim in "NPQC"}
    if any(len(ranges) == 0 for ranges in parts.values()):
        return [range(0)] * 4
    rows = [q * layer.stride[1] + s * layer.dilation[1] - pad[1] for q in parts["Q"] for s in range(layer.S)]
    columns = [p * layer.stride[0] + r * layer.dilation[0] - pad[0] for p in parts["P"] for r in range(layer.R)]
    sides = [
        range(max(0, min(axis)), max(0, min(max(axis) + 1, size)))
        for axis, size in ((rows, shape[2]), (columns, shape[3]))
    ]
    return [parts["N"], parts["C"], *sides]


def reduced(phase, layer, partition, last, cols):
    """Ring reduce-scatter; the boxes (ranges N, K, Q, P) that every node ends with."""
    region, h, w = partition
    held = {}
    splits = {dim: part_index(0, 0, h, w, dim)[1] for dim in "NPQKC"}
    for members in sets_by(region, cols, h, w, "NPQKG"):
        _, i, j = members[0]
        whole = {dim: part(i, j, h, w, dim, getattr(layer, dim)) for dim in "NPQK"}
        sizes = {dim: -(-getattr(layer, dim) // splits[dim]) for dim in "KQPN"}
        cut = next(dim for dim in "KQPN" if sizes[dim] == max(sizes.values()))
        tour = snake([m[0] for m in members], cols)
        chunk = -(-sizes[cut] // len(tour))
        boxes = []
        for t in range(len(tour)):
            own = dict(whole)
            own[cut] = whole[cut][t * chunk : (t + 1) * chunk]
            boxes.append([own[dim] for dim in "NKQP"])
            held[tour[t]] = boxes[t]
        if splits["C"] == 1:
            continue
        stored = [whole[dim] for dim in "NKQP"]
        for t, box in enumerate(boxes):
            elements = list(product(*box))
            if not elements:
                continue
            places = [offset(e, stored, last) for e in elements]
            for step in range(1, len(tour)):
                a, b = tour[(t + step) % len(tour)], tour[(t + step + 1) % len(tour)]
                phase.send(a, b, len(elements) * layer.psum_bytes)
                phase.scan(phase.reads, a, places, layer.psum_bytes)
            phase.scan(phase.reads, tour[t], places, layer.psum_bytes)
            phase.scan(phase.writes, tour[t], [offset(e, box, last) for e in elements], layer.output_bytes)
    return held


def push(phase, held, shape, home, last, width, cols):
    """Send what nodes hold to its homes."""
    where, boxes = owners(shape, home, cols)
    for node, box in held.items():
        by_owner = defaultdict(list)
        for element in product(*box):
            by_owner[where[element]].append(element)
        for owner, elements in by_owner.items():
            if owner != node:
                phase.send(node, owner, len(elements) * width)
                phase.scan(phase.reads, node, [offset(e, box, last) for e in elements], width)
                phase.scan(phase.writes, owner, [offset(e, boxes[owner], last) for e in elements], width)
