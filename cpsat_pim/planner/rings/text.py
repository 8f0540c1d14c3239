"""A schedule as text and as a page for a browser."""

from collections.abc import Iterator, Sequence
from html import escape

from cpsat_pim.planner.rings.baselines import Outcome
from cpsat_pim.planner.rings.certificate import Certificate, LinkWeights, Search
from cpsat_pim.planner.rings.cuts import exchange_bound
from cpsat_pim.planner.rings.picture import draw
from cpsat_pim.planner.rings.schedule import Schedule
from cpsat_pim.planner.rings.two_phase import TwoPhase

#: Rings that are printed; JSON has all.
_RINGS_SHOWN = 4


def format_schedule(schedule: Schedule) -> list[str]:
    """Lines: the instance, load and bound, why, and the first rings."""
    instance = schedule.instance
    sizes = sorted({len(nodes) for nodes in instance.sets})
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    lines = [
        f"{instance.name}: {len(instance.sets)} sharing sets of {size} nodes",
        f"load    {schedule.load}   chunks a step over the heaviest link ({schedule.method})",
        f"bound   {schedule.bound}   {format_certificate(schedule.certificate)}",
        f"status  {schedule.status} in {schedule.seconds:.2f} s",
        f"time    {schedule.chunk_times} chunk times in {instance.steps} steps; "
        f"no exchange, by rings or not, takes less than {exchange_bound(instance)}",
    ]
    return [*lines, *_format_rings(schedule)]


def format_certificate(certificate: Certificate) -> str:
    """Why no rings have a smaller load, in a line."""
    if isinstance(certificate, Search):
        return f"CP-SAT found that load {certificate.bound - 1} is not possible (needs a solver to check)"
    if isinstance(certificate, LinkWeights):
        return f"by link weights: all rings weigh at least {float(certificate.ratio):.4g} times all links"
    b = certificate
    place = f"rows {b.y} to {b.y + b.height - 1}, columns {b.x} to {b.x + b.width - 1}"
    return f"by the block of {place}: {b.split_sets} sets must leave it over {b.links_out} links"


def _format_rings(schedule: Schedule) -> Iterator[str]:
    cols = schedule.instance.mesh.cols
    for s, ring in enumerate(schedule.rings[:_RINGS_SHOWN]):
        yield f"ring {s}  " + " ".join(f"{node // cols},{node % cols}" for node in ring)
    left = len(schedule.rings) - _RINGS_SHOWN
    if left > 0:
        yield f"and {left} more (--json)"


def format_outcomes(schedule: Schedule, outcomes: Sequence[Outcome]) -> list[str]:
    """Lines: chunks over the heaviest link in the whole exchange, of the rings and of each baseline."""
    if not outcomes:
        return []
    head = f"{'chunks over the heaviest link':32}{'least':>8}{'mean':>8}{'most':>8}{'draws':>7}"
    own = schedule.chunk_times
    rows = [f"{'these rings':32}{own:>8}{own:>8}{own:>8}{1:>7}"]
    rows += [f"{o.name:32}{o.least:>8}{o.mean:>8.1f}{o.greatest:>8}{o.draws:>7}" for o in outcomes]
    return [head, *rows]


def format_exchanges(exchanges: Sequence[tuple[str, TwoPhase]], chunk_flits: int) -> list[str]:
    """Lines: ring and two-phase exchange, their dependent steps and an estimate of their time."""
    if len(exchanges) < 2:
        return []
    head = f"{'exchange':32}{'steps':>8}{'chunk times':>13}{'cycles (estimate)':>20}"
    rows = [f"{name:32}{e.steps:>8}{e.chunk_times:>13}{e.cycles(chunk_flits):>20}" for name, e in exchanges]
    return [head, *rows, f"cycles at {chunk_flits} flits a chunk, one cycle a hop, the steps one after the other"]


def page(schedule: Schedule, lines: Sequence[str]) -> str:
    """Return the page: what is printed, and the picture."""
    title = escape(f"Rings of {schedule.instance.name}")
    text = escape("\n".join(lines))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body style='font-family:sans-serif;max-width:80em;margin:2em auto'>\n<h1>{title}</h1>\n"
        f"<pre style='overflow-x:auto'>{text}</pre>\n{draw(schedule)}</body></html>\n"
    )
