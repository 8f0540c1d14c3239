"""The rings of an instance, their load, and a lower bound with its certificate.

Sets that share no link are scheduled apart (`decomposition`). Of each group: the bound by cuts and the best constructed
rings; while these differ, the bound of the relaxation; annealing down from the load, a chunk at a time; then for trial
loads from the bound upwards rings merged from those of two halves of the mesh, annealing and CP-SAT, until load and
bound meet or time is over.
"""

import time
from collections.abc import Sequence
from typing import Any

from attrs import evolve, field, frozen

from cpsat_pim.planner.rings.annealing import Annealing, anneal
from cpsat_pim.planner.rings.certificate import Certificate, LinkWeights, Search, SetProof, block_as_weights
from cpsat_pim.planner.rings.constructions import constructed_rings
from cpsat_pim.planner.rings.cuts import Block, best_block
from cpsat_pim.planner.rings.decomposition import Group, groups, moved
from cpsat_pim.planner.rings.feasibility import FeasibilityLimits, find_rings
from cpsat_pim.planner.rings.instance import Instance, Mesh
from cpsat_pim.planner.rings.merging import halved, merged_rings
from cpsat_pim.planner.rings.relaxation import RelaxationLimits, relaxation_bound
from cpsat_pim.planner.rings.routes import link_ends, link_loads


@frozen(kw_only=True)
class Effort:
    """How much is searched for each group of sets.

    Attributes:
        seconds: of one group; a step that has begun is finished.
        restarts: annealing runs of a trial load, with other seeds, each with twice the moves of the one before.
        share_of_halves: part of the time left that scheduling the two halves of the mesh may take.
    """

    seconds: float = 30.0
    restarts: int = 5
    share_of_halves: float = 0.2
    annealing: Annealing = field(factory=Annealing)
    feasibility: FeasibilityLimits = field(factory=FeasibilityLimits)
    relaxation: RelaxationLimits = field(factory=RelaxationLimits)
    seed: int = 0


#: Cuts and constructions only: milliseconds, for planners that ask for thousands of instances.
NO_SEARCH = Effort(seconds=0.0, restarts=0)


@frozen(kw_only=True)
class Schedule:
    """Rings of all sets and what is proven of them.

    Attributes:
        rings: of each set, the nodes in the order in which data moves on.
        bound: no rings have a smaller heaviest load.
        certificate: what proves the bound.
        method: which step found the rings of the group that decides: `construction`, `merging`, `annealing`, `CP-SAT`.
        seconds: what it took.
    """

    instance: Instance
    rings: tuple[tuple[int, ...], ...]
    bound: int
    certificate: Certificate
    method: str
    seconds: float

    def __attrs_post_init__(self) -> None:
        pairs = zip(self.instance.sets, self.rings, strict=True)
        if any(sorted(nodes) != sorted(ring) for nodes, ring in pairs):
            raise AssertionError("a ring does not visit each node of its set once")
        if self.bound > self.load:
            raise AssertionError(f"the bound {self.bound} is above the load {self.load} of rings that exist")

    @property
    def load(self) -> int:
        """Chunks that the heaviest link carries in a step, counted on the rings."""
        return int(link_loads(self.instance.mesh, self.rings).max())

    @property
    def status(self) -> str:
        """OPTIMAL if the bound is met."""
        return "OPTIMAL" if self.load == self.bound else "FEASIBLE"

    @property
    def chunk_times(self) -> int:
        """Steps times load: chunks that pass the heaviest link one after the other."""
        return self.instance.steps * self.load


def schedule_rings(instance: Instance, effort: Effort | None = None) -> Schedule:
    """Return rings and a bound; groups that are alike are scheduled once."""
    effort = effort or Effort()
    begin = time.monotonic()
    solved: dict[Any, Schedule] = {}
    found = []
    for group in groups(instance):
        key = (group.instance.mesh, group.instance.sets)
        if key not in solved:
            solved[key] = _Search(group.instance, effort).run()
        found.append((group, solved[key]))
    return _joined(instance, found, time.monotonic() - begin)


# --- One group ---------------------------------------------------------------------------------------------------


class _Search:
    """The best rings and the best bound so far of one group."""

    def __init__(self, instance: Instance, effort: Effort) -> None:
        self.instance, self.effort = instance, effort
        self.begin = time.monotonic()
        self.rings, self.method = constructed_rings(instance), "construction"
        self.starts: list[tuple[tuple[int, ...], ...]] = []
        self.certificate: Certificate = best_block(instance)

    def run(self) -> Schedule:
        """Search until load and bound meet, or time is over."""
        if self._bound() < self._load() and self._has_time():
            self._relax()
        self._descend()
        trial = self._bound()
        while trial < self._load() and self._has_time():
            if not self._merge(trial) and not self._anneal(trial) and self._has_time():
                self._solve(trial)
            trial += 1
        seconds = time.monotonic() - self.begin
        return Schedule(
            instance=self.instance,
            rings=self.rings,
            bound=self._bound(),
            certificate=self.certificate,
            method=self.method,
            seconds=seconds,
        )

    def _bound(self) -> int:
        return self.certificate.bound

    def _load(self) -> int:
        return int(link_loads(self.instance.mesh, self.rings).max())

    def _seconds_left(self) -> float:
        return self.effort.seconds - (time.monotonic() - self.begin)

    def _has_time(self) -> bool:
        return self._seconds_left() > 0

    def _descend(self) -> None:
        """Anneal to one load below the best as long as that succeeds at once; the bound itself is tried later."""
        is_better = True
        while is_better and self._load() - 1 > self._bound() and self._has_time():
            target = self._load() - 1
            found = anneal(self.instance.mesh, self.rings, target, self.effort.annealing, self.effort.seed)
            is_better = found is not None
            if found is not None:
                self.rings, self.method = found, "annealing"

    def _merge(self, trial: int) -> bool:
        """Look for rings of a trial load by merging those of halves; true if there are now.

        Halves get a part of the time, since a start with some excess is of use as well.
        """
        for is_across_rows in (True, False):
            halves = halved(self.instance, is_across_rows=is_across_rows)
            if halves is None or not self._has_time():
                continue
            effort = evolve(self.effort, seconds=self._seconds_left() * self.effort.share_of_halves)
            solved = schedule_rings(halves, effort)
            if solved.load > trial:
                continue
            merged = merged_rings(self.instance.mesh, solved.rings, trial)
            if link_loads(self.instance.mesh, merged).max() <= trial:
                self.rings, self.method = merged, "merging"
                return True
            self.starts.append(merged)
        return False

    def _anneal(self, trial: int) -> bool:
        """Look for rings of a trial load from all starts in turn; true if there are now.

        A run takes about twice as long as the one before; it is not begun if that is more than the time left.
        """
        starts = [self.rings, *self.starts]
        needed = 0.0
        for restart in range(self.effort.restarts):
            begin = time.monotonic()
            if self._seconds_left() <= needed:
                return False
            settings = evolve(self.effort.annealing, moves=self.effort.annealing.moves << restart)
            seed = self.effort.seed + restart
            found = anneal(self.instance.mesh, starts[restart % len(starts)], trial, settings, seed)
            if found is not None:
                self.rings, self.method = found, "annealing"
                return True
            needed = 2 * (time.monotonic() - begin)
        return False

    def _solve(self, trial: int) -> None:
        """Ask CP-SAT for rings of a trial load; the proof that there are none raises the bound."""
        seconds = min(self.effort.feasibility.seconds, self._seconds_left())
        limits = evolve(self.effort.feasibility, seconds=seconds)
        answer = find_rings(self.instance, trial, limits, self.rings, self.effort.seed)
        if answer is not None and answer.rings is not None:
            self.rings, self.method = answer.rings, "CP-SAT"
        if answer is not None and answer.is_proven and trial >= self._bound():
            self.certificate = Search(bound=trial + 1, seconds=answer.seconds)

    def _relax(self) -> None:
        """Raise the bound by the relaxation."""
        limits = evolve(self.effort.relaxation, seconds=min(self.effort.relaxation.seconds, self._seconds_left()))
        found = relaxation_bound(self.instance, limits)
        if found is not None and found.bound > self._bound():
            self.certificate = found


# --- Groups together ---------------------------------------------------------------------------------------------


def _joined(instance: Instance, found: Sequence[tuple[Group, Schedule]], seconds: float) -> Schedule:
    """The schedule of the whole: its load and its bound are the largest of its groups."""
    rings: dict[int, tuple[int, ...]] = {}
    for group, schedule in found:
        for member, ring in zip(group.members, schedule.rings, strict=True):
            rings[member] = moved(ring, instance.mesh.cols, group.place)
    deciding, proof = max(found, key=lambda pair: pair[1].bound)
    _, heaviest = max(found, key=lambda pair: pair[1].load)
    return Schedule(
        instance=instance,
        rings=tuple(rings[s] for s in range(len(instance.sets))),
        bound=proof.bound,
        certificate=_embedded(instance, deciding, proof.certificate),
        method=heaviest.method,
        seconds=seconds,
    )


def _embedded(instance: Instance, group: Group, certificate: Certificate) -> Certificate:
    """The certificate of a group as one of the whole instance.

    More links leave a block in the whole mesh if it touches the border of its group. Mostly another block proves as
    much there; else the links within the group are given weights.
    """
    if isinstance(certificate, Search):
        return certificate
    if isinstance(certificate, Block):
        block = best_block(instance)
        if block.bound >= certificate.bound:
            return block
        certificate = block_as_weights(group.instance, certificate)
    weights = [0] * instance.mesh.links
    for link, weight in zip(_links_of(instance.mesh, group), certificate.weights, strict=True):
        weights[link] = weight
    proofs = [SetProof(leaving=(0,) * len(nodes), entering=(0,) * len(nodes)) for nodes in instance.sets]
    for member, proof in zip(group.members, certificate.proofs, strict=True):
        parts = tuple((moved(part, instance.mesh.cols, group.place), value) for part, value in proof.parts)
        proofs[member] = evolve(proof, parts=parts)
    return LinkWeights(weights=tuple(weights), proofs=tuple(proofs))


def _links_of(mesh: Mesh, group: Group) -> list[int]:
    """Numbers in the whole mesh of the links of a group's mesh, in the order of the group's links."""
    ends = link_ends(group.instance.mesh)
    number = {tuple(pair): link for link, pair in enumerate(link_ends(mesh).tolist())}
    return [number[moved((a, b), mesh.cols, group.place)] for a, b in ends.tolist()]
