"""The charts of a tuning: regret over trials, area against cost, and bound and incumbent over evaluations."""

import math
from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from cpsat_pim.report.figures import COLOURS, SERIES, Chart, Series
from cpsat_pim.tuner.run import Run, Tuned

#: Regrets below this many per cent are drawn as this: a logarithmic axis has no 0.
_LEAST = 0.01
_BANDS = 4


def tuned_charts(tuned: Tuned) -> list[Chart]:
    """Return the charts for which there are figures."""
    return [*_regret(tuned), *_area(tuned), *_proof(tuned)]


def by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of each method."""
    methods = dict.fromkeys(run.name.method for run in runs)
    return {method: [run for run in runs if run.name.method == method] for method in methods}


def colour_of(number: int) -> str:
    """Return the colour of a method by its place."""
    return COLOURS[SERIES[number % len(SERIES)]]


def regrets(run: Run, optimum: float) -> list[float]:
    """Return how many per cent the least cost after each trial is above a cost."""
    return [100 * (cost / optimum - 1) for cost in run.least_costs()]


def _regret(tuned: Tuned) -> Iterator[Chart]:
    """Medians over seeds with quartiles; without a bound the least costs themselves."""
    bound = tuned.bound
    if not tuned.runs:
        return
    lines, bands = [], []
    for number, (method, runs) in enumerate(by_method(tuned.runs).items()):
        curves = [regrets(run, bound) if bound else run.least_costs() for run in runs]
        columns = [[value for value in column if math.isfinite(value)] for column in zip(*curves, strict=False)]
        points = [(i + 1, column) for i, column in enumerate(columns) if column]
        least = _LEAST if bound else 0.0
        lines.append(_series(method, number, [(x, max(least, median(column))) for x, column in points]))
        if len(runs) >= _BANDS:
            quarters = [(x, *(max(least, q) for q in _quartiles(column))) for x, column in points]
            bands.append(_series(method, number, quarters))
    what = f"regret against the bound, % (from {_LEAST:g} on)" if bound else "least cost"
    spread = ": medians over seeds, and quartiles" if bands else ": medians over seeds"
    yield Chart(
        name="regret", title=f"{what.partition(',')[0]}{spread}", kind="steps", axis=what, x_axis="trials",
        categories=(), series=tuple(lines), bands=tuple(bands), has_log_y=True,
    )  # fmt: skip


def _series(name: str, number: int, points: Sequence[tuple[float, ...]]) -> Series:
    return Series(name, colour_of(number), tuple(value for point in points for value in point))


def _quartiles(values: list[float]) -> tuple[float, float]:
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return low, high


def _area(tuned: Tuned) -> Iterator[Chart]:
    """Every machine that was tried, the best one, and the reference."""
    series = []
    for number, (method, runs) in enumerate(by_method(tuned.all_runs).items()):
        points = [(trial.area_mm2, trial.cost) for run in runs for trial in run.trials if trial.entry]
        if points:
            series.append(_series(method, number, points))
    one = [("reference", COLOURS["soft"], tuned.reference), ("best", COLOURS["ink"], tuned.best)]
    marks = [(name, colour, trial.area_mm2, trial.cost) for name, colour, trial in one if trial and trial.entry]
    series += [Series(name, colour, (x, y)) for name, colour, x, y in marks]
    limit = tuned.plan.task.space.area.limit_mm2
    yield Chart(
        name="area", title="area and cost of all machines that were tried", kind="points", axis="cost", categories=(),
        x_axis="area, mm2" + (f" (limit {limit:g})" if limit else ""), series=tuple(series), mark=limit, has_log_y=True,
    )  # fmt: skip


def _proof(tuned: Tuned) -> Iterator[Chart]:
    """Bound and incumbent of the branch and bound on the analytic cost."""
    exact = tuned.exact
    if exact is None or exact.design is None or not exact.history:
        return
    known = [(count, bound, cost) for count, bound, cost in exact.history if math.isfinite(cost)]
    points = [*known, (exact.evaluations, exact.bound, exact.cost)]
    if points[0][0] == points[-1][0]:  # the first machine is the best one
        return
    yield Chart(
        name="proof", title="analytic cost: bound of all machines, and best machine found", kind="steps", axis="cost",
        x_axis="boxes and machines evaluated", categories=(),
        series=(
            Series("incumbent", COLOURS["energy"], tuple(v for n, _, cost in points for v in (n, cost))),
            Series("bound", COLOURS["accent"], tuple(v for n, bound, _ in points for v in (n, bound))),
        ),
    )  # fmt: skip
