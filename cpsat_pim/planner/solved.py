"""What a search is given and what it returns: limits, and the best plan with a lower bound."""

from collections.abc import Callable
from typing import Any

from attrs import define, frozen

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.space import Space

#: Receives a line of progress.
Report = Callable[[str], None]


@frozen(kw_only=True)
class SearchLimits:
    """`time_limit`: seconds of the search. `batch`: partitions of a layer whose data movement is computed at a time;
    `mapped`: node problems of a plan that are solved briefly at a time. `seek_percent`: the share of the time after
    which a plan is sought if there is none, `seek_share_percent`: how much of it that takes at most;
    `turn_percent`: how long a better plan is sought for the time that bounds take.
    `refusal_percent`: the share of it that the least capacity may take to be found where no plan fits, if so much is
    left. `wide_gap`: the share of a node program's cost from which on its gap is wide: then other options are solved
    before it is solved again. `fit_gap`: the gap of a plan too large for the nodes up to which one that fits is sought
    at once; with a wider gap it is sought after `seek_percent`.

    Smaller batches compute less, larger ones take fewer rounds.
    """

    time_limit: float = 600.0
    batch: int = 32
    mapped: int = 4
    seek_percent: int = 40
    seek_share_percent: int = 30
    turn_percent: int = 50
    refusal_percent: int = 5
    wide_gap: float = 0.05
    fit_gap: float = 0.02


@define(kw_only=True, eq=False)
class Incumbent:
    """The best plan so far: its value, its cost, and what breaks ties of values.

    `outside`: why a plan that was given is not in the space; empty if it is.
    """

    value: int = INFINITE
    tie: int = INFINITE
    plan: Plan | None = None
    cost: PlanCost | None = None
    outside: str = ""


@frozen(kw_only=True)
class SolvedPlan:
    """The best plan found, its cost, and a lower bound of all plans of the space, in the objective's integers.

    `energy_bound`: no plan of the least latency takes less energy (fJ); None unless energy was the second objective
    and the first was proven. `interrupted`: whether a stop ended the search. `reason`: why there is no plan, if that
    is known. `outside`: why the best plan, which was given, is not in the space; of such a plan nothing is proven, and
    `bound` is that of the plans of the space.
    """

    status: Status
    space: Space
    objective: Objective
    plan: Plan | None
    cost: PlanCost | None
    value: int | None
    bound: int
    seconds: float
    statistics: dict[str, Any]
    energy_bound: int | None = None
    interrupted: bool = False
    reason: str | None = None
    outside: str = ""

    @property
    def gap(self) -> float | None:
        """(value - bound) / value; 0 is a proof. None without a plan of the space."""
        return None if self.value is None or self.outside else max(0.0, (self.value - self.bound) / self.value)

    @property
    def energy_gap(self) -> float | None:
        """The same of the energy, where it is the second objective."""
        if self.energy_bound is None or self.cost is None:
            return None
        return max(0.0, (self.cost.energy_fj - self.energy_bound) / self.cost.energy_fj)


def ignore(line: str) -> None:
    """Report nothing."""


def statistics_of(instance: Instance, rounds: int) -> dict[str, Any]:
    """Return what a search did."""
    distinct = instance.distinct
    return {
        "rounds": rounds,
        "partitions": sum(len(options.rows) for options in distinct),
        "partitions_computed": sum(options.seen for options in distinct),
        "node_problems": instance.costs.known,
        "node_solves": instance.costs.solves,
        "node_reused": instance.costs.reused,
        "largest_table": instance.width,
    }
