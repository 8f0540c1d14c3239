"""Lower bounds on the DRAM streams as CP-SAT variables: columns, activations and cycles per tensor.

If a tensor is sequential and its scans are boxes, tile shape and layout determine its columns, and bound its
activations for every order: `first + (X - 1) * repeat` for X passes (`tables.bounds.shapes`). For row-aligned blocks
there are weaker bounds (`aligned_blocks`). Exact counts of solutions, and cuts from them, close the gap to the exact
cost (`cpsat_pim.mapper.search`).
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.stream_bounds import DramLimits, has_known_boxes, min_columns, min_rows
from cpsat_pim.mapper.model.aligned_blocks import AlignedBlocks, BlockPass, Edge
from cpsat_pim.mapper.model.builder import Int, Lit, is_zero
from cpsat_pim.mapper.model.reuse import Reuse, consumers_inside
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import Variables
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from tables.bounds.shapes import ShapeTable, can_be_strided
from tables.dram import last_run, last_run_excess, period
from tables.nest import MACS, Ints

#: Names of the columns looked up by tile shape: row activations, and what only time depends on.
_COUNTED = ("acts_first", "acts_more", "acts_ordered", "acts_each")
_TIMED = ("columns_pass", "long", "end", "returned", "scan", "rows", "longest")
CONSUMERS = (int(Level.ROW_BUFFER), int(Level.GLOBAL_BUFFER), int(Level.PE), MACS)


class Scans(NamedTuple):
    """The scans of a tensor: `extents` along its dims, whether the shape tables describe them, and their layout.

    `first_cycles`: of the first scan. `columns`: the fewest of a scan. `rows`, `longest_cycles`: the most rows that a
    scan opens, and the most cycles that it adds. All but `extents` hold only if `is_box`.
    """

    extents: dict[int, Int]
    is_box: Lit
    layout: Int
    first_cycles: Int
    columns: Int
    rows: Int
    longest_cycles: Int


class Streams:
    """Per tensor `scans`, `passes` over all tiles, and lower bounds on `activations`, `columns` and `cycles`.

    `end_cycles`: of the first scan; of outputs, of the last tile. Times exist only if the model is `timed`.
    """

    def __init__(
        self,
        v: Variables,
        reuse: Reuse,
        traffic: Traffic,
        tables: list[ShapeTable],
        limits: DramLimits,
        timed: bool,
        parameters: SearchParameters = DEFAULTS,
    ) -> None:
        self.parameters = parameters
        self.v, self.b, self.reuse, self.traffic, self.timed = v, v.b, reuse, traffic, timed
        self.dram = to_machine(v.arch).dram
        self.activations: list[Int] = []
        self.columns: list[Int] = []
        self.cycles: list[Int] = []
        self.end_cycles: list[Int] = []
        self.scans: list[Scans] = []
        self.passes = [self._passes(t) for t in Tensor]
        self.min_rows = [min_rows(v.layer, v.arch, t) for t in Tensor]
        #: Row activations that no mapping up to the trial bound exceeds.
        self.max_activations = [self._max_activations(t, limits) for t in Tensor]
        self.blocks = AlignedBlocks(v, reuse, traffic, self.passes, self.min_rows)
        self._regular_input_scans()
        for t in Tensor:
            self._stream(t, tables[t], limits)

    def _passes(self, t: Tensor) -> Int:
        """Return how often the consumer that takes t from DRAM fetches each tile."""
        chosen = self.b.integer(self.v.class_divisors[t], f"X_{t.name}")
        for consumer in CONSUMERS:
            first = self.v.first_consumer(consumer, t)
            if first is not False:
                self.b.imply([first], chosen == self.reuse.factors[t][consumer])
        return chosen

    def _stream(self, t: Tensor, table: ShapeTable, limits: DramLimits) -> None:
        """Look up the bounds of t's scans by shape and layout, and constrain its stream with them."""
        rows = self._table_rows(t, table, limits)
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
        self._bound_activations(t, is_box, *counted)
        self._enclosing_boxes(t, table)
        block_pass = self.blocks.open_rows(t, self.activations[t])
        if self.timed:
            self._bound_cycles(t, is_box, per_pass, long, (end, returned), block_pass)

    def _table_rows(self, t: Tensor, table: ShapeTable, limits: DramLimits) -> np.ndarray:
        """Return the rows of the shape table that a mapping up to the trial bound can use."""
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
        """Return which shapes are extents of a candidate's step, array or global buffer; all if these are not known.

        Where they are known no tile is uneven.
        """
        known, dims = self.v.known, table.dims
        if known.eA is None or known.e1 is None:
            return np.ones(len(table.extents), bool)
        taken = {tuple(e) for extents in (known.step, known.eA, known.e1) for e in extents[:, dims].tolist()}
        return np.array([tuple(e) in taken for e in table.extents.tolist()], bool)

    def _can_be_drawn(self, t: Tensor, table: ShapeTable) -> np.ndarray:
        """Return which shapes may be those of a step: the array does not wait for the first scan of one."""
        array = self.v.arch.pe_array
        most = array.array_shape.h * array.array_shape.w * array.compute_unit.num_macs
        return np.asarray(table.extents.prod(axis=1) <= (most if t is not Tensor.O else 0))

    def _within(self, t: Tensor, activations: np.ndarray, limits: DramLimits) -> np.ndarray:
        """Return which activations leave the other tensors their fewest."""
        if limits.activations is None:
            return np.ones(len(activations), bool)
        return activations + sum(self.min_rows) - self.min_rows[t] <= limits.activations

    def _max_activations(self, t: Tensor, limits: DramLimits) -> int:
        """Return the most activations of t that the limits on activations and on the stream's cycles allow."""
        most = self._max_columns
        if limits.activations is not None:
            most = limits.activations - sum(self.min_rows) + self.min_rows[t]
        if limits.cycles is not None:
            columns = min_columns(self.v.layer, self.v.arch, t)
            left = limits.cycles - self.dram.tCCD * columns - last_run_excess(self.dram)
            most = min(most, (limits.cycles - int(last_run(1, self.dram))) // max(1, self._shortest_run) + 1)
            if miss := self.v.arch.dram_activation_latency:
                most = min(most, left // miss)
        return most

    def _enclosing_boxes(self, t: Tensor, table: ShapeTable) -> None:
        """Each pass over a box inside a level's loops opens its rows: the loops of inner levels run within it (B6).

        If the tables are too large, cuts add the bounds of the boxes that occur (`cpsat_pim.mapper.search.cuts`).
        """
        if not table.dims or not has_known_boxes(self.v.layer, t):
            return
        rows = np.column_stack([table.extents, table.layout, table.box_activations, table.swept_repeat_activations])
        rows = rows[(table.box_activations <= self.max_activations[t]) & (table.is_strided == 0)]
        parameters = self.parameters
        most = parameters.box_rows if self.dram.banks == 1 else parameters.box_rows_in_banks
        if not 0 < len(rows) <= most:
            return
        for level in (Level.GLOBAL_BUFFER, *([Level.ROW_BUFFER] if self.v.has_row_buffer_loops else []), Level.DRAM):
            for is_swept in (False, True):
                self._enclosing_box(t, level, is_swept, table.dims, rows)

    def _enclosing_box(self, t: Tensor, level: Level, is_swept: bool, dims: tuple[int, ...], rows: Ints) -> None:
        """Activations are at least those of the box, and of each further pass over it.

        What contiguous loops sweep comes again as often as the level inside fetches, unless its tile is uneven. A box
        with loops inside comes again as often as the irrelevant loops outside it say.
        """
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
        """A scan of I is a box or, for 1x1 filters, a regular grid (docs/model.md, section 3)."""
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
        """Return whether PEs are spread and hold several positions each: their scan is no box and no regular grid."""
        v, b = self.v, self.b
        spread = b.either([b.at_least_two(v.pes[d], f"{d.name}_apart") for d in (Dim.P, Dim.Q)], "apart")
        return b.both([spread, self._is_wide()], "mixed")

    def _is_wide(self) -> Lit:
        """Return whether a PE holds several positions of I."""
        held = self.v.tile[Level.PE][Tensor.I]
        return self.b.either([self.b.at_least_two(held[d], f"{d.name}_wide") for d in (Dim.P, Dim.Q)], "wide")

    def _strided_scans(self, t: Tensor, is_box: Lit, strided: Int) -> None:
        """MACs, and PEs of one output each, scan a strided grid. All others scan spans, the row buffer blocks."""
        v, b = self.v, self.b
        from_pe = b.both([v.first_consumer(Level.PE, t), b.negated(self._is_wide())], "single_positions")
        takes_points = b.either([v.first_consumer(MACS, t), from_pe], "takes_points")
        b.imply([takes_points], strided == 1)
        b.imply([is_box, b.negated(takes_points)], strided == 0)

    def _extent(self, t: Tensor, d: int) -> Int:
        """Return the extent of a scan along d: that of its first consumer's tile."""
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
        """Return literals of which one holds if the shape tables do not describe t's scans.

        That is so for row-aligned tensors, and for outputs with the pitch of partial sums.
        """
        v = self.v
        found = [v.first_consumer(Level.ROW_BUFFER, t)]
        if t is Tensor.O and v.layer.psum_bytes != v.layer.output_bytes:
            found.append(self.is_spilled)
        return found

    @cached_property
    def is_returned(self) -> Lit:
        """Whether output tiles come back from DRAM in a later fetch."""
        return self.b.at_least_two(self.passes[Tensor.O], "returned")

    @cached_property
    def is_spilled(self) -> Lit:
        """Whether partial sums may come back from DRAM."""
        if self.v.arch.spatial_reduction:
            return self.is_returned
        # Copies, if there are any, that are added in DRAM itself are read back at once.
        return self.b.either([self.is_returned, self.v.first_consumer(MACS, Tensor.O)], "spilled_or_copied")

    def _bound_activations(self, t: Tensor, is_box: Lit, first: Int, repeat: Int, ordered: Int, each: Int) -> None:
        """Activations are at least `first + (passes - 1) * repeat` (B5), or `ordered` for the first pass.

        `ordered` holds if each dim has one loop outside the global buffer, which takes the tensor from DRAM.
        """
        again = self.b.integer((x - 1 for x in self.b.values(self.passes[t])), f"again_{t.name}")
        if not isinstance(again, int):
            self.b.model.add(again == self.passes[t] - 1)
        repeated = (
            self.b.product([repeat, again], f"acts_again_{t.name}") if not is_zero(repeat) and not is_zero(again) else 0
        )
        most = self.b.bounds_of(ordered)[1] + (
            self.b.bounds_of(repeated)[1] if not isinstance(repeated, int) else repeated
        )
        activations = self.b.interval(self.min_rows[t], max(most, self._max_columns), f"acts_{t.name}")
        self.b.imply([is_box], activations >= first)
        if not (
            self.v.has_row_buffer_loops or self.v.any_split
        ):  # then one loop per dim lies outside the global buffer
            in_buffer = self.v.first_consumer(Level.GLOBAL_BUFFER, t)
            even = self.b.negated(self.v.residency.is_uneven(Level.GLOBAL_BUFFER, t))
            self.b.imply([is_box, in_buffer, even], activations >= ordered + repeated)
        held = self.b.negated(self.v.first_consumer(MACS, t))
        self.b.imply([is_box, held], activations >= first + repeated)
        self._drawn_steps(t, is_box, each, activations)
        self.activations.append(activations)

    def _drawn_steps(self, t: Tensor, is_box: Lit, each: Int, activations: Int) -> None:
        """If MACs draw from DRAM, every pass opens the rows of all step sets, whether or not its loops are free."""
        drawn = self.v.first_consumer(MACS, t)
        if drawn is not False and not is_zero(each):
            all_steps = self.b.product([each, self.passes[t]], f"acts_steps_{t.name}")
            self.b.imply([is_box, drawn], activations >= all_steps)

    @property
    def _max_columns(self) -> int:
        """Return an upper bound on the columns of any stream: two per MAC, and in I the gaps between elements."""
        layer = self.v.layer
        return 2 * layer.macs * math.prod((*layer.stride, *layer.dilation))

    @property
    def _shortest_run(self) -> int:
        """Return the fewest cycles from one activation to the next."""
        return int(period(1, self.dram))

    def _bound_cycles(
        self, t: Tensor, is_box: Lit, per_pass: Int, long: Int, edge: Edge, block_pass: BlockPass | None
    ) -> None:
        """Eq. 33: bound the cycles of a stream by its columns and activations (B8).

        Cycles are at least a column delay per column and a row miss per activation, and at least a shortest run per
        activation plus what longer runs exceed it by.
        """
        b, d = self.b, self.dram
        times = self.passes[t] if t is not Tensor.O else self._scans_per_output()
        exact = b.product([per_pass, times], f"columns_exact_{t.name}")
        longer = b.product([long, times], f"long_{t.name}") if not is_zero(long) else 0
        most = max(b.bounds_of(exact)[1], self._max_columns)
        columns = b.interval(1, most, f"columns_{t.name}")
        b.imply([is_box], columns >= exact)
        self._any_columns(t, columns)
        activations, shortest = self.activations[t], self._shortest_run
        most_cycles = d.tCCD * most + shortest * b.bounds_of(activations)[1] + d.RL + d.burst + d.tRCD
        cycles = b.interval(0, max(most_cycles, 2 * b.bounds_of(longer)[1]), f"cycles_{t.name}")
        latency = self.v.arch.dram_activation_latency
        b.model.add(cycles >= d.tCCD * columns + latency * activations + last_run_excess(self.dram))
        first_run = int(last_run(1, d)) - shortest
        b.model.add(cycles >= shortest * activations + first_run)
        b.imply([is_box], cycles >= shortest * activations + longer + first_run)
        ends = b.interval(
            0, b.bounds_of(cycles)[1], f"end_cycles_{t.name}"
        )  # blocks may exceed the largest of the table
        self._ends(t, is_box, ends, edge)
        b.model.add(ends >= (d.tCCD if t is Tensor.O else int(last_run(1, d))))
        if self.v.has_row_buffer_loops and t is Tensor.I:
            self.blocks.first_window(ends)
        elif block_pass is not None:
            all_columns = b.product([block_pass.columns, times], f"block_columns_all_{t.name}")
            b.imply([block_pass.where], columns >= all_columns)
            self._ends(t, block_pass.where, ends, block_pass.edge)
        self.columns.append(columns)
        self.cycles.append(cycles)
        self.end_cycles.append(ends)

    def _ends(self, t: Tensor, where: Lit, ends: Int, edge: Edge) -> None:
        """End cycles are at least those of the first scan, or of the last write-out."""
        if t is not Tensor.O:
            self.b.imply([where], ends >= edge[0])
            return
        self.b.imply([where, self.b.negated(self.is_spilled)], ends >= edge[0])
        self.b.imply([where, self.is_returned], ends >= edge[1])

    def _scans_per_output(self) -> Int:
        """Return the write-outs and read-backs of an output tile: 2 X - 1 for X passes."""
        scans = self.b.integer((2 * x - 1 for x in self.b.values(self.passes[Tensor.O])), "scans_O")
        if not isinstance(scans, int):
            self.b.model.add(scans == 2 * self.passes[Tensor.O] - 1)
        return scans

    def _any_columns(self, t: Tensor, columns: Int) -> None:
        """Columns are at least the bytes moved over the bytes of a column, for every layout."""
        width = self.v.layer.width_bytes[t]
        for consumer in CONSUMERS:
            first = self.v.first_consumer(consumer, t)
            name = "uses" if consumer == MACS else f"moved{consumer}"
            if first is not False and name in self.traffic.moved[t]:
                size, quantity = self.traffic.moved[t][name]
                self.b.imply([first], columns * self.dram.column_bytes >= size * quantity * width)
