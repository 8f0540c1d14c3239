"""Print baselines as tables: alone, beside the optimum, and over all layers."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.report.format import format_edp, format_energy
from cpsat_pim.report.text import print_fitted, print_plain
from cpsat_pim.study.baselines.catalogue import RANDOM
from cpsat_pim.study.baselines.problem import Scored
from cpsat_pim.study.baselines.quality import Comparison, Sampling
from cpsat_pim.study.baselines.references import Reference

_EMPTY = "-"
_FIGURES = ("cycles", "energy", "objective", "flow", "s")
#: The distances for which the cost of random search is reported.
_TARGETS = (0.1, 0.01)
_SPREAD: dict[str, Callable[[list[float]], float]] = {
    "least": min,
    "median": statistics.median,
    "mean": statistics.geometric_mean,
    "largest": max,
}
_SPANS = (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0))


def print_compared(console: Console, compared: Comparison) -> None:
    """Print a row per baseline. With a reference, print the distances, the reference's own row, and the cost of random
    search.
    """
    objective, reference = compared.problem.objective, compared.reference
    table = _table(compared.problem.layer.name, (*_FIGURES, *(("ratio", "above") if reference else ())))
    for outcome in compared.outcomes:
        figures = (*_figures(objective, outcome.best), f"{outcome.seconds:.1f}")
        table.add_row(outcome.name, *figures, *(_distance(reference, outcome.best) if reference else ()))
    if reference:
        name = "optimum" if reference.status is Status.OPTIMAL else "best known"
        table.add_row(name, *_figures(objective, reference.best), "", *_distance(reference, reference.best))
    print_fitted(console, table)
    for line in _remarks(compared):
        print_plain(console, line)


def print_summary(console: Console, found: Sequence[Comparison]) -> None:
    """Print, over all layers with a reference, the distribution of each baseline's ratios."""
    optima = sum(compared.reference is not None and compared.reference.status is Status.OPTIMAL for compared in found)
    table = _table(f"cost over the optimum, {len(found)} layers", ("mapped", *_SPREAD))
    for name in dict.fromkeys(outcome.name for compared in found for outcome in compared.outcomes):
        values = [ratio for compared in found for ratio in _ratios(compared, name)]
        table.add_row(name, str(len(values)), *(f"{of(values):.3f}" if values else _EMPTY for of in _SPREAD.values()))
    print_fitted(console, table)
    if optima < len(found):
        print_plain(console, f"{optima} of {len(found)} optima are proven; the others are the best known mappings")


def _ratios(compared: Comparison, name: str) -> Iterator[float]:
    for outcome in compared.outcomes:
        if outcome.name == name and outcome.best and compared.reference:
            yield compared.reference.ratio(outcome.best.value)


def _remarks(compared: Comparison) -> Iterator[str]:
    """Yield the lines below the table."""
    reference, sampling = compared.reference, compared.sampling
    if reference and reference.status is not Status.OPTIMAL:
        yield f"not proven optimal: {_least(compared.problem.objective, reference.bound)}"
    if sampling:
        whole, each = format_seconds(sampling.seconds), format_seconds(sampling.seconds_for(1))
        yield f"{RANDOM}: {sampling.samples:,} samples in {whole}, {each} each"
        yield from (f"  within {target:.0%}: {_cost_of_sampling(sampling, target)}" for target in _TARGETS)
    if reference:
        yield ""


def _least(objective: Objective, bound: int | float | None) -> str:
    return "no lower bound is known" if bound is None else f"lower bound {_cost(objective, bound)}"


def format_seconds(seconds: float) -> str:
    """Format a duration with three digits in ms, s, min, h, days or years."""
    for unit, size in _SPANS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _table(title: str, headings: Iterable[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=Text(title), title_justify="left", pad_edge=False)
    table.add_column("baseline", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "flow" else "right", no_wrap=True)
    return table


def _figures(objective: Objective, best: Scored | None) -> tuple[str, ...]:
    if best is None:
        return (_EMPTY,) * 4
    figures = best.prediction.figures
    cost = _cost(objective, objective.reported(best.value))
    flow = classify_dataflow(best.mapping).value
    return f"{figures.latency_cycles:,}", format_energy(figures.energy_fj), cost, flow


def _cost(objective: Objective, value: int | float) -> str:
    """Format an objective as reported; a product, which has too many digits, is shortened."""
    return format_edp(int(value)) if objective.is_product else f"{value:,}"


def _distance(reference: Reference, best: Scored | None) -> tuple[str, str]:
    if best is None:
        return _EMPTY, _EMPTY
    ratio = reference.ratio(best.value)
    return f"{ratio:.3f}", f"{ratio - 1:+.1%}"


def _cost_of_sampling(sampling: Sampling, target: float) -> str:
    needed = sampling.samples_within(target)
    if needed is None:
        return "not estimable from these samples"
    note = "" if sampling.has_seen(target) else " (extrapolated)"
    return f"about {needed:,.3g} samples, {format_seconds(sampling.seconds_for(needed))}{note}"
