"""From the search by the formula to that by walks (docs/model.md, section 7).

The master problem bounds the formula of the latency. So the search by the formula soon ends with a proof. Its
incumbents are then ranked by their walks. If the best of them takes longer than the proven bound, the search begins
again at that bound, and walks its candidates.
"""

import attrs

from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.search.completion import Completion
from cpsat_pim.mapper.search.request import SolveRequest
from cpsat_pim.mapper.search.state import SearchState


def begins_by_formula(request: SolveRequest) -> bool:
    """Return whether a search has two parts. A limit on cycles holds for the walk, so then there is only the second."""
    return request.objective.weights[0] > 0 and request.budget.cycles is None


def search_by_formula(state: SearchState) -> SearchState:
    """Return the first of the two searches that a search is made of; the second one gets what time it leaves."""
    limit = (1 - state.parameters.walk_share) * state.request.time_limit
    request = attrs.evolve(state.request, time_limit=limit)
    first = SearchState(state.layer, state.arch, request, state.stop, is_walked=False)
    first.started = state.started
    return first


def is_underestimated(first: SearchState, best: Completion) -> bool:
    """Return whether the best mapping costs notably more by its walk than the incumbent does by the formula."""
    assert first.incumbent is not None
    return best.value > first.incumbent.value * (1 + first.parameters.walk_error)


def best_walked(state: SearchState) -> Completion | None:
    """Return the best by walks of the incumbents of a search by the formula; None if there are none. It forgets these,
    as they need not be walked again. The last ones are walked in any case, earlier ones within a share of the time.

    No latency is below that by the formula. So an incumbent that costs no less by it than another one by its walk is
    not walked.
    """
    best: Completion | None = None
    until = state.seconds + state.parameters.ranking_share * state.request.time_limit
    number = 0
    while state.incumbents:
        by_formula, number = state.incumbents.pop(), number + 1
        is_late = number > state.parameters.incumbents_ranked and state.seconds >= until
        if best is None or (by_formula.value < best.value and not is_late):
            figures = (prediction := predict(state.layer, state.arch, by_formula.mapping)).figures
            value = state.objective.value(figures.latency_cycles, figures.energy_fj)
            walked = Completion(by_formula.mapping, prediction, value)
            best = walked if best is None or value < best.value else best
    return best


def begin_by_walks(state: SearchState, first: SearchState, best: Completion, lower_bound: int) -> SearchState:
    """Return the second search: at the bound of the first one, with its best mapping if that beats the value to beat
    by its walk, too. Tiles are bounded by the formula, so those that the first one has enumerated are known.
    """
    second = SearchState(state.layer, state.arch, attrs.evolve(state.request, start=None), state.stop)
    second.started, second.statistics = first.started, first.statistics
    second.tile_enumerations, second.budget_enumerations = first.tile_enumerations, first.budget_enumerations
    second.known_bound = lower_bound
    second.update_incumbent(best)
    return second
