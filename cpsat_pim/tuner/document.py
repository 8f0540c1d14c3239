"""A tuning as plain data: rows of trials for CSV and Parquet, a JSON document, and text (docs/tuner.md)."""

import math
from collections.abc import Iterator
from typing import Any

from cpsat_pim.tuner.run import EXACT, Run, Trial, Tuned
from cpsat_pim.tuner.space import describe
from cpsat_pim.tuner.task import ANALYTIC

Row = dict[str, Any]
VERSION = 1


def trial_rows(tuned: Tuned) -> list[Row]:
    """Return a row for each trial of each run: its machine, cost, bound, area, and what each network takes."""
    return [_row(run, i, trial) for run in tuned.all_runs for i, trial in enumerate(run.trials)]


def _row(run: Run, number: int, trial: Trial) -> Row:
    row: Row = {"method": run.name.method, "seed": run.name.seed, "trial": number, **trial.values}
    row |= {"cost": _finite(trial.cost), "least_cost": _finite(run.least_costs()[number]), "bound": trial.bound}
    row |= {"area_mm2": trial.area_mm2, "reason": trial.reason}
    for network in trial.entry["networks"] if trial.entry else ():
        name = network["network"]
        row |= {f"{name}_{key}": network[key] for key in network if key != "network"}
    return row


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def tuned_document(tuned: Tuned) -> dict[str, Any]:
    """Return the document that `tune --json` writes (docs/tuner.md)."""
    best, exact, space = tuned.best, tuned.exact, tuned.plan.task.space
    return {
        "version": VERSION,
        "name": tuned.plan.name,
        "cost": tuned.plan.task.to_dict(),
        "fidelity": tuned.plan.task.fidelity.name,
        "space": {
            "name": space.name,
            "arch": space.arch.name,
            "axes": {axis.path: list(axis.values) for axis in space.axes},
            "shared": dict(space.shared),
            "size": space.size,
            "feasible_share": tuned.feasible_share,
        },
        "reference": _machine(tuned.reference),
        "best": None if best is None else _machine(best),
        "exact": None if tuned.proven is None else _machine(tuned.proven),
        "in_order": _in_order(tuned),
        "bound": tuned.bound,
        "gap": tuned.gap,
        "analytic": None
        if exact is None
        else {
            "machine": exact.design and space.values(exact.design),
            "cost": _finite(exact.cost),
            "bound": exact.bound,
            "is_proven": exact.is_proven,
            "evaluations": exact.evaluations,
            "seconds": exact.seconds,
            "history": [[n, bound, _finite(cost)] for n, bound, cost in exact.history],
        },
        "runs": [_run(run) for run in tuned.runs],
    }


def _run(run: Run) -> dict[str, Any]:
    return {"method": run.name.method, "seed": run.name.seed, "trials": [_machine(trial) for trial in run.trials]}


def _in_order(tuned: Tuned) -> dict[str, Any] | None:
    if (ordered := tuned.ordered) is None:
        return None
    return {"size": ordered.size, "left": _finite(ordered.left), "is_proven": ordered.is_proven} | _run(ordered.run)


def _machine(trial: Trial) -> dict[str, Any]:
    return {
        "machine": trial.values,
        "cost": _finite(trial.cost),
        "bound": trial.bound,
        "area_mm2": trial.area_mm2,
        "networks": trial.entry["networks"] if trial.entry else [],
        "reason": trial.reason,
    }


# --- Text ------------------------------------------------------------------------------------------------------------


def format_tuned(tuned: Tuned) -> str:
    """Describe the best machine, how far it may be from the best of all, the space, and each run."""
    return "\n".join([*_head(tuned), *_best_lines(tuned), *_bound_lines(tuned), *_run_lines(tuned)])


def _head(tuned: Tuned) -> Iterator[str]:
    task = tuned.plan.task
    space, count = task.space, task.space.size
    yield f"{tuned.plan.name}: {', '.join(network.name for network in task.networks)} on machines of {space.name}"
    limit = f" within {space.area.limit_mm2:g} mm2" if space.area.limit_mm2 else ""
    kind = "" if count <= 20_000 else "about "
    yield f"space: {count:,} machines, {kind}{100 * tuned.feasible_share:.3g} %{limit}; fidelity {task.fidelity.name}"
    reference = tuned.reference
    yield f"cost: energy^{task.alpha:g} x latency^{task.beta:g}, relative to the floors of {_text(reference.values)}"
    cost = f"cost {reference.cost:.5g}" if reference.entry else f"failed: {reference.reason}"
    yield f"reference: {cost}, {reference.area_mm2:.1f} mm2"


def _best_lines(tuned: Tuned) -> Iterator[str]:
    best = tuned.best
    if best is None:
        yield "best: no machine was evaluated"
        return
    yield f"best: {_text(best.values)}: cost {best.cost:.5g}, {best.area_mm2:.1f} mm2"
    for row in best.entry["networks"] if best.entry else ():
        yield (
            f"  {row['network']}: {row['latency_cycles']:,.0f} cycles (bound {row['latency_bound_cycles']:,.0f}),"
            f" {row['energy_pj'] / 1e9:.3f} mJ (bound {row['energy_bound_pj'] / 1e9:.3f})"
        )


def _bound_lines(tuned: Tuned) -> Iterator[str]:
    exact = tuned.exact
    if exact is None:
        return
    if exact.design is None:
        if exact.bound == math.inf:
            yield "bound: no machine of the space is within the area"
        else:
            yield f"analytic optimum: no machine was found in {exact.seconds:.1f} s ({exact.evaluations:,} evaluations)"
            yield from _gap_lines(tuned, exact.bound)
        return
    proof = "proven" if exact.is_proven else f"gap {100 * exact.gap:.2f} %"
    yield (
        f"analytic optimum ({proof}, {exact.evaluations:,} evaluations, {exact.seconds:.1f} s):"
        f" {_text(tuned.plan.task.space.values(exact.design))}: cost {exact.cost:.5g}"
    )
    yield from _gap_lines(tuned, exact.bound)


def _gap_lines(tuned: Tuned, bound: float) -> Iterator[str]:
    if tuned.gap is not None:
        gap = f"the best machine is within {100 * tuned.gap:.2f} % of any machine of the space"
        yield f"bound: {bound:.5g}: {gap}"


def _run_lines(tuned: Tuned) -> Iterator[str]:
    for run in tuned.runs:
        best, failed = run.best, sum(trial.entry is None for trial in run.trials)
        cost = f"least cost {best.cost:.5g}" if best else "no cost"
        yield f"{run.name}: {len(run.trials)} trials, {cost}" + (f", {failed} failed" if failed else "")
    yield from _exact_lines(tuned)


def _exact_lines(tuned: Tuned) -> Iterator[str]:
    """What `exact` found at another fidelity than the analytic one."""
    fidelity, proven, ordered = tuned.plan.task.fidelity.name, tuned.proven, tuned.ordered
    if proven and fidelity != ANALYTIC:
        cost = f"cost {proven.cost:.5g}" if proven.entry else f"failed: {proven.reason}"
        yield f"{EXACT}: the analytic optimum at fidelity {fidelity}: {cost}"
    if ordered:
        others = f"none of the others costs less than {ordered.left:.5g}" if ordered.left < math.inf else "no others"
        count = f"{len(ordered.run.trials)} of {ordered.size} machines evaluated at fidelity {fidelity}, {others}"
        best = f"; least cost {ordered.run.best.cost:.5g}" if ordered.run.best else ""
        yield f"{EXACT}: {count}{best}{' (proven)' if ordered.is_proven else ''}"


def _text(values: dict[str, float]) -> str:
    """Name a machine; the space's own one if there are no values."""
    return describe(values) or "the space's machine"
