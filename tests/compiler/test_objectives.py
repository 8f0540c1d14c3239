"""Energy, compute and rearrangement: counted from the commands, minimised over the whole space."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpsat_pim.compiler.lowering import lower, predicted_ticks
from cpsat_pim.compiler.lowering.contraction import compute_ticks
from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.search import space_of
from cpsat_pim.compiler.search.objective import best_by, energies_of, energy_fj
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import read_device
from tables.commands.objectives import COMPUTE, ENERGY, REARRANGEMENT, sweep_by
from tests.compiler.strategies import contractions, mappings
from tests.compiler.test_walk import bound
from tracesim.commands import simulate

TARGET = target_of(read_device("attacc"))
CODES = {"energy": ENERGY, "compute": COMPUTE, "rearrangement": REARRANGEMENT}
SMALL = [("gemv", {"B": 3, "N": 97, "K": 50}), ("gemm", {"B": 2, "N": 40, "K": 64}), ("red", {"B": 5, "N": 1000})]


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
@given(st.data())
def test_energy_is_that_of_the_simulators_commands(data: st.DataObject) -> None:
    """The simulator's counts of every command, rows opened included, times the energies of the device file."""
    _, contraction = data.draw(contractions())
    mapping = data.draw(mappings(contraction, TARGET))
    trace = simulate(TARGET.rules, lower(mapping, contraction, TARGET).stream)
    commands = zip(TARGET.device.commands, trace.counts.tolist(), strict=True)
    channel = sum((command.energy_fj or 0) * count for command, count in commands)
    batch, shared, outputs, _ = contraction.extents
    results = batch * shared * outputs * mapping.splits[3]
    assert energy_fj(mapping, contraction, TARGET) == channel * np.prod(mapping.splits) + results * 2 * 2400


@pytest.mark.parametrize("objective", CODES)
@pytest.mark.parametrize(("kernel", "sizes"), SMALL)
def test_bounds_exclude_no_better_mapping(objective: str, kernel: str, sizes: dict[str, int]) -> None:
    """The search with bounds finds the value, and among its mappings the time, of evaluating everything."""
    contraction = bound(kernel, **sizes)
    space = space_of(contraction, TARGET, 3)
    used = np.prod(np.array(space.splits), axis=1)
    zeros = np.zeros_like(used)
    full, pruned = (
        sweep_by(space.arrays, TARGET.timing, energies_of(TARGET), used, zeros, CODES[objective], prunes)
        for prunes in (False, True)
    )
    assert (full.value, full.time_ps) == (pruned.value, pruned.time_ps)
    assert pruned.walked <= full.walked


@pytest.mark.parametrize(("kernel", "sizes"), SMALL)
def test_each_objective_is_least_for_its_own_optimum(kernel: str, sizes: dict[str, int]) -> None:
    """No other optimum has less energy, compute, rearrangement or time than the one that was sought for it."""
    contraction = bound(kernel, **sizes)
    found = {name: best_by(name, contraction, TARGET, 3) for name in ("time", *CODES)}
    for name, answer in found.items():
        assert answer is not None
        assert answer.value == _values(answer.optimum.mapping, answer.optimum.host_ps, contraction)[name]
        for other in found.values():
            assert other is not None
            assert answer.value <= _values(other.optimum.mapping, other.optimum.host_ps, contraction)[name]


def _values(mapping: object, host_ps: int, contraction: Contraction) -> dict[str, int]:
    ticks, tick = predicted_ticks(mapping, contraction, TARGET), TARGET.device.tick_ps  # type: ignore[arg-type]
    compute = compute_ticks(mapping, contraction, TARGET)  # type: ignore[arg-type]
    return {
        "time": ticks * tick + host_ps,
        "energy": energy_fj(mapping, contraction, TARGET),  # type: ignore[arg-type]
        "compute": compute * tick,
        "rearrangement": (ticks - compute) * tick + host_ps,
    }
