"""`tune`: the best machine of a space for some networks, with a bound (docs/tuner.md)."""

import argparse
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command, jobs, seconds
from cpsat_pim.cli.output import NO_MAPPING, OK, InputError, check_outputs, note, print_text, read_input, write_files

if TYPE_CHECKING:
    from cpsat_pim.study.sweep.engine import Engine
    from cpsat_pim.study.sweep.plan import Shard
    from cpsat_pim.tuner.run import Trial, Tuned, TunePlan


def add_commands(commands: Any) -> None:
    """Add the command `tune` to the parser."""
    text = "tune the hardware itself, with a bound on all machines of a space"
    parser = add_command(commands, "tune", text, tune_plan)
    add = parser.add_argument
    add("plan", metavar="PLAN.yaml", help="what to tune, for which networks (docs/tuner.md)")
    add("--methods", metavar="A,B", help="how machines are chosen, in place of the plan's")
    add("--seeds", metavar="A,B", type=_numbers, help="a run of each method for each, in place of the plan's")
    add("--trials", metavar="N", type=jobs, help="machines that a run evaluates, in place of the plan's")
    add("--fidelity", choices=("analytic", "bounds", "plan"), help="how closely, in place of the plan's")
    add("--time-limit", metavar="S", type=seconds, help="seconds of a network's plan, in place of the plan's")
    text = "seconds to bound all machines of the space; 0: no bound (%(default)g)"
    add("--bound-time", metavar="S", type=_seconds_or_none, default=60.0, help=text)
    add("--store", metavar="FILE", help="keep trials in this store, and take from it what is there (none)")
    add("--shard", metavar="K/N", type=_shard, default="1/1", help="only the K-th of N equal parts of the runs")
    add("--engine", choices=("here", "local", "ray"), default="here", help="what evaluates machines (%(default)s)")
    add("--jobs", metavar="N", type=jobs, default=1, help="machines evaluated at a time by an engine (%(default)s)")
    add("--csv", metavar="FILE", help="also write a row per trial (.csv, .parquet)")
    add("--json", metavar="FILE", help="also write everything to a file")
    add("--html", metavar="FILE", help="also draw regret, area and the bound as a page")
    add("--quiet", action="store_true", help="print no progress")


def tune_plan(arguments: argparse.Namespace) -> int:
    """Run `tune`: run the plan's methods, bound the space, and write the results."""
    from cpsat_pim.base.extras import MissingExtra
    from cpsat_pim.study.sweep.database import StoreError
    from cpsat_pim.study.sweep.engine import EngineError

    check_outputs(arguments.json, arguments.html, arguments.csv)
    if arguments.csv and not arguments.csv.endswith((".csv", ".parquet")):
        raise InputError(f"{arguments.csv}: must end in .csv or .parquet")
    plan = _given_plan(arguments)
    try:
        if arguments.html:
            from cpsat_pim.report.figures import check_drawing

            check_drawing()
        tuned = _tuned(arguments, plan)
    except (StoreError, EngineError, MissingExtra, ValueError) as error:
        raise InputError(str(error)) from error
    _write(arguments, tuned)
    return OK if tuned.best or (tuned.exact and tuned.exact.design) else NO_MAPPING


def _given_plan(arguments: argparse.Namespace) -> "TunePlan":
    """Return the plan with the changes of the command line."""
    from attrs import evolve

    from cpsat_pim.tuner.reading import read_tune_plan

    plan = read_input(lambda: read_tune_plan(arguments.plan))
    fidelity, task = plan.task.fidelity, plan.task
    if arguments.fidelity or arguments.time_limit:
        limit = arguments.time_limit or fidelity.time_limit
        task = evolve(task, fidelity=evolve(fidelity, name=arguments.fidelity or fidelity.name, time_limit=limit))
    given: Any = {
        "methods": arguments.methods and tuple(arguments.methods.split(",")),
        "seeds": arguments.seeds,
        "trials": arguments.trials,
    }
    return read_input(lambda: evolve(plan, task=task, **{key: value for key, value in given.items() if value}))


def _tuned(arguments: argparse.Namespace, plan: "TunePlan") -> "Tuned":
    from cpsat_pim.study.sweep.store import Store
    from cpsat_pim.tuner.exact import ExactLimits
    from cpsat_pim.tuner.run import tune

    limits = ExactLimits(time_limit=arguments.bound_time) if arguments.bound_time else None
    run = partial(
        tune,
        plan,
        engine=_engine(arguments),
        shard=arguments.shard,
        limits=limits,
        on_trial=None if arguments.quiet else _note_trial,
    )
    with _cluster(arguments):
        if not arguments.store:
            return run()
        with Store(Path(arguments.store)) as store:
            try:
                return run(store=store)
            except KeyboardInterrupt:
                note(f"{arguments.store} has all finished trials; the same command continues from there")
                raise


def _cluster(arguments: argparse.Namespace) -> AbstractContextManager[Any]:
    """Return what keeps Ray for the whole run: an engine alone would start it for every trial."""
    if arguments.engine != "ray":
        return nullcontext()
    from cpsat_pim.study.sweep.engine.on_ray import cluster

    return cluster(arguments.jobs)


def _engine(arguments: argparse.Namespace) -> "Engine":
    """Return the engine that evaluates machines."""
    from cpsat_pim.tuner.trials import evaluate_job, here

    if arguments.engine == "here":
        return here()
    if arguments.engine == "ray":
        from cpsat_pim.study.sweep.engine.on_ray import run_on_ray

        return partial(run_on_ray, workers=arguments.jobs, work=evaluate_job)
    from cpsat_pim.study.sweep.engine.local import run_locally

    return partial(run_locally, workers=arguments.jobs, work=evaluate_job)


def _note_trial(run: str, trial: "Trial", least: float) -> None:
    what = f"cost {trial.cost:.5g}" if trial.entry else f"failed: {trial.reason}"
    note(f"{run}: {what}, least {least:.5g}")


def _write(arguments: argparse.Namespace, tuned: "Tuned") -> None:
    """Print the result, and write the files that are asked for."""
    from cpsat_pim.base.files import write_json, write_text
    from cpsat_pim.tuner.document import format_tuned, trial_rows, tuned_document

    def write_table(path: str) -> None:
        from cpsat_pim.study.sweep.export import write_csv_file, write_parquet_file

        write = write_csv_file if path.endswith(".csv") else write_parquet_file
        write(trial_rows(tuned), Path(path))

    def write_page(path: str) -> None:
        from cpsat_pim.tuner.page import render_tuned

        write_text(render_tuned(tuned), path)

    write_files(
        ("standard output", lambda _: print_text(format_tuned(tuned))),
        (arguments.csv, write_table),
        (arguments.json, lambda path: write_json(tuned_document(tuned), path)),
        (arguments.html, write_page),
    )


def _numbers(text: str) -> tuple[int, ...]:
    """Read seeds such as `0,1,2`."""
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"must be integers, like 0,1,2 (got {text!r})")
    return tuple(map(int, parts))


def _seconds_or_none(text: str) -> float:
    """Read a number of seconds, or 0."""
    return 0.0 if text == "0" else seconds(text)


def _shard(text: str) -> "Shard":
    """Read a part of the runs such as `1/2`."""
    from cpsat_pim.study.sweep.plan import Shard

    try:
        return Shard.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
