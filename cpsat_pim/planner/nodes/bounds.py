"""Lower bounds of node problems, from the plainest one to that of the mapper's tiles."""

from collections.abc import Callable, Iterator

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.units import to_fj
from cpsat_pim.mapper.bounds.layer_bound import layer_lower_bound, tile_lower_bound
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.planner.nodes.problem import NodeProblem
from cpsat_pim.planner.nodes.store import NodeStore
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import padded_layers

#: The bound of a layer on a machine; None: there is no mapping.
_Bound = Callable[[ConvWorkload, PIMArchitecture, Objective], int | None]


class NodeBounds:
    """Bounds of layers in any layouts, each computed once; None: there is no mapping.

    Each is tighter than the one before and takes longer: `plain`, at once; `spatial`, of the arrangements of the PEs
    (docs/solver.md, B1), hundredths of a second; `tiles` (B12), a tenth, kept in the store if there is one.
    """

    def __init__(
        self,
        arch: PIMArchitecture,
        objective: Objective,
        padding: float,
        store: NodeStore | None,
        key: Callable[[NodeProblem], str],
    ) -> None:
        """`padding`: as of `NodeCosts`. `key`: of a problem in the store."""
        self.arch, self.objective, self.padding, self._store, self._key = arch, objective, padding, store, key
        self._spatial: dict[NodeProblem, int | None] = {}
        self._tiles: dict[NodeProblem, int | None] = {}

    def plain(self, layer: ConvWorkload) -> int:
        """Return the cost of all PEs busy with a MAC each cycle, and of the energy of the MACs alone."""
        array = self.arch.pe_array
        energy_fj = layer.macs * to_fj(array.compute_unit.mac_energy)
        return int(self.objective.value(-(-layer.macs // array.macs_per_cycle), energy_fj))

    def spatial(self, problem: NodeProblem) -> int | None:
        """Return the bound of the arrangements of the PEs."""
        if problem not in self._spatial:
            self._spatial[problem] = self._least(layer_lower_bound, problem.layer)
        return self._spatial[problem]

    def tiles(self, problem: NodeProblem) -> int | None:
        """Return the bound of the tiles of all mappings."""
        if problem not in self._tiles:
            key = f"floor {self._key(problem)}"
            kept = self._store.read(key) if self._store else None
            if kept is None:
                kept = {"least": self._least(tile_lower_bound, problem.layer)}
                if self._store:
                    self._store.write(key, kept)
            self._tiles[problem] = kept["least"]
        return self._tiles[problem]

    def _least(self, bound: _Bound, layer: ConvWorkload) -> int | None:
        """Return the least bound of the padded layers that fit the node."""
        found = (bound(one, self.arch, self.objective) for one in self._fitting(layer))
        return min((one for one in found if one is not None), default=None)

    def _fitting(self, layer: ConvWorkload) -> Iterator[ConvWorkload]:
        return (one for one in padded_layers(layer, self.padding) if not check_fits(one, self.arch))
