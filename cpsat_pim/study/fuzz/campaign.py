"""Draw and compare in rounds, until the time limit, a stop request, or a disagreement.

What a round draws depends only on the seed and the round's number. A round has five parts. (1) Mappings of a layer are
compared with the simulator, and changed at random, which may make them illegal, to compare validator and oracle. (2) A
layer that solves within seconds: its solution is compared with its simulation, and its bound with random mappings and
an annealed one. (3) A layer with some parts of its mapping fixed to those of a random mapping, whose cost the solver's
bound must not exceed. (4) A layer with everything but its outer loops fixed, and (5) a tiny layer, are compared with a
full enumeration of the mappings.
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
from cpsat_pim.mapping import ONE_BANK
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.study.baselines.problem import Problem
from cpsat_pim.study.baselines.search import Effort, map_by_annealing
from cpsat_pim.study.baselines.space import Space
from cpsat_pim.study.fuzz.compare import (
    PINS,
    Case,
    Finding,
    Limits,
    attempt,
    check_answer,
    check_bound,
    check_optimum,
    compare,
    few_mappings,
    solve,
)
from cpsat_pim.study.fuzz.draw import Drawer
from cpsat_pim.study.fuzz.shrink import shrink

#: MACs of the layers of parts 1, 2 and 5.
_TRACED, _SOLVED, _ENUMERATED = 4000, 400, 9
#: Layers of the first part, which is quick; mappings compared of each, and in the second part; layers of the third.
_LAYERS, _MAPPINGS, _PINNED = 8, 16, 3
#: The parts of the mapping that part 4 fixes.
_ALL_BUT_OUTER_LOOPS = ("inside", "spatial", "stored")
#: Mappings that annealing evaluates.
_ANNEALED = 200
#: Seconds of a solve, and of shrinking a disagreement.
_SOLVE_SECONDS, _SHRINK_SECONDS = 5.0, 120.0

#: A comparison that was made: its name, its case, and what it found.
Made = tuple[str, Case, Finding | None]
#: Gets the number of comparisons by name, and the number of rounds.
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
    """Compare until a disagreement is found; return None at the time limit or a stop request. `keep` gets the
    disagreement before it is shrunk, because shrinking takes time.
    """
    deadline, counts = time.monotonic() + seconds, Counter[str]()
    limits = Limits(time_limit=_SOLVE_SECONDS, stop=stop)
    number = 0
    while time.monotonic() < deadline and not stop.is_set():
        for name, case, finding in compare_round(seed, number, limits):
            counts[name] += 1
            if finding is not None:
                report(counts, number)
                keep(Discovery(comparison=name, round=number, case=case, finding=finding))
                return _shrunk(name, number, case, finding, limits)
            if stop.is_set():
                break
        number += 1
        report(counts, number)
    return None


def _shrunk(name: str, number: int, case: Case, finding: Finding, limits: Limits) -> Discovery:
    """Shrink the disagreement within a time limit."""
    deadline = time.monotonic() + _SHRINK_SECONDS

    def is_over() -> bool:
        return limits.stop.is_set() or time.monotonic() >= deadline

    # A mapping below the bound suffices as witness; a repeated enumeration is not needed.
    if finding.witness is not None:
        shown = attrs.evolve(case, mapping=finding.witness)
        below = compare("bound", shown, limits)
        name, case, finding = ("bound", shown, below) if below is not None else (name, case, finding)
    case, finding = shrink(case, finding, partial(compare, name, limits=limits), is_over)
    return Discovery(comparison=name, round=number, case=case, finding=finding)


# --- What is drawn ---------------------------------------------------------------------------------------------------


def traced_case(draw: Drawer) -> Case:
    """Draw a layer whose mappings are quick to simulate, on a random machine, which may have few banks."""
    case = Case(layer=draw.layer(_TRACED), arch=draw.machine(), objective=draw.objective())
    return attrs.evolve(case, arch=draw.few_banks(case.arch)) if draw.chance(25) else case


def solved_case(draw: Drawer) -> Case:
    """Draw a layer that is quick to solve, on a random machine."""
    return Case(layer=draw.layer(_SOLVED), arch=draw.machine(), objective=draw.objective())


def enumerated_case(draw: Drawer) -> Case:
    """Draw a tiny layer on a machine that leaves few choices, and may have few banks, whose numbers may be chosen."""
    case = Case(layer=draw.layer(_ENUMERATED), arch=draw.machine(forced=80), objective=draw.objective())
    if not draw.chance(25):
        return case
    return attrs.evolve(case, arch=draw.few_banks(case.arch), bank_counts=draw.any_of((ONE_BANK, None)))


def with_mappings(draw: Drawer, case: Case) -> Iterator[Case]:
    """Yield the case with random legal mappings, if there are any."""
    space, rng = Space(case.layer, case.arch), np.random.default_rng(draw.below(2**32))
    for _ in range(0 if space.is_empty else _MAPPINGS):
        yield attrs.evolve(case, mapping=space.draw(rng).to_mapping(case.layer))


def annealed(draw: Drawer, case: Case) -> Case:
    """Return the case with a mapping found by annealing, if there is one."""
    problem = Problem(layer=case.layer, arch=case.arch, objective=case.objective)
    found = map_by_annealing(problem, Effort(samples=_ANNEALED, seed=draw.below(2**32)))
    return attrs.evolve(case, mapping=found.mapping if found else None)


def pinned_case(draw: Drawer, *parts: str) -> Case | None:
    """Draw a layer whose mapping agrees in these (or random) parts with a random mapping; None if the layer has no
    mapping.
    """
    pinned = parts or sorted(draw.some_of(PINS, most=len(PINS)), key=PINS.index)
    mapped = next(with_mappings(draw, solved_case(draw)), None)
    return attrs.evolve(mapped, pinned=pinned) if mapped else None


# --- A round ---------------------------------------------------------------------------------------------------------


def compare_round(seed: int, number: int, limits: Limits) -> Iterator[Made]:
    """Yield the comparisons of a round as they are made."""
    draw = Drawer.of(np.random.default_rng([seed, number]))
    for _ in range(_LAYERS):
        yield from _trace(draw, limits)
    yield from _solve(draw, limits)
    for _ in range(_PINNED):
        yield from _pin(draw, limits)
    case = pinned_case(draw, *_ALL_BUT_OUTER_LOOPS)
    if case is not None:
        yield from _enumerate("completion", case, limits)
    yield from _enumerate("enumeration", enumerated_case(draw), limits)


def _trace(draw: Drawer, limits: Limits) -> Iterator[Made]:
    """Predict and simulate random mappings of a layer."""
    for mapped in with_mappings(draw, traced_case(draw)):
        yield "trace", mapped, compare("trace", mapped, limits)
        changed = attrs.evolve(mapped, mapping=draw.changed(mapped.mapping)) if mapped.mapping else mapped
        yield "legality", changed, compare("legality", changed, limits)


def _solve(draw: Drawer, limits: Limits) -> Iterator[Made]:
    """Solve a layer; compare the solution with its simulation, and the bound with random mappings."""
    case = solved_case(draw)
    if check_fits(case.layer, case.arch):
        return
    solved = attempt(case, lambda: solve(case, limits))
    yield "answer", case, _checked(case, solved, check_answer)
    for mapped in (*with_mappings(draw, case), annealed(draw, case)):
        yield "bound", mapped, _checked(mapped, solved, check_bound)


def _pin(draw: Drawer, limits: Limits) -> Iterator[Made]:
    """Solve a layer with parts of its mapping fixed."""
    case = pinned_case(draw)
    if case is not None:
        yield "pinned", case, compare("pinned", case, limits)


def _enumerate(name: str, case: Case, limits: Limits) -> Iterator[Made]:
    """Solve a layer, and evaluate every mapping of it if they are few."""
    if check_fits(case.layer, case.arch, case.bank_counts) or (mappings := few_mappings(case)) is None:
        return
    solved = attempt(case, lambda: solve(case, limits))
    yield name, case, _checked(case, solved, partial(check_optimum, mappings=mappings))


def _checked(
    case: Case, solved: SolvedLayer | Finding, check: Callable[[Case, SolvedLayer], Finding | None]
) -> Finding | None:
    """Compare a solution; a solver that failed is a finding."""
    return solved if isinstance(solved, Finding) else attempt(case, lambda: check(case, solved))
