"""Lower bounds on the DRAM streams as CP-SAT variables: columns, activations and cycles per tensor.

If a tensor is sequential and its scans are boxes, tile shape and layout determine its columns, and bound its
activations for every order: `first + (X - 1) * repeat` for X passes (`tables.bounds.shapes`). For row-aligned blocks
there are weaker bounds (`aligned_blocks`). Exact counts of solutions, and cuts from them, close the gap to the exact
cost (`cpsat_pim.mapper.search`).
"""

import math
from functools import cached_property

from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.stream_bounds import DramLimits, min_columns, min_rows
from cpsat_pim.mapper.model.aligned_blocks import AlignedBlocks, BlockPass, Edge
from cpsat_pim.mapper.model.builder import Int, Lit, is_zero
from cpsat_pim.mapper.model.enclosing_boxes import EnclosingBoxes
from cpsat_pim.mapper.model.held_tiles import HeldTiles
from cpsat_pim.mapper.model.interrupted import InterruptedStreams, Spills
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.scans import CONSUMERS, Scans, ScanShapes
from cpsat_pim.mapper.model.shape_rows import COUNTED, TIMED, ShapeRows
from cpsat_pim.mapper.model.shared_banks import SharedBanks
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import Variables
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from tables.bounds.shapes import ShapeTable, can_be_strided
from tables.dram import last_run, last_run_excess, period
from tables.nest import MACS


class Streams:
    """Per tensor `scans`, `passes` over all tiles, and lower bounds on `activations`, `columns` and `cycles`.

    `end_cycles`: of the first scan; of outputs, of the last tile. `closed_cycles`: cycles if another tensor's row is
    opened next; 0 where the bank is not shared. `ending`: cycles by which O's last run takes longer at least than a
    shortest last run, if it shares its bank. Times exist only if the model is `timed`. `held`: the boxes of a tensor
    while a tile of another one is held.
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
        self.v, self.b, self.reuse, self.traffic, self.timed = v, v.b, reuse, traffic, timed
        self.dram = to_machine(v.arch).dram
        self.activations: list[Int] = []
        self.columns: list[Int] = []
        self.cycles: list[Int] = []
        self.end_cycles: list[Int] = []
        self.closed_cycles: list[Int] = []
        self.ending: Int = 0
        self.scans: list[Scans] = []
        self.passes = [self._passes(t) for t in Tensor]
        self.min_rows = [min_rows(v.layer, v.arch, t) for t in Tensor]
        #: Row activations that no mapping up to the trial bound exceeds.
        self.max_activations = [self._max_activations(t, limits) for t in Tensor]
        self.shapes, self.boxes = ScanShapes(v), EnclosingBoxes(v, reuse, parameters)
        self.blocks = AlignedBlocks(v, reuse, traffic, self.passes, self.min_rows)
        self.banks = SharedBanks(v, reuse)
        self.interrupted = InterruptedStreams(self.banks, traffic, self.passes, self.max_activations)
        self.rows = ShapeRows(v, self.interrupted, self.min_rows, limits, timed)
        self.shapes.input_scans_are_regular()
        for t in Tensor:
            self._stream(t, tables[t])
        held = (self.scans, self.passes, self.activations, self.max_activations)
        self.held = HeldTiles(self.banks, self.shapes, tables, *held).open_rows(self.interrupted.returning)

    def _passes(self, t: Tensor) -> Int:
        """Return how often the consumer that takes t from DRAM fetches each tile."""
        chosen = self.b.integer(self.v.class_divisors[t], f"X_{t.name}")
        for consumer in CONSUMERS:
            first = self.v.first_consumer(consumer, t)
            if first is not False:
                self.b.imply([first], chosen == self.reuse.factors[t][consumer])
        return chosen

    def _stream(self, t: Tensor, table: ShapeTable) -> None:
        """Look up the bounds of t's scans by shape and layout, and constrain its stream with them."""
        rows = self.rows.of(t, table)
        dims = table.dims
        is_box = self.b.negated(self.b.either(self._irregular(t), f"irregular_{t.name}"))
        extents = {d: self.shapes.extent(t, d) for d in dims}
        keys, rows = self.b.keys(rows, list(extents.values()), is_box, f"shape_{t.name}")
        names = [f"{n}_{t.name}" for n in ("layout", "strided", *COUNTED, *TIMED)]
        layout, strided, *looked_up = self.b.lookup(keys, rows, names)
        counted, timed = looked_up[: len(COUNTED)], looked_up[len(COUNTED) :]
        per_pass, long, end, returned, *scan, ending, reopened = timed
        self.scans.append(Scans(extents, is_box, layout, end, *scan))
        if can_be_strided(self.v.shape, t):
            self.shapes.grids_are_strided(t, is_box, strided)
        *own, closed, closed_again = counted
        self._bound_activations(t, is_box, *own)
        self.interrupted.open_rows(
            t, table, self.scans[t], closed, closed_again, self.activations[t], lambda: self.is_returned
        )
        self.boxes.open_rows(t, table, self.scans[t], self.activations[t], self.max_activations[t])
        self.banks.open_rows_between(t, table, self.scans[t], self.activations[t], self.max_activations[t])
        block_pass = self.blocks.open_rows(t, self.activations[t])
        if self.timed:
            self._bound_cycles(t, is_box, per_pass, long, (end, returned), block_pass)
        if self.timed and t is Tensor.O:
            self._bound_ending(is_box, ending)
            self._end_reopens_rows(is_box, end, reopened)

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
        is_repeated = not is_zero(repeat) and not is_zero(again)
        repeated = self.b.product([repeat, again], f"acts_again_{t.name}") if is_repeated else 0
        most = self.b.bounds_of(ordered)[1] + self.b.bounds_of(repeated)[1]
        activations = self.b.interval(self.min_rows[t], max(most, self._max_columns), f"acts_{t.name}")
        self.b.imply([is_box], activations >= first)
        if not self.v.has_several_outer_loops:
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
        first_run = self.least_last_run
        b.model.add(cycles >= shortest * activations + first_run)
        b.imply([is_box], cycles >= shortest * activations + longer + first_run)
        self._bound_closed_cycles(t, is_box, columns, longer)
        if t is Tensor.O and self.interrupted.spills is not None:
            self._bound_spills(self.interrupted.spills, times, columns, cycles)
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

    def _bound_closed_cycles(self, t: Tensor, is_box: Lit, columns: Int, longer: Int) -> None:
        """The same if the stream's last run ends with its row being closed: then it takes as long as any other (B8)."""
        if not self.v.restriction.is_shared(t):
            self.closed_cycles.append(0)
            return
        b, shortest, activations = self.b, self._shortest_run, self.activations[t]
        most = self.dram.tCCD * b.bounds_of(columns)[1] + shortest * b.bounds_of(activations)[1]
        cycles = b.interval(0, max(most, 2 * b.bounds_of(longer)[1]), f"closed_cycles_{t.name}")
        b.model.add(cycles >= self.dram.tCCD * columns + self.v.arch.dram_activation_latency * activations)
        b.model.add(cycles >= shortest * activations)
        b.imply([is_box], cycles >= shortest * activations + longer)
        self.closed_cycles.append(cycles)

    def _bound_ending(self, is_box: Lit, ending: Int) -> None:
        """O's last write-out ends the stream of its bank, and its last run is at least the end of its own scan."""
        spills = self.interrupted.spills
        known = [(is_box, ending)] if spills is None else [(is_box, ending), (spills.where, spills.ending)]
        if all(is_zero(least) for _, least in known):
            return
        self.ending = self.b.interval(0, max(self.b.bounds_of(least)[1] for _, least in known), "ending")
        for where, least in known:
            self.b.imply([where], self.ending >= least)
        o = Tensor.O
        self.b.model.add(self.cycles[o] >= self.closed_cycles[o] + self.least_last_run + self.ending)

    def _end_reopens_rows(self, is_box: Lit, end: Int, reopened: Int) -> None:
        """O's last write-out opens all rows if its bank is used after the write-out before it (B22)."""
        if not is_zero(reopened):
            where = [is_box, self.banks.is_always_interrupted[Tensor.O], self.b.negated(self.is_spilled)]
            self.b.imply(where, self.end_cycles[Tensor.O] >= end + reopened)

    def _bound_spills(self, spills: Spills, times: Int, columns: Int, cycles: Int) -> None:
        """The same for outputs that come back with the width of partial sums."""
        b, t, where = self.b, Tensor.O, [spills.where]
        b.imply(where, columns >= b.product([spills.columns, times], "columns_spilled"))
        busy = self._shortest_run * self.activations[t] + b.product([spills.long, times], "long_spilled")
        b.imply(where, cycles >= busy + self.least_last_run)
        b.imply(where, self.closed_cycles[t] >= busy)

    @property
    def least_last_run(self) -> int:
        """Return by how much a stream's last run takes longer at least than if its row were closed after it."""
        return int(last_run(1, self.dram)) - self._shortest_run

    def _ends(self, t: Tensor, where: Lit, ends: Int, edge: Edge) -> None:
        """End cycles are at least those of the first scan, or of the last write-out."""
        if t is not Tensor.O:
            self.b.imply([where], ends >= edge[0])
            return
        self.b.imply([where, self.b.negated(self.is_spilled)], ends >= edge[0])
        self.b.imply([where, self.is_returned], ends >= edge[1])

    def _scans_per_output(self) -> Int:
        """Return the write-outs and read-backs of an output tile: 2 X - 1 for X passes, or 2 X where copies of outputs
        are added in DRAM (B23): the first pass reads back, too.
        """
        passes, copied = self.passes[Tensor.O], self.b.flag(self._adds_copies)
        least, most = self.b.bounds_of(copied)
        values = {2 * x - 1 + n for x in self.b.values(passes) for n in (least, most)}
        scans = self.b.integer(sorted(values), "scans_O")
        if not isinstance(scans, int):
            self.b.model.add(scans == 2 * passes - 1 + copied)
        return scans

    @property
    def _adds_copies(self) -> Lit:
        """Whether MACs add several copies of an output, which nothing adds up on the way, to the DRAM itself."""
        v, o = self.v, Tensor.O
        if v.arch.spatial_reduction:
            return False
        several = [self.b.at_least_two(n[o], f"copies_{i}") for i, n in enumerate((v.class_lanes, v.class_pes))]
        return self.b.both([v.first_consumer(MACS, o), self.b.either(several, "has_copies")], "adds_copies")

    def _any_columns(self, t: Tensor, columns: Int) -> None:
        """Columns are at least the bytes moved over the bytes of a column, for every layout."""
        width = self.v.layer.width_bytes[t]
        for consumer in CONSUMERS:
            first = self.v.first_consumer(consumer, t)
            name = "uses" if consumer == MACS else f"moved{consumer}"
            if first is not False and name in self.traffic.moved[t]:
                size, quantity = self.traffic.moved[t][name]
                self.b.imply([first], columns * self.dram.column_bytes >= size * quantity * width)
