"""The commands of `sweep` (docs/sweep.md). Whatever takes time to import is imported by the command that needs it."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpsat_pim.sweep.engine import Engine
    from cpsat_pim.sweep.run import Summary
    from cpsat_pim.sweep.store import Store, Tally

#: The commands and what they do.
COMMANDS = {
    "run": "solve what is open of a plan (`sweep PLAN` is short for it)",
    "status": "tell what is done, open and failed in a store",
    "export": "write a store's results as CSV, Parquet or results files",
    "merge": "take the results of other stores into one",
}

#: Exit codes besides 0: something has no answer or no mapping; prediction and simulation disagree.
INCOMPLETE, DISAGREEMENT = 1, 3

_PLAN_SUFFIXES = (".yaml", ".yml")
_FAILURES_SHOWN = 20


class UsageError(Exception):
    """What was given cannot be used; the message is one line."""


def spelled_out(argv: list[str]) -> list[str]:
    """`sweep PLAN` as `sweep run PLAN`."""
    is_short = argv[:1] == ["sweep"] and argv[1:2] and argv[1] not in (*COMMANDS, "-h", "--help")
    return ["sweep", "run", *argv[1:]] if is_short else argv


def add_arguments(name: str, parser: argparse.ArgumentParser, jobs: Callable[[str], int], cpus: int) -> None:
    """The arguments of one of the commands; `jobs` reads a number of processes, `cpus` is the usual one."""
    {"run": _add_run, "status": _add_status, "export": _add_export, "merge": _add_merge}[name](parser)
    if name == "run":
        parser.add_argument(
            "--jobs",
            metavar="N",
            type=jobs,
            default=cpus,
            help="jobs solved at a time; of an array, tasks (%(default)s)",
        )


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("plan", metavar="PLAN.yaml", help="what to solve")
    add("--store", metavar="FILE", help="where results are kept (the plan's name, ending in .sqlite)")
    add("--resume", action="store_true", help="only go on with a store that is there; what is done is never redone")
    add("--retry-failed", action="store_true", help="try again what has failed before")
    add("--shard", metavar="K/N", default="1/1", help="only the K-th of N equal parts of the jobs")
    add("--engine", choices=("local", "ray", "slurm"), default="local", help="what solves the jobs (%(default)s)")
    add("--slurm", metavar="KEY=VALUE,..", default="", help="parameters of submitit, such as slurm_partition=cpu")


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE|PLAN.yaml", help="a store, or the plan whose store is meant")


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE|PLAN.yaml", help="a store, or the plan whose store is meant")
    parser.add_argument(
        "to", metavar="FILE.csv|FILE.parquet|DIRECTORY/", nargs="?", default="-", help="to stdout as CSV if absent"
    )
    parser.add_argument("--by", choices=("layer", "network"), default="layer", help="a row for each (%(default)s)")


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the store that grows; made if it is not there")
    parser.add_argument("others", metavar="OTHER", nargs="+", help="stores to be read")


def run(name: str, arguments: argparse.Namespace) -> int:
    """Run a command; the exit code.

    Raises:
        PlanError: there are mistakes in a plan.
        UsageError: something else that was given cannot be used.
    """
    from cpsat_pim.sweep.engine import EngineError
    from cpsat_pim.sweep.store import StoreError

    commands = {"run": run_plan, "status": print_status, "export": export_store, "merge": merge_stores}
    try:
        return commands[name](arguments)
    except (StoreError, EngineError) as error:
        raise UsageError(str(error)) from error


# --- run -------------------------------------------------------------------------------------------------------------


def run_plan(arguments: argparse.Namespace) -> int:
    """`run`."""
    from cpsat_pim.sweep.plan import Shard
    from cpsat_pim.sweep.progress import LiveSweep
    from cpsat_pim.sweep.reading import read_plan
    from cpsat_pim.sweep.run import Choice, run_sweep
    from cpsat_pim.sweep.store import Store

    try:
        shard = Shard.parse(arguments.shard)
    except ValueError as error:
        raise UsageError(f"--shard: {error}") from error
    plan, path = read_plan(arguments.plan), _store_path(arguments)
    engine = _engine(arguments, path)
    with Store(path) as store, LiveSweep(plan.name) as watch:
        try:
            summary = run_sweep(plan, store, engine, Choice(shard=shard, retry_failed=arguments.retry_failed), watch)
        except KeyboardInterrupt:
            _note(f"{path} has all that had finished; the same command goes on from there")
            raise
    _print_summary(plan.name, path, summary)
    return _verdict(summary.after)


def _store_path(arguments: argparse.Namespace) -> Path:
    """Where the results are, or are going to be."""
    path = Path(arguments.store) if arguments.store else Path(arguments.plan).with_suffix(".sqlite")
    if arguments.resume and not path.exists():
        raise UsageError(f"{path}: there is no such store to resume")
    return path


def _engine(arguments: argparse.Namespace, store: Path) -> "Engine":
    """What is to solve the jobs."""
    from functools import partial

    if arguments.slurm and arguments.engine != "slurm":
        raise UsageError("--slurm is for --engine slurm")
    if arguments.engine == "ray":
        from cpsat_pim.sweep.engine.on_ray import run_on_ray

        return partial(run_on_ray, workers=arguments.jobs)
    if arguments.engine == "slurm":
        from cpsat_pim.sweep.engine.on_slurm import run_on_slurm

        folder = Path(f"{store}.slurm")
        return partial(run_on_slurm, workers=arguments.jobs, folder=folder, parameters=_parameters(arguments.slurm))
    from cpsat_pim.sweep.engine.local import run_locally

    return partial(run_locally, workers=arguments.jobs)


def _parameters(given: str) -> dict[str, Any]:
    """`timeout_min=60,slurm_partition=cpu`."""
    pairs = [item.partition("=") for item in given.split(",") if item]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise UsageError(f"--slurm: must be KEY=VALUE, separated by commas (got {given!r})")
    return {key.strip(): int(value) if value.isdecimal() else value for key, _, value in pairs}


def _print_summary(name: str, path: Path, summary: "Summary") -> None:
    before, after = summary.before, summary.after
    print(f"{name}: {after.total} jobs: {_told(after)}; {before.done} were done before")
    print(f"results are in {path}")
    if summary.outdated:
        _note(f"{summary.outdated} had been done by another version of this program, whose answers are not used")
    if after.failed:
        _note(f"{after.failed} failed (see `sweep status {path}`); --retry-failed tries them again")
    if after.open:
        _note(f"{after.open} are being solved by another sweep on {path}")


def _told(tally: "Tally") -> str:
    """`12 done (1 without a mapping), 3 failed, 2 open`."""
    unmapped = f" ({tally.unmapped} without a mapping)" if tally.unmapped else ""
    return f"{tally.done} done{unmapped}, {tally.failed} failed, {tally.open} open"


def _verdict(tally: "Tally") -> int:
    """The exit code."""
    if tally.wrong:
        return DISAGREEMENT
    return INCOMPLETE if tally.failed or tally.unmapped else 0


# --- status, export, merge -------------------------------------------------------------------------------------------


def print_status(arguments: argparse.Namespace) -> int:
    """`status`: plans, how far they are, what has failed and why."""
    with _store_to_read(arguments.store) as store:
        for (plan,) in store.query("SELECT DISTINCT plan FROM points ORDER BY plan"):
            keys = [key for (key,) in store.query("SELECT DISTINCT job FROM uses WHERE plan = ?", plan)]
            (points,) = store.query("SELECT count(*) FROM points WHERE plan = ?", plan)[0]
            print(f"{plan}: {points} points, {len(keys)} jobs: {_told(store.tally(keys))}")
        _print_times(store)
        _print_failures(store)
    return 0


def _print_times(store: "Store") -> None:
    """How long jobs take, what runs now, and what is there besides the plans."""
    done, mean, worst = store.query("SELECT count(*), avg(seconds), max(gap) FROM jobs WHERE state = 'done'")[0]
    if done:
        print(f"{done} done in the store: {mean:.1f} s each, the worst gap {100 * (worst or 0):.3g} %")
    running = len(store.running())
    if running:
        print(f"{running} being solved now")
    unused = store.query("SELECT count(*) FROM jobs WHERE state = 'done' AND key NOT IN (SELECT job FROM uses)")[0][0]
    if unused:
        print(f"{unused} done for no plan of now: for points that are gone, or by another version of this program")


def _print_failures(store: "Store") -> None:
    """Reasons with how often they occur, and where."""
    rows = store.query(
        "SELECT reason, count(DISTINCT key), min(layer || ' on ' || arch || ' for ' || objective) FROM results"
        " WHERE state = 'failed' GROUP BY reason ORDER BY 2 DESC, 1"
    )
    for reason, count, example in rows[:_FAILURES_SHOWN]:
        print(f"failed: {count} x {reason} ({example}{', ...' if count > 1 else ''})")
    if len(rows) > _FAILURES_SHOWN:
        print(f"failed: for {len(rows) - _FAILURES_SHOWN} more reasons (column `reason` of the export)")


def export_store(arguments: argparse.Namespace) -> int:
    """`export`."""
    from cpsat_pim.sweep import export

    rows = {"layer": export.layer_rows, "network": export.network_rows}[arguments.by]
    with _store_to_read(arguments.store) as store:
        if arguments.to == "-":
            export.write_csv(rows(store), sys.stdout)
            return 0
        try:
            _write_export(store, rows, arguments.to)
        except OSError as error:
            raise UsageError(f"{arguments.to}: cannot be written: {error.strerror or error}") from error
    return 0


def _write_export(store: "Store", rows: Any, to: str) -> None:
    """The kind of export that a name asks for."""
    from cpsat_pim.sweep import export

    if to.endswith("/") or Path(to).is_dir():
        for path in export.write_documents(store, Path(to)):
            print(path)
    elif to.endswith(".csv"):
        export.write_csv_file(rows(store), Path(to))
    elif to.endswith(".parquet"):
        export.write_parquet_file(rows(store), Path(to))
    else:
        raise UsageError(f"{to}: must end in .csv, .parquet or /")


def merge_stores(arguments: argparse.Namespace) -> int:
    """`merge`."""
    from cpsat_pim.sweep.store import Store

    with Store(arguments.store) as store:
        for other in arguments.others:
            store.merge(other)
            print(f"{other}: merged into {arguments.store}")
    return 0


def _store_to_read(given: str) -> "Store":
    """A store, or that of a plan."""
    from cpsat_pim.sweep.store import Store

    path = Path(given)
    return Store(path.with_suffix(".sqlite") if given.endswith(_PLAN_SUFFIXES) else path, readonly=True)


def _note(text: str) -> None:
    """A message on stderr."""
    print(f"cpsat_pim: {text}", file=sys.stderr)
