"""Why a layer has no mapping: a smallest set of conflicting limits, a proof that each is needed, and the ways out."""

from attrs import frozen

from cpsat_pim.mapper.explain.conflict import Undecided, reduced_conflict, smallest_conflict, smallest_correction
from cpsat_pim.mapper.explain.limits import Case, Limit
from cpsat_pim.mapper.explain.oracle import Oracle
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping import Mapping


@frozen(kw_only=True)
class Threshold:
    """The range, from `least` to `most`, of the first value of a limit that allows a mapping."""

    least: int
    most: int


@frozen(kw_only=True)
class Member:
    """A limit of a conflict.

    `without` is a mapping that keeps the conflict's other limits, all else lifted: this one is needed for the conflict;
    None if none was found in time. `is_way_out`: lifting it alone, with all other limits of the machine, constraints
    and budget in force, leaves a mapping. `threshold`: of a number, the first value that does; in the whole problem if
    it is a way out, else within the conflict.
    """

    limit: Limit
    without: Mapping | None
    is_way_out: bool | None
    threshold: Threshold | None


@frozen(kw_only=True)
class Conflict:
    """Limits that no mapping keeps together, whatever else is lifted, and why.

    `is_smallest`: there is none of fewer limits. `correction`: a smallest set of limits to lift together if none of
    the members is a way out by itself; None if there is such a member, or none was found in time.
    """

    members: tuple[Member, ...]
    is_smallest: bool
    reasons: tuple[str, ...]
    correction: tuple[Limit, ...] | None

    @property
    def is_irreducible(self) -> bool:
        """Whether each member was shown to be needed."""
        return all(member.without for member in self.members)


def find_conflict(oracle: Oracle) -> Conflict:
    """Return a conflict in a problem that is known to have no mapping: a smallest one if time allows.

    Raises:
        ValueError: the layer has no mapping even with all limits lifted.
    """
    if oracle.decide(frozenset()).feasible is False:
        raise ValueError("there is no mapping even with all limits lifted")
    kept, is_smallest = _conflict(oracle)
    verdict = oracle.decide(kept)
    members = tuple(_member(oracle, kept, limit) for limit in oracle.limits if limit in kept)
    return Conflict(
        members=members,
        is_smallest=is_smallest,
        reasons=verdict.reasons,
        correction=None if any(m.is_way_out for m in members) else _correction(oracle, kept),
    )


def _conflict(oracle: Oracle) -> tuple[frozenset[Limit], bool]:
    """Return the limits of a conflict, and whether it is a smallest one."""
    try:
        return smallest_conflict(oracle.limits, lambda kept: oracle.decide(kept).feasible), True
    except Undecided:
        return reduced_conflict(oracle.limits, lambda kept: oracle.decide(kept).feasible), False


def _correction(oracle: Oracle, conflict: frozenset[Limit]) -> tuple[Limit, ...] | None:
    try:
        lifted = smallest_correction(oracle.limits, lambda kept: oracle.decide(kept).feasible, conflict)
    except Undecided:
        return None
    return tuple(limit for limit in oracle.limits if limit in lifted)


def _member(oracle: Oracle, conflict: frozenset[Limit], limit: Limit) -> Member:
    whole = frozenset(oracle.limits)
    is_way_out = oracle.decide(whole - {limit}).feasible
    return Member(
        limit=limit,
        without=oracle.decide(conflict - {limit}).mapping,
        is_way_out=is_way_out,
        threshold=_threshold(oracle, oracle.only(whole if is_way_out else conflict), limit),
    )


# --- Thresholds ------------------------------------------------------------------------------------------------------

#: Objectives of the budgets that have a least value: row activations alone are no objective.
_BUDGETED = {"budget.cycles": "latency", "budget.fj": "energy"}


def _threshold(oracle: Oracle, case: Case, limit: Limit) -> Threshold | None:
    """Return the range of a number's least value that gives a case a mapping."""
    if limit.name in _BUDGETED:
        return _least_cost(oracle, limit.lift(case), limit)
    return _least_value(oracle, case, limit) if limit.values else None


def _least_cost(oracle: Oracle, case: Case, limit: Limit) -> Threshold | None:
    """Return the range of the least cost of a mapping that keeps all other limits."""
    solved = oracle.least(case, Objective.named(_BUDGETED[limit.name]))
    if solved is None or solved.objective_value is None or solved.bound is None:
        return None
    return Threshold(least=max(int(solved.bound), limit.value + 1), most=int(solved.objective_value))


def _least_value(oracle: Oracle, case: Case, limit: Limit) -> Threshold | None:
    """Return the range by bisection, as far as the middle value can be decided."""
    values = limit.values or range(0)
    low, high = 0, len(values) - 1
    if not oracle.decide_case(limit.change(case, values[high])).feasible:
        return None
    while low < high:
        middle = (low + high) // 2
        is_feasible = oracle.decide_case(limit.change(case, values[middle])).feasible
        if is_feasible is None:
            break
        low, high = (low, middle) if is_feasible else (middle + 1, high)
    return Threshold(least=values[low], most=values[high])
