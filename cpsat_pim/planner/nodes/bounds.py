"""Lower bounds of node problems, from the plainest one to that of the mapper's tiles."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import asdict, evolve, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.units import to_fj
from cpsat_pim.mapper.bounds.layer_bound import layer_lower_bound, tile_lower_bound
from cpsat_pim.mapper.result import Budget, Objective
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.planner.nodes.problem import HIGHEST, NodeCost, NodeProblem
from cpsat_pim.planner.nodes.store import NodeStore
from cpsat_pim.planner.nodes.workers import Workers
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import padded_layers


@frozen(kw_only=True)
class TileBound:
    """A bound of tiles; None: there is no mapping. It was raised up to `below` only: if it reaches that cost, the
    bound of all tiles may be higher.
    """

    least: int | None
    below: int = HIGHEST

    @property
    def is_final(self) -> bool:
        """Whether it is the bound of all tiles."""
        return self.least is None or self.least < self.below

    def reaches(self, below: int) -> bool:
        """Whether no higher bound is to be had below this cost."""
        return self.is_final or (self.least or 0) >= below


@frozen(kw_only=True)
class TileTask:
    """The bound of the tiles of all mappings of some layers, raised up to a cost `below`; none costs less than `least`.

    It is computed here or in a worker process.
    """

    key: NodeProblem
    layers: tuple[ConvWorkload, ...]
    arch: PIMArchitecture
    objective: Objective
    least: int
    below: int

    def run(self, stop: Any = None, report: Any = None) -> TileBound:
        """Return the bound: of the layers the least. It takes too little time to be stopped, or reported."""
        most = None if self.below == HIGHEST else self.below
        found = (
            tile_lower_bound(
                one, self.arch, self.objective, self.key.constraints, known_bound=self.least, value_to_beat=most
            )
            for one in self.layers
        )
        return TileBound(least=_least(found), below=self.below)


def _least(bounds: Iterable[int | None]) -> int | None:
    """Return the least bound; None if there is none."""
    return min((one for one in bounds if one is not None), default=None)


class NodeBounds:
    """Bounds of node problems, each computed once.

    Each is tighter than the one before and takes longer: `plain`, at once; `spatial`, of the arrangements of the PEs
    (docs/solver.md, B1), hundredths of a second; `tiles` (B12), a tenth or more. The last two are kept in the store if
    there is one; the first two are those of all layouts.
    """

    def __init__(
        self,
        arch: PIMArchitecture,
        objective: Objective,
        padding: float,
        store: NodeStore | None,
        key: Callable[[NodeProblem], str],
        workers: Workers,
    ) -> None:
        """`padding`: as of `NodeCosts`. `key`: of a problem in the store. `workers`: compute bounds of tiles."""
        self.arch, self.objective, self.padding, self._store, self._key = arch, objective, padding, store, key
        self._workers = workers
        self._spatial: dict[NodeProblem, int | None] = {}
        self._tiles: dict[NodeProblem, TileBound] = {}

    def plain(self, layer: ConvWorkload) -> int:
        """Return the cost of all PEs busy with a MAC each cycle, and of the energy of the MACs alone."""
        array = self.arch.pe_array
        energy_fj = layer.macs * to_fj(array.compute_unit.mac_energy)
        return int(self.objective.value(-(-layer.macs // array.macs_per_cycle), energy_fj))

    def spatial(self, problem: NodeProblem) -> int | None:
        """Return the bound of the arrangements of the PEs, or a better one that is kept; None: there is no mapping."""
        if problem not in self._spatial:
            found = self._read(problem)
            if found is None:
                fitting = self._fitting(problem.layer)
                least = _least(layer_lower_bound(one, self.arch, self.objective) for one in fitting)
                found = TileBound(least=least, below=least or 0)
                self._write(problem, found)
            self._spatial[problem] = found.least
        return self._spatial[problem]

    def known(self, problem: NodeProblem) -> NodeCost | None:
        """Return the best bound that is kept, in any layouts or in the problem's, or the plain one; None if it is kept
        that there is no mapping.
        """
        found = NodeCost(least=self.plain(problem.layer), is_refined=False, is_spatial=False, is_tied=False)
        for one in dict.fromkeys((problem.relaxation, problem)):
            kept = self._tiles.get(one) or self._read(one)
            if kept is not None and kept.least is None:
                return None
            if kept is not None:
                found = evolve(
                    found,
                    least=max(found.least, kept.least or 0),
                    is_spatial=True,
                    is_refined=kept.is_final or found.is_refined,
                    is_tied=kept.is_final and one == problem,
                )
        return found

    def _read(self, problem: NodeProblem) -> TileBound | None:
        kept = self._store.read(f"floor {self._key(problem)}") if self._store else None
        return None if kept is None else TileBound(**kept)

    def _write(self, problem: NodeProblem, found: TileBound) -> None:
        if self._store:
            self._store.write(f"floor {self._key(problem)}", asdict(found))

    def tiles(self, problem: NodeProblem, below: int = HIGHEST) -> TileBound:
        """Return the bound of the tiles of all mappings in the problem's layouts, raised up to a cost `below`.

        It begins at the bound of free layouts, if that is known.
        """
        task = self._task(problem, below)
        if task is not None:
            self._receive(problem, task.run())
        return self._tiles[problem]

    def prepare_tiles(self, asked: Mapping[NodeProblem, int], is_over: Callable[[], bool]) -> None:
        """Compute such bounds, each up to its cost, several at a time where there are several workers."""
        if self._workers.jobs > 1:
            tasks = (self._task(problem, below) for problem, below in asked.items())
            self._workers.run_short([task for task in tasks if task is not None], self._receive, is_over)

    def _task(self, problem: NodeProblem, below: int) -> TileTask | None:
        """Return what is to be computed of a problem; None if what is known, or kept, reaches the cost."""
        found = self._tiles.get(problem) or self._read(problem)
        if found is not None and found.reaches(below):
            self._tiles[problem] = found
            return None
        before = found or self._tiles.get(problem.relaxation)
        return TileTask(
            key=problem,
            layers=tuple(self._fitting(problem.layer)),
            arch=self.arch,
            objective=self.objective,
            least=before.least or 0 if before else 0,
            below=below,
        )

    def _receive(self, problem: NodeProblem, found: TileBound) -> None:
        self._tiles[problem] = found
        self._write(problem, found)

    def energy(self, problem: NodeProblem, budget: Budget) -> int:
        """Return a bound on the energy of the mappings within a budget, in fJ."""
        energy, layers = Objective.named("energy"), padded_layers(problem.layer, self.padding)
        return _least(layer_lower_bound(one, self.arch, energy, problem.constraints, budget) for one in layers) or 0

    def _fitting(self, layer: ConvWorkload) -> Iterator[ConvWorkload]:
        return (one for one in padded_layers(layer, self.padding) if not check_fits(one, self.arch))
