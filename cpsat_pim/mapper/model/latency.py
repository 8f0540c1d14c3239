"""Latency over the variables: what could end last, with what it cannot overlap (`tables.counts.cost.latency_terms`, term by
term).
"""

from fractions import Fraction

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import rate, tile_width
from cpsat_pim.mapper.model.builder import Int, Lit, is_one
from cpsat_pim.mapper.model.compute import Compute
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.streams import Streams
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import Variables
from cpsat_pim.mapping import Stored
from tables.bounds.spatial import Terms, access_terms, crossing_terms
from tables.counts.accesses import READ, WRITE
from tables.dram import last_run_excess
from tables.nest import MACS


class Latency:
    """`cycles`: a variable of at least every latency term, without the machine's constant pipeline latency.

    `late[t]`, `single[t]`: cycles for which the array waits for t's tiles, and for single ones of them. They depend on
    the order of the loops: nothing here bounds them but what `solve` learns from counting an answer exactly.
    """

    def __init__(self, v: Variables, reuse: Reuse, traffic: Traffic, streams: Streams, most: int) -> None:
        self.v, self.b, self.reuse, self.traffic, self.streams = v, v.b, reuse, traffic, streams
        self.most = most
        #: Tiles that come from DRAM (or go there), over the layer.
        self.fetches: list[Int] = []
        self.cycles = self.b.interval(1, most, "latency")
        self.compute = Compute(v, reuse, traffic, most)
        self.steps = self.compute.steps
        self._start_and_end()
        self._compute_term()
        self._stream_terms()
        self._transfer_terms()

    def _at_least(self, *parts: Int) -> None:
        self.b.model.add(self.cycles >= sum(parts))

    def _start_and_end(self) -> None:
        """Before the first step: the first tiles of I and W. After the last: O's last tile."""
        ends, heads = self.streams.end_cycles, []
        self.moves_in: list[Int] = []  # of I and W
        for t in (Tensor.I, Tensor.W):
            heads.append(self.b.interval(0, self.most, f"head_{t.name}"))
            held = self.b.negated(self.v.first_consumer(MACS, t))
            self.moves_in.append(self.compute.inner_moves(t, READ))
            self.b.imply([held], heads[-1] >= ends[t] + self.moves_in[-1])
        self.start = self.b.interval(0, self.most, "start")
        if self.v.arch.shared_data_bus:
            self.b.model.add(self.start >= sum(heads))
        else:
            for head in heads:
                self.b.model.add(self.start >= head)
        self.end = self.b.interval(0, self.most, "end")
        self.b.model.add(self.end >= ends[Tensor.O] + self.compute.inner_moves(Tensor.O, WRITE))

    def _compute_term(self) -> None:
        """First tiles, steps (or slower operand streams), exposed partial sums, late tiles, last drain."""
        working = [self.compute.work(), *self.compute.exposed()]
        self.array = self.steps
        if len(working) > 1 or working[0] is not self.steps:
            self.array = self.b.interval(1, self.most, "array")
            self.b.model.add(self.array == sum(working))
        self.waits: list[Int] = [self._spilled_stream()]
        if not self.v.arch.hierarchy[Level.PE].double_buffered:
            self.exposed_transfer = self.b.interval(0, self.most, "exposed_transfer")
            self.waits.append(self.exposed_transfer)
        self.late = [self.b.interval(0, self.most, f"late_{t.name}") for t in Tensor]
        self.single = [self.b.interval(0, self.most, f"single_{t.name}") for t in Tensor]
        for late in self.late:
            self._at_least(self.start, self.array, *self.waits, late, self.end)
        self._at_least(self.start, self.array, *self.waits, *self.single, self.end)

    def _spilled_stream(self) -> Int:
        """O's DRAM stream, but its last write, where partial sums come back from DRAM into a level."""
        held = self.b.negated(self.v.first_consumer(MACS, Tensor.O))
        spilled = self.b.both([self.streams.is_spilled, held], "spills_tiles")
        if spilled is False:
            return 0
        stream = self.b.interval(0, self.most, "spilled_stream")
        difference = self.streams.cycles[Tensor.O] - self.streams.end_cycles[Tensor.O]
        self.b.imply([spilled], stream >= difference)
        return stream

    def _stream_terms(self) -> None:
        """DRAM streams: I's and W's are followed by the array's work on their last tile, O's comes after that on its
        first tile.
        """
        v, b, streams = self.v, self.b, self.streams
        stays = [self._stay(t) for t in Tensor]
        works = [self._work_per_tile(t, stays[t]) for t in Tensor]
        for t in (Tensor.I, Tensor.W):
            drawn = v.first_consumer(MACS, t)  # step by step: the stream runs only while the array computes
            held = b.negated(drawn)
            after = works[t] + sum(self.waits) + self.end
            b.imply([held], self.cycles >= streams.cycles[t] + self.moves_in[t] + after)
            self._after_first(t, held, stays[t], after)
            b.imply([drawn], self.cycles >= self.start + streams.cycles[t] + sum(self.waits) + self.end)
        self._output_stream(stays[Tensor.O], works[Tensor.O])
        for t in Tensor:
            self._row_buffer_terms(t, stays[t])
            self._late_terms(t, stays[t])
        if v.arch.shared_data_bus:
            shorter = b.interval(1, b.ends(self.steps)[1], "shorter_stay")
            b.model.add_min_equality(shorter, [stays[Tensor.I], stays[Tensor.W]])
            self._at_least(*streams.cycles, shorter)

    def _output_stream(self, stay: Int, work: Int) -> None:
        """O's stream; what waits for it where partial sums come back is part of it."""
        stream, own = self.streams.cycles[Tensor.O], self.streams.end_cycles[Tensor.O]
        self._at_least(self.start, stay, stream)
        held = self.b.negated(self.v.first_consumer(MACS, Tensor.O))
        self.b.imply([held], self.cycles >= self.start + work + sum(self.waits[1:]) + stream - own + self.end)

    def _after_first(self, t: Tensor, held: Lit, stay: Int, after: Int) -> None:
        """All scans but the first come after the start, or all but the second, which may be loaded before it.

        Of the work on a second tile no more than its steps are sure: the array's cycles per tile are rounded up in
        `after` already.
        """
        b, streams = self.b, self.streams
        rest = self.start + streams.cycles[t] - streams.scans[t].first_cycles + after
        is_ahead = b.boolean(f"ahead_{t.name}")
        where = [held, streams.scans[t].is_box]
        b.imply([*where, is_ahead.negated()], self.cycles >= rest)
        b.imply([*where, is_ahead], self.cycles >= rest + stay - streams.scans[t].longest_cycles)

    def _stay(self, t: Tensor) -> Int:
        """Steps for which a tile from DRAM is in use."""
        b = self.b
        extents = [self.streams.scans[t].extents.get(d, 1) for d in Dim]
        self.fetches.append(self.compute.fetches(t, extents, self.streams.passes[t], "dram"))
        stay = b.interval(1, b.ends(self.steps)[1], f"stay_{t.name}")
        b.equal_product(self.steps, [stay, self.fetches[t]])
        b.model.add(self.streams.columns[t] >= self.fetches[t])  # a column is never shared by two scans
        return stay

    def _work_per_tile(self, t: Tensor, stay: Int) -> Int:
        """The array's cycles per tile from DRAM, rounded up.

        Of n tiles, each but one hides at most this much, rounded down, of a load: all loads and what is left of the
        array's cycles, this much at least, have to fit.
        """
        if self.array is self.steps:
            return stay
        b = self.b
        work = b.interval(1, self.most, f"work_{t.name}")
        b.model.add(work >= stay)
        b.model.add(b.product([work, self.fetches[t]], f"work_all_{t.name}") >= self.array)
        return work

    def _late_terms(self, t: Tensor, stay: Int) -> None:
        """Scans that open rows outlast the others.

        One that opens k rows and takes n columns adds at least k row misses and n columns to its stream: for what the
        steps on a tile do not hide of that, the array waits (and a slower array does not end sooner).
        """
        v, b, streams = self.v, self.b, self.streams
        buffered = [v.first_consumer(Level.GLOBAL_BUFFER, t), v.first_consumer(Level.PE, t)]
        held = [b.both([b.either(buffered, f"buffered_{t.name}"), streams.scans[t].is_box], f"late_{t.name}")]
        if t is Tensor.O:
            held.append(b.negated(streams.is_spilled))
        columns = streams.scans[t].columns
        rows = streams.scans[t].rows * (1 if t is Tensor.O else 2)  # the second tile may be loaded before the start
        self._late_misses(t, held, streams.dram.tCCD * columns - stay, rows)

    def _late_misses(self, t: Tensor, where: list[Lit], columns_less_stay: Int, rows: Int | None) -> None:
        """What lateness adds; with the first scan's `rows` unknown, the first load stands for it."""
        b, miss = self.b, self.v.arch.dram_activation_latency
        most = self.most - min(0, last_run_excess(self.streams.dram))  # which is taken off again, below
        excess, hides = b.interval(0, miss, f"excess_{t.name}"), b.boolean(f"hides_{t.name}")
        b.imply([*where, hides], excess >= miss + columns_less_stay)  # the steps hide all columns, and some of a miss
        b.imply([*where, hides.negated()], excess >= miss)
        misses = b.interval(0, b.ends(self.streams.activations[t])[1], f"misses_{t.name}")
        b.imply(where, misses >= self.streams.activations[t] - (0 if rows is None else rows))
        waited = b.product([misses, excess], f"waited_{t.name}", most=most)
        # A first load or last write-out may be shorter than its misses: no row is closed after it.
        edges = [self.start, self.end] if rows is not None else [self._outer_edge(t)]
        if rows is None or t is Tensor.O:  # outputs are late from their first write-out on
            edges.append(min(0, last_run_excess(self.streams.dram)))
        self._at_least(self.steps, *self.waits, waited, *edges)

    def _row_buffer_terms(self, t: Tensor, stay_in_use: Int) -> None:
        """The row buffer has one slot: loads wait while it is in use, and are hidden only by the last tile taken."""
        aligned = self.v.first_consumer(Level.ROW_BUFFER, t)
        if aligned is False:
            return
        stream = self.streams.cycles[t]
        use = self._row_buffer_use(t)
        self.b.imply([aligned], self.cycles >= stream + use + stay_in_use + self._outer_edge(t))
        for consumer in (Level.GLOBAL_BUFFER, Level.PE, MACS):
            linked = self.v.linked(Level.ROW_BUFFER, consumer, t)
            if linked is False:
                continue
            where = [linked] if t is not Tensor.O else [linked, self.b.negated(self.streams.is_spilled)]
            exposed = [self.steps, *self.waits, stream, self._outer_edge(t)]
            if consumer != MACS:
                stay, hidden = self._hidden(t, self.compute.tile_extents(t, consumer), self.reuse.factors[t][consumer])
                exposed.append(-hidden)
                self._late_blocks(t, where, stay)
            self.b.imply(where, self.cycles >= sum(exposed))

    def _late_blocks(self, t: Tensor, where: list[Lit], stay: Int) -> None:
        """As `_late_terms`, where only the steps on the last tile taken hide a load."""
        dram, tile = self.streams.dram, self.traffic.tile[int(Level.ROW_BUFFER), t]
        columns = self.b.interval(1, self.b.ends(tile)[1] * 4, f"block_columns_{t.name}")
        self.b.imply(where, columns * dram.column_bytes >= tile * self.v.layer.width_bytes[t])
        self._late_misses(t, where, dram.tCCD * columns - stay, None)

    def _outer_edge(self, t: Tensor) -> Int:
        """Start or end, whichever t's own first or last load is not part of."""
        return self.start if t is Tensor.O else self.end

    def _hidden(self, t: Tensor, extents: list[Int], reuse: Int) -> tuple[Int, Int]:
        """Steps on a tile taken from the row buffer, and on the last such tiles of all its tiles."""
        b, steps = self.b, self.steps
        taken = self.compute.fetches(t, extents, reuse, "taken")
        loads = self.compute.fetches(t, self.v.e2, self.reuse.factors[t][Level.ROW_BUFFER], "loads")
        stay = b.interval(1, b.ends(steps)[1], f"inner_stay_{t.name}")
        b.equal_product(steps, [stay, taken])
        return stay, b.product([stay, loads], f"hidden_{t.name}", most=b.ends(steps)[1])

    def _row_buffer_use(self, t: Tensor) -> Int:
        """Cycles for which a tile in the row buffer is in use (it has one slot), but for rounding up per tile."""
        v, b = self.v, self.b
        aligned = v.first_consumer(Level.ROW_BUFFER, t)
        if aligned is False:
            return 0
        use = b.interval(0, self.most, f"row_buffer_use_{t.name}")
        b.imply([v.linked(Level.ROW_BUFFER, MACS, t)], use >= self.steps)
        way = WRITE if t is Tensor.O else READ
        pace = self.compute.pace(Level.ROW_BUFFER, way)
        for consumer in (Level.GLOBAL_BUFFER, Level.PE):
            linked = v.linked(Level.ROW_BUFFER, consumer, t)
            if pace is None or linked is False:
                continue
            name = (
                "fills" if consumer == Level.PE and t is not Tensor.O and not v.arch.multicast else f"moved{consumer}"
            )
            size, quantity = self.traffic.moved[t][name]
            width = tile_width(self.v.layer, Level.ROW_BUFFER, t)
            b.imply([linked], use * pace.numerator >= quantity * (size * width * pace.denominator))
        return use

    def _transfer_terms(self) -> None:
        """Eq. 38: each level's ports and the interconnect."""
        for level in self.traffic.levels:
            for way in (READ, WRITE):
                pace = self.compute.pace(level, way)
                if pace is not None:
                    self._level_term(level, way, pace)
        self._interconnect_term()

    def _level_term(self, level: int, way: int, pace: Fraction) -> None:
        """bytes_t / b for each tensor, and all of them over all ports."""
        b = self.b
        busy = b.interval(0, self.most, f"busy_{level}_{way}")
        instances = self.v.used_pes if level == Level.PE else 1
        work = busy if is_one(instances) else b.product([busy, instances], f"work_{level}_{way}")
        loads = [self._load(level, way, t) for t in Tensor]
        for load in loads:
            b.model.add(work * pace.numerator >= load * pace.denominator)
        ports = self.v.arch.hierarchy[level].ports
        b.model.add(work * (pace.numerator * ports) >= sum(loads) * pace.denominator)
        self._transfer(busy, fills_pes=level == Level.GLOBAL_BUFFER)

    def _load(self, level: int, way: int, t: Tensor) -> Int:
        """Bytes of t that a level reads or writes, under whichever set of levels stores it."""

        def terms(stored: Stored) -> Terms:
            return access_terms(t, stored, self.traffic.energies.sharing).get((level, way), {})

        return self.traffic.at_least_terms(t, terms, tile_width(self.v.layer, level, t), f"load_{level}_{way}_{t.name}")

    def _interconnect_term(self) -> None:
        """All elements that cross into or out of the array, over its bandwidth."""
        numerator, denominator = rate(self.v.arch.pe_array.interconnect_bandwidth)
        if not numerator:
            return
        b = self.b
        loads = []
        for t in Tensor:

            def terms(stored: Stored, t: Tensor = t) -> Terms:
                return crossing_terms(t, stored, self.traffic.energies.sharing)

            width = tile_width(self.v.layer, Level.PE, t)
            loads.append(self.traffic.at_least_terms(t, terms, width, f"crossing_{t.name}"))
        busy = b.interval(0, self.most, "busy_interconnect")
        b.model.add(busy * numerator >= sum(loads) * denominator)
        self._transfer(busy, fills_pes=True)

    def _transfer(self, busy: Int, *, fills_pes: bool) -> None:
        """A transfer lies between start and end; one that fills PEs of a single slot is never hidden."""
        self._at_least(self.start, busy, self.end)
        if fills_pes and not self.v.arch.hierarchy[Level.PE].double_buffered:
            self.b.model.add(self.exposed_transfer >= busy)
