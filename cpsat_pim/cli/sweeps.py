"""`sweep` (docs/sweep.md): solve a plan; show, export, draw and merge its store."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command, cpus, jobs, seconds
from cpsat_pim.cli.output import DISAGREEMENT, NO_MAPPING, OK, InputError, note, print_text, read_input, write_file
from cpsat_pim.cli.reports import is_folder

if TYPE_CHECKING:
    from cpsat_pim.study.sweep.engine import Engine
    from cpsat_pim.study.sweep.export import Row
    from cpsat_pim.study.sweep.plan import Shard
    from cpsat_pim.study.sweep.run import Summary
    from cpsat_pim.study.sweep.store import Store, Tally

_FAILURES_SHOWN = 20


def add_commands(commands: Any) -> None:
    """Add the command `sweep` and its subcommands to the parser."""
    text = "solve a plan of many runs, and store the results"
    sweep = commands.add_parser("sweep", help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    kinds = sweep.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (text, command, add_arguments) in _COMMANDS.items():
        add_arguments(add_command(kinds, name, text, partial(_run, command)))


def expand_shorthand(argv: list[str]) -> list[str]:
    """Expand `sweep PLAN` to `sweep run PLAN`."""
    is_short = argv[:1] == ["sweep"] and argv[1:2] and argv[1] not in (*_COMMANDS, "-h", "--help")
    return ["sweep", "run", *argv[1:]] if is_short else argv


def _run(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a subcommand. An error of a store, an engine or a missing package becomes an `InputError`."""
    from cpsat_pim.base.extras import MissingExtra
    from cpsat_pim.study.sweep.database import StoreError
    from cpsat_pim.study.sweep.engine import EngineError

    try:
        return command(arguments)
    except (StoreError, EngineError, MissingExtra) as error:
        raise InputError(str(error)) from error


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("plan", metavar="PLAN.yaml", help="what to solve")
    add("--store", metavar="FILE", help="where results are stored (the plan's name with .sqlite)")
    add(
        "--resume",
        action="store_true",
        help="require an existing store; finished jobs are never solved again, with or without this",
    )
    add("--retry-failed", action="store_true", help="solve jobs again that failed before")
    add("--time-limit", metavar="S", type=seconds, help="seconds per job, instead of the plan's")
    add("--shard", metavar="K/N", type=_shard, default="1/1", help="only the K-th of N equal parts of the jobs")
    add("--engine", choices=("local", "ray", "slurm"), default="local", help="what solves the jobs (%(default)s)")
    text = "jobs solved at a time; with slurm, tasks of the array (%(default)s)"
    add("--jobs", metavar="N", type=jobs, default=cpus(), help=text)
    add("--slurm", metavar="KEY=VALUE,..", default="", help="parameters of submitit, such as slurm_partition=cpu")


def _shard(text: str) -> "Shard":
    """Read a part of the jobs such as `3/16`."""
    from cpsat_pim.study.sweep.plan import Shard

    try:
        return Shard.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE|PLAN.yaml", help="a store, or the plan that it belongs to")


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_store(parser)
    parser.add_argument(
        "to", metavar="FILE.csv|FILE.parquet|DIRECTORY/", nargs="?", default="-", help="to stdout as CSV if absent"
    )
    parser.add_argument(
        "--by", choices=("layer", "network"), default="layer", help="one row per layer or per network (%(default)s)"
    )


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_store(parser)
    text = "a page (.html), charts (.pdf, or a folder/ of SVG files) (%(default)s)"
    parser.add_argument("-o", "--output", metavar="FILE|FOLDER/", default="sweep.html", help=text)


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the store to add to; created if necessary")
    parser.add_argument("others", metavar="OTHER", nargs="+", help="stores to read")


# --- run -------------------------------------------------------------------------------------------------------------


def run_plan(arguments: argparse.Namespace) -> int:
    """Run `sweep run`: solve the jobs of a plan."""
    from cpsat_pim.study.sweep.progress import LiveSweep
    from cpsat_pim.study.sweep.reading import read_plan
    from cpsat_pim.study.sweep.run import Choice, run_sweep
    from cpsat_pim.study.sweep.store import Store

    plan, path = read_input(lambda: read_plan(arguments.plan)), _store_path(arguments)
    for line in plan.warnings:
        note(f"warning: {line}")
    if arguments.time_limit is not None:
        plan = plan.with_time_limit(arguments.time_limit)
    choice, engine = Choice(shard=arguments.shard, retry_failed=arguments.retry_failed), _engine(arguments, path)
    with Store(path) as store, LiveSweep(plan.name) as watch:
        try:
            summary = run_sweep(plan, store, engine, choice, watch)
        except KeyboardInterrupt:
            note(f"{path} has all finished jobs; the same command continues from there")
            raise
    _print_summary(plan.name, path, summary)
    return _exit_code(summary.after)


def _store_path(arguments: argparse.Namespace) -> Path:
    """Return the path of the store, existing or not."""
    path = Path(arguments.store) if arguments.store else Path(arguments.plan).with_suffix(".sqlite")
    if arguments.resume and not path.exists():
        raise InputError(f"{path}: there is no such store to resume")
    return path


def _engine(arguments: argparse.Namespace, store: Path) -> "Engine":
    """Return the engine that solves the jobs."""
    if arguments.slurm and arguments.engine != "slurm":
        raise InputError("--slurm needs --engine slurm")
    if arguments.engine == "ray":
        from cpsat_pim.study.sweep.engine.on_ray import run_on_ray

        return partial(run_on_ray, workers=arguments.jobs)
    if arguments.engine == "slurm":
        from cpsat_pim.study.sweep.engine.on_slurm import run_on_slurm

        folder = Path(f"{store}.slurm")
        return partial(run_on_slurm, workers=arguments.jobs, folder=folder, parameters=_parameters(arguments.slurm))
    from cpsat_pim.study.sweep.engine.local import run_locally

    return partial(run_locally, workers=arguments.jobs)


def _parameters(text: str) -> dict[str, Any]:
    """Read parameters such as `timeout_min=60,slurm_partition=cpu`."""
    pairs = [item.partition("=") for item in text.split(",") if item]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise InputError(f"--slurm: must be KEY=VALUE, separated by commas (got {text!r})")
    return {key.strip(): int(value) if value.isdecimal() else value for key, _, value in pairs}


def _print_summary(name: str, path: Path, summary: "Summary") -> None:
    before, after = summary.before, summary.after
    print_text(f"{name}: {after.total} jobs: {_tally_text(after)}; {before.done} were done before")
    print_text(f"results are in {path}")
    if summary.outdated:
        note(f"{summary.outdated} had been solved by another version of this program; those solutions are not used")
    if after.failed:
        note(f"{after.failed} failed (see `sweep status {path}`); --retry-failed solves them again")
    if after.open:
        note(f"{after.open} are being solved by another sweep on {path}")


def _tally_text(tally: "Tally") -> str:
    """Describe a tally: `12 done (1 proven to have no mapping), 3 failed, 2 open`."""
    parts = [f"{tally.infeasible} proven to have no mapping"] if tally.infeasible else []
    parts += [f"{tally.unknown} without a mapping in their time"] if tally.unknown else []
    unmapped = f" ({', '.join(parts)})" if parts else ""
    return f"{tally.done} done{unmapped}, {tally.failed} failed, {tally.open} open"


def _exit_code(tally: "Tally") -> int:
    """Return the exit code of a tally."""
    if tally.wrong:
        return DISAGREEMENT
    return NO_MAPPING if tally.failed or tally.unmapped or tally.open else OK


# --- status, export, merge -------------------------------------------------------------------------------------------


def print_status(arguments: argparse.Namespace) -> int:
    """Run `sweep status`: print for each plan its progress, its failures and their reasons."""
    with _store_to_read(arguments.store) as store:
        for (plan,) in store.query("SELECT DISTINCT plan FROM points ORDER BY plan"):
            keys = [key for (key,) in store.query("SELECT DISTINCT job FROM uses WHERE plan = ?", plan)]
            (points,) = store.query("SELECT count(*) FROM points WHERE plan = ?", plan)[0]
            print_text(f"{plan}: {points} points, {len(keys)} jobs: {_tally_text(store.tally(keys))}")
        _print_times(store)
        _print_failures(store)
    return OK


def _print_times(store: "Store") -> None:
    """Print the duration of jobs, the jobs that run now, and the jobs that belong to no plan."""
    done, mean, worst = store.query("SELECT count(*), avg(seconds), max(gap) FROM jobs WHERE state = 'done'")[0]
    if done:
        print_text(f"{done} done in the store: {mean:.1f} s each, largest gap {100 * (worst or 0):.3g} %")
    running = len(store.running())
    if running:
        print_text(f"{running} being solved now")
    unused = store.query("SELECT count(*) FROM jobs WHERE state = 'done' AND key NOT IN (SELECT job FROM uses)")[0][0]
    if unused:
        print_text(
            f"{unused} done for no current plan: their points were removed, "
            "or another version of this program solved them"
        )


def _print_failures(store: "Store") -> None:
    """Print the reasons of failures, with their number and an example."""
    rows = store.query(
        "SELECT reason, count(DISTINCT key), min(layer || ' on ' || arch || ' for ' || objective) FROM results"
        " WHERE state = 'failed' GROUP BY reason ORDER BY 2 DESC, 1"
    )
    for reason, count, example in rows[:_FAILURES_SHOWN]:
        print_text(f"failed: {count} x {reason} ({example}{', ...' if count > 1 else ''})")
    if len(rows) > _FAILURES_SHOWN:
        print_text(f"failed: {len(rows) - _FAILURES_SHOWN} more reasons (column `reason` of the export)")


def export_store(arguments: argparse.Namespace) -> int:
    """Run `sweep export`: write the results of a store."""
    from cpsat_pim.report.csvfile import write_csv
    from cpsat_pim.study.sweep import export

    rows = {"layer": export.layer_rows, "network": export.network_rows}[arguments.by]
    with _store_to_read(arguments.store) as store:
        _check_is_of_sweeps(store)
        if arguments.to == "-":
            write_csv(rows(store), sys.stdout)
            return OK
        write_file(arguments.to, lambda path: _write_export(store, rows, path))
    return OK


def _write_export(store: "Store", rows: "Callable[[Store], list[Row]]", to: str) -> None:
    """Write the export in the format that the target's name implies."""
    from cpsat_pim.study.sweep import export

    if to.endswith("/") or Path(to).is_dir():
        for path in export.write_documents(store, Path(to)):
            print(path)
    elif to.endswith(".csv"):
        export.write_csv_file(rows(store), Path(to))
    elif to.endswith(".parquet"):
        export.write_parquet_file(rows(store), Path(to))
    else:
        raise InputError(f"{to}: must end in .csv, .parquet or /")


def report_store(arguments: argparse.Namespace) -> int:
    """Run `sweep report`: draw the results of a store."""
    from cpsat_pim.report.figures import check_drawing
    from cpsat_pim.study.sweep import export

    target: str = arguments.output
    if not (target.endswith((".html", ".htm", ".pdf")) or is_folder(target)):
        raise InputError(f"{target}: must end in .html, .pdf or /")
    check_drawing()
    with _store_to_read(arguments.store) as store:
        _check_is_of_sweeps(store)
        rows = export.network_rows(store)
    if not rows:
        raise InputError(f"{arguments.store}: has no points")
    write_file(target, lambda path: _write_report(rows, path))
    return OK


def _write_report(rows: "list[Row]", to: str) -> None:
    """Write the page or the charts."""
    from cpsat_pim.base.files import write_text
    from cpsat_pim.report.figures import write_pdf, write_svgs
    from cpsat_pim.study.sweep.charts import sweep_charts
    from cpsat_pim.study.sweep.page import clock_note, render_sweep

    if text := clock_note(rows):
        note(f"warning: {text}")
    if to.endswith((".html", ".htm")):
        write_text(render_sweep(rows), to)
    elif to.endswith(".pdf"):
        write_pdf(sweep_charts(rows), to)
    else:
        for path in write_svgs(sweep_charts(rows), to):
            print(path)


def merge_stores(arguments: argparse.Namespace) -> int:
    """Run `sweep merge`: add the contents of other stores to a store."""
    from cpsat_pim.study.sweep.store import Store

    into, *others = map(_store_of, (arguments.store, *arguments.others))
    for other in others:
        # Open each source first: a bad one must fail before anything is created or changed.
        Store(other, readonly=True).close()
    with Store(into) as store:
        for other in others:
            store.merge(other)
            print_text(f"{other}: merged into {into}")
    return OK


def _store_to_read(named: str) -> "Store":
    from cpsat_pim.study.sweep.store import Store

    return Store(_store_of(named), readonly=True)


def _check_is_of_sweeps(store: "Store") -> None:
    """Raise an `InputError` if the store has machines that `tune` tried, whose rows are others."""
    if store.query("SELECT 1 FROM results WHERE objective = 'hardware' LIMIT 1"):
        raise InputError(f"{store.path}: has trials of `tune`; `tune --csv` writes them")


def _store_of(named: str) -> Path:
    """Return the path of a store, given directly or by its plan."""
    from cpsat_pim.base.reading import SUFFIXES

    path = Path(named)
    return path.with_suffix(".sqlite") if named.endswith(SUFFIXES) else path


_COMMANDS = {
    "run": ("solve the open jobs of a plan (short: `sweep PLAN`)", run_plan, _add_run),
    "status": ("show the done, open and failed jobs of a store", print_status, _add_store),
    "export": ("write a store's results as CSV, Parquet or results files", export_store, _add_export),
    "report": ("draw a store's results: a page, or charts for papers", report_store, _add_report),
    "merge": ("merge the results of other stores into one", merge_stores, _add_merge),
}
