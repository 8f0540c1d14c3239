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
from cpsat_pim.mapping.constraints import check_constraints
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
