"""Solving one layer to a proven optimum: the parts of its space (`part`), each searched by a `Climb`, in turns."""

import math
from collections.abc import Callable, Sequence

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.result import Objective, SolvedLayer
from cpsat_pim.mapper.search.state import Options, SearchState
from cpsat_pim.mapper.search.subspace_search import SubspaceSearch
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping.constraints import check_constraints_fit
from cpsat_pim.workload import ConvWorkload

#: Shares of the time after which a part waits for the others, once there is a mapping to compare with.
_SHARES = {Subspace.MERGED: 0.6, Subspace.ALIGNED: 0.85, Subspace.SPLIT: 1.0}
#: Row-aligned mappings are looked for first if their bound is that much lower, and for so much of the time.
_FAR_LOWER, _FIRST_SHARE = 1.2, 0.5
#: Seconds after which any mapping is looked for, if that is not half of the time; and for how long in a part.
_FIRST_FOUND, _FIRST_SECONDS = 30.0, 6.0


@frozen(kw_only=True)
class Progress:
    """What is known while a layer is being solved, in the objective's reported unit."""

    layer: str
    best: int | float | None
    bound: int | float | None
    seconds: float


def solve_layer(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    options: Options | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> SolvedLayer:
    """The optimal mapping of a layer, or the best found in time with its gap; not yet checked or simulated
    (`cpsat_pim.mapper.network.run` is).

    Raises:
        ValueError: the mapping to start from breaks a constraint.
    """
    state = SearchState(layer, arch, objective, options or Options())
    searches = search_subspaces(state, report)
    return SolvedLayer.known(
        state.best and (state.best.mapping, state.best.prediction),
        _bound(state, searches),
        workload=layer,
        arch=arch,
        objective=objective,
        solve_seconds=state.seconds,
        solver_info=state.statistics,
        constraints=state.options.constraints,
        budget=state.options.budget,
    )


def search_subspaces(
    state: SearchState, report: Callable[[Progress], None] = lambda progress: None
) -> list[SubspaceSearch]:
    """Search all parts of the space, one solve at a time."""
    options = state.options
    if options.start is not None:
        state.begin_with(options.start)
    if check_constraints_fit(state.layer, options.constraints):
        return []
    state.tables = build_tables(state.layer, state.arch)
    state.statistics["table_seconds"] = round(state.seconds, 3)
    restrictions = [
        Restriction(state.layer, state.arch, options.constraints, subspace, options.budget) for subspace in Subspace
    ]
    searches = [SubspaceSearch(state, restriction) for restriction in restrictions if not restriction.is_empty]
    late = state.seconds + min(_FIRST_SHARE * (options.time_limit - state.seconds), _FIRST_FOUND)
    while not state.is_over and (search := _next(searches)):
        if state.seconds > late:
            late = math.inf
            _find_any(searches)
        else:
            search.step(_ends(search, searches))
        report(_progress(state, searches))
    _find_any(searches)
    report(_progress(state, searches))
    return searches


def _find_any(searches: Sequence[SubspaceSearch]) -> None:
    """Look for any mapping for some time if none is known: bounds that met none by now may not do so in time."""
    for search in searches:
        state, is_split = search.state, search.subspace is Subspace.SPLIT  # split loops are hardly all that fits
        if state.ceiling is None and search.is_open and not is_split and not state.options.stop.is_set():
            search.find_any(state.seconds + _FIRST_SECONDS)


def _next(searches: Sequence[SubspaceSearch]) -> SubspaceSearch | None:
    """The part to go on with: the one that may hold the cheapest mapping.

    Split loops come last: to refute them is cheap at the best known cost, at a higher one it is not. The same is true
    of row-aligned tensors where these can win but little.
    """
    ready = [search for search in searches if search.is_ready and search.state.seconds < _ends(search, searches)]

    def rank(search: SubspaceSearch) -> tuple[bool, float]:
        is_late = search.state.ceiling is None and search.subspace is Subspace.ALIGNED
        return search.subspace is Subspace.SPLIT, (search.least or 0) * (_FAR_LOWER if is_late else 1)

    return min(ready, key=rank, default=None)


def _ends(search: SubspaceSearch, searches: Sequence[SubspaceSearch]) -> float:
    """Seconds of the search after which a part waits for those with a larger share, or the time is up."""
    limit, now, share = search.state.options.time_limit, search.state.seconds, _SHARES[search.subspace]
    if search.state.ceiling is None:
        is_first = search.subspace is Subspace.ALIGNED and any(
            c.is_ready and c.subspace is Subspace.MERGED for c in searches
        )
        return limit * (_FIRST_SHARE if is_first else 1)
    others = [_SHARES[other.subspace] for other in searches if other.is_ready]
    gives_way = any(share < other and now < other * limit for other in others)
    return limit * (share if gives_way else 1)


def _bound(state: SearchState, searches: Sequence[SubspaceSearch]) -> int | None:
    """Nothing in any part of the space costs less; None if there is nothing at all, or nothing that was asked for."""
    known = [search.bound for search in searches] + [state.best and state.best.value]
    return min((bound for bound in known if bound is not None), default=None)


def _progress(state: SearchState, searches: Sequence[SubspaceSearch]) -> Progress:
    value = state.objective.reported(state.best.value) if state.best else None
    least = _bound(state, searches)
    bound = state.objective.reported(least) if least is not None else None
    return Progress(layer=state.layer.name, best=value, bound=bound, seconds=state.seconds)
