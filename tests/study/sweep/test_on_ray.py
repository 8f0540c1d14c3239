"""The same jobs on Ray: a real one on this machine."""

import sys
from functools import partial

import pytest

from cpsat_pim.cli import main
from cpsat_pim.study.sweep.engine.on_ray import run_on_ray
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import run_sweep
from cpsat_pim.study.sweep.store import Store
from tests.study.sweep import work
from tests.study.sweep.conftest import WritePlan

#: Ray leaves files and sockets to the garbage collector, and warns of what it will change.
KINDS = ("ResourceWarning", "DeprecationWarning", "FutureWarning")
pytestmark = pytest.mark.filterwarnings(*(f"ignore::{kind}" for kind in KINDS))


@pytest.fixture
def _ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray is there, sends no statistics and uses no cluster of somebody else."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    pytest.importorskip("ray", reason="needs the extra ray")


@pytest.mark.slow
@pytest.mark.usefixtures("_ray")
def test_ray_answers_the_same_jobs(write_plan: WritePlan) -> None:
    """Done, raised and killed: the last one is tried twice, and all others go on."""
    plan = write_plan(2, 3, 4, 5, work.DEADLY, work.RAISING)
    with Store(plan.with_suffix(".sqlite")) as store:
        summary = run_sweep(read_plan(plan), store, partial(run_on_ray, workers=2, work=work.deadly))
        assert (summary.after.done, summary.after.failed, summary.after.open) == (4, 2, 0)
        failed = store.query("SELECT failure, reason FROM results WHERE state = 'failed' ORDER BY failure")
    assert failed == [("error", "RuntimeError: no way"), ("killed", "its worker died (WorkerCrashedError), twice")]
    assert sorted(work.calls().values()) == [1, 1, 1, 1, 1, 2]


@pytest.mark.usefixtures("_ray")
def test_ray_that_does_not_start_is_one_line(
    write_plan: WritePlan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it raises: of an address of a kind that it does not know, a RuntimeError, as of another version."""
    monkeypatch.setenv("RAY_ADDRESS", "nonsense://x")
    assert main(["sweep", str(write_plan(2)), "--engine", "ray"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cpsat_pim: error: Ray does not start: Module: nonsense does not exist.")


def test_without_ray_there_is_one_line(
    write_plan: WritePlan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How to install it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["sweep", str(write_plan(2)), "--engine", "ray"]) == 2
    assert capsys.readouterr().err == "cpsat_pim: error: ray is not installed: pip install 'cpsat-pim[ray]'\n"
