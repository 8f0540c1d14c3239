"""Solve one layer, and verify its mapping against the rules, the exact cost and the trace simulator."""

import threading

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.evaluate.verify import Disagreement, verify
from cpsat_pim.mapper.network.compile import compile_kernels
from cpsat_pim.mapper.objectives.padding import solve_padded
from cpsat_pim.mapper.result import ProgressPoint, SolvedLayer
from cpsat_pim.mapper.search import OnProgress, Progress, SolveRequest, ignore_progress
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.mapping.constraints import check_constraints, check_constraints_fit
from cpsat_pim.workload import ConvWorkload


def solve_and_verify(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    request: SolveRequest,
    stop: Stop | None = None,
    on_progress: OnProgress = ignore_progress,
) -> SolvedLayer:
    """Return the solved layer, with its mapping checked, recosted and simulated, and the progress of the solve.

    If bounds were padded, the result's `workload` is padded likewise.

    Raises:
        ValueError: the mapping to start from breaks a constraint, or the request contradicts itself.
        Disagreement: the mapping is illegal or breaks a constraint, or some exact figure was predicted wrongly.
    """
    if _has_no_mapping(layer, arch, request):
        return _without_mapping(layer, arch, request)
    compile_kernels()
    points: list[ProgressPoint] = []

    def note(progress: Progress) -> None:
        if not points or points[-1][1:] != (progress.incumbent, progress.bound):
            points.append((progress.seconds, progress.incumbent, progress.bound))
        on_progress(progress)

    solved = solve_padded(layer, arch, request, stop or threading.Event(), note)
    solved = attrs.evolve(solved, progress=tuple(points))
    if solved.mapping is None or solved.prediction is None:
        return solved
    broken = check_constraints(solved.mapping, solved.constraints)
    if broken:
        raise Disagreement(solved.workload, arch, solved.mapping, broken, solved.predicted, None)
    return attrs.evolve(solved, simulated=verify(solved.workload, arch, solved.mapping, solved.prediction))


def _has_no_mapping(layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest) -> bool:
    """Return whether it takes no search to see that there is no mapping; a padded layer may keep other factors."""
    return bool(check_fits(layer, arch) or not request.padding and check_constraints_fit(layer, request.constraints))


def _without_mapping(layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest) -> SolvedLayer:
    """Return the result of a layer that is proven to have no mapping."""
    asked = {name: getattr(request, name) for name in ("objective", "constraints", "budget", "padding")}
    return SolvedLayer.concluded(None, None, workload=layer, arch=arch, **asked)
