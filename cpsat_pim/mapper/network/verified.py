"""Solve one layer, and verify its mapping against the rules, the exact cost and the trace simulator."""

import threading
import time
from collections.abc import Callable

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.evaluate.verify import Disagreement, verify
from cpsat_pim.mapper.network.compile import compile_kernels
from cpsat_pim.mapper.objectives.lexicographic import solve_lexicographic
from cpsat_pim.mapper.result import ProgressPoint, SolvedLayer
from cpsat_pim.mapper.search import OnProgress, Progress, SolveRequest, ignore_progress
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.mapping.constraints import check_constraints, check_constraints_fit
from cpsat_pim.workload import ConvWorkload

#: What a verification may take where the solve has used all the time: seconds, or this share of the limit if more.
_LEAST_VERIFICATION, _VERIFICATION_SHARE = 0.5, 0.1


def solve_and_verify(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    request: SolveRequest,
    stop: Stop | None = None,
    on_progress: OnProgress = ignore_progress,
) -> SolvedLayer:
    """Return the solved layer, with its mapping checked, recosted and simulated, and the progress of the solve.

    The time limit is one of all this: where it ends the simulation, the result has no simulated figures.

    If bounds were padded, the result's `workload` is padded likewise.

    Raises:
        ValueError: the mapping to start from breaks a constraint, or the request contradicts itself.
        Disagreement: the mapping is illegal or breaks a constraint, or some exact figure was predicted wrongly.
    """
    if _has_no_mapping(layer, arch, request):
        return _without_mapping(layer, arch, request)
    stop = stop or threading.Event()
    compile_kernels(stop)
    started = time.monotonic()
    points: list[ProgressPoint] = []

    def note(progress: Progress) -> None:
        if not points or points[-1][1:] != (progress.incumbent, progress.bound):
            points.append((progress.seconds, progress.incumbent, progress.bound))
        on_progress(progress)

    solved = solve_lexicographic(layer, arch, request, stop, note)
    solved = attrs.evolve(solved, progress=tuple(points))
    if solved.mapping is None or solved.prediction is None:
        return solved
    broken = check_constraints(solved.mapping, solved.constraints)
    if broken:
        raise Disagreement(solved.workload, arch, solved.mapping, broken, solved.predicted, None)
    is_over = _verification_limit(request.time_limit - (time.monotonic() - started), request.time_limit, stop)
    simulated = verify(solved.workload, arch, solved.mapping, solved.prediction, is_over)
    return attrs.evolve(solved, simulated=simulated)


def _verification_limit(left: float, time_limit: float, stop: Stop) -> Callable[[], bool]:
    """Return what says whether a verification that begins now has to stop.

    `left`: seconds until the time limit. A verification may always take a little time. It is counted in seconds of the
    CPU, so that a busy machine verifies no less than a quiet one.
    """
    began, least = time.process_time(), max(_LEAST_VERIFICATION, _VERIFICATION_SHARE * time_limit)

    def is_over() -> bool:
        return time.process_time() - began > (least if stop.is_set() else max(least, left))

    return is_over


def _has_no_mapping(layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest) -> bool:
    """Return whether it takes no search to see that there is no mapping; a padded layer may keep other factors."""
    if check_fits(layer, arch, request.constraints.bank_counts):
        return True
    return bool(not request.padding and check_constraints_fit(layer, request.constraints))


def _without_mapping(layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest) -> SolvedLayer:
    """Return the result of a layer that is proven to have no mapping."""
    asked = {name: getattr(request, name) for name in ("objective", "constraints", "budget", "padding")}
    return SolvedLayer.concluded(None, None, workload=layer, arch=arch, **asked)
