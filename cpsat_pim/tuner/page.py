"""A tuning as one HTML page: the best machine beside the reference, charts, and a table of runs."""

import html
from collections.abc import Iterable, Mapping, Sequence

from cpsat_pim.report.figures import inline_svg
from cpsat_pim.report.format import EMPTY
from cpsat_pim.report.plain_page import plain_page
from cpsat_pim.tuner.charts import tuned_charts
from cpsat_pim.tuner.fields import with_unit
from cpsat_pim.tuner.run import Trial, Tuned
from cpsat_pim.tuner.space import COLS, ROWS, describe, plain

_STYLE = """section svg { width: 100%; height: auto; max-height: 520px; }
td, th { text-align: right; }
td.left, th.left { text-align: left; max-width: none; }
"""

Cells = Sequence[str]


def render_tuned(tuned: Tuned) -> str:
    """Render the page of a tuning.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    charts = [f"<section>{inline_svg(chart)}</section>" for chart in tuned_charts(tuned)]
    parts = [_machines(tuned), _networks(tuned), *charts, _runs(tuned)]
    return plain_page(tuned.plan.name, _summary(tuned), "\n".join(filter(None, parts)), _STYLE)


def _summary(tuned: Tuned) -> str:
    task = tuned.plan.task
    limit = f" within {task.space.area.limit_mm2:g} mm2" if task.space.area.limit_mm2 else ""
    names = ", ".join(network.name for network in task.networks)
    parts = [
        f"{task.space.size:,} machines, {100 * tuned.feasible_share:.3g} %{limit}",
        f"cost: energy^{task.alpha:g} x latency^{task.beta:g} over {names}, 1 for the floors of the reference",
        f"fidelity {task.fidelity.name}",
    ]
    if tuned.gap is not None:
        parts.append(f"the best machine is within {100 * tuned.gap:.2f} % of any machine of the space")
    if tuned.ordered and tuned.ordered.is_proven:
        parts.append("no machine of the space costs less at this fidelity")
    return "; ".join(parts)


def _machines(tuned: Tuned) -> str:
    """A row for each axis, a column for each machine: the best one, the best by its floors, and the reference."""
    space, exact, best = tuned.plan.task.space, tuned.exact, tuned.best
    columns = {"best": best.values if best else {}}
    if exact and exact.design:
        columns["best by its floors"] = space.values(exact.design)
    columns["reference"] = _reference(tuned)
    rows = [[axis.path, *(_value(axis.path, values) for values in columns.values())] for axis in space.axes]
    areas = [space.area_mm2(values) if values else None for values in columns.values()]
    rows.append(["area, mm2", *(EMPTY if area is None else f"{area:.2f}" for area in areas)])
    trials = {"best": best, "best by its floors": _by_floors(tuned), "reference": tuned.reference}
    rows.append([f"cost, fidelity {tuned.plan.task.fidelity.name}", *(_cost(trials[name]) for name in columns)])
    rows.append(["bound of all its plans", *(_bound(trials[name]) for name in columns)])
    return _table(["machine", *columns], rows)


def _by_floors(tuned: Tuned) -> Trial | None:
    """Return the trial of the machine that is best by its floors, whoever evaluated it."""
    exact, done = tuned.exact, [trial for run in tuned.all_runs for trial in run.trials]
    values = tuned.plan.task.space.values(exact.design) if exact and exact.design else None
    return tuned.proven or next((trial for trial in done if trial.values == values), None)


def _cost(trial: Trial | None) -> str:
    return f"{trial.cost:.5g}" if trial and trial.entry else EMPTY


def _bound(trial: Trial | None) -> str:
    return f"{trial.bound:.5g}" if trial and trial.entry else EMPTY


def _reference(tuned: Tuned) -> dict[str, float]:
    """Return the reference machine's values on all axes; those that were not given are those of the space's machine."""
    space, machine = tuned.plan.task.space, tuned.reference.values
    shape = dict(zip((ROWS, COLS), space.shape(machine), strict=True))
    own = {axis.path: shape[axis.path] if axis.is_of_array else space.base[axis.field] for axis in space.axes}
    found: dict[str, float] = own | machine
    return found


def _networks(tuned: Tuned) -> str:
    """What each network takes on the best machine."""
    best = tuned.best
    if best is None or best.entry is None:
        return ""
    rows = [
        [
            row["network"],
            f"{row['latency_cycles']:,.0f}",
            f"{row['latency_bound_cycles']:,.0f}",
            f"{row['energy_pj'] / 1e9:.3f}",
            f"{row['energy_bound_pj'] / 1e9:.3f}",
        ]
        for row in best.entry["networks"]
    ]
    return _table(["on the best machine", "cycles", "bound", "energy, mJ", "bound"], rows)


def _runs(tuned: Tuned) -> str:
    rows = [[str(run.name), str(len(run.trials)), *_best_cells(run.best)] for run in tuned.all_runs]
    return _table(["run", "trials", "least cost", "area, mm2", "machine"], rows) if rows else ""


def _best_cells(best: Trial | None) -> Cells:
    if best is None:
        return [EMPTY] * 3
    return [f"{best.cost:.5g}", f"{best.area_mm2:.2f}", describe(best.values)]


def _value(path: str, values: Mapping[str, float]) -> str:
    return with_unit(path, f"{plain(values[path]):,}") if path in values else EMPTY


def _table(heads: Sequence[str], rows: Iterable[Cells]) -> str:
    head = "".join(f'<th scope="col"{_side(i)}>{html.escape(text)}</th>' for i, text in enumerate(heads))
    lines = ["".join(f"<td{_side(i)}>{html.escape(cell)}</td>" for i, cell in enumerate(row)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<section><div class="scroll">{table}</div></section>'


def _side(column: int) -> str:
    return ' class="left"' if column == 0 else ""
