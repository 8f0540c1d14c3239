"""The ticks are those of the simulators that others have published."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.device import read_device
from cpsat_pim.device.rules import rules_of
from tests.tracesim.commands.streams import GENERATORS, to_stream
from tracesim.commands import simulate

GOLDENS = Path(__file__).parent / "goldens"
FILES = ("attacc_simulator", "pimsimulator", "aim_simulator")


@cache
def read_goldens(name: str) -> dict[str, Any]:
    """Return what `scripts/check_with_pim_simulators.py` has recorded of one simulator."""
    goldens: dict[str, Any] = json.loads((GOLDENS / f"{name}.json").read_text())
    return goldens


@pytest.mark.parametrize("name", FILES)
def test_finish_ticks_are_those_of_the_foreign_simulator(name: str) -> None:
    """Every recorded stream ends in the same tick, less the constant that a simulator spends after the last command."""
    goldens = read_goldens(name)
    for run in goldens["runs"]:
        device = read_device(run["device"])
        stream = to_stream(device, GENERATORS[run["generator"]][1](run["seed"]))
        assert simulate(rules_of(device), stream, run["refresh"]).finish + goldens["offset"] == run["ticks"], run


def test_goldens_cover_what_is_claimed() -> None:
    """AttAcc: 100 streams with both power modes, with and without refresh; PIMSimulator: over 100; AiM: 20."""
    sizes = {name: len(read_goldens(name)["runs"]) for name in FILES}
    assert sizes["attacc_simulator"] == 100
    assert sizes["pimsimulator"] > 100
    assert sizes["aim_simulator"] == 20
    cases = {(run["device"], run["refresh"]) for run in read_goldens("attacc_simulator")["runs"]}
    assert cases == {(device, refresh) for device in ("attacc", "attacc-no-power-limit") for refresh in (True, False)}
