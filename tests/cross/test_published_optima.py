"""Optima that another exact mapper has published, on a machine made for the comparison."""

import pytest

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.workload import ConvWorkload


@pytest.mark.parametrize(
    ("layer", "micro_joules"),
    [
        (ConvWorkload(C=64, K=64, P=56, Q=56), 119.84),
        (ConvWorkload(C=2048, K=1000), 414.40),
    ],
    ids=["1x1 convolution", "matrix product"],
)
def test_optimum_is_the_published_one(layer: ConvWorkload, micro_joules: float) -> None:
    """To a hundredth of a percent, proven, with uneven tiles in the space."""
    arch = read_arch("prover-comparison")
    assert arch.uneven_residency
    solved = solve_and_verify(layer, arch, SolveRequest(objective=Objective.named("energy"), then=None, time_limit=60))
    assert solved.status is Status.OPTIMAL
    assert solved.predicted.energy_fj / 1e9 == pytest.approx(micro_joules, rel=1e-4)
