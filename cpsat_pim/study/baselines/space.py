"""The declared search space of one layer on one machine, with random draws and random neighbours."""

import itertools
from collections.abc import Iterator
from functools import cached_property

import attrs
from numpy.random import Generator

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, IRRELEVANT, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapping import BANKS, OWN_BANKS, Banks, Factors, Stored
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.study.baselines.draft import DRAM, EVEN_POINTS, PLACES, Draft, Order
from cpsat_pim.study.baselines.repair import Repair
from cpsat_pim.workload import ConvWorkload
from tables.factors import primes_of

StoredSets = tuple[Stored, Stored, Stored]


class Space:
    """The legal mappings of a layer on a machine.

    A *plain* mapping has all its loops at the DRAM, reductions innermost: it has the smallest tiles, and no partial
    sums return. If the plain mapping of a stored set is illegal, the stored set has no legal mapping, unless the DRAM
    is almost full.
    """

    def __init__(self, layer: ConvWorkload, arch: PIMArchitecture) -> None:
        self.layer, self.arch = layer, arch

    @cached_property
    def stored_sets(self) -> dict[bool, list[StoredSets]]:
        """The stored sets that have a mapping, by whether they keep some tensor row-aligned."""
        found: dict[bool, list[StoredSets]] = {False: [], True: []}
        for stored in self._storable():
            if self.banks_of(stored):
                found[any(stored[Level.ROW_BUFFER])].append(stored)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether the space is empty."""
        return not any(self.stored_sets.values())

    def is_legal(self, draft: Draft) -> bool:
        """Return whether the validator finds no violation."""
        return not check_mapping(self.layer, self.arch, draft.to_mapping(self.layer))

    def banks_of(self, stored: StoredSets) -> list[Banks]:
        """Return the banks with which the plain mapping of a stored set is legal."""
        choices = [OWN_BANKS] if self.arch.node_banks is None else list(BANKS.values())
        return [banks for banks in choices if self.is_legal(self.plain(stored, banks))]

    def plain(self, stored: StoredSets, banks: Banks = OWN_BANKS) -> Draft:
        """Return the plain mapping of a stored set."""
        ones = (1,) * len(Dim)
        factors = [self.layer.bounds if place == DRAM else ones for place in PLACES]
        return Draft(factors=factors, order=order_for(Tensor.O), stored=stored, banks=banks)

    def nearest(self, wish: StoredSets) -> StoredSets:
        """Return the possible stored set closest to a wished one; the row buffer counts most, then the PEs, then
        outwards.
        """
        sets = [stored for part in self.stored_sets.values() for stored in part]
        return min(sets, key=lambda stored: _differences(stored, wish))

    # --- Drawing -----------------------------------------------------------------------------------------------------

    def draw(self, rng: Generator) -> Draft:
        """Draw a random legal draft from a space that is not empty.

        All factorizations are equally likely; so are orders, layouts, blocks, residency points, the two subspaces
        (section 8 of the model), and the stored sets within each. An illegal draft is repaired; one that cannot be
        repaired is replaced by the plain mapping.
        """
        parts = [sets for sets in self.stored_sets.values() if sets]
        sets = parts[rng.integers(len(parts))]
        draft = Draft(
            factors=self._factors(rng),
            order=[[Dim(int(d)) for d in rng.permutation(len(Dim))] for _ in Level],
            stored=sets[rng.integers(len(sets))],
            layout=[int(index) for index in rng.integers(2, size=len(Tensor))],
            block=rng.random(),
            points=self._points(rng),
        )
        if self.arch.node_banks is not None:
            possible = self.banks_of(draft.stored)
            draft = attrs.evolve(draft, banks=possible[rng.integers(len(possible))])
        return self._repaired(draft, rng) or self.plain(draft.stored, draft.banks)

    def neighbour(self, draft: Draft, rng: Generator) -> Draft | None:
        """Return the draft with one random change, repaired; None if it stays illegal."""
        changes = [self._move_prime, self._move_prime, self._swap_loops, self._change_stored, self._change_layout]
        changes += [self._change_points] * self.arch.uneven_residency
        return self._repaired(changes[rng.integers(len(changes))](draft, rng), rng)

    def _repaired(self, draft: Draft, rng: Generator) -> Draft | None:
        """Repair a draft. If it stays illegal, retry with even residency."""
        for wanted in dict.fromkeys((draft, attrs.evolve(draft, points=EVEN_POINTS))):
            repaired = Repair(self.layer, self.arch, wanted, rng).run()
            if self.is_legal(repaired):
                return repaired
        return None

    def _storable(self) -> Iterator[StoredSets]:
        """Yield the stored sets that the machine allows."""
        levels = [itertools.product(*(self.arch.storing_choices(m, t) for t in Tensor)) for m in BUFFERS]
        return itertools.product(*levels)  # type: ignore[return-value]

    def _factors(self, rng: Generator) -> list[Factors]:
        """Draw an ordered factorization of each dim uniformly: per prime, one of all distributions of its powers."""
        rows = [[1] * len(Dim) for _ in PLACES]
        for d in Dim:
            primes = primes_of(self.layer.bounds[d])
            for prime in sorted(set(primes)):
                for place, power in enumerate(_shares(primes.count(prime), len(PLACES), rng)):
                    rows[place][d] *= prime**power
        return [tuple(row) for row in rows]

    def _points(self, rng: Generator) -> tuple[tuple[float, ...], ...]:
        """Draw residency points, if the machine allows uneven residency."""
        return tuple(map(tuple, rng.random((len(ON_CHIP), len(Tensor))))) if self.arch.uneven_residency else EVEN_POINTS

    # --- Changes -----------------------------------------------------------------------------------------------------

    def _move_prime(self, draft: Draft, rng: Generator) -> Draft:
        """Move a random prime of some dim to another place."""
        loops = [(place, d) for place in PLACES for d in Dim if draft.factors[place][d] > 1]
        if not loops:
            return draft
        place, d = loops[rng.integers(len(loops))]
        primes = primes_of(draft.factors[place][d])
        return draft.moved(d, primes[rng.integers(len(primes))], place, int(rng.integers(len(PLACES))))

    def _swap_loops(self, draft: Draft, rng: Generator) -> Draft:
        """Swap two loops of a level."""
        level, (a, b) = rng.integers(len(Level)), rng.choice(len(Dim), 2, replace=False)
        order = list(draft.order[level])
        order[a], order[b] = order[b], order[a]
        return attrs.evolve(draft, order=[order if m == level else draft.order[m] for m in Level])

    def _change_stored(self, draft: Draft, rng: Generator) -> Draft:
        """Toggle whether a level stores a tensor, or change the input block."""
        m, t = int(rng.integers(len(BUFFERS))), int(rng.integers(len(Tensor)))
        wish = [
            [is_stored != ((i, u) == (m, t)) for u, is_stored in enumerate(row)] for i, row in enumerate(draft.stored)
        ]
        stored: StoredSets = tuple(tuple(row) for row in wish)  # type: ignore[assignment]
        is_known = stored in self.stored_sets[any(stored[Level.ROW_BUFFER])]
        return attrs.evolve(draft, stored=stored if is_known else draft.stored, block=rng.random())

    def _change_layout(self, draft: Draft, rng: Generator) -> Draft:
        """Change the axis order of a tensor."""
        t = rng.integers(len(Tensor))
        return attrs.evolve(draft, layout=[1 - index if u == t else index for u, index in enumerate(draft.layout)])

    def _change_points(self, draft: Draft, rng: Generator) -> Draft:
        """Change the residency points."""
        return attrs.evolve(draft, points=self._points(rng))


def order_for(stays: Tensor) -> Order:
    """Return the loop order in which, at every level, the loops irrelevant to a tensor are innermost, so that it is
    fetched least often.
    """
    outside = [d for d in Dim if d not in IRRELEVANT[stays]]
    return ((*outside, *IRRELEVANT[stays]),) * len(Level)


def _differences(stored: StoredSets, wish: StoredSets) -> tuple[int, ...]:
    """Return where two stored sets differ, the row buffer first."""
    counts = [sum(a != b for a, b in zip(stored[m], wish[m], strict=True)) for m in BUFFERS]
    return (counts[Level.ROW_BUFFER], *counts)


def _shares(power: int, places: int, rng: Generator) -> list[int]:
    """Draw one of all distributions of `power` equal items over places, uniformly (stars and bars)."""
    bars = sorted(rng.choice(power + places - 1, places - 1, replace=False))
    ends = [-1, *bars, power + places - 1]
    return [int(b - a - 1) for a, b in itertools.pairwise(ends)]
