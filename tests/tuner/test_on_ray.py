"""Trials on Ray: a real one on this machine."""

import json
import sys
from pathlib import Path

import pytest

from cpsat_pim.cli import main

#: Ray leaves files and sockets to the garbage collector, and warns of what it will change.
KINDS = ("ResourceWarning", "DeprecationWarning", "FutureWarning")
pytestmark = pytest.mark.filterwarnings(*(f"ignore::{kind}" for kind in KINDS))


@pytest.mark.slow
def test_ray_evaluates_the_same_trials(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines at a time, whose costs are those of this process, and all trials are in the store."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    pytest.importorskip("ray", reason="needs the extra ray")
    with (folder / "plan.yaml").open("a") as file:
        file.write("side_by_side: 2\n")
    documents = []
    for engine in ("here", "ray"):
        to = folder / f"{engine}.json"
        options = ["--engine", engine, "--jobs", "2", "--store", str(folder / f"{engine}.sqlite"), "--json", str(to)]
        assert main(["tune", str(folder / "plan.yaml"), "--quiet", *options]) == 0
        documents.append(json.loads(to.read_text()))
    assert documents[0]["runs"] == documents[1]["runs"]
    assert documents[0]["best"] == documents[1]["best"]


def test_without_ray_there_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How to install it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["tune", str(folder / "plan.yaml"), "--quiet", "--engine", "ray"]) == 2
    assert capsys.readouterr().err == "cpsat_pim: error: ray is not installed: pip install 'cpsat-pim[ray]'\n"
