"""Algorithms 1 and 2 of NicePIM: segments, partitions and replicas for given homes, then homes for these, in turns.

As printed, with these departures, for what the paper leaves open or our plans have besides:

- A home is a layout and a place; the paper has layouts alone (line 22). The first homes (line 4) are parts of equal
  size in the first layout. The paper's first iteration ignores the layout; ours has that one.
- Candidates with fewer replicas (line 12) are made only if the fastest of all layers do not fit together: else
  Algorithm 2 chooses these, whatever else there is.
- The paper's capacity holds weights alone. If what is chosen does not fit with its activations, Algorithm 2 is run
  again with as much less as was missing.
- The plan of the best iteration is returned, not that of the last one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, frozen

from cpsat_pim.planner.array import Region
from cpsat_pim.planner.baselines.homes import Homes
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.baselines.regions import shared_out, sliced
from cpsat_pim.planner.baselines.replicas import NoRoom
from cpsat_pim.planner.baselines.segments import Branch, segments_of
from cpsat_pim.planner.baselines.selection import Candidate, SegmentMapping, Selected, select
from cpsat_pim.planner.baselines.sequential import even_homes
from cpsat_pim.planner.baselines.step_costs import Choice, StepHomes
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.plan import Plan, RegionPlan

#: MAX_OPTIM_ITER: section VIII-B.
ITERATIONS = 3
#: Parts in which a node's capacity is counted, and how often a capacity is tried that forgets activations.
QUANTA, TRIES = 512, 6


@frozen(kw_only=True)
class SegmentOption:
    """A segment mapping SM: regions with their layers, one after the other."""

    regions: tuple[RegionPlan, ...]


def alternating(problem: Problem) -> tuple[Plan, PlanCost, int]:
    """The best plan of all iterations; none begins when the time is up and some plan is there.

    Raises:
        NoRoom: no iteration found a plan that fits.
    """
    options = [list(segment_options(problem, branches)) for branches in segments_of(problem.graph)]
    homes = even_homes(problem, problem.space.layouts[0])
    found: list[tuple[Plan, PlanCost, int]] = []
    for iteration in range(1, ITERATIONS + 1):  # line 6
        mapped = _map(problem, options, homes)
        if mapped is None:
            break
        homes = update_homes(problem, mapped, homes)  # line 22
        choices = {name: problem.exact(name, choice.partition, homes) for name, choice in mapped.choices.items()}
        plan = problem.plan(choices, homes, mapped.segments)
        cost, value = problem.evaluate(plan)
        problem.report(f"iteration {iteration}: {value}")
        if cost.peak_bytes <= problem.array.capacity_bytes:
            found.append((plan, cost, value))
            if problem.effort.is_over:
                break
    if not found:
        raise NoRoom(f"capacity: {problem.array.capacity_bytes} bytes a node are too few for the alternating heuristic")
    return min(found, key=lambda one: one[2])


def segment_options(problem: Problem, branches: Sequence[Branch]) -> Iterator[SegmentOption]:
    """Segment mappings of every number of regions (line 9)."""
    macs = [sum(problem.graph.task(name).workload.macs for name in branch) for branch in branches]
    for count in range(1, len(branches) + 1):
        works = shared_out(macs, count)
        regions = sliced(problem.array.whole, works)
        if regions is None:
            return
        layers = [[name for b in sorted(work.branches) for name in branches[b]] for work in works]
        plans = [RegionPlan(region=r, layers=tuple(names)) for r, names in zip(regions, layers, strict=True)]
        if all(_has_partition(problem, one.region, one.layers) for one in plans):
            yield SegmentOption(regions=tuple(plans))


def _has_partition(problem: Problem, region: Region, names: Sequence[str]) -> bool:
    """Whether all layers can be split over a region."""
    return all(any(True for _ in problem.space.partitions(problem.graph.task(name), region)) for name in names)


@define(kw_only=True)
class _Mapped:
    """SM, LM and WR of all segments and layers."""

    segments: list[tuple[RegionPlan, ...]]
    choices: dict[str, Choice]


def _map(problem: Problem, options: Sequence[Sequence[SegmentOption]], homes: Homes) -> _Mapped | None:
    """Candidates of all layers (lines 8 to 16) and the best that fit together (lines 18 to 20); None if none do."""
    fastest = _Candidates(problem, homes, is_fitting=False)
    mapped = fastest.selected(options, QUANTA, QUANTA)
    assert mapped is not None
    if _weights(problem, mapped) <= problem.array.capacity_bytes and _fits(problem, mapped, homes):
        return mapped
    capacity, fewer = problem.array.capacity_bytes, _Candidates(problem, homes, is_fitting=True)
    for _ in range(TRIES):
        mapped = fewer.selected(options, QUANTA, max(1, capacity // QUANTA))
        if mapped is None:
            return None
        missing = _missing(problem, mapped, homes)
        if missing <= 0:
            return mapped
        capacity -= missing
        if capacity <= 0:
            return None
    return None


def _weights(problem: Problem, mapped: _Mapped) -> int:
    """Bytes of weights on a node at most."""
    return sum(problem.layer(name).weight_bytes(choice.partition) for name, choice in mapped.choices.items())


def _fits(problem: Problem, mapped: _Mapped, homes: Homes) -> bool:
    return _missing(problem, mapped, homes) <= 0


def _missing(problem: Problem, mapped: _Mapped, homes: Homes) -> int:
    """Bytes that the fullest node lacks."""
    cost, _ = problem.evaluate(problem.plan(mapped.choices, homes, mapped.segments))
    return cost.peak_bytes - problem.array.capacity_bytes


class _Candidates:
    """Candidates LM-WR of every layer at given homes, made once for each region."""

    def __init__(self, problem: Problem, homes: Homes, is_fitting: bool) -> None:
        """`is_fitting`: also with fewer replicas than nodes that share."""
        self.problem, self.homes, self.is_fitting = problem, homes, is_fitting
        self._known: dict[Any, list[Choice]] = {}

    def selected(self, options: Sequence[Sequence[SegmentOption]], quanta: int, quantum_bytes: int) -> _Mapped | None:
        """What Algorithm 2 chooses, `quantum_bytes` a quantum."""
        mappings = [[self._perfs(option, quantum_bytes) for option in one] for one in options]
        chosen = select(mappings, quanta)
        return None if chosen is None else self._mapped(options, chosen)

    def _mapped(self, options: Sequence[Sequence[SegmentOption]], chosen: Sequence[Selected]) -> _Mapped:
        segments, choices = [], {}
        for one, selected in zip(options, chosen, strict=True):
            regions = one[selected.mapping].regions
            segments.append(regions)
            for region, indices in zip(regions, selected.candidates, strict=True):
                for name, at in zip(region.layers, indices, strict=True):
                    choices[name] = self._of(name, region.region)[at]
        return _Mapped(segments=segments, choices=choices)

    def _perfs(self, option: SegmentOption, quantum_bytes: int) -> SegmentMapping:
        """Times and sizes of all candidates of a segment mapping; sizes only where they matter."""
        return [
            [[self._perf(name, choice, quantum_bytes) for choice in self._of(name, one.region)] for name in one.layers]
            for one in option.regions
        ]

    def _perf(self, name: str, choice: Choice, quantum_bytes: int) -> Candidate:
        held = self.problem.layer(name).weight_bytes(choice.partition) if self.is_fitting else 0
        return Candidate(perf=choice.cost[0], size=-(-held // quantum_bytes))

    def _of(self, name: str, region: Region) -> list[Choice]:
        """The best partition for every number of replicas, the most first (lines 12 to 14)."""
        key = (name, region)
        if key not in self._known:
            self._known[key] = [
                self.problem.cheapest(name, region, self.homes, replicas) for replicas in self._replicas(name, region)
            ]
        return self._known[key]

    def _replicas(self, name: str, region: Region) -> list[int | None]:
        """From the maximum to 1, halved; None is the maximum."""
        if not self.is_fitting or not self.problem.graph.task(name).has_weights:
            return [None]
        return [None, *(region.size >> shift for shift in range(1, region.size.bit_length()))]


def update_homes(problem: Problem, mapped: _Mapped, before: Homes) -> Homes:
    """Homes for given partitions (line 22): every layer chooses for itself, then predecessors prevail.

    "For each layer we enumerate all possible choices of DL and select the one with the lowest latency without
    considering the DL of other layers. Then we [...] make the DL_i of the successor layer the same as the DL_o of the
    predecessor layer. If the DL_i of a layer is changed, we re-select its DL_o." (Section VI-C.)
    """
    homes: Homes = {}
    home_of = problem.graph.home_of
    for task in problem.graph.tasks:
        partition = mapped.choices[task.name].partition
        read, written = home_of[task.reads.stack], home_of[task.writes]
        second = home_of[task.others[0].stack] if task.others else None
        fixed = {**before, **homes}
        options = [
            (partition, StepHomes(
                reads=reads,
                others=None if second is None else reads if second == read else fixed[second],
                writes=reads if written == read else writes,
            ))
            for reads in _choices(problem, read, homes)
            for writes in _choices(problem, written, homes)
        ]  # fmt: skip
        best = problem.layer(task.name).cheapest(options, problem.effort).homes
        homes.setdefault(read, best.reads)
        homes.setdefault(written, best.writes)
    return {**before, **homes}


def _choices(problem: Problem, name: str, homes: Homes) -> list[Home]:
    return [homes[name]] if name in homes else problem.homes[name]
