"""Whole tunings: resumed ones, stores, failures, documents, and the command."""

import csv
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import evolve

from cpsat_pim.base.extras import MissingExtra
from cpsat_pim.cli import main
from cpsat_pim.study.sweep.job import Job, Outcome, attempt
from cpsat_pim.study.sweep.plan import Shard
from cpsat_pim.study.sweep.store import Store
from cpsat_pim.study.sweep.versions import Versions
from cpsat_pim.tuner.document import format_tuned, trial_rows, tuned_document
from cpsat_pim.tuner.exact import ExactLimits
from cpsat_pim.tuner.run import Tuned, TunePlan, feasible_share, tune
from cpsat_pim.tuner.space import Axis, HardwareSpace
from cpsat_pim.tuner.task import TuneTask
from cpsat_pim.tuner.trials import TrialJob, evaluate_job, here
from tests.tuner.small import FILE, H, W, small_space


@pytest.fixture
def plan(task: TuneTask) -> TunePlan:
    """A short run of two methods."""
    return TunePlan(name="short", task=task, methods=["random", "gp"], trials=9, initial=5)


def values(tuned: Tuned) -> list[Any]:
    """Machines and costs of all trials."""
    return [(trial.values, trial.cost) for run in tuned.runs for trial in run.trials]


class Killed(BaseException):
    """Ends a run in its middle."""


def test_killed_and_resumed_gives_the_same_trials(plan: TunePlan, tmp_path: Path) -> None:
    """Killed after 5 evaluations: these are not repeated, and all trials are those of a run that was not killed."""
    seen: list[str] = []

    def counted(jobs: Iterator[Job], most: float) -> Iterator[Outcome]:
        for job in jobs:
            if len(seen) >= most:
                raise Killed
            seen.append(job.key)
            yield attempt(evaluate_job, job)

    with pytest.raises(Killed), Store(tmp_path / "trials.sqlite") as store:
        tune(plan, store=store, engine=lambda jobs: counted(jobs, 5))
    with Store(tmp_path / "trials.sqlite") as store:
        resumed = tune(plan, store=store, engine=lambda jobs: counted(jobs, float("inf")))
    assert len(seen) == len(set(seen))
    assert values(resumed) == values(tune(plan))


def test_runs_share_machines_that_are_in_the_store(plan: TunePlan, tmp_path: Path) -> None:
    """A second tuning evaluates nothing; its points are in the store, with method, seed and machine."""

    def never(jobs: Iterator[Job]) -> Iterator[Outcome]:
        for job in jobs:
            raise AssertionError(job)
        yield from ()

    with Store(tmp_path / "trials.sqlite") as store:
        first = tune(plan, store=store)
        assert values(tune(plan, store=store, engine=never)) == values(first)
        (count,) = store.query("SELECT count(*) FROM results WHERE state = 'done' AND objective = 'hardware'")[0]
        settings = json.loads(store.query("SELECT settings FROM points WHERE plan = 'short gp 0' AND point = 3")[0][0])
    assert count == 19  # with the reference
    assert settings == {"method": "gp", "method_seed": 0, "trial": 3} | first.runs[1].trials[3].values


def test_shards_are_all_runs_once(plan: TunePlan) -> None:
    """Of two methods and three seeds."""
    plan = evolve(plan, seeds=(0, 1, 2))
    shards = [plan.runs(Shard(index=i, count=4)) for i in range(1, 5)]
    assert sorted(str(run) for shard in shards for run in shard) == sorted(map(str, plan.runs()))


def test_trials_side_by_side_are_chosen_before_they_are_evaluated(plan: TunePlan) -> None:
    """Each batch goes to the engine as one."""
    sizes: list[int] = []

    def engine(jobs: Iterator[Job]) -> Iterator[Outcome]:
        batch = list(jobs)
        sizes.append(len(batch))
        yield from here()(iter(batch))

    tune(evolve(plan, methods=["random"], side_by_side=4), engine=engine)
    assert sizes == [1, 4, 4, 1]  # the reference comes first


def test_costs_belong_to_their_machines_whatever_the_order_of_outcomes(plan: TunePlan) -> None:
    """Workers end in any order; machines that were drawn twice are evaluated once."""
    plan = evolve(plan, methods=["random"], side_by_side=5, trials=20, task=evolve(plan.task, space=_tiny()))
    seen: list[str] = []

    def reversed_(jobs: Iterator[Job]) -> Iterator[Outcome]:
        batch = list(jobs)
        seen.extend(job.key for job in batch)
        yield from reversed(list(here()(iter(batch))))

    found = tune(plan, engine=reversed_)
    assert values(found) == values(tune(plan))
    machines = {tuple(trial.values.items()) for trial in found.runs[0].trials}
    assert len(machines) < 20
    assert len(seen) == len(machines) + 1  # the reference


def _tiny() -> HardwareSpace:
    """Sixteen machines."""
    return evolve(small_space(None), axes=[Axis(path=path, values=(2, 4, 8, 16)) for path in (H, W)])


def test_method_whose_package_is_missing_stops_before_all_trials(
    plan: TunePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its place: a run of hours before it would be for nothing."""
    monkeypatch.setitem(sys.modules, "xgboost", None)

    def never(jobs: Iterator[Job]) -> Iterator[Outcome]:
        raise AssertionError(list(jobs))

    with pytest.raises(MissingExtra, match="xgboost is not installed"):
        tune(evolve(plan, methods=["random", "xgb"]), engine=never)


def test_machine_that_fails_has_a_reason_and_no_cost(plan: TunePlan) -> None:
    """The run goes on; what fails is never the best."""

    def broken(job: Job) -> dict[str, Any]:
        raise ValueError("no plan")

    tuned = tune(evolve(plan, trials=2), engine=here(broken))
    assert tuned.best is None
    assert {trial.reason for run in tuned.runs for trial in run.trials} == {"ValueError: no plan"}
    assert json.dumps(tuned_document(tuned), allow_nan=False)
    assert "2 failed" in format_tuned(tuned)


def test_best_and_bound_are_told(plan: TunePlan) -> None:
    """With the exact method the best machine is proven: a gap of 0."""
    tuned = tune(evolve(plan, methods=["random", "exact"]), limits=ExactLimits())
    assert tuned.gap == 0
    assert tuned.best == tuned.proven
    document = tuned_document(tuned)
    assert document["analytic"]["is_proven"]
    assert document["best"]["cost"] == document["bound"] == tuned.exact.cost if tuned.exact else False
    assert "within 0.00 % of any machine" in format_tuned(tuned)
    rows = trial_rows(tuned)
    assert len(rows) == 9
    assert min(row["cost"] for row in rows) == rows[-1]["least_cost"]


def test_a_bound_that_ran_out_of_time_does_not_deny_that_machines_fit(plan: TunePlan) -> None:
    """The text gives the bound that there is, says that no optimum was found, and draws no curve of none."""
    tuned = tune(evolve(plan, trials=2, methods=["random"]), limits=ExactLimits())
    exact = tuned.exact
    assert exact is not None
    text = format_tuned(evolve(tuned, exact=evolve(exact, design=None, cost=math.inf)))
    assert "no machine was found in" in text
    assert "within the area" not in text
    assert f"bound: {exact.bound:.5g}" in text


def test_share_within_the_area_is_counted(space: HardwareSpace) -> None:
    """All 1,024 machines one by one."""
    inside = sum(space.area_mm2(space.values(d)) <= 1.0 for d in _designs(space))
    assert feasible_share(space) == inside / 1024
    assert 0 < inside < 1024


def _designs(space: HardwareSpace) -> list[tuple[int, ...]]:
    """By counting in mixed radix."""
    sizes = [len(axis.values) for axis in space.axes]
    found = []
    for number in range(space.size):
        digits = []
        for size in sizes:
            number, digit = divmod(number, size)
            digits.append(digit)
        found.append(tuple(digits))
    return found


def test_reference_is_evaluated_like_a_trial(plan: TunePlan) -> None:
    """Its analytic cost is 1, by the definition of the weights, and it stands in document and text."""
    tuned = tune(evolve(plan, trials=1))
    assert tuned.reference.cost == pytest.approx(1)
    assert tuned_document(tuned)["reference"]["cost"] == tuned.reference.cost
    assert "reference: cost 1, " in format_tuned(tuned)


def test_worker_of_another_version_evaluates_nothing(task: TuneTask) -> None:
    """A cost of other code under this key would be wrong."""
    job = TrialJob(task=task, values={}, arch=task.space.arch, versions=Versions(code="0+0", solver="0"))
    with pytest.raises(RuntimeError, match="the trial is of"):
        evaluate_job(cast(Job, job))


# --- The command -----------------------------------------------------------------------------------------------------


def test_command_prints_and_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, JSON, CSV, and the store."""
    files = ["--json", str(folder / "t.json"), "--csv", str(folder / "t.csv"), "--store", str(folder / "t.sqlite")]
    assert main(["tune", str(folder / "plan.yaml"), "--quiet", *files]) == 0
    text = capsys.readouterr().out
    assert "analytic optimum (proven" in text
    assert "random 0: 4 trials" in text
    document = json.loads((folder / "t.json").read_text())
    assert document["space"]["size"] == 16
    with (folder / "t.csv").open() as file:
        assert [row["trial"] for row in csv.DictReader(file)] == ["0", "1", "2", "3"]


def test_store_of_trials_has_a_status_and_no_rows_of_layers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`sweep status` counts trials; `sweep export` says in one line what writes them."""
    store = str(folder / "t.sqlite")
    assert main(["tune", str(folder / "plan.yaml"), "--quiet", "--store", store, "--bound-time", "0"]) == 0
    assert main(["sweep", "status", store]) == 0
    assert "plan random 0: 4 points" in capsys.readouterr().out
    assert main(["sweep", "export", store]) == 2
    assert capsys.readouterr().err == f"cpsat_pim: error: {store}: has trials of `tune`; `tune --csv` writes them\n"


def test_command_draws_a_page(folder: Path) -> None:
    """With its three charts."""
    pytest.importorskip("matplotlib")
    arguments = ["--methods", "random,sa", "--seeds", "0,1,2,3", "--trials", "3", "--html", str(folder / "t.html")]
    assert main(["tune", str(folder / "plan.yaml"), "--quiet", *arguments]) == 0
    page = (folder / "t.html").read_text()
    assert page.count("<svg") == 3
    assert "regret against the bound" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--methods", "magic"], "methods: must be one of"),
        (["--csv", "rows.txt"], "rows.txt: must end in .csv or .parquet"),
    ],
)
def test_mistakes_of_the_command_are_one_line(
    folder: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And exit code 2."""
    assert main(["tune", str(folder / "plan.yaml"), *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("fidelity", ["bounds", "plan"])
def test_planned_machines_cost_at_least_their_bounds(fidelity: str, folder: Path) -> None:
    """One machine of a small layer, with node programs at their bounds and solved ones, and a small space of plans."""
    (folder / "net.yaml").write_text("version: 1\nlayers: [{name: a, after: [input], C: 16, K: 16}]\n")
    (folder / "plan.yaml").write_text(FILE + "plans: {dims: 1, layouts: [BCHW]}\n")
    arguments = ["--methods", "exact", "--fidelity", fidelity, "--json", str(folder / "t.json")]
    assert main(["tune", str(folder / "plan.yaml"), "--quiet", "--time-limit", "300", *arguments]) == 0
    document = json.loads((folder / "t.json").read_text())
    assert document["best"]["cost"] >= document["best"]["bound"] >= document["bound"]
    (network,) = document["best"]["networks"]
    assert network["latency_cycles"] >= network["latency_bound_cycles"]


@pytest.mark.slow
def test_engines_of_sweeps_evaluate_trials(folder: Path, tmp_path: Path) -> None:
    """In a worker process, with the same costs."""
    documents = []
    for engine in ("here", "local"):
        to = tmp_path / f"{engine}.json"
        assert main(["tune", str(folder / "plan.yaml"), "--quiet", "--engine", engine, "--json", str(to)]) == 0
        documents.append(json.loads(to.read_text())["runs"])
    assert documents[0] == documents[1]
