"""A second simulator that knows only MACs, sets and lists.

`Naive` loops over every MAC of the nest. Tiles are not computed from extents: they are what the MACs of one visit
touch. Addresses are read off a dictionary of the whole tensor. Times come from recursion over lists of operations.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import groupby, pairwise, product
from typing import Any

import numpy as np

from tracesim import Device, Nest, Placement, Trace

Coordinate = tuple[int, ...]
Box = frozenset[Coordinate]
Key = tuple[int, ...]

I, W, O = range(3)  # noqa: E741 -- the field's letters
READ, WRITE = range(2)
DRAM, MACS = 3, -1
DIMS = "RSPQCKNG"
RELEVANT = ("RSPQCNG", "RSCKG", "PQKNG")
AXES = ("NGCHW", "GKCSR", "NGKQP")
ORDERS = (("NGCHW", "NHWGC"), ("GKCSR", "SRCGK"), ("NGKQP", "NQPGK"))


class Naive:
    """One nest, executed MAC by MAC."""

    def __init__(self, nest: Nest, placement: Placement, device: Device) -> None:
        """Run everything."""
        self.nest, self.placement, self.device = nest, placement, device
        self.loops = [(int(level), DIMS[dim], int(factor)) for level, dim, factor in nest.loops]
        self.chain = [[m for m in (2, 1, 0) if nest.stored[m, t]] for t in range(3)]
        self.around = {(t, m): self.loops_around(t, m) for t, m in product(range(3), range(3))}
        self.counts: Counter[tuple[int, int, int]] = Counter()
        self.scans: list[list[list[Coordinate]]] = [[], [], []]
        self.run_macs()
        self.measure_tiles()
        self.operations: list[tuple[Any, ...]] = []
        self.walk()
        self.time_scans()

    # -- the MACs -----------------------------------------------------------------------------------------------

    def run_macs(self) -> None:
        """List the steps: the loops' digits, and per MAC its PE and the coordinates of I, W and O."""
        spatial = [
            [(place, DIMS[d], int(f)) for d, f in enumerate(row)]
            for place, row in zip("HWL", self.nest.spatial, strict=True)
        ]
        places = [entry for row in spatial for entry in row if entry[2] > 1]
        self.steps = []
        for digits in product(*(range(factor) for _, _, factor in self.loops)):
            macs = []
            for where in product(*(range(factor) for _, _, factor in places)):
                index = self.index_of(digits, places, where)
                pe = tuple(x for x, (place, _, _) in zip(where, places, strict=True) if place != "L")
                macs.append((pe, self.touched(index)))
            self.steps.append((digits, macs))
        self.pes = {pe for pe, _ in self.steps[0][1]}

    def index_of(self, digits: Key, places: list[tuple[str, str, int]], where: Key) -> dict[str, int]:
        """Return each dim's index, digit by digit from the outermost: T3, T2, T1, H, W, T0, Internal."""
        digit = {(f"T{level}", dim): (x, f) for x, (level, dim, f) in zip(digits, self.loops, strict=True)}
        digit |= {(place, dim): (x, f) for x, (place, dim, f) in zip(where, places, strict=True)}
        index = dict.fromkeys(DIMS, 0)
        for dim in DIMS:
            for place in ("T3", "T2", "T1", "H", "W", "T0", "L"):
                x, factor = digit.get((place, dim), (0, 1))
                index[dim] = index[dim] * factor + x
        return index

    def touched(self, index: dict[str, int]) -> tuple[Coordinate, Coordinate, Coordinate]:
        """Return the coordinates of the elements of I, W and O that a MAC uses."""
        stride_w, stride_h, dilation_w, dilation_h = map(int, self.nest.conv)
        at = dict(index)
        at["H"] = stride_h * at["Q"] + dilation_h * at["S"]
        at["W"] = stride_w * at["P"] + dilation_w * at["R"]
        return tuple(tuple(at[axis] for axis in AXES[t]) for t in range(3))  # type: ignore[return-value]

    # -- the tiles ----------------------------------------------------------------------------------------------

    def loops_around(self, t: int, m: int) -> list[int]:
        """Return the loops outside t's tile at level m: those of levels outside it, and its own down to the point."""
        outer = [i for i, (level, _, _) in enumerate(self.loops) if level > m]
        own = [i for i, (level, _, _) in enumerate(self.loops) if level == m]
        return outer + (own[: self.nest.outside[m, t]] if m < 2 else [])

    def key(self, t: int, m: int, digits: Key) -> Key:
        """Return the identity of t's tile at level m: the indices of the relevant loops around it."""
        return tuple(digits[i] for i in self.around[t, m] if self.loops[i][1] in RELEVANT[t])

    def measure_tiles(self) -> None:
        """Collect what each tile holds: the full box around all that is used while it is there."""
        seen: dict[tuple[Any, ...], set[Coordinate]] = defaultdict(set)
        for digits, macs in self.steps:
            for t, (pe, used) in product(range(3), macs):
                for m in (1, 2):
                    seen[t, m, self.key(t, m, digits)].add(used[t])
                seen[t, 0, self.key(t, 0, digits), pe].add(used[t])
        self.tiles = {name: boxed(elements) for name, elements in seen.items()}
        extents = [boxed({used[t] for _, macs in self.steps for _, used in macs}) for t in range(3)]
        self.extent = [[max(axis) + 1 for axis in zip(*extents[t], strict=True)] for t in range(3)]

    def pe_boxes(self, t: int, digits: Key) -> list[Box]:
        """Return the box of each PE."""
        return [self.tiles[t, 0, self.key(t, 0, digits), pe] for pe in self.pes]

    def contents(self, t: int, m: int, digits: Key) -> Box:
        """Return what a level holds of t; the array as a whole at level 0."""
        if m == 0:
            return frozenset().union(*self.pe_boxes(t, digits))
        return self.tiles[t, m, self.key(t, m, digits)]

    # -- what moves ---------------------------------------------------------------------------------------------

    def walk(self) -> None:
        """Go through the steps; count accesses, and list scans and operations in their order."""
        self.held: dict[tuple[int, int], Key] = {}
        self.since: dict[tuple[int, int], Key] = {}
        self.visited: set[tuple[int, Key]] = set()
        self.written: set[Coordinate] = set()
        self.fresh: set[tuple[Key, Coordinate]] = set()
        outer = max(len(self.around[t, 0]) for t in range(3))
        self.array_steps = 0
        for _, steps in groupby(self.steps, key=lambda step: step[0][:outer]):
            self.array_step(list(steps))
            self.array_steps += 1
        for m in self.chain[O][::-1]:
            self.leave(O, m)

    def array_step(self, steps: list[tuple[Key, Any]]) -> None:
        """Change tiles, then do the MACs, step by step."""
        digits = steps[0][0]
        for t in range(3):
            changed = [m for m in self.chain[t] if self.held.get((t, m)) != self.key(t, m, digits)]
            for m in changed[::-1]:
                if (t, m) in self.held:
                    self.leave(t, m)
            for m in changed:
                self.enter(t, m, digits)
        before = [self.counts.copy(), [len(s) for s in self.scans]]
        for _, macs in steps:
            self.step(macs)
        self.operations.append(("step", len(steps), {t: self.use_of(t, before) for t in range(3) if self.at(t) != 0}))

    def enter(self, t: int, m: int, digits: Key) -> None:
        """Take a tile, and fetch it unless it is a new one of O."""
        self.held[t, m] = self.key(t, m, digits)
        self.since[t, m] = digits
        is_new = t == O and (m, self.held[t, m]) not in self.visited
        if t == O and m == 0:
            self.start_sums(digits, is_new)
        if is_new:
            self.visited.add((m, self.held[t, m]))
            self.operations.append(("take", t, m))
            return
        tile, boxes = self.contents(t, m, digits), self.pe_boxes(t, digits)
        reads = writes = len(tile)
        if m == 0 and t == O and not self.device.spatial_reduction:
            reads = writes = sum(map(len, boxes))
        if m == 0 and t != O:
            writes = sum(map(len, boxes))
            reads = len(tile) if self.device.multicast else writes
        self.move(t, m, READ, reads, tile)
        self.counts[m, t, WRITE] += writes

    def leave(self, t: int, m: int) -> None:
        """Give up a tile; O's is written out."""
        if t != O:
            return
        digits = self.since[t, m]
        tile, boxes = self.contents(t, m, digits), self.pe_boxes(t, digits)
        copies = sum(map(len, boxes)) if m == 0 else len(tile)
        self.counts[m, t, READ] += copies
        self.move(t, m, WRITE, len(tile) if self.device.spatial_reduction else copies, tile)

    def move(self, t: int, m: int, way: int, elements: int, tile: Box) -> None:
        """Read or write a tile at the parent."""
        parent = self.parent(t, m)
        self.counts[parent, t, way] += elements
        if parent == DRAM:
            self.scans[t].append(list(tile))
        self.operations.append(("out" if way == WRITE else "in", t, m, elements, len(self.scans[t]) - 1))

    def start_sums(self, digits: Key, is_new: bool) -> None:
        """Note which partial sums of which PEs start afresh in the array tile that is entered."""
        self.fresh = {(pe, o) for pe in self.pes for o in self.tiles[O, 0, self.key(O, 0, digits), pe]}
        if not is_new:
            brought = {o: (pe, o) for pe, o in self.fresh}  # the value goes to one of the PEs
            self.fresh -= set(brought.values()) if self.device.spatial_reduction else self.fresh.copy()

    def step(self, macs: list[tuple[Key, tuple[Coordinate, ...]]]) -> None:
        """Do the MACs of a step."""
        for t in (I, W):
            level = self.at(t)
            used = {u[t] for _, u in macs}
            self.counts[level, t, READ] += len(used) if level and self.device.multicast else len(macs)
            if level == DRAM:
                self.scans[t].append(list(used))
        if self.at(O) == 0:
            sums: Iterable[tuple[Key, Coordinate]] = [(pe, u[O]) for pe, u in macs]
            for one in set(sums) if self.device.spatial_reduction else sums:
                self.counts[0, O, WRITE] += 1
                self.counts[0, O, READ] += one not in self.fresh
                self.fresh.discard(one)
        else:
            self.stream_sums([u[O] for _, u in macs])

    def stream_sums(self, outputs: list[Coordinate]) -> None:
        """Read and write partial sums where they are stored, first all reads, then all writes."""
        level = self.at(O)
        read = []
        for o in set(outputs) if self.device.spatial_reduction else outputs:
            if o in self.written:
                read.append(o)
            self.written.add(o)
            self.counts[level, O, WRITE] += 1
        self.counts[level, O, READ] += len(read)
        if level == DRAM:
            self.scans[O] += [list(set(read)), list(set(outputs))] if read else [list(set(outputs))]

    def at(self, t: int) -> int:
        """Return the innermost level that stores t."""
        return self.chain[t][-1] if self.chain[t] else DRAM

    def parent(self, t: int, m: int) -> int:
        """Return the next outer level that stores t."""
        return min((level for level in self.chain[t] if level > m), default=DRAM)

    def use_of(self, t: int, before: list[Any]) -> tuple[int, int, int, int]:
        """Return what the MACs read and wrote where t is stored, and the scans made, since `before`."""
        level = self.at(t)
        reads, writes = (self.counts[level, t, way] - before[0][level, t, way] for way in (READ, WRITE))
        return reads, writes, before[1][t], len(self.scans[t])

    # -- DRAM ---------------------------------------------------------------------------------------------------

    def width(self, t: int, level: int) -> int:
        """Return the bytes of an element of t."""
        spills = self.counts[DRAM, O, READ] > 0
        return int(self.nest.width_bytes[3 if t == O and (level < 2 or spills) else t])

    def addresses(self, t: int) -> dict[Coordinate, int]:
        """Return where each element lies, by laying out block after block."""
        order = [AXES[t].index(axis) for axis in ORDERS[t][self.placement.order[t]]]
        block = list(self.extent[t])
        if self.nest.stored[2, t]:
            tile = self.contents(t, 2, self.steps[0][0])
            block = [max(axis) + 1 for axis in zip(*tile, strict=True)]
            if t == I:
                block[3], block[4] = self.placement.block_h, self.placement.block_w
        row, start = self.device.row_bytes, 0
        at: dict[Coordinate, int] = {}
        size = self.width(t, DRAM) * int(np.prod(block))
        for corner in product(*(range(0, self.extent[t][a], block[a]) for a in order)):
            start += (row - start % row) % row if start % row + min(size, row) > row else 0
            inside = product(*(range(c, c + block[a]) for c, a in zip(corner, order, strict=True)))
            for i, element in enumerate(inside):
                at[tuple(element[order.index(a)] for a in range(5))] = start + i * self.width(t, DRAM)
            start += size if size <= row else -(-size // row) * row
        return at

    def time_scans(self) -> None:
        """Scan by scan, count columns and rows, also the fewest of one, and note the stream's time after each."""
        self.columns, self.activations = [0, 0, 0], [0, 0, 0]
        self.times: list[list[int]] = [[0], [0], [0]]
        self.fewest_columns, self.fewest_rows = [0, 0, 0], [0, 0, 0]
        for t in range(3):
            at, banks = self.addresses(t), self.device.banks * int(self.placement.bank_counts[t])
            open_rows: dict[int, int] = {}
            runs: list[int] = []
            touched: list[tuple[int, int]] = []
            for scan in self.scans[t]:
                columns = [column for column, _ in groupby(sorted(at[element] for element in scan), self.column_of)]
                rows = [column * self.device.column_bytes // self.device.row_bytes for column in columns]
                touched.append((len(columns), len(set(rows))))
                for row in rows:
                    if open_rows.get(row % banks) != row:
                        runs.append(0)
                    open_rows[row % banks] = row
                    runs[-1] += 1
                if not self.device.open_page:
                    open_rows.clear()
                self.times[t].append(self.runs_time(runs))
            self.columns[t] = sum(columns for columns, _ in touched)
            self.fewest_columns[t], self.fewest_rows[t] = map(min, zip(*touched, strict=True))
            self.activations[t] = len(runs)

    def column_of(self, address: int) -> int:
        """Return the number of the column with a byte."""
        return address // self.device.column_bytes

    def runs_time(self, runs: list[int]) -> int:
        """Return the time of a stream cut in these runs."""
        rcd, rp, ras, rc, rtp, ccd, rl, bl = map(int, self.device.timing)
        if not runs:
            return 0
        periods = [max(rc, max(ras, rcd + (n - 1) * ccd + rtp) + rp) for n in runs[:-1]]
        return sum(periods) + rcd + (runs[-1] - 1) * ccd + rl + bl // 2

    # -- time ---------------------------------------------------------------------------------------------------

    def bus_cycles(self, t: int, level: int, way: int, elements: int) -> int:
        """Return the time of a move at a level's bandwidth."""
        numerator, denominator = map(int, self.device.bandwidth[level, way])
        return -(-elements * self.width(t, level) * denominator // numerator) if numerator else 0

    def latency(self) -> int:
        """Return when the last operation ends: each waits for the operations it depends on, found by search."""
        ops, links = self.operations, self.links()
        before = {b: a for queue in links.values() for a, b in pairwise(queue)}

        @cache
        def end(i: int) -> int:
            if ops[i][0] == "step":
                return max(start_of_step(i) + int(ops[i][1]), *(end_of_use(i, t) for t in ops[i][2]), 0)
            kind, t, m = ops[i][:3]
            start = end(previous_take(i, t, m)) if kind == "out" else slot_free(i, t, m)
            if kind == "take":
                return start
            if kind == "out":
                start = max(start, last_use(i, t, m))
            if self.parent(t, m) != DRAM:
                start = max(start, end(previous_take(i, t, self.parent(t, m))))
            return max(start, link_free((i, None))) + self.move_cycles(i)

        def link_free(user: tuple[int, int | None]) -> int:
            if user not in before:
                return 0
            i, t = before[user]
            return end(i) if t is None else end_of_use(i, t)

        @cache
        def end_of_use(i: int, t: int) -> int:
            return max(start_of_step(i), link_free((i, t))) + self.use_cycles(t, *ops[i][2][t])

        def start_of_step(i: int) -> int:
            earlier = next((end(j) for j in range(i - 1, -1, -1) if ops[j][0] == "step"), 0)
            return max([earlier, *(end(previous_take(i, t, self.at(t))) for t in range(3) if self.chain[t])])

        def previous_take(i: int, t: int, m: int) -> int:
            return next(j for j in range(i - 1, -1, -1) if ops[j][0] in ("take", "in") and ops[j][1:3] == (t, m))

        def slot_free(i: int, t: int, m: int) -> int:
            slots = 2 if m < 2 and self.device.double_buffered[m] else 1
            takes = [j for j in range(i + 1) if ops[j][0] in ("take", "in") and ops[j][1:3] == (t, m)]
            if len(takes) <= slots:
                return 0
            took, gave = takes[-1 - slots], takes[-slots]
            outs = [j for j in range(took, gave + 1) if ops[j][0] == "out" and ops[j][1:3] == (t, m)]
            return end(outs[0]) if t == O else last_use(gave, t, m, took)

        def last_use(i: int, t: int, m: int, took: int | None = None) -> int:
            took = previous_take(i, t, m) if took is None else took
            users = ["step"] if m == self.at(t) else ["in", "out"]
            child = max((level for level in self.chain[t] if level < m), default=None)
            ends = [
                end(j)
                for j in range(took, i)
                if ops[j][0] in users and (ops[j][0] == "step" or ops[j][1:3] == (t, child))
            ]
            return max(ends)

        end_cycle = max(end(i) for i in range(len(ops)))
        return max(end_cycle, *self.totals()) + self.device.reduction_latency

    def totals(self) -> list[int]:
        """Return how long each level's ports, by tensor and all together, and the interconnect are busy at least."""

        def cycles(moved: int, rate: Any, times: int = 1) -> int:
            return -(-moved * int(rate[1]) // (int(rate[0]) * times)) if rate[0] else 0

        busy = []
        for m, way in product(range(3), (READ, WRITE)):
            moved = [self.counts[m, t, way] * self.width(t, m) for t in range(3)]
            rate, buffers = self.device.bandwidth[m, way], len(self.pes) if m == 0 else 1
            busy += [cycles(one, rate, buffers) for one in moved]
            busy.append(cycles(sum(moved), rate, buffers * int(self.device.ports[m])))
        crossing = 0
        for kind, *rest in self.operations:
            if kind in ("in", "out") and rest[1] == 0:
                crossing += rest[2] * self.width(rest[0], 0)
            if kind == "step":
                crossing += sum((use[0] + use[1]) * self.width(t, 0) for t, use in rest[1].items())
        return [*busy, cycles(crossing, self.device.interconnect)]

    def links(self) -> dict[Any, list[tuple[int, int | None]]]:
        """Return each link's users in order: operations, or (step, tensor) for what the MACs use."""
        queues: dict[Any, list[tuple[int, int | None]]] = defaultdict(list)
        for i, (kind, *rest) in enumerate(self.operations):
            if kind in ("in", "out"):
                shared = self.device.shared_bus and self.parent(rest[0], rest[1]) == DRAM
                queues["bus" if shared else (rest[0], rest[1])].append((i, None))
            if kind == "step":
                for t in rest[1]:
                    shared = self.device.shared_bus and self.at(t) == DRAM
                    queues["bus" if shared else (t, MACS)].append((i, t))
        return queues

    def move_cycles(self, i: int) -> int:
        """Return how long a move takes on its link."""
        kind, t, m, elements, scan = self.operations[i]
        if self.parent(t, m) == DRAM:
            return int(self.times[t][scan + 1] - self.times[t][scan])
        return self.bus_cycles(t, self.parent(t, m), WRITE if kind == "out" else READ, elements)

    def use_cycles(self, t: int, reads: int, writes: int, scan: int, end_scan: int) -> int:
        """Return how long an array step's stream of t takes on its link."""
        if self.at(t) == DRAM:
            return self.times[t][end_scan] - self.times[t][scan]
        return self.bus_cycles(t, self.at(t), READ, reads) + self.bus_cycles(t, self.at(t), WRITE, writes)

    # -- together -----------------------------------------------------------------------------------------------

    def trace(self) -> Trace:
        """Return everything in the simulator's own form."""
        accesses = np.zeros((4, 3, 2), np.int64)
        for place, count in self.counts.items():
            accesses[place] = count
        cycles = [times[-1] for times in self.times]
        macs = sum(len(used) for _, used in self.steps)
        energy = (
            macs * self.device.mac_fj
            + sum(n * int(self.device.access_fj[level, way]) for (level, _, way), n in self.counts.items())
            + sum(self.activations) * self.device.activation_fj
        )
        return Trace(
            accesses,
            np.array(self.columns),
            np.array(self.activations),
            np.array(cycles),
            sum(cycles) if self.device.shared_bus else max(cycles),
            len(self.steps),
            energy,
            self.latency(),
        )


def boxed(elements: set[Coordinate]) -> Box:
    """Return the full box around the elements."""
    return frozenset(product(*(range(min(axis), max(axis) + 1) for axis in zip(*elements, strict=True))))
