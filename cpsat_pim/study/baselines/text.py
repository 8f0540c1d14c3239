"""Baselines as tables for people: by themselves, beside the optimum, and over all layers."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.report.text import format_edp, format_energy, print_plain
from cpsat_pim.study.baselines.catalogue import RANDOM
from cpsat_pim.study.baselines.problem import Scored
from cpsat_pim.study.baselines.quality import Judged, Sampling
from cpsat_pim.study.baselines.references import Reference

_EMPTY = "-"
_FIGURES = ("cycles", "energy", "objective", "flow", "s")
#: Distances for which the cost of random search is told.
_TARGETS = (0.1, 0.01)
_SPREAD: dict[str, Callable[[list[float]], float]] = {
    "least": min,
    "median": statistics.median,
    "mean": statistics.geometric_mean,
    "largest": max,
}
_SPANS = (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0))


def print_judged(console: Console, judged: Judged) -> None:
    """A row per baseline; beside a reference their distances from it, its own row, and what random search costs."""
    objective, reference = judged.problem.objective, judged.reference
    table = _table(judged.problem.layer.name, (*_FIGURES, *(("ratio", "above") if reference else ())))
    for outcome in judged.outcomes:
        figures = (*_figures(objective, outcome.best), f"{outcome.seconds:.1f}")
        table.add_row(outcome.name, *figures, *(_distance(reference, outcome.best) if reference else ()))
    if reference:
        name = "optimum" if reference.status is Status.OPTIMAL else "best known"
        table.add_row(name, *_figures(objective, reference.best), "", *_distance(reference, reference.best))
    console.print(table)
    for line in _remarks(judged):
        print_plain(console, line)


def print_summary(console: Console, found: Sequence[Judged]) -> None:
    """Over all layers with a reference: how the ratios of each baseline are spread."""
    optima = sum(judged.reference is not None and judged.reference.status is Status.OPTIMAL for judged in found)
    table = _table(f"cost over the optimum, {len(found)} layers", ("mapped", *_SPREAD))
    for name in dict.fromkeys(outcome.name for judged in found for outcome in judged.outcomes):
        values = [ratio for judged in found for ratio in _ratios(judged, name)]
        table.add_row(name, str(len(values)), *(f"{of(values):.3f}" if values else _EMPTY for of in _SPREAD.values()))
    console.print(table)
    if optima < len(found):
        print_plain(console, f"{optima} of {len(found)} optima are proven; the others are the best mappings known")


def _ratios(judged: Judged, name: str) -> Iterator[float]:
    for outcome in judged.outcomes:
        if outcome.name == name and outcome.best and judged.reference:
            yield judged.reference.ratio(outcome.best.value)


def _remarks(judged: Judged) -> Iterator[str]:
    """What a table has no place for."""
    reference, sampling = judged.reference, judged.sampling
    if reference and reference.status is not Status.OPTIMAL:
        yield f"not proven to be the optimum: {_least(judged.problem.objective, reference.bound)}"
    if sampling:
        whole, each = format_seconds(sampling.seconds), format_seconds(sampling.seconds_for(1))
        yield f"{RANDOM}: {sampling.samples:,} samples in {whole}, {each} each"
        yield from (f"  within {target:.0%}: {_cost_of_sampling(sampling, target)}" for target in _TARGETS)
    if reference:
        yield ""


def _least(objective: Objective, bound: int | float | None) -> str:
    return "no bound is known" if bound is None else f"it may be as low as {_cost(objective, bound)}"


def format_seconds(seconds: float) -> str:
    """Three digits in ms, s, min, h, days or years."""
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
    """An objective as reported, but for a product, which has too many digits."""
    return format_edp(int(value)) if objective.is_product else f"{value:,}"


def _distance(reference: Reference, best: Scored | None) -> tuple[str, str]:
    if best is None:
        return _EMPTY, _EMPTY
    ratio = reference.ratio(best.value)
    return f"{ratio:.3f}", f"{ratio - 1:+.1%}"


def _cost_of_sampling(sampling: Sampling, target: float) -> str:
    needed = sampling.samples_within(target)
    if needed is None:
        return "these samples do not tell"
    told = "" if sampling.has_seen(target) else " (extrapolated)"
    return f"about {needed:,.3g} samples, {format_seconds(sampling.seconds_for(needed))}{told}"
