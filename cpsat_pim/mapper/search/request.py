"""What a solve of one layer is asked, and what it reports meanwhile."""

from collections.abc import Callable
from typing import Any

from attrs import field, frozen
from ortools.sat.sat_parameters_pb2 import SatParameters

from cpsat_pim.base.validate import Rule, is_a, is_integer, one_of, or_none, seconds_or_none, seed_number, share
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints

_integer = Rule("must be an integer", is_integer)

#: What is minimized second if nobody says: the other one of latency and energy.
OTHER = "other"
#: The other one, by the first objective; blends and products have none.
_OTHERS = {"latency": "energy", "energy": "latency"}


def _are_cp_sat_parameters(instance: Any, attribute: Any, value: dict[str, Any]) -> None:
    """Accept parameters of CP-SAT with values of their types, except gap limits: within these CP-SAT calls a solution
    optimal that is not.
    """
    try:
        SatParameters(**value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"SolveRequest.cp_sat_parameters: must be parameters of CP-SAT ({error})") from error
    if gaps := {"absolute_gap_limit", "relative_gap_limit"} & set(value):
        raise ValueError(f"SolveRequest.cp_sat_parameters: must leave no gap open (got {', '.join(sorted(gaps))})")


@frozen(kw_only=True)
class SolveRequest:
    """Everything that a solve of one layer on one machine is asked.

    `objective`: what is minimized, over the mappings that keep the `constraints` and the `budget`, of the layer or of a
    layer that it may be padded to with at most the share `padding` of MACs more.
    `then`: `energy` after latency or `latency` after energy is minimized next, among the mappings whose first objective
    is at most the share `within` above its optimum; None is no second objective. By default it is the other one where
    there is one (`second`). `cpsat_pim.solve_layer` and networks solve both, `mapper.search.solve_layer` the first one.
    `time_limit`: seconds. `seed`: of CP-SAT.
    `start`: a legal mapping, the first incumbent. `value_to_beat`: a value of the integer objective; a mapping that
    costs as much or more is of no use, and none at all need be found. `by_walks`: whether a search for latency goes on
    by walks where the formula is too low for its mapping (docs/solver.md); else it ends with a gap, much sooner.
    `cp_sat_parameters`: parameters of CP-SAT that replace ours, so that an optimum can be proven in another way.
    `parameters`: tuning constants of the search.

    Raises:
        ValueError: a field is out of range or of the wrong type, or CP-SAT has no such parameter.
    """

    objective: Objective = field(validator=is_a(Objective))
    constraints: Constraints = field(default=FREE, validator=is_a(Constraints))
    budget: Budget = field(default=NO_LIMIT, validator=is_a(Budget))
    padding: float = field(default=0.0, validator=share)
    then: str | None = field(default=OTHER, validator=or_none(one_of("latency", "energy", OTHER)))
    within: float = field(default=0.0, validator=share)
    time_limit: float = field(default=60.0, validator=seconds_or_none)
    seed: int = field(default=0, validator=seed_number)
    start: Mapping | None = field(default=None, validator=or_none(is_a(Mapping)))
    value_to_beat: int | None = field(default=None, validator=or_none(_integer))
    by_walks: bool = field(default=True, validator=is_a(bool))
    cp_sat_parameters: dict[str, Any] = field(factory=dict, validator=_are_cp_sat_parameters)
    parameters: SearchParameters = field(default=DEFAULTS, validator=is_a(SearchParameters))

    def __attrs_post_init__(self) -> None:
        first, second = self.objective.kind, self.second
        if self.then not in (None, OTHER) and {first, self.then} != {"latency", "energy"}:
            pair = f"{first} and {self.then}"
            raise ValueError(f"SolveRequest.then: must be the other one of latency and energy (got {pair})")
        if self.then not in (None, OTHER) and self.padding:
            raise ValueError(f"SolveRequest.padding: must be 0 with a second objective (got {self.padding:g})")
        if second is None and self.within:
            raise ValueError(f"SolveRequest.within: needs a second objective, `then` (got {self.within:g})")

    @property
    def second(self) -> str | None:
        """The second objective, if any: none by default for blends, products, and layers that may be padded."""
        return self.then if self.then != OTHER else None if self.padding else _OTHERS.get(self.objective.kind)


@frozen(kw_only=True)
class Progress:
    """Incumbent and lower bound of a layer while it is being solved, in the objective's reported unit; None while there
    is no incumbent or no bound.
    """

    layer: str
    incumbent: int | float | None
    bound: int | float | None
    seconds: float


#: Receives the progress of a solve after each of its steps.
OnProgress = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:
    """Do nothing with it."""
