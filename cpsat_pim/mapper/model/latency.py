"""The predicted latency as a CP-SAT variable: at least every term of docs/model.md, section 7.

Each term is the time of something that can end last, plus what it cannot overlap (`tables.counts.cost.latency_terms`).
"""

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import tile_width
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.compute import Compute
from cpsat_pim.mapper.model.links import Links, Loading
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.streams import Streams
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.transfers import Transfers
from cpsat_pim.mapper.model.variables import Variables
from tables.counts.accesses import READ, WRITE
from tables.dram import last_run_excess
from tables.nest import MACS


class Latency:
    """`cycles`: a variable that is at least every latency term, without the machine's constant pipeline latency.

    `stall[t]`: cycles that the array waits for t's tiles (exposed transfers). `isolated_stall[t]`: those of them that
    single slow scans cause. Both depend on the order of loops. Here only 0 bounds them; cuts raise them once a solution
    has been counted exactly (`cpsat_pim.mapper.search.cuts`).
    """

    def __init__(self, v: Variables, reuse: Reuse, traffic: Traffic, streams: Streams, max_cycles: int) -> None:
        self.v, self.b, self.reuse, self.traffic, self.streams = v, v.b, reuse, traffic, streams
        self.max_cycles = max_cycles
        #: Tiles of each tensor that come from DRAM, or go there.
        self.fetches: list[Int] = []
        self.cycles = self.b.interval(1, max_cycles, "latency")
        self.compute = Compute(v, reuse, traffic, max_cycles)
        self.steps = self.compute.steps
        self._start_and_end()
        self._compute_term()
        self._stream_terms()
        for busy in Transfers(v, traffic, self.compute, max_cycles).busy:  # Eq. 38
            self._at_least(self.start, busy, self.end)

    def _at_least(self, *parts: Int) -> None:
        """The latency is at least the sum of some parts that follow each other."""
        self.b.model.add(self.cycles >= sum(parts))

    def _start_and_end(self) -> None:
        """The array starts after the first tiles of I and W have arrived, and ends before O's last tile leaves."""
        ends, heads = self.streams.end_cycles, []
        #: Cycles of one tile of I and W over on-chip links.
        self.moves_in: list[Int] = []
        for t in (Tensor.I, Tensor.W):
            heads.append(self.b.interval(0, self.max_cycles, f"head_{t.name}"))
            held = self.b.negated(self.v.first_consumer(MACS, t))
            self.moves_in.append(self.compute.inner_moves(t, READ))
            self.b.imply([held], heads[-1] >= ends[t] + self.moves_in[-1])
        self.start = self.b.interval(0, self.max_cycles, "start")
        if self.v.arch.shared_data_bus or Tensor.W in self.v.restriction.part(Tensor.I):
            self.b.model.add(self.start >= sum(heads))
        else:
            for head in heads:
                self.b.model.add(self.start >= head)
        self.end = self.b.interval(0, self.max_cycles, "end")
        self.b.model.add(self.end >= ends[Tensor.O] + self.compute.inner_moves(Tensor.O, WRITE))

    def _compute_term(self) -> None:
        """Start, the array's cycles, exposed partial sums, stalls and end follow each other."""
        #: Cycles of all array steps.
        self.work = self.compute.work()
        working = [self.work, *self.compute.exposed()]
        self.array = self.steps
        if len(working) > 1 or working[0] is not self.steps:
            self.array = self.b.interval(1, self.max_cycles, "array")
            self.b.model.add(self.array == sum(working))
        self.stall = [self.b.interval(0, self.max_cycles, f"stall_{t.name}") for t in Tensor]
        self.waits = self._spilled_waits()
        self.isolated_stall = [self.b.interval(0, self.max_cycles, f"isolated_stall_{t.name}") for t in Tensor]
        #: Whether the array's work hides some of t's loads. Else partial sums may return at the same time.
        self.is_hidden = [self.b.negated(self._is_exposed(t)) for t in Tensor]
        isolated: list[Int] = []
        for t in Tensor:
            self._at_least(self.start, self.work, self.stall[t], self.end)
            self.b.imply([self.is_hidden[t]], self.cycles >= self.start + self.array + self.stall[t] + self.end)
            isolated.append(self._isolated(t))
        self._at_least(self.start, self.array, self.waits, *isolated, self.end)
        #: Cycles for which the array waits for moves into one slot, and whether loads and moves take turns.
        self.moves = [self.compute.exposed_tiles(t) for t in Tensor]
        self.takes_turns = [self.compute.takes_turns(t) for t in Tensor]
        for t, moves in zip(Tensor, self.moves, strict=True):
            if not isinstance(moves, int):  # returning sums may move meanwhile
                self._at_least(self.start, self.work, moves, self.waits, *isolated, self.end)
                late = self.start + self.work + moves + self.stall[t] + self.end
                self.b.imply([self.takes_turns[t]], self.cycles >= late)

    def _isolated(self, t: Tensor) -> Int:
        """Return t's isolated stall, or 0 where it may coincide with other waits, as of bare loads and O's stream."""
        where = self.b.both([self.is_hidden[t], self.b.negated(self._spills_tiles())], f"is_isolated_{t.name}")
        if isinstance(where, bool):
            return self.isolated_stall[t] if where else 0
        used = self.b.interval(0, self.max_cycles, f"isolated_used_{t.name}")
        self.b.imply([where], used >= self.isolated_stall[t])
        return used

    def _levels_of_one_slot(self) -> list[Level]:
        levels = (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)
        return [m for m in levels if m is Level.ROW_BUFFER or not self.v.arch.hierarchy[m].double_buffered]

    def _spilled_waits(self) -> Int:
        """Return the cycles for which the array waits for O's stream, if partial sums come back from DRAM to a level.

        It waits for all but the last write. Only of two slots one leaves while the array works on a first visit: one
        of X > 1 writes of each tile, which take half of the work at most, and a third of the columns.
        """
        b, o, spilled = self.b, Tensor.O, self._spills_tiles()
        if spilled is False:
            return 0
        waits, streams = b.interval(0, self.max_cycles, "spilled_waits"), self.streams
        but_last = streams.cycles[o] - streams.end_cycles[o]
        for least in (6 * self.stall[o], 6 * but_last - 3 * self.array, 4 * streams.dram.tCCD * streams.columns[o]):
            b.imply([spilled], 6 * waits >= least)
        for m in self._levels_of_one_slot():
            b.imply([spilled, self.v.first_consumer(m, o)], waits >= but_last)
        return waits

    def _spills_tiles(self) -> Lit:
        """Return whether partial sums come back from DRAM to a level."""
        return self.b.both([self.streams.is_spilled, self.b.negated(self.v.first_consumer(MACS, Tensor.O))], "spills")

    def _stream_terms(self) -> None:
        """The streams of I and W are followed by the array's work on their last tile; O's follows that on its first.

        Each of n tiles but one hides at most the array's cycles on one tile of a load (docs/solver.md, B9).
        """
        v, b, streams = self.v, self.b, self.streams
        stays = self._stays = [self._stay(t) for t in Tensor]
        works = [self._work_per_tile(t, stays[t]) for t in Tensor]
        for t in (Tensor.I, Tensor.W):
            drawn = v.first_consumer(MACS, t)  # step by step: the stream advances only while the array computes
            held = b.negated(drawn)
            after = works[t] + self.end
            b.imply([held], self.cycles >= streams.cycles[t] + self.moves_in[t] + after)
            self._after_first(t, held, stays[t], after)
            b.imply([drawn], self.cycles >= self.start + streams.cycles[t] + self.end)
        self._output_stream(stays[Tensor.O], works[Tensor.O])
        for t in Tensor:
            self._row_buffer_terms(t, stays[t])
            self._stall_terms(t, stays[t])
        if v.arch.shared_data_bus:
            shorter = b.interval(1, b.bounds_of(self.steps)[1], "shorter_stay")
            b.model.add_min_equality(shorter, stays)
            own = (streams.cycles[t] for t in Tensor if not v.restriction.is_shared(t))
            shared = (cycles for part in v.restriction.shared_parts for cycles in self._bank_cycles(part))
            self._at_least(*own, *shared, shorter)
        for part in v.restriction.shared_parts:
            self._bank_term(part, stays)
        turns = [b.both([self.takes_turns[t], *self._unless_spilled(t)], f"waits_in_turn_{t.name}") for t in Tensor]
        loading = list(map(Loading, self.is_hidden, turns, self.stall))
        self.links = Links(v, streams, self.steps, self.work, stays, self.fetches, loading, self.max_cycles)
        for link in self.links.shared:
            self._at_least(self.work, *self.links.exposed(link))
            if not v.any_split:  # one variable stands for two loops, so what is loaded most often is not known
                self._at_least(self.start, self.work, self.links.wait(link), self.end)

    def _bank_term(self, part: list[Tensor], stays: list[Int]) -> None:
        """The streams of tensors that share a bank follow each other, and the work on the last tile follows them.

        Only the last stream's data is awaited; the others end with their row being closed.
        """
        shorter = self.b.interval(1, self.b.bounds_of(self.steps)[1], "shorter_stay_of_bank")
        self.b.model.add_min_equality(shorter, [stays[t] for t in part])
        self._at_least(*self._bank_cycles(part), shorter)

    def _is_exposed(self, t: Tensor) -> Lit:
        """Return whether one level alone stores t, with one slot."""
        v, b = self.v, self.b
        links = [[v.first_consumer(m, t), v.linked(m, MACS, t)] for m in self._levels_of_one_slot()]
        return b.either([b.both(link, f"alone_{m}_{t.name}") for m, link in enumerate(links)], f"alone_{t.name}")

    def _bank_cycles(self, part: list[Tensor]) -> list[Int]:
        """Return the cycles of a bank that tensors share, in parts; O's last write-out comes last."""
        ending = self.streams.ending if Tensor.O in part else 0
        return [*(self.streams.closed_cycles[t] for t in part), self.streams.least_last_run, ending]

    def _output_stream(self, stay: Int, work: Int) -> None:
        """O's stream follows the array's work on its first tile. Waits for spilled partial sums are part of it."""
        stream, own = self.streams.cycles[Tensor.O], self.streams.end_cycles[Tensor.O]
        self._at_least(self.start, stay, stream)
        held = self.b.negated(self.v.first_consumer(MACS, Tensor.O))
        self.b.imply([held], self.cycles >= self.start + work + stream - own + self.end)

    def _after_first(self, t: Tensor, held: Lit, stay: Int, after: Int) -> None:
        """All scans but the first follow the start; or all but the second do, which may be loaded before the start.

        In the second case the array also works on the second tile, at least its steps: `after` has the array's cycles
        per tile rounded up already.
        """
        b, streams = self.b, self.streams
        rest = self.start + streams.cycles[t] - streams.scans[t].first_cycles + after
        is_ahead = b.boolean(f"ahead_{t.name}")
        where = [held, streams.scans[t].is_box]
        b.imply([*where, is_ahead.negated()], self.cycles >= rest)
        b.imply([*where, is_ahead], self.cycles >= rest + stay - streams.scans[t].longest_cycles)

    def _stay(self, t: Tensor) -> Int:
        """Return the steps for which a tile from DRAM is in use."""
        b = self.b
        extents = [self.streams.scans[t].extents.get(d, 1) for d in Dim]
        self.fetches.append(self.compute.fetches(t, extents, self.streams.passes[t], "dram"))
        stay = b.interval(1, b.bounds_of(self.steps)[1], f"stay_{t.name}")
        b.equal_product(self.steps, [stay, self.fetches[t]])
        b.model.add(self.streams.columns[t] >= self.fetches[t])  # a column is never shared by two scans
        return stay

    def _work_per_tile(self, t: Tensor, stay: Int) -> Int:
        """Return the array's cycles per tile from DRAM, rounded up.

        Each of n tiles but one hides at most this much, rounded down, of a load. So the cycles of all loads and the
        rest of the array's cycles, which is at least this much, follow each other (B9). Where nothing hides the loads,
        only the steps follow them: partial sums may return meanwhile.
        """
        if self.array is self.steps:
            return stay
        b = self.b
        work = b.interval(1, self.max_cycles, f"work_{t.name}")
        b.model.add(work >= stay)
        most = self.max_cycles + b.bounds_of(self.fetches[t])[1]  # rounding up adds less than a cycle per tile
        all_work = b.product([work, self.fetches[t]], f"work_all_{t.name}", most=most)
        b.imply([self.is_hidden[t]], all_work >= self.array)
        return work

    def _stall_terms(self, t: Tensor, stay: Int) -> None:
        """The array stalls for scans that open rows, as far as the steps on a tile do not hide them (B10).

        A scan that opens k rows and takes n columns adds at least k row misses and n columns to its stream. A slower
        array hides more, but does not end sooner.
        """
        v, b, streams = self.v, self.b, self.streams
        buffered = [v.first_consumer(Level.GLOBAL_BUFFER, t), v.first_consumer(Level.PE, t)]
        held = [b.both([b.either(buffered, f"buffered_{t.name}"), streams.scans[t].is_box], f"stalls_{t.name}")]
        if t is Tensor.O:
            held.append(b.negated(streams.is_spilled))
        columns = streams.scans[t].columns
        rows = streams.scans[t].rows * (1 if t is Tensor.O else 2)  # the second tile may be loaded before the start
        self._exposed_misses(t, held, streams.dram.tCCD * columns - stay, rows)

    def _exposed_misses(self, t: Tensor, where: list[Lit], columns_less_stay: Int, rows: Int | None) -> None:
        """Steps, exposed row misses and edges follow each other.

        The `rows` of the first scan are part of an edge, which replaces them if they are None.
        """
        b, miss = self.b, self.v.arch.dram_activation_latency
        most = self.max_cycles - min(0, last_run_excess(self.streams.dram))  # a negative excess is added below
        excess, hides = b.interval(0, miss, f"excess_{t.name}"), b.boolean(f"hides_{t.name}")
        b.imply([*where, hides], excess >= miss + columns_less_stay)  # the steps hide all columns, and some of a miss
        b.imply([*where, hides.negated()], excess >= miss)
        misses = b.interval(0, b.bounds_of(self.streams.activations[t])[1], f"misses_{t.name}")
        b.imply(where, misses >= self.streams.activations[t] - (0 if rows is None else rows))
        waited = b.product([misses, excess], f"waited_{t.name}", most=most)
        # A first load or last write-out may be shorter than its misses: no row is closed after it.
        edges = [self.start, self.end] if rows is not None else [self._outer_edge(t)]
        if rows is None or t is Tensor.O:  # outputs stall from their first write-out on
            edges.append(min(0, last_run_excess(self.streams.dram)))
        self._at_least(self.steps, waited, *edges)

    def _row_buffer_terms(self, t: Tensor, stay_in_use: Int) -> None:
        """The row buffer has one slot: only the array's work on the last tile taken from it hides the next load."""
        aligned = self.v.first_consumer(Level.ROW_BUFFER, t)
        if aligned is False:
            return
        stream = self.streams.cycles[t]
        links = [c for c in (Level.GLOBAL_BUFFER, Level.PE) if self.v.linked(Level.ROW_BUFFER, c, t) is not False]
        taken: dict[int, tuple[Int, Int]] = {c: self._hidden(t, c) for c in links}
        use = self._row_buffer_use(t, stay_in_use, {c: stay for c, (stay, _) in taken.items()})
        self.b.imply([aligned], self.cycles >= stream + use + self._outer_edge(t))
        for consumer in (Level.GLOBAL_BUFFER, Level.PE, MACS):
            linked = self.v.linked(Level.ROW_BUFFER, consumer, t)
            if linked is False:
                continue
            where = [linked, *self._unless_spilled(t)]
            exposed = [self.steps, stream, self._outer_edge(t)]
            if consumer != MACS:
                stay, hidden = taken[consumer]
                exposed.append(-hidden)
                self._exposed_block_misses(t, where, stay)
                sums = self.array - self.work  # which may return meanwhile
                turns = [*where, self.takes_turns[t]]
                self.b.imply(turns, self.cycles >= sum(exposed) + self.moves[t] - sums)
            self.b.imply(where, self.cycles >= sum(exposed))

    def _unless_spilled(self, t: Tensor) -> list[Lit]:
        """Return the condition under which no tile of t comes back from DRAM."""
        return [self.b.negated(self.streams.is_spilled)] if t is Tensor.O else []

    def _exposed_block_misses(self, t: Tensor, where: list[Lit], stay: Int) -> None:
        """As `_stall_terms`, for blocks in the row buffer: only the steps on the last tile taken hide a load."""
        dram, tile = self.streams.dram, self.traffic.tile[int(Level.ROW_BUFFER), t]
        columns = self.b.interval(1, self.b.bounds_of(tile)[1] * 4, f"block_columns_{t.name}")
        self.b.imply(where, columns * dram.column_bytes >= tile * self.v.layer.width_bytes[t])
        self._exposed_misses(t, where, dram.tCCD * columns - stay, None)

    def _outer_edge(self, t: Tensor) -> Int:
        """Return the start for O, the end for I and W: the edge that t's own first or last load is not part of."""
        return self.start if t is Tensor.O else self.end

    def _hidden(self, t: Tensor, consumer: Level) -> tuple[Int, Int]:
        """Return the steps on a tile taken from the row buffer, and those on the last tile of every block together."""
        b, steps = self.b, self.steps
        extents = self.compute.tile_extents(t, consumer)
        taken = self.compute.fetches(t, extents, self.reuse.factors[t][consumer], "taken")
        loads = self.compute.fetches(t, self.v.e2, self.reuse.factors[t][Level.ROW_BUFFER], "loads")
        stay = b.interval(1, b.bounds_of(steps)[1], f"inner_stay_{t.name}")
        b.equal_product(steps, [stay, taken])
        return stay, b.product([stay, loads], f"hidden_{t.name}", most=b.bounds_of(steps)[1])

    def _row_buffer_use(self, t: Tensor, stay_in_use: Int, stays: dict[int, Int]) -> Int:
        """Return the cycles for which blocks in the row buffer are in use, without rounding up per tile.

        Behind the moves the last tile taken is in use, `stays` by level. If that level has one slot for the MACs, so is
        all of the last block, between the moves.
        """
        v, b = self.v, self.b
        aligned = v.first_consumer(Level.ROW_BUFFER, t)
        if aligned is False:
            return 0
        use = b.interval(0, self.max_cycles, f"row_buffer_use_{t.name}")
        b.imply([v.linked(Level.ROW_BUFFER, MACS, t)], use >= self.steps)
        way = WRITE if t is Tensor.O else READ
        pace = self.compute.pace(Level.ROW_BUFFER, way)
        for consumer, stay in stays.items():
            linked = v.linked(Level.ROW_BUFFER, consumer, t)
            b.imply([linked], use >= stay_in_use)
            if pace is None:
                continue
            is_copied = consumer == Level.PE and t is not Tensor.O and not v.arch.multicast
            size, quantity = self.traffic.moved[t]["fills" if is_copied else f"moved{consumer}"]
            width = tile_width(self.v.layer, Level.ROW_BUFFER, t)
            moved = quantity * (size * width * pace.denominator)
            b.imply([linked], (use - stay) * pace.numerator >= moved)
            fills = self.compute.fills_one_slot(Level.ROW_BUFFER, consumer, t)
            b.imply([fills], (use - stay_in_use) * pace.numerator >= moved)
        return use
