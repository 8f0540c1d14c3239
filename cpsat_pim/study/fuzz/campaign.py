"""Round after round of drawing and comparing, until time is over, somebody asks to stop, or a disagreement is found.

What a round draws depends on the seed and its number only. It has five parts: mappings of a layer against the
simulator; a layer that the solver proves in a moment, its answer against its simulation and its bound against random
mappings and an annealed one; a layer pinned to parts of a random mapping, which the solver's bound must not exceed; a
layer pinned to all of one but its outer loops, and a tiny layer, of which every mapping is tried.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import attrs
import numpy as np
from attrs import frozen

from cpsat_pim.base.interrupts import Stop
from cpsat_pim.mapper.result import SolvedLayer
from cpsat_pim.mapper.search import Options
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.study.baselines.problem import Problem
from cpsat_pim.study.baselines.search import Effort, map_by_annealing
from cpsat_pim.study.baselines.space import Space
from cpsat_pim.study.fuzz.compare import (
    PINS,
    Case,
    Finding,
    attempt,
    compare,
    few_mappings,
    judge_answer,
    judge_bound,
    judge_optimum,
    solve,
)
from cpsat_pim.study.fuzz.draw import Drawer
from cpsat_pim.study.fuzz.shrink import shrink

#: MACs of the layers of a round's three parts.
_TRACED, _SOLVED, _ENUMERATED = 4000, 400, 9
#: Layers of the first part, which is quick; mappings compared of each, and in the second part; layers of the third.
_LAYERS, _MAPPINGS, _PINNED = 8, 16, 3
#: What the fourth part pins.
_ALL_BUT_OUTER_LOOPS = ("inside", "spatial", "stored")
#: Mappings that annealing looks at.
_ANNEALED = 200
#: Seconds for a solve, and for shrinking what was found.
_SOLVE_SECONDS, _SHRINK_SECONDS = 5.0, 120.0

#: A comparison that was made: its name, its case, what it found.
Made = tuple[str, Case, Finding | None]
#: Hears how often each comparison was made, and in how many rounds.
Report = Callable[[Counter[str], int], None]


@frozen(kw_only=True)
class Discovery:
    """A disagreement, and the round that first showed it."""

    comparison: str
    round: int
    case: Case
    finding: Finding


def run_campaign(
    seed: int, seconds: float, stop: Stop, report: Report, keep: Callable[[Discovery], None] = lambda found: None
) -> Discovery | None:
    """Compare until something is found; None if time is over or a stop is asked for before. `keep` is told of it before
    it is shrunk, which takes some time.
    """
    deadline, counts = time.monotonic() + seconds, Counter[str]()
    options = Options(time_limit=_SOLVE_SECONDS, stop=stop)  # type: ignore[arg-type]
    number = 0
    while time.monotonic() < deadline and not stop.is_set():
        for name, case, finding in compare_round(seed, number, options):
            counts[name] += 1
            if finding is not None:
                report(counts, number)
                keep(Discovery(comparison=name, round=number, case=case, finding=finding))
                return _shrunk(name, number, case, finding, options)
            if stop.is_set():
                break
        number += 1
        report(counts, number)
    return None


def _shrunk(name: str, number: int, case: Case, finding: Finding, options: Options) -> Discovery:
    """The disagreement, made simpler for some time."""
    deadline = time.monotonic() + _SHRINK_SECONDS

    def is_over() -> bool:
        return options.stop.is_set() or time.monotonic() >= deadline

    if finding.witness is not None:  # a mapping below the bound says it all, without trying all others again
        shown = attrs.evolve(case, mapping=finding.witness)
        below = compare("bound", shown, options)
        name, case, finding = ("bound", shown, below) if below is not None else (name, case, finding)
    case, finding = shrink(case, finding, partial(compare, name, options=options), is_over)
    return Discovery(comparison=name, round=number, case=case, finding=finding)


# --- What is drawn ---------------------------------------------------------------------------------------------------


def traced_case(draw: Drawer) -> Case:
    """A layer whose mappings are simulated in a moment, on any machine."""
    return Case(layer=draw.layer(_TRACED), arch=draw.machine(), objective=draw.objective())


def solved_case(draw: Drawer) -> Case:
    """A layer that is solved in a moment, on any machine."""
    return Case(layer=draw.layer(_SOLVED), arch=draw.machine(), objective=draw.objective())


def enumerated_case(draw: Drawer) -> Case:
    """A tiny layer on a machine that leaves few choices."""
    return Case(layer=draw.layer(_ENUMERATED), arch=draw.machine(forced=80), objective=draw.objective())


def with_mappings(draw: Drawer, case: Case) -> Iterator[Case]:
    """The case with random legal mappings, if there are any."""
    space, rng = Space(case.layer, case.arch), np.random.default_rng(draw.below(2**32))
    for _ in range(0 if space.is_empty else _MAPPINGS):
        yield attrs.evolve(case, mapping=space.draw(rng).to_mapping(case.layer))


def annealed(draw: Drawer, case: Case) -> Case:
    """The case with a mapping that annealing finds, if there are any."""
    problem = Problem(layer=case.layer, arch=case.arch, objective=case.objective)
    found = map_by_annealing(problem, Effort(samples=_ANNEALED, seed=draw.below(2**32)))
    return attrs.evolve(case, mapping=found.mapping if found else None)


def pinned_case(draw: Drawer, *parts: str) -> Case | None:
    """A layer pinned to these parts of a random mapping of it, or to some; None if it has none."""
    pinned = parts or sorted(draw.some_of(PINS, most=len(PINS)), key=PINS.index)
    mapped = next(with_mappings(draw, solved_case(draw)), None)
    return attrs.evolve(mapped, pinned=pinned) if mapped else None


# --- A round ---------------------------------------------------------------------------------------------------------


def compare_round(seed: int, number: int, options: Options) -> Iterator[Made]:
    """The comparisons of a round, made one by one."""
    draw = Drawer.of(np.random.default_rng([seed, number]))
    for _ in range(_LAYERS):
        yield from _trace(draw, options)
    yield from _solve(draw, options)
    for _ in range(_PINNED):
        yield from _pin(draw, options)
    case = pinned_case(draw, *_ALL_BUT_OUTER_LOOPS)
    if case is not None:
        yield from _enumerate("completion", case, options)
    yield from _enumerate("enumeration", enumerated_case(draw), options)


def _trace(draw: Drawer, options: Options) -> Iterator[Made]:
    """Random mappings of a layer, each predicted and simulated."""
    for mapped in with_mappings(draw, traced_case(draw)):
        yield "trace", mapped, compare("trace", mapped, options)


def _solve(draw: Drawer, options: Options) -> Iterator[Made]:
    """A layer solved: its answer, and its bound against random mappings."""
    case = solved_case(draw)
    if check_fits(case.layer, case.arch):
        return
    solved = attempt(case, lambda: solve(case, options))
    yield "answer", case, _judged(case, solved, judge_answer)
    for mapped in (*with_mappings(draw, case), annealed(draw, case)):
        yield "bound", mapped, _judged(mapped, solved, judge_bound)


def _pin(draw: Drawer, options: Options) -> Iterator[Made]:
    """A layer solved that is pinned to parts of a mapping."""
    case = pinned_case(draw)
    if case is not None:
        yield "pinned", case, compare("pinned", case, options)


def _enumerate(name: str, case: Case, options: Options) -> Iterator[Made]:
    """A layer solved, and every mapping of it costed, if they are few."""
    if check_fits(case.layer, case.arch) or (mappings := few_mappings(case)) is None:
        return
    solved = attempt(case, lambda: solve(case, options))
    yield name, case, _judged(case, solved, partial(judge_optimum, mappings=mappings))


def _judged(
    case: Case, solved: SolvedLayer | Finding, judge: Callable[[Case, SolvedLayer], Finding | None]
) -> Finding | None:
    """What is to be said of an answer; that there is none, for a solver that failed."""
    return solved if isinstance(solved, Finding) else attempt(case, lambda: judge(case, solved))
