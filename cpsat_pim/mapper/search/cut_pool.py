"""What counted answers have taught, for all programs of a layer."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Lit
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.model.reuse import consumers_inside
from cpsat_pim.mapper.search.window_cut import WindowRows
from tables.nest import MACS


class Validity(NamedTuple):
    """The mappings that a lesson is about: in a program, those of which none of some literals holds.

    `extents`: those inside the outer loops, of dims of which all of these mappings have the same ones.
    """

    others: Callable[[MasterProblem], Iterable[Lit]]
    extents: dict[Dim, int]

    def but(self, others: Callable[[MasterProblem], Iterable[Lit]]) -> "Validity":
        """Without those of which one of some more literals holds."""
        return self._replace(others=lambda p: [*self.others(p), *others(p)])


class Family(NamedTuple):
    """All boxes inside a level (`is_swept`: those that its gathered innermost loops sweep) in which a tensor opens more
    rows than an answer below the program's target can.
    """

    t: Tensor
    level: Level
    is_swept: bool
    layout: int

    def add_to(self, master: MasterProblem) -> None:
        """Forbid them in a program."""
        table, b = master.tables[self.t], master.b
        box = master.reuse.extents(self.level, self.is_swept)
        others = [*taken_outside(master, self.level, self.t, self.is_swept)]
        others.append(b.differs(master.streams.scans[self.t].layout, self.layout))
        too_many = table.box_activations > master.streams.most_activations[self.t]
        for row in table.extents[(table.layout == self.layout) & (table.is_strided == 0) & too_many]:
            b.clause([*others, *(b.differs(box[d], e) for d, e in zip(table.dims, row.tolist(), strict=True))])


class Passes(NamedTuple):
    """So many passes over all tiles of a tensor; `tile`: extents of R S P Q C K N G."""

    t: Tensor
    tile: tuple[int, ...]
    number: int

    @property
    def scope(self) -> Validity:
        """The mappings of which t's stream is that."""

        def others(p: MasterProblem) -> list[Lit]:
            scans = p.streams.scans[self.t]
            other_tile = [p.b.differs(x, self.tile[d]) for d, x in scans.extents.items()]
            other_scans = [p.b.negated(scans.is_box), p.v.first_consumer(MACS, self.t)]
            return [*other_scans, *other_tile, p.b.differs(p.streams.passes[self.t], self.number)]

        return Validity(others, {})


class Cut(NamedTuple):
    """A constraint that holds in every program of a layer: what is demanded of some mappings."""

    scope: Validity
    demand: Callable[[MasterProblem, Lit], None]

    def add_to(self, master: MasterProblem) -> None:
        """Add it to a program that may have such mappings."""
        if not master.may_have(self.scope.extents):
            return
        b = master.b
        others = list(self.scope.others(master))
        if any(x is True for x in others):
            return
        known = b.boolean("learnt")
        b.clause([*others, known])
        self.demand(master, known)


class CutPool:
    """What later programs of the layer have to know, too; learning ends when `is_over` says so."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over
        self.cuts: list[Cut | Family | WindowRows] = []
        #: Those of which all boxes are known that open too many rows.
        self.families: set[Family] = set()
        #: Whether windows over row-aligned inputs are among them.
        self.knows_windows = False
        #: Those whose fewest activations over all orders are known; and least cycles.
        self.rows_known: set[Passes] = set()
        self.cycles_known: set[Passes] = set()

    def add(self, lesson: Cut | Family | WindowRows, master: MasterProblem) -> None:
        """Keep a lesson and teach it to the program that it comes from."""
        self.cuts.append(lesson)
        self.add_to(master)

    def add_to(self, master: MasterProblem) -> None:
        """Add all to a program that it does not know."""
        for lesson in self.cuts[master.cuts_known :]:
            lesson.add_to(master)
        master.cuts_known = len(self.cuts)


def taken_outside(p: MasterProblem, level: Level, t: Tensor, is_swept: bool) -> list[Lit]:
    """Literals of which one holds unless t's scans lie inside a level's loops (`consumers_inside`)."""
    taken = [p.v.first_consumer(c, t) for c in consumers_inside(level, is_swept)]
    return [p.b.negated(p.b.either(taken, f"taken_inside_{level}_{t}"))]
