"""Solve one layer to a proven optimum: the whole algorithm, in reading order (docs/solver.md).

The space of mappings is the union of three subspaces (`cpsat_pim.mapper.space.subspace`) for each assignment of tensors
to the node's banks that is searched (`cpsat_pim.mapper.space.banks`). Each has a search of its own
(`SubspaceSearch`), which raises the subspace's lower bound by one solve at a time. This module decides whose turn it
is. The search ends when no subspace has a lower bound below the incumbent: then the incumbent is optimal.
"""

import math
import time
from collections.abc import Sequence

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.result import SolvedLayer
from cpsat_pim.mapper.result.layer import Predicted
from cpsat_pim.mapper.search.completion import Completion
from cpsat_pim.mapper.search.constructed import constructed_mappings
from cpsat_pim.mapper.search.descent import Descent
from cpsat_pim.mapper.search.ranking import (
    begin_by_walks,
    begins_by_formula,
    best_walked,
    is_underestimated,
    search_by_formula,
)
from cpsat_pim.mapper.search.request import OnProgress, Progress, SolveRequest, ignore_progress
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.search.subspace_search import SubspaceSearch
from cpsat_pim.mapper.space.banks import restrictions
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import BankCounts
from cpsat_pim.mapping.constraints import check_constraints_fit
from cpsat_pim.mapping.widths import in_whole_units
from cpsat_pim.workload import ConvWorkload
from tables.bounds.shapes import OutOfTime, ShapeTable


def solve_layer(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    request: SolveRequest,
    stop: Stop | None = None,
    on_progress: OnProgress = ignore_progress,
) -> SolvedLayer:
    """Return the optimal mapping of a layer, or the incumbent and the lower bound when the time is up or `stop` is set.

    The mapping is not yet checked or simulated: `cpsat_pim.mapper.network.run` does that. The request's `padding` and
    an objective that is a product are solved by `cpsat_pim.mapper.objectives`, not here.

    Raises:
        ValueError: the mapping to start from breaks a constraint or the budget.
    """
    state = SearchState(*in_whole_units(layer, arch), request, stop)
    state, searches = (_search_twice if begins_by_formula(request) else _search_once)(state, on_progress)
    return SolvedLayer.concluded(
        _answer(state),
        _lower_bound(state, searches),
        workload=layer,
        arch=arch,
        objective=request.objective,
        solve_seconds=state.seconds,
        solver_info=state.statistics,
        constraints=request.constraints,
        budget=request.budget,
    )


def _answer(state: SearchState) -> Predicted | None:
    """Return the incumbent with its predicted figures: where no latency matters, none was walked so far."""
    if state.incumbent is None:
        return None
    mapping, prediction, _ = state.incumbent
    return mapping, prediction if state.sees_cycles else predict(state.layer, state.arch, mapping)


#: A search that has ended, and those of its subspaces.
Ended = tuple[SearchState, list[SubspaceSearch]]


def _search_once(state: SearchState, on_progress: OnProgress) -> Ended:
    return state, search_subspaces(state, on_progress)


def _search_twice(state: SearchState, on_progress: OnProgress) -> Ended:
    """Search by the formula; then by walks, if the incumbent takes longer by its walk than the bound says."""
    first = search_by_formula(state)
    searches = search_subspaces(first, on_progress)
    best, lower_bound = best_walked(first), _lower_bound(first, searches)
    if best is None or lower_bound is None:
        return first, searches
    if first.is_over and not is_underestimated(first, best):
        first.request = state.request
        _search(first, searches, on_progress)
        best = min(best_walked(first) or best, best, key=lambda completion: completion.value)
        lower_bound = _lower_bound(first, searches) or lower_bound
    by_walks = begin_by_walks(state, first, best, lower_bound)
    if best.value == lower_bound or by_walks.is_over or not state.request.by_walks:
        on_progress(_progress(by_walks, []))
        return by_walks, []
    return by_walks, search_subspaces(by_walks, on_progress)


def search_subspaces(state: SearchState, on_progress: OnProgress = ignore_progress) -> list[SubspaceSearch]:
    """Search all subspaces in turns, one solve at a time, and return their searches."""
    if state.request.start is not None:
        state.start_from(state.request.start)
    if check_constraints_fit(state.layer, state.request.constraints):
        return []
    try:
        state.tables |= _build_tables(state)
    except OutOfTime:
        _end_without_tables(state)
        return []
    state.statistics["table_seconds"] = round(state.seconds, 3)
    searches = _open_searches(state)
    if state.known_bound:
        for search in searches:
            search.seek_apart(state.request.time_limit)
    if state.incumbent is None and any(search.restriction.shared_parts for search in searches):
        _construct_mappings(state)
    _search(state, searches, on_progress)
    return searches


def _build_tables(state: SearchState) -> dict[BankCounts, list[ShapeTable]]:
    """Return the shape tables of all numbers of banks that are searched.

    Raises:
        OutOfTime: they take too long. What is soon built is built: without tables there are only the mappings that take
            no search.
    """
    latest = state.request.time_limit + state.parameters.table_seconds
    counts = {restriction.bank_counts for restriction in _restrictions(state)}

    def is_late() -> bool:
        return state.is_stopped or state.seconds > latest

    return {each: build_tables(state.layer, state.arch, is_late, each) for each in counts}


def _search(state: SearchState, searches: list[SubspaceSearch], on_progress: OnProgress) -> None:
    """Search some subspaces in turns until the time is up or none is open."""
    is_shared = any(search.restriction.shared_parts for search in searches)
    deadline = state.seconds + _seconds_without_incumbent(state)
    while not state.is_over and (search := _next(searches)):
        if state.seconds > deadline:
            deadline = math.inf
            _find_any_mapping(searches, state.request.time_limit)
        else:
            state.turn_ends = _turn_ends(search, searches)
            search.step(state.turn_ends, _least_of_others(search, searches))
            state.turn_ends = math.inf
        if is_shared and _is_descent_due(state) and _is_far(state, searches):
            _improve_incumbent(state, searches)
        on_progress(_progress(state, searches))
    for search in searches:
        search.count_forbidden()
    if any(search.is_open for search in searches):
        _construct_mapping(state)
        if state.cutoff is None:
            _find_any_mapping(searches, math.inf)
    on_progress(_progress(state, searches))


def _is_descent_due(state: SearchState) -> bool:
    """Whether the layer takes long, and the incumbent is a new one, or descents have had less than their share of the
    time: less and less as they find nothing.
    """
    is_new = state.incumbent is not state.descended
    share = state.parameters.descents_share / (1 + state.vain_descents)
    return state.takes_long and (is_new or state.descent_seconds < share * state.seconds)


def _is_far(state: SearchState, searches: Sequence[SubspaceSearch]) -> bool:
    """Whether the incumbent costs far more than the lower bound."""
    lower_bound, gap = _lower_bound(state, searches), state.parameters.descent_gap
    return state.incumbent is not None and lower_bound is not None and lower_bound < (1 - gap) * state.incumbent.value


def _end_without_tables(state: SearchState) -> None:
    """End with a mapping that is built without a search, and with the bound of spatial mappings (B1)."""
    bounds = [
        SpatialBounds(state.layer, state.arch, state.objective, restriction).lower_bound
        for restriction in _restrictions(state)
    ]
    least = min((bound for bound in bounds if bound is not None), default=None)
    if least is not None:
        state.known_bound = max(state.known_bound, least)
        _construct_mapping(state)


def _open_searches(state: SearchState) -> list[SubspaceSearch]:
    """Return a search for each assignment to banks, each tensor that may be fetched by most loops where tensors share a
    bank, and each subspace that is not empty by its constraints.
    """
    return [SubspaceSearch(state, restriction) for restriction in _restrictions(state)]


def _restrictions(state: SearchState) -> list[Restriction]:
    """Return what these searches are restricted to."""
    return restrictions(state.layer, state.arch, state.request.constraints, state.request.budget)


def _seconds_without_incumbent(state: SearchState) -> float:
    """Return the seconds after which any mapping is sought if the search found none by then."""
    parameters, left = state.parameters, state.request.time_limit - state.seconds
    return min(parameters.without_incumbent_share * left, parameters.without_incumbent_seconds)


def _find_any_mapping(searches: Sequence[SubspaceSearch], time_limit: float) -> None:
    """Seek any mapping if there is no incumbent, or only one that was built without a search: low trial bounds that
    found none may not find one in time. It takes a few seconds at most, up to a limit.

    One trial bound after the other in all subspaces: what is soon found in one may take long in another.
    """
    # Split loops are hardly all that fits.
    willing = [search for search in searches if search.is_open and search.subspace is not Subspace.SPLIT]
    if not willing or (state := willing[0].state).is_stopped:
        return
    until = min(state.seconds + state.parameters.any_mapping_seconds, time_limit)
    for step in (None, *state.parameters.any_steps):
        for search in willing:
            if state.incumbent is not state.constructed or state.is_stopped or state.seconds >= until:
                return
            search.seek_any_mapping(step, until)


def _construct_mappings(state: SearchState) -> None:
    """Begin with the best of the mappings that are built where tensors share a bank: there optima lie far above the
    first trial bounds, and mappings found at high ones still further.
    """
    descent = Descent(state)
    for mapping in constructed_mappings(state.layer, state.arch, state.request.constraints):
        if state.is_over:
            return
        descent.try_one(mapping)
    _descend(state, state.incumbent, state.parameters.descent_first)
    state.constructed = state.incumbent


def _improve_incumbent(state: SearchState, searches: Sequence[SubspaceSearch]) -> None:
    """Seek a better incumbent: the first time around the constructed mapping, since that of a solve is often a local
    optimum, and among the cheapest tiles of all subspaces; then around the incumbent.
    """
    before = state.incumbent
    if state.descended is None:
        _descend(state, state.constructed or state.incumbent, state.parameters.descent_hard)
        for search in sorted(searches, key=lambda search: search.lower_bound or 0):
            if search.is_open and not state.is_over:
                search.seek_in_hard_layer(state.request.time_limit)
    _descend(state, state.incumbent, state.parameters.descent_again)
    state.descended = state.incumbent
    state.vain_descents = state.vain_descents + 1 if state.incumbent is before else 0


def _descend(state: SearchState, start: Completion | None, neighbours: int) -> None:
    """Seek a better incumbent among the neighbours of a mapping, for a share of the time."""
    if start is not None:
        begun = state.seconds
        Descent(state).walk(start, neighbours, begun + state.parameters.descent_share * state.request.time_limit)
        state.descents, state.descent_seconds = state.descents + 1, state.descent_seconds + state.seconds - begun


def _construct_mapping(state: SearchState) -> None:
    """Build a mapping if the time ended without any: a solve for any mapping may take seconds past the limit.

    Of a few, the first one that is soon counted: in seconds of the CPU, so that a busy machine finds one, too.
    """
    if state.cutoff is not None or state.is_stopped:
        return
    for mapping in constructed_mappings(state.layer, state.arch, state.request.constraints):
        until = time.process_time() + state.parameters.built_seconds
        if state.offer(mapping, lambda until=until: time.process_time() > until):  # type: ignore[misc]
            return


def _next(searches: Sequence[SubspaceSearch]) -> SubspaceSearch | None:
    """Return the search of the lowest bound; None if none has anything to solve.

    The split subspace comes last at first: its relaxation is soon infeasible at the incumbent's cost, but not at a
    higher one. Later only the bound counts, since the least of all bounds is the layer's. Without an incumbent the
    row-aligned subspace is handicapped, as its mappings cost more to find.
    """
    ready = [search for search in searches if search.is_ready]

    def rank(search: SubspaceSearch) -> tuple[bool, float]:
        state, subspace, bound = search.state, search.subspace, search.lower_bound or 0
        is_early = state.seconds < state.parameters.split_time_share * state.request.time_limit
        handicap = state.parameters.aligned_handicap if subspace is Subspace.ALIGNED else 1
        is_waiting = subspace is Subspace.SPLIT and (state.cutoff is None or is_early)
        return is_waiting, bound * (handicap if state.cutoff is None else 1)

    return min(ready, key=rank, default=None)


def _least_of_others(search: SubspaceSearch, searches: Sequence[SubspaceSearch]) -> int | None:
    """Return the least lower bound of the other subspaces of its kind that are open; None if there are none."""
    others = [other for other in searches if other.subspace is search.subspace and other is not search]
    return min((other.lower_bound or 0 for other in others if other.is_ready), default=None)


def _turn_ends(search: SubspaceSearch, searches: Sequence[SubspaceSearch]) -> float:
    """Return the seconds of the search at which a subspace gives way to others that are open: after a part of the time
    that is left, but not of less than a turn is worth.
    """
    parameters, limit, now = search.state.parameters, search.state.request.time_limit, search.state.seconds
    has_others = any(other.is_ready for other in searches if other is not search)
    seconds = max(parameters.turn_share * (limit - now), parameters.least_turn_share * limit)
    return min(now + seconds, limit) if has_others else limit


def _lower_bound(state: SearchState, searches: Sequence[SubspaceSearch]) -> int | None:
    """Return the least of the subspaces' bounds and the incumbent's cost.

    None if there is no mapping, or none that costs less than the request's value to beat.
    """
    known = [search.bound for search in searches] + [state.incumbent and state.incumbent.value]
    if not searches and state.known_bound:
        return state.known_bound
    return min((bound for bound in known if bound is not None), default=None)


def _progress(state: SearchState, searches: Sequence[SubspaceSearch]) -> Progress:
    objective, lower_bound = state.request.objective, _lower_bound(state, searches)
    incumbent = objective.reported(state.incumbent.value) if state.incumbent else None
    bound = objective.reported(lower_bound) if lower_bound is not None else None
    return Progress(layer=state.layer.name, incumbent=incumbent, bound=bound, seconds=state.seconds)
