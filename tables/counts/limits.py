"""What the DRAM streams of one mapping take at most if it costs no more than a limit, and its cost as far as it may."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tables.counts.accesses import fetches
from tables.counts.cost import Cost, cost_with, energy_fj
from tables.counts.on_chip import Machine, array_timing
from tables.counts.stream import dram_stream, is_long
from tables.counts.walk import NO_STREAM_LIMIT, StreamCounts, StreamLimit, min_column_cycles
from tables.dram import last_run_excess
from tables.nest import DRAM, I, Ints, Nest, O, W, fetched_elements


class CostLimit(NamedTuple):
    """The most that a mapping may cost: `cycle_weight` per cycle of its latency and `fj_weight` per femtojoule."""

    most: int
    cycle_weight: int
    fj_weight: int


class StreamLimits:
    """What each stream of a mapping takes at most if it costs no more than a limit, as others become known.

    All energy but that of activations is known. The latency is at least that of the array, `array_cycles`, and at least
    the time of a bus or a bank, where streams follow each other; of these the last one awaits its data in place of
    closing its row. A stream that is not known has no activations and the columns of its tiles.
    """

    def __init__(self, nest: Nest, machine: Machine, cost: CostLimit, array_cycles: int) -> None:
        self._nest, self._machine, self._cost, self._array_cycles = nest, machine, cost, array_cycles
        self._left = cost.most - cost.fj_weight * energy_fj(nest, machine, 0)
        self._awaited = max(0, last_run_excess(machine.dram))
        self._activations = dict.fromkeys((I, W, O), 0)
        self._cycles = {t: _least_cycles(nest, machine, t) for t in (I, W, O)}

    @property
    def is_empty(self) -> bool:
        """Whether no streams keep the limit."""
        limits = {t: self.of(t) for t in (I, W, O)}
        return any(limits[t].activations < 0 or limits[t].cycles < self._cycles[t] for t in limits)

    def of(self, t: int) -> StreamLimit:
        """Return what t's stream takes at most."""
        cycle_weight, others = self._cost.cycle_weight, [u for u in (I, W, O) if u != t]
        on_link = others if self._machine.is_bus_shared else self._nest.sharing(t)
        busy = sum(self._cycles[u] for u in on_link)
        each = self._cost.fj_weight * self._machine.activation_fj
        left = self._left - each * sum(self._activations[u] for u in others)
        activations, cycles = NO_STREAM_LIMIT
        if each:
            activations = (left - cycle_weight * max(self._array_cycles, busy - self._awaited)) // each
        if cycle_weight:
            cycles = left // cycle_weight - self._machine.pipeline_latency - busy + self._awaited
        return StreamLimit(activations, cycles)

    def know(self, t: int, streams: Iterable[StreamCounts]) -> None:
        """From now on t has one of some streams."""
        counted = list(streams)
        self._activations[t] = min(stream.activations for stream in counted)
        self._cycles[t] = min(min(stream.cycles, stream.closed_cycles) for stream in counted)


def _least_cycles(nest: Nest, machine: Machine, t: int) -> int:
    """Return what t's stream takes at least: the columns that its tiles fill, of scans that share none."""
    consumer, dram = nest.consumers(t)[0], machine.dram
    elements = fetched_elements(nest, t, consumer)
    columns = -(-elements * nest.width(t, DRAM) // dram.column_bytes)
    return fetches(nest, t, consumer) * columns * min_column_cycles(dram)


def cost_within(
    nest: Nest, machine: Machine, limits: Sequence[StreamLimit], cost: CostLimit, stop: Ints | None = None
) -> Cost | None:
    """Return the cost of a mapping if it may keep a limit, and its streams keep theirs; else None, as soon as that is
    known.

    Raises:
        Stopped: `stop` was set.
    """
    tempo, streams = array_timing(nest, machine), dict[int, StreamCounts]()
    left = StreamLimits(nest, machine, cost, tempo.array_cycles)
    if left.is_empty:
        return None
    for t in sorted((I, W, O), key=lambda t: is_long(nest, t)):
        limit = limits[t].within(left.of(t))
        streams[t] = dram_stream(nest, t, machine.dram, tempo, limit, stop)
        if not limit.admits(streams[t]):
            return None
        left.know(t, [streams[t]])
    return cost_with(nest, machine, (streams[I], streams[W], streams[O]))
