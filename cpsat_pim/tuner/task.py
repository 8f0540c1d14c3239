"""What is tuned for: networks on the machines of a space, at which cost, and how closely a trial looks at a machine."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from cpsat_pim.base.validate import as_tuple, is_a, not_negative_real, one_of, positive, seconds, text
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.tensors import Graph
from cpsat_pim.tuner.analytic import Floors
from cpsat_pim.tuner.objective import HardwareCost
from cpsat_pim.tuner.space import HardwareSpace
from cpsat_pim.workload.network import Network

#: `analytic`: closed-form lower bounds. `bounds`: the planner, whose node programs cost their lower bounds. `plan`: the
#: planner.
ANALYTIC, BOUNDS, PLAN = "analytic", "bounds", "plan"


@frozen(kw_only=True)
class Fidelity:
    """How a machine is looked at. `time_limit`: seconds of the plan of a network; `node_time`: of a node problem.

    `plans`: the space in which plans are searched; without branches side by side, as floors do not hold for these.

    Raises:
        ValueError: the space of plans has branches side by side.
    """

    name: str = field(default=ANALYTIC, validator=one_of(ANALYTIC, BOUNDS, PLAN))
    time_limit: float = field(default=600.0, validator=seconds)
    node_time: float = field(default=20.0, validator=seconds)
    plans: Space = field(factory=Space, validator=is_a(Space))

    def __attrs_post_init__(self) -> None:
        if self.plans.cuts:
            raise ValueError(f"Fidelity.plans.cuts: must be 0 (got {self.plans.cuts})")


@frozen(kw_only=True, eq=False)
class TuneTask:
    """Networks, a space of machines, and the cost, Eq. (1) of NicePIM (`objective.HardwareCost`).

    `weights` of the networks; `reference`: values of the machine that costs 1, of which absent ones are those of the
    space's machine.

    Raises:
        ValueError: there are not as many weights as networks, the reference is no machine, or a network cannot be
            planned; a line each.
    """

    name: str = field(validator=text)
    space: HardwareSpace = field(validator=is_a(HardwareSpace))
    networks: tuple[Network, ...] = field(converter=as_tuple)
    batch: int = field(default=1, validator=positive)
    alpha: float = field(default=1.0, validator=not_negative_real)
    beta: float = field(default=1.0, validator=not_negative_real)
    weights: tuple[float, ...] = field(converter=as_tuple)
    reference: Mapping[str, float] = field(factory=dict)
    fidelity: Fidelity = field(factory=Fidelity)
    graphs: tuple[Graph, ...] = field(init=False, repr=False)

    @weights.default
    def _equal(self) -> tuple[float, ...]:
        return (1.0,) * len(self.networks)

    @graphs.default
    def _graphs(self) -> tuple[Graph, ...]:
        return tuple(build_graph(network, self.batch) for network in self.networks)

    def __attrs_post_init__(self) -> None:
        problems = [f"TuneTask.reference.{problem}" for problem in self.space.problems_of(self.reference)]
        if len(self.weights) != len(self.networks) or not sum(self.weights) > 0:
            problems.append(f"TuneTask.weights: must be a weight for each of the {len(self.networks)} networks")
        if problems:
            raise ValueError("\n".join(problems))

    def floors(self) -> Floors:
        """Return the bounds of the networks on machines of the space."""
        return Floors(self.space, self.graphs, self.reference)

    def cost(self, floors: Floors) -> HardwareCost:
        """Return the cost, normalised by the bounds of the reference machine, whatever the fidelity."""
        references = floors.of_values(self.reference)
        return HardwareCost(alpha=self.alpha, beta=self.beta, weights=self.weights, references=references)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that identify the cost of a machine."""
        return {
            "networks": [network.name for network in self.networks],
            "batch": self.batch,
            "alpha": self.alpha,
            "beta": self.beta,
            "weights": list(self.weights),
            "reference": dict(self.reference),
            "area": {"limit_mm2": self.space.area.limit_mm2, "pe_um2": self.space.area.pe_um2},
        }
