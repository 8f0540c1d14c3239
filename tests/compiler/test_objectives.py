"""Energy, compute and rearrangement: counted from the commands, minimised over the whole space."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpsat_pim.cli import main
from cpsat_pim.compiler.host.rearrangement import write_ticks
from cpsat_pim.compiler.lowering import lower, predicted_ticks
from cpsat_pim.compiler.lowering.contraction import compute_ticks, empty_stream
from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.search import space_of
from cpsat_pim.compiler.search.objective import best_by, energies_of, energy_fj, matrix_ps
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import read_device
from cpsat_pim.device.rules import rules_of
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


@pytest.mark.parametrize(
    ("name", "axes", "apart", "rows"),
    [("attacc", (0, 2, 1, 3), 1, 0), ("hbm-pim", (1, 2, 3), 2, 0), ("gddr6-aim", (0, 1), 2, 128 * (32 + 28))],
)
def test_channel_takes_a_column_a_tick_or_two(name: str, axes: tuple[int, ...], apart: int, rows: int) -> None:
    """Writes that go round groups and banks. AttAcc: nBL 2 on each of two pseudo-channels, so a tick a column; HBM-PIM
    and AiM: tCCDS or nBL 2. AiM's controller waits for each of 8192 / 64 rows, nRP + nRCDWR. The simulator needs 5 %
    more or less than the host's formula, on HBM-PIM 10 %."""
    device, size = read_device(name), 8192
    sizes = [*(axis.size for axis in device.group.axes), device.core.banks]
    stream = empty_stream(size, len(device.group.axes))
    stream.kind[:] = device.command("WR")
    at = np.arange(size)
    for axis in axes:
        stream.coords[:, axis] = at % sizes[axis]
        at = at // sizes[axis]
    stream.row[:], stream.column[:] = at // device.core.columns, at % device.core.columns
    ticks = write_ticks(size * device.core.column_bytes, 1, device)
    assert ticks == 1 + size * apart + rows
    assert 0.95 * ticks <= simulate(rules_of(device), stream).finish <= (1.1 if name == "hbm-pim" else 1.05) * ticks


def test_packing_is_charged_once_for_every_copy() -> None:
    """A matrix of 40 x 64 for vectors on three channels is written three times; it is read and written by the formula,
    and a resident one is never slower."""
    contraction = bound("gemm", B=3, N=40, K=64)
    packed, resident = (best_by("time", contraction, TARGET, 3, packs) for packs in (True, False))
    assert packed is not None
    assert resident is not None
    splits = packed.optimum.mapping.splits
    copied = 40 * 64 * 2 * splits[1]
    write = (1 - (-copied // (32 * int(np.prod(splits))))) * TARGET.device.tick_ps
    read = -(-copied // (80 * 32)) * 80 * 32  # bytes lie in columns of 32, dealt to 80 channels; the fullest counts
    packing = -(-read * 10**12 // int(3352e9 * 0.85)) + write
    assert matrix_ps(contraction, TARGET, splits) == packing
    assert packed.value == packed.optimum.ticks * TARGET.device.tick_ps + packed.optimum.host_ps + packing
    assert packed.value > resident.value


def test_command_states_what_packing_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """`compile --pack --objective energy` prints both."""
    words = ["compile", "gemm", "--sizes", "B=2,N=40,K=64", "--channels", "2", "--pack", "--objective", "energy"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "us to pack it for the banks" in printed
    assert "uJ (OPTIMAL" in printed
