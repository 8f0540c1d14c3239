"""Cuts, and the pool that keeps them for all master problems of a layer.

A cut is a logic-based Benders cut (Hooker & Ottosson 2003): a lower bound from a subproblem, stated for all mappings
that share what its proof uses. That set of mappings is the cut's validity. The cuts are numbered C1 to C14 in
docs/solver.md, with statements and proofs.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Lit
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.reuse import consumers_inside
from cpsat_pim.mapper.search.held_cut import HeldScans
from cpsat_pim.mapper.search.returns_cut import ReturningTiles
from cpsat_pim.mapper.search.window_cut import WindowCut
from tables.nest import MACS


class Validity(NamedTuple):
    """The set of mappings that a cut holds for, as literals of a master problem.

    `deviations`: literals of which at least one holds in every mapping outside the set. `extents`: extents inside the
    outer loops that all mappings of the set have, by dim; dims in which they may differ are absent.
    """

    deviations: Callable[[MasterProblem], Iterable[Lit]]
    extents: dict[Dim, int]

    def without(self, deviations: Callable[[MasterProblem], Iterable[Lit]]) -> "Validity":
        """Return the set without the mappings in which one of some more literals holds."""
        return self._replace(deviations=lambda p: [*self.deviations(p), *deviations(p)])


class BoxFamily(NamedTuple):
    """All boxes inside a level in which a tensor opens more rows than the trial bound leaves it (docs/solver.md, C2).

    `is_swept`: boxes that the level's contiguous innermost loops sweep, instead of those inside all of its loops.
    """

    t: Tensor
    level: Level
    is_swept: bool
    layout: int

    def add_to(self, master: MasterProblem) -> None:
        """Forbid them in a master problem."""
        table, b = master.tables[self.t], master.b
        box = master.reuse.extents(self.level, self.is_swept)
        deviations = [*consumed_outside(master, self.level, self.t, self.is_swept)]
        deviations.append(b.differs(master.streams.scans[self.t].layout, self.layout))
        too_many = table.box_activations > master.streams.max_activations[self.t]
        for row in table.extents[(table.layout == self.layout) & table.is_of_boxes & too_many]:
            b.clause([*deviations, *(b.differs(box[d], e) for d, e in zip(table.dims, row.tolist(), strict=True))])


class TilePasses(NamedTuple):
    """So many `passes` over all tiles of a tensor; `tile`: its extents in R S P Q C K N G."""

    t: Tensor
    tile: tuple[int, ...]
    passes: int

    @property
    def validity(self) -> Validity:
        """The mappings whose stream of t is that."""

        def deviations(p: MasterProblem) -> list[Lit]:
            scans = p.streams.scans[self.t]
            other_tile = [p.b.differs(x, self.tile[d]) for d, x in scans.extents.items()]
            other_scans = [p.b.negated(scans.is_box), p.v.first_consumer(MACS, self.t)]
            return [*other_scans, *other_tile, p.b.differs(p.streams.passes[self.t], self.passes)]

        return Validity(deviations, {})


class Cut(NamedTuple):
    """What every mapping of the `validity` satisfies: `require` adds it to a master problem, under a literal."""

    validity: Validity
    require: Callable[[MasterProblem, Lit], None]

    def add_to(self, master: MasterProblem) -> None:
        """Add the cut to a master problem, unless it has no mapping of the validity."""
        if not master.may_contain(self.validity.extents):
            return
        b = master.b
        deviations = list(self.validity.deviations(master))
        if any(x is True for x in deviations):
            return
        is_valid = b.boolean("is_valid")
        b.clause([*deviations, is_valid])
        self.require(master, is_valid)


AnyCut = Cut | BoxFamily | HeldScans | ReturningTiles | WindowCut


class CutPool:
    """The cuts of a layer, for all later master problems; making cuts ends when `is_over` is true."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over
        self.cuts: list[AnyCut] = []
        #: Families of which all boxes are forbidden that open too many rows.
        self.families: set[BoxFamily] = set()
        #: Whether the cut of windows over a row-aligned input was made.
        self.has_window_cut = False
        #: Passes whose fewest activations over all orders were counted; and those whose least cycles were.
        self.counted_activations: set[TilePasses] = set()
        self.counted_cycles: set[TilePasses] = set()

    def add(self, cut: AnyCut, master: MasterProblem) -> None:
        """Keep a cut and add it to the master problem that it comes from."""
        self.cuts.append(cut)
        self.add_to(master)

    def add_to(self, master: MasterProblem) -> None:
        """Add to a master problem all cuts that it does not have yet; to a relaxation over all splits only those that
        have all of their variables there.
        """
        for cut in self.cuts[master.cuts_known :]:
            if isinstance(cut, HeldScans | ReturningTiles) or not master.v.any_split:
                cut.add_to(master)
        master.cuts_known = len(self.cuts)


def consumed_outside(p: MasterProblem, level: Level, t: Tensor, is_swept: bool) -> list[Lit]:
    """Return a literal that holds unless t's first consumer lies inside a level's loops (`consumers_inside`)."""
    inside = [p.v.first_consumer(c, t) for c in consumers_inside(level, is_swept)]
    return [p.b.negated(p.b.either(inside, f"taken_inside_{level}_{t}"))]
