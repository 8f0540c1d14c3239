"""The exchange in two phases, for small data: along the rows of each set first, then along its columns.

A set of p rows and q columns takes (q - 1) + (p - 1) dependent steps instead of p q - 1. Every node receives as many
chunks as in one ring, but the links are loaded otherwise: a phase uses links of one direction only. Few steps count
where a step is short: its messages' flits are few against the hops and the start of a message.
"""

from collections import defaultdict
from collections.abc import Sequence

from attrs import frozen

from cpsat_pim.planner.rings.instance import Instance, Mesh
from cpsat_pim.planner.rings.routes import hops
from cpsat_pim.planner.rings.schedule import Effort, Schedule, schedule_rings
from cpsat_pim.planner.rings.tours import grid_of


@frozen(kw_only=True)
class Phase:
    """Rings, and the chunks that a node sends in each step."""

    schedule: Schedule
    chunks: int

    @property
    def chunk_times(self) -> int:
        """Chunks over the heaviest link, step after step."""
        return self.schedule.chunk_times * self.chunks

    def cycles(self, chunk_flits: int, step_cycles: int) -> int:
        """An estimate: each step moves its flits over the heaviest link, then its longest route's hops, then waits."""
        a_step = self.schedule.load * self.chunks * chunk_flits + longest_hops(self.schedule) + step_cycles
        return self.schedule.instance.steps * a_step


@frozen(kw_only=True)
class TwoPhase:
    """One exchange as phases that follow each other; one phase is the ring over all nodes of a set."""

    phases: tuple[Phase, ...]

    @property
    def steps(self) -> int:
        """Steps that depend on each other."""
        return sum(phase.schedule.instance.steps for phase in self.phases)

    @property
    def chunk_times(self) -> int:
        """Chunks over the heaviest link of each phase, added up."""
        return sum(phase.chunk_times for phase in self.phases)

    def cycles(self, chunk_flits: int, step_cycles: int = 0) -> int:
        """An estimate of the time, with so many flits a chunk and so many cycles to start a step."""
        return sum(phase.cycles(chunk_flits, step_cycles) for phase in self.phases)


def longest_hops(schedule: Schedule) -> int:
    """Hops of the longest route from a node to its successor."""
    mesh = schedule.instance.mesh
    return max(hops(mesh, ring[i - 1], ring[i]) for ring in schedule.rings for i in range(len(ring)))


def one_phase(schedule: Schedule) -> TwoPhase:
    """The ring exchange itself, to compare with."""
    return TwoPhase(phases=(Phase(schedule=schedule, chunks=1),))


def two_phase(instance: Instance, effort: Effort, *, is_rows_first: bool = True) -> TwoPhase | None:
    """Return the exchange along rows and then columns (or the other way round); None if some set is no grid of at
    least two rows and two columns, or the sets' grids differ in shape.
    """
    shapes = set()
    lines: dict[bool, list[list[int]]] = defaultdict(list)
    for nodes in instance.sets:
        grid = grid_of(instance.mesh, nodes)
        if grid is None or 1 in grid.shape:
            return None
        shapes.add(grid.shape)
        lines[True] += grid.tolist()
        lines[False] += grid.T.tolist()
    if len(shapes) > 1:
        return None
    first, second = (
        _line_schedule(instance.mesh, lines[is_rows], effort) for is_rows in (is_rows_first, not is_rows_first)
    )
    chunks = first.instance.steps + 1
    return TwoPhase(phases=(Phase(schedule=first, chunks=1), Phase(schedule=second, chunks=chunks)))


def _line_schedule(mesh: Mesh, lines: Sequence[Sequence[int]], effort: Effort) -> Schedule:
    return schedule_rings(Instance(mesh=mesh, sets=lines), effort)
