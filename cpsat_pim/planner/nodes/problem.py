"""A node problem, and what is known of its cost."""

from collections.abc import Iterable
from typing import Any

from attrs import asdict, evolve, field, frozen

from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.mapping.mapping_file import build_mapping
from cpsat_pim.planner.partition import LAYOUTS
from cpsat_pim.workload import ConvWorkload

#: Indices of the layouts of I and O; None is free.
Layouts = tuple[int | None, int | None]

FREE_LAYOUTS: Layouts = (None, None)

#: Above all costs.
HIGHEST = 2**62


@frozen(kw_only=True, cache_hash=True)
class NodeProblem:
    """A layer on one node, I and O in given layouts.

    The layer's name has no part in the comparison: equal parts of different layers are one problem.
    """

    layer: ConvWorkload = field(eq=False)
    layouts: Layouts = FREE_LAYOUTS
    shape: Any = field(init=False, repr=False)

    @shape.default
    def _shape(self) -> Any:
        return self.layer.shape_key

    @property
    def is_free(self) -> bool:
        """Whether the node program chooses its layouts."""
        return self.layouts == FREE_LAYOUTS

    @property
    def relaxation(self) -> "NodeProblem":
        """The same layer in any layouts: none of its tied problems costs less."""
        return self if self.is_free else NodeProblem(layer=self.layer)

    @property
    def constraints(self) -> Constraints:
        """The layouts as constraints: index 0 is NGCHW and NGKQP, as BCHW; 1 has channels last, as BHWC."""
        return FREE if self.is_free else Constraints(layout=(self.layouts[0], None, self.layouts[1]))


@frozen(kw_only=True)
class NodeCost:
    """Bounds of a node problem in the objective's integers, and its best mapping with its exact figures, if any.

    No mapping costs less than `least`. `is_spatial`, `is_refined`, `is_tied`: whether that is the mapper's bound of the
    PEs' arrangements at least, that of tiles in any layouts, and that of tiles in the problem's layouts, not just that
    of all PEs at work. `value` is the cost of `mapping`.
    `least_energy_fj`: no mapping that costs as little as `value` takes less energy.
    `seconds`: of its longest solve, or of the solve in any layouts that found its mapping. `is_brief`: whether that was
    for a mapping, not for a proof.
    """

    least: int
    is_refined: bool = True
    is_spatial: bool = True
    is_tied: bool = True
    value: int | None = None
    latency_cycles: int = 0
    energy_fj: int = 0
    least_energy_fj: int = 0
    mapping: Mapping | None = None
    seconds: float = 0.0
    is_brief: bool = False

    @property
    def is_solved(self) -> bool:
        """Whether there is a mapping."""
        return self.mapping is not None

    @property
    def gap(self) -> int:
        """How much more the best mapping costs than the bound."""
        return 0 if self.value is None else self.value - self.least

    @property
    def is_proven(self) -> bool:
        """Whether no mapping costs less than the one that is known."""
        return self.value is not None and self.value <= self.least

    @property
    def is_energy_proven(self) -> bool:
        """Whether, besides, no mapping of the same cost takes less energy."""
        return self.is_proven and self.energy_fj <= self.least_energy_fj

    def raised(self, least: int, is_refined: bool, is_tied: bool) -> "NodeCost":
        """Return the same with a bound that is that of the PEs' arrangements at least, or of tiles; it never falls."""
        return evolve(
            self,
            least=max(self.least, least),
            is_spatial=True,
            is_refined=self.is_refined or is_refined,
            is_tied=self.is_tied or is_tied,
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data."""
        return asdict(self, recurse=False) | {"mapping": self.mapping and self.mapping.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "NodeCost":
        """Convert from plain data."""
        mapping = data["mapping"]
        return cls(**{**data, "mapping": mapping and build_mapping("node store", mapping)})


#: By problem, the cost from which on no mapping is of use.
Useful = dict[NodeProblem, int]


def highest(asked: Iterable[tuple[NodeProblem, int]]) -> Useful:
    """Return the highest cost that is asked for of each problem."""
    found: Useful = {}
    for problem, cost in asked:
        found[problem] = max(found.get(problem, 0), cost)
    return found


def layout_index(layout: str) -> int | None:
    """Return the index of a home's layout among a mapping's; None, so free, for groups of channels, which it lacks."""
    return LAYOUTS.index(layout) if layout in LAYOUTS else None
