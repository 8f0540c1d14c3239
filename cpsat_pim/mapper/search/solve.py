"""Solving one layer to a proven optimum: the parts of its space (`part`), each searched by a `Climb`, in turns."""

import math
from collections.abc import Callable, Sequence

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.result import Objective, SolvedLayer
from cpsat_pim.mapper.search.state import Options, Search
from cpsat_pim.mapper.search.subspace_search import Climb
from cpsat_pim.mapper.space.restriction import Freedom
from cpsat_pim.mapper.space.subspace import Part
from cpsat_pim.mapping.constraints import check_constraints_fit
from cpsat_pim.workload import ConvWorkload

#: Shares of the time after which a part waits for the others, once there is a mapping to compare with.
_SHARES = {Part.MERGED: 0.6, Part.ALIGNED: 0.85, Part.SPLIT: 1.0}
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
    search = Search(layer, arch, objective, options or Options())
    climbs = climb_parts(search, report)
    return SolvedLayer.known(
        search.best and (search.best.mapping, search.best.prediction),
        _bound(search, climbs),
        workload=layer,
        arch=arch,
        objective=objective,
        solve_seconds=search.seconds,
        solver_info=search.statistics,
        constraints=search.options.constraints,
        budget=search.options.budget,
    )


def climb_parts(search: Search, report: Callable[[Progress], None] = lambda progress: None) -> list[Climb]:
    """Search all parts of the space, one solve at a time."""
    options = search.options
    if options.start is not None:
        search.begin_with(options.start)
    if check_constraints_fit(search.layer, options.constraints):
        return []
    search.tables = build_tables(search.layer, search.arch)
    search.statistics["table_seconds"] = round(search.seconds, 3)
    freedoms = [Freedom(search.layer, search.arch, options.constraints, part, options.budget) for part in Part]
    climbs = [Climb(search, freedom) for freedom in freedoms if not freedom.is_empty]
    late = search.seconds + min(_FIRST_SHARE * (options.time_limit - search.seconds), _FIRST_FOUND)
    while not search.is_over and (climb := _next(climbs)):
        if search.seconds > late:
            late = math.inf
            _find_any(climbs)
        else:
            climb.step(_ends(climb, climbs))
        report(_progress(search, climbs))
    _find_any(climbs)
    report(_progress(search, climbs))
    return climbs


def _find_any(climbs: Sequence[Climb]) -> None:
    """Look for any mapping for some time if none is known: bounds that met none by now may not do so in time."""
    for climb in climbs:
        search, is_split = climb.search, climb.part is Part.SPLIT  # split loops are hardly all that fits
        if search.ceiling is None and climb.is_open and not is_split and not search.options.stop.is_set():
            climb.find_any(search.seconds + _FIRST_SECONDS)


def _next(climbs: Sequence[Climb]) -> Climb | None:
    """The part to go on with: the one that may hold the cheapest mapping.

    Split loops come last: to refute them is cheap at the best known cost, at a higher one it is not. The same is true
    of row-aligned tensors where these can win but little.
    """
    ready = [climb for climb in climbs if climb.is_ready and climb.search.seconds < _ends(climb, climbs)]

    def rank(climb: Climb) -> tuple[bool, float]:
        is_late = climb.search.ceiling is None and climb.part is Part.ALIGNED
        return climb.part is Part.SPLIT, (climb.least or 0) * (_FAR_LOWER if is_late else 1)

    return min(ready, key=rank, default=None)


def _ends(climb: Climb, climbs: Sequence[Climb]) -> float:
    """Seconds of the search after which a part waits for those with a larger share, or the time is up."""
    limit, now, share = climb.search.options.time_limit, climb.search.seconds, _SHARES[climb.part]
    if climb.search.ceiling is None:
        is_first = climb.part is Part.ALIGNED and any(c.is_ready and c.part is Part.MERGED for c in climbs)
        return limit * (_FIRST_SHARE if is_first else 1)
    others = [_SHARES[other.part] for other in climbs if other.is_ready]
    gives_way = any(share < other and now < other * limit for other in others)
    return limit * (share if gives_way else 1)


def _bound(search: Search, climbs: Sequence[Climb]) -> int | None:
    """Nothing in any part of the space costs less; None if there is nothing at all, or nothing that was asked for."""
    known = [climb.bound for climb in climbs] + [search.best and search.best.value]
    return min((bound for bound in known if bound is not None), default=None)


def _progress(search: Search, climbs: Sequence[Climb]) -> Progress:
    value = search.objective.reported(search.best.value) if search.best else None
    least = _bound(search, climbs)
    bound = search.objective.reported(least) if least is not None else None
    return Progress(layer=search.layer.name, best=value, bound=bound, seconds=search.seconds)
