"""DRAM streams over the variables: columns, activations and cycles per tensor, looked up by tile shape and layout.

Sequential tensors whose scans are boxes use the exact shape tables (`tables.bounds.shapes`): columns exactly, activations as
`first + (X - 1) * more`, which holds for every order. For row-aligned blocks it uses what holds for any order of them
(`blocks`): every block's columns, every row opened once. Both are bounds of the exact stream for all orders; `solve`
closes what is left between them and the exact cost.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.stream_bounds import Limits, has_known_boxes, least_columns, least_rows
from cpsat_pim.mapper.model.aligned_blocks import Blocks, Edge, Pass
from cpsat_pim.mapper.model.builder import Int, Lit, is_zero
from cpsat_pim.mapper.model.reuse import Reuse, consumers_inside
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import Variables
from tables.bounds.shapes import ShapeTable, can_be_strided
from tables.dram import last_run, last_run_excess, period
from tables.nest import MACS, Ints

#: What is looked up by tile shape of row activations, and that which only time depends on.
_COUNTED = ("acts_first", "acts_more", "acts_ordered", "acts_each")
_TIMED = ("columns_pass", "long", "end", "returned", "scan", "rows", "longest")
#: Boxes of a tensor up to which a program looks their bounds up in tables: with one bank, and with several, of whose
#: tiles little is known by themselves.
_MOST_BOXES, _MOST_BOXES_IN_BANKS = 400, 1000

CONSUMERS = (int(Level.ROW_BUFFER), int(Level.GLOBAL_BUFFER), int(Level.PE), MACS)


class Scans(NamedTuple):
    """A tensor's scans: the `extents` of each along the tensor's dims, whether they are boxes that the shape tables
    describe, and then their layout.

    `first_cycles`: of the first one; `columns` that each takes at least; `rows` that it opens and `longest_cycles` that
    it adds at most.
    """

    extents: dict[int, Int]
    is_box: Lit
    layout: Int
    first_cycles: Int
    columns: Int
    rows: Int
    longest_cycles: Int


class Streams:
    """Per tensor `scans`, `passes` over all tiles, `activations`, `columns`, `cycles`, `end_cycles` (of the first scan;
    of outputs the last tile's).
    """

    def __init__(
        self,
        v: Variables,
        reuse: Reuse,
        traffic: Traffic,
        tables: list[ShapeTable],
        limits: Limits,
        timed: bool,
    ) -> None:
        self.v, self.b, self.reuse, self.traffic, self.timed = v, v.b, reuse, traffic, timed
        self.dram = to_machine(v.arch).dram
        self.activations: list[Int] = []
        self.columns: list[Int] = []
        self.cycles: list[Int] = []
        self.end_cycles: list[Int] = []
        self.scans: list[Scans] = []
        self.passes = [self._passes(t) for t in Tensor]
        self.least_rows = [least_rows(v.layer, v.arch, t) for t in Tensor]
        #: Row activations that no answer below the target exceeds.
        self.most_activations = [self._most_activations(t, limits) for t in Tensor]
        self.blocks = Blocks(v, reuse, traffic, self.passes, self.least_rows)
        self._regular_input_scans()
        for t in Tensor:
            self._stream(t, tables[t], limits)

    def _passes(self, t: Tensor) -> Int:
        """Fetches per tile into whoever takes t from DRAM."""
        chosen = self.b.integer(self.v.class_divisors[t], f"X_{t.name}")
        for consumer in CONSUMERS:
            first = self.v.first_consumer(consumer, t)
            if first is not False:
                self.b.imply([first], chosen == self.reuse.factors[t][consumer])
        return chosen

    def _stream(self, t: Tensor, table: ShapeTable, limits: Limits) -> None:
        rows = self._candidates(t, table, limits)
        dims = table.dims
        is_box = self.b.negated(self.b.either(self._irregular(t), f"irregular_{t.name}"))
        extents = {d: self._extent(t, d) for d in dims}
        keys, rows = self.b.keys(rows, list(extents.values()), is_box, f"shape_{t.name}")
        names = [f"{n}_{t.name}" for n in ("layout", "strided", *_COUNTED, *_TIMED)]
        layout, strided, *looked_up = self.b.lookup(keys, rows, names)
        counted, timed = looked_up[: len(_COUNTED)], looked_up[len(_COUNTED) :]
        per_pass, long, end, returned, scan, opened, longest = timed
        self.scans.append(Scans(extents, is_box, layout, end, scan, opened, longest))
        if can_be_strided(self.v.shape, t):
            self._strided_scans(t, is_box, strided)
        self._count_activations(t, is_box, *counted)
        self._enclosing_boxes(t, table)
        block_pass = self.blocks.open_rows(t, self.activations[t])
        if self.timed:
            self._time(t, is_box, per_pass, long, (end, returned), block_pass)

    def _candidates(self, t: Tensor, table: ShapeTable, limits: Limits) -> np.ndarray:
        """Table rows that an answer below the target can use."""
        columns = [
            table.layout,
            table.is_strided,
            table.first_activations,
            table.repeat_activations,
            table.ordered_activations,
            table.rescan_activations,
            table.columns,
            table.long_run_cycles,
            table.end_cycles,
            table.rewrite_cycles if t is Tensor.O else np.zeros_like(table.first_activations),
            table.min_scan_columns,
            table.max_scan_rows,
            table.max_scan_cycles,
        ]
        if not self.timed:
            columns[-len(_TIMED) :] = [np.zeros_like(table.first_activations)] * len(_TIMED)
        keep = self._within(t, table.first_activations, limits) & np.isin(table.layout, self.v.restriction.layouts(t))
        keep &= self._is_taken(table)
        if limits.cycles is not None:
            busy = table.columns * self.dram.tCCD + table.first_activations * self.v.arch.dram_activation_latency
            keep &= busy + last_run_excess(self.dram) <= limits.cycles
            keep &= self._shortest_run * (table.first_activations - 1) + table.long_run_cycles <= limits.cycles
        if limits.edge_cycles is not None:
            edge = np.minimum(table.end_cycles, table.rewrite_cycles) if t is Tensor.O else table.end_cycles
            keep &= (edge <= limits.edge_cycles) | self._can_be_drawn(t, table)
        rows = np.column_stack([table.extents, *columns])
        return rows[keep] if keep.any() else rows[:1]

    def _is_taken(self, table: ShapeTable) -> np.ndarray:
        """Which tiles the PEs, the array or the global buffer take, where these are known (then none is uneven)."""
        known, dims = self.v.known, table.dims
        if known.eA is None or known.e1 is None:
            return np.ones(len(table.extents), bool)
        taken = {tuple(e) for extents in (known.step, known.eA, known.e1) for e in extents[:, dims].tolist()}
        return np.array([tuple(e) in taken for e in table.extents.tolist()], bool)

    def _can_be_drawn(self, t: Tensor, table: ShapeTable) -> np.ndarray:
        """Tiles that may be a step's: nothing waits for the first scan of those."""
        array = self.v.arch.pe_array
        most = array.array_shape.h * array.array_shape.w * array.compute_unit.num_macs
        return np.asarray(table.extents.prod(axis=1) <= (most if t is not Tensor.O else 0))

    def _within(self, t: Tensor, activations: np.ndarray, limits: Limits) -> np.ndarray:
        """Which activation counts leave the other tensors their least."""
        if limits.activations is None:
            return np.ones(len(activations), bool)
        return activations + sum(self.least_rows) - self.least_rows[t] <= limits.activations

    def _most_activations(self, t: Tensor, limits: Limits) -> int:
        most = self._most_columns
        if limits.activations is not None:
            most = limits.activations - sum(self.least_rows) + self.least_rows[t]
        if limits.cycles is not None:
            columns = least_columns(self.v.layer, self.v.arch, t)
            left = limits.cycles - self.dram.tCCD * columns - last_run_excess(self.dram)
            most = min(most, (limits.cycles - int(last_run(1, self.dram))) // max(1, self._shortest_run) + 1)
            if miss := self.v.arch.dram_activation_latency:
                most = min(most, left // miss)
        return most

    def _enclosing_boxes(self, t: Tensor, table: ShapeTable) -> None:
        """Loops of inner levels run within the boxes of outer ones: each pass over such a box opens its rows.

        Where that takes large tables, `cuts` demands it of the boxes that matter.
        """
        if not table.dims or not has_known_boxes(self.v.layer, t):
            return
        rows = np.column_stack([table.extents, table.layout, table.box_activations, table.swept_repeat_activations])
        rows = rows[(table.box_activations <= self.most_activations[t]) & (table.is_strided == 0)]
        if not 0 < len(rows) <= (_MOST_BOXES if self.dram.banks == 1 else _MOST_BOXES_IN_BANKS):
            return
        for level in (Level.GLOBAL_BUFFER, *([Level.ROW_BUFFER] if self.v.row_buffer else []), Level.DRAM):
            for is_swept in (False, True):
                self._enclosing_box(t, level, is_swept, table.dims, rows)

    def _enclosing_box(self, t: Tensor, level: Level, is_swept: bool, dims: tuple[int, ...], rows: Ints) -> None:
        """The rows of one box, and of going over it again."""
        b, v, box = self.b, self.v, self.reuse.extents(level, is_swept)
        runs = b.either([v.first_consumer(c, t) for c in consumers_inside(level, is_swept)], f"runs_inside_{t.name}")
        if runs is False:
            return
        keys, rows = b.keys(rows, [box[d] for d in dims], runs, f"box_{t.name}")
        boxed, least, again = b.lookup(keys, rows, [f"box_{n}_{t.name}" for n in ("layout", "acts", "again")])
        b.imply([runs], boxed == self.scans[t].layout)
        b.imply([runs], self.activations[t] >= least)
        fetched = self.reuse.factors[t][level - 1]
        if is_swept and self.dram.banks > 1 and not is_zero(again) and not isinstance(fetched, int):
            even = b.negated(v.residency.is_uneven(level - 1, t))  # its loops have swept all of the box
            repeated = b.product([again, fetched], f"swept_again_{t.name}")
            b.imply([runs, even], self.activations[t] >= least + repeated - again)
        passes = b.product([v.class_temporal[m][t] for m in range(level, len(Level))], f"passes_{t.name}")
        if not is_swept and level > Level.GLOBAL_BUFFER and not is_zero(again) and not isinstance(passes, int):
            taken = b.either([v.first_consumer(c, t) for c in (MACS, Level.PE)], f"taken_inside_{t.name}")
            looped = b.either(
                [self.reuse.has_relevant[m, t] for m in range(Level.GLOBAL_BUFFER, level)], f"looped_{t.name}"
            )
            repeated = b.product([again, passes], f"box_repeated_{t.name}")
            b.imply([taken, looped], self.activations[t] >= least + repeated - again)

    def _regular_input_scans(self) -> None:
        """What comes from DRAM is a box of I or, for 1x1 filters, a regular grid (docs/model.md, section 3)."""
        v, model = self.v, self.b.model
        forbidden: list[Lit] = []
        if v.bounds[Dim.R] > 1 or v.bounds[Dim.S] > 1:
            forbidden.append(v.first_consumer(MACS, Tensor.I))
            if max(*v.layer.stride, *v.layer.dilation) > 1:
                forbidden.append(v.first_consumer(Level.PE, Tensor.I))
        elif can_be_strided(v.shape, Tensor.I):
            forbidden.append(self.b.both([v.first_consumer(Level.PE, Tensor.I), self._is_mixed()], "mixed_scan"))
        for literal in forbidden:
            if literal is not False:
                model.add_bool_or([self.b.negated(literal)])

    def _is_mixed(self) -> Lit:
        """Whether PEs hold spans of several outputs and are themselves apart: neither a box nor a regular grid."""
        v, b = self.v, self.b
        spread = b.either([b.at_least_two(v.pes[d], f"{d.name}_apart") for d in (Dim.P, Dim.Q)], "apart")
        return b.both([spread, self._is_wide()], "mixed")

    def _is_wide(self) -> Lit:
        """Whether a PE holds several positions of I."""
        held = self.v.tile[Level.PE][Tensor.I]
        return self.b.either([self.b.at_least_two(held[d], f"{d.name}_wide") for d in (Dim.P, Dim.Q)], "wide")

    def _strided_scans(self, t: Tensor, is_box: Lit, strided: Int) -> None:
        """MACs, and PEs of one output each, take single positions; everything else takes spans, but for the row buffer,
        which takes blocks.
        """
        v, b = self.v, self.b
        from_pe = b.both([v.first_consumer(Level.PE, t), b.negated(self._is_wide())], "single_positions")
        takes_points = b.either([v.first_consumer(MACS, t), from_pe], "takes_points")
        b.imply([takes_points], strided == 1)
        b.imply([is_box, b.negated(takes_points)], strided == 0)

    def _extent(self, t: Tensor, d: int) -> Int:
        """Extent along d of what one scan brings in."""
        v = self.v
        if v.bounds[d] == 1:
            return 1
        sources = zip(CONSUMERS, (v.e2, v.tile[Level.GLOBAL_BUFFER][t], v.array_tile[t], v.step), strict=True)
        taken = [(first, of[d]) for consumer, of in sources if (first := v.first_consumer(consumer, t)) is not False]
        values = {n for _, source in taken for n in self.b.values(source)}
        extent = self.b.integer(values, f"scan_{t.name}_{Dim(d).name}")
        for first, source in taken:
            self.b.imply([first], extent == source)
        return extent

    def _irregular(self, t: Tensor) -> list[Lit]:
        """When the shape tables do not describe a scan: row-aligned, or of another pitch."""
        v = self.v
        found = [v.first_consumer(Level.ROW_BUFFER, t)]
        if t is Tensor.O and v.layer.psum_bytes != v.layer.output_bytes:
            found.append(self.is_spilled)  # the pitch in DRAM is then another
        return found

    @cached_property
    def is_returned(self) -> Lit:
        """Whether outputs come back from DRAM in a later fetch."""
        return self.b.at_least_two(self.passes[Tensor.O], "returned")

    @cached_property
    def is_spilled(self) -> Lit:
        """Whether partial sums may come back from DRAM."""
        if self.v.arch.spatial_reduction:
            return self.is_returned
        # Copies, if there are any, that are added in DRAM itself are read back at once.
        return self.b.either([self.is_returned, self.v.first_consumer(MACS, Tensor.O)], "spilled_or_copied")

    def _count_activations(self, t: Tensor, is_box: Lit, first: Int, more: Int, ordered: Int, each: Int) -> None:
        again = self.b.integer((x - 1 for x in self.b.values(self.passes[t])), f"again_{t.name}")
        if not isinstance(again, int):
            self.b.model.add(again == self.passes[t] - 1)
        repeated = (
            self.b.product([more, again], f"acts_again_{t.name}") if not is_zero(more) and not is_zero(again) else 0
        )
        most = self.b.ends(ordered)[1] + (self.b.ends(repeated)[1] if not isinstance(repeated, int) else repeated)
        activations = self.b.interval(self.least_rows[t], max(most, self._most_columns), f"acts_{t.name}")
        self.b.imply([is_box], activations >= first)
        if not (self.v.row_buffer or self.v.any_split):  # then one loop per dim lies outside the global buffer
            in_buffer = self.v.first_consumer(Level.GLOBAL_BUFFER, t)
            even = self.b.negated(self.v.residency.is_uneven(Level.GLOBAL_BUFFER, t))
            self.b.imply([is_box, in_buffer, even], activations >= ordered + repeated)
        held = self.b.negated(self.v.first_consumer(MACS, t))
        self.b.imply([is_box, held], activations >= first + repeated)
        self._drawn_steps(t, is_box, each, activations)
        self.activations.append(activations)

    def _drawn_steps(self, t: Tensor, is_box: Lit, each: Int, activations: Int) -> None:
        """Steps of the MACs scan all step sets as often as the irrelevant loops say, free or not."""
        drawn = self.v.first_consumer(MACS, t)
        if drawn is not False and not is_zero(each):
            all_steps = self.b.product([each, self.passes[t]], f"acts_steps_{t.name}")
            self.b.imply([is_box, drawn], activations >= all_steps)

    @property
    def _most_columns(self) -> int:
        """No stream has more column accesses: elements that MACs use, each way, and in I the gaps between them."""
        layer = self.v.layer
        return 2 * layer.macs * math.prod((*layer.stride, *layer.dilation))

    @property
    def _shortest_run(self) -> int:
        """Cycles from one activation to the next at least."""
        return int(period(1, self.dram))

    def _time(self, t: Tensor, is_box: Lit, per_pass: Int, long: Int, edge: Edge, block_pass: Pass | None) -> None:
        """Stream cycles from columns and activations (Eq. 33; every run costs at least tRC)."""
        b, d = self.b, self.dram
        times = self.passes[t] if t is not Tensor.O else self._scans_per_output()
        exact = b.product([per_pass, times], f"columns_exact_{t.name}")
        longer = b.product([long, times], f"long_{t.name}") if not is_zero(long) else 0
        most = max(b.ends(exact)[1], self._most_columns)
        columns = b.interval(1, most, f"columns_{t.name}")
        b.imply([is_box], columns >= exact)
        self._any_columns(t, columns)
        activations, shortest = self.activations[t], self._shortest_run
        most_cycles = d.tCCD * most + shortest * b.ends(activations)[1] + d.RL + d.burst + d.tRCD
        cycles = b.interval(0, max(most_cycles, 2 * b.ends(longer)[1]), f"cycles_{t.name}")
        latency = self.v.arch.dram_activation_latency
        b.model.add(cycles >= d.tCCD * columns + latency * activations + last_run_excess(self.dram))
        first_run = int(last_run(1, d)) - shortest
        b.model.add(cycles >= shortest * activations + first_run)
        b.imply([is_box], cycles >= shortest * activations + longer + first_run)
        ends = b.interval(0, b.ends(cycles)[1], f"end_cycles_{t.name}")  # of blocks, more than the tables' longest
        self._ends(t, is_box, ends, edge)
        b.model.add(ends >= (d.tCCD if t is Tensor.O else int(last_run(1, d))))
        if self.v.row_buffer and t is Tensor.I:
            self.blocks.first_window(ends)
        elif block_pass is not None:
            all_columns = b.product([block_pass.columns, times], f"block_columns_all_{t.name}")
            b.imply([block_pass.where], columns >= all_columns)
            self._ends(t, block_pass.where, ends, block_pass.edge)
        self.columns.append(columns)
        self.cycles.append(cycles)
        self.end_cycles.append(ends)

    def _ends(self, t: Tensor, where: Lit, ends: Int, edge: Edge) -> None:
        """The first scan's cycles, or the last write-out's."""
        if t is not Tensor.O:
            self.b.imply([where], ends >= edge[0])
            return
        self.b.imply([where, self.b.negated(self.is_spilled)], ends >= edge[0])
        self.b.imply([where, self.is_returned], ends >= edge[1])

    def _scans_per_output(self) -> Int:
        """Write-outs and read-backs of an output tile."""
        scans = self.b.integer((2 * x - 1 for x in self.b.values(self.passes[Tensor.O])), "scans_O")
        if not isinstance(scans, int):
            self.b.model.add(scans == 2 * self.passes[Tensor.O] - 1)
        return scans

    def _any_columns(self, t: Tensor, columns: Int) -> None:
        """A column access brings in at most a column of elements, whatever the placement."""
        width = self.v.layer.width_bytes[t]
        for consumer in CONSUMERS:
            first = self.v.first_consumer(consumer, t)
            name = "uses" if consumer == MACS else f"moved{consumer}"
            if first is not False and name in self.traffic.moved[t]:
                size, quantity = self.traffic.moved[t][name]
                self.b.imply([first], columns * self.dram.column_bytes >= size * quantity * width)
