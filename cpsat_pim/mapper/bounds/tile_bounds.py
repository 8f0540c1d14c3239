"""Lower bounds per spatial mapping and tile, and all tiles that can cost at most a trial bound (docs/solver.md, B12).

A tile is the pair of extents e0 and e1: inside the loops of the PEs, and inside those of the global buffer.
`tables.bounds.tiles` enumerates the tiles of a spatial mapping and prunes sets of them by their common bound.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import attrs
import numpy as np

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.base.watched import call_watched
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.tile_figures import TileFigures
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.space.candidates import COST, IN_PE, INSIDE_BUFFER, INSIDE_PE, VECTOR, Candidates
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from tables.bounds.layer import INFINITE_COST
from tables.bounds.outer_loops import dram_loop_bounds, no_dram_loop_bounds
from tables.bounds.outer_state import DramLoopBounds
from tables.bounds.shapes import ShapeTable
from tables.bounds.tile_bounds import TrialObjective
from tables.bounds.tiles import enumerate_tiles
from tables.bounds.windows import window_rows
from tables.factors import divisors
from tables.nest import Ints


class TileEnumeration(NamedTuple):
    """All tiles with a lower bound of at most `trial_bound`.

    Vectors and tiles have the columns of `Candidates`. `lower_bounds` int[n]: of each vector, the least of its tiles'.
    """

    trial_bound: int
    vectors: Ints
    lower_bounds: Ints
    tiles: Ints


class TileEnumerations:
    """The enumeration up to the highest trial bound so far, and the fewest vectors that had too many tiles.

    Subspaces that have the same tiles share one instance.
    """

    def __init__(self) -> None:
        self.known: TileEnumeration | None = None
        self.too_many: float = math.inf


class TileBounds:
    """The spatial mappings and tiles that can cost at most a trial bound, and lower bounds from them.

    `enumerations`: what was enumerated before. `on_enumerated` is called with each number of tiles, and sets of tiles,
    that were bounded. An enumeration ends early when `is_over` says so.
    """

    def __init__(
        self,
        spatial_bounds: SpatialBounds,
        tables: list[ShapeTable],
        enumerations: TileEnumerations | None = None,
        on_enumerated: Callable[[int], None] = lambda tiles: None,
        is_over: Callable[[], bool] = lambda: False,
        parameters: SearchParameters = DEFAULTS,
    ) -> None:
        self.spatial_bounds, self.tables, self.parameters = spatial_bounds, tables, parameters
        self.on_enumerated, self.is_over = on_enumerated, is_over
        self.figures = TileFigures(spatial_bounds, tables)
        restriction = spatial_bounds.restriction
        #: Whether many tiles may be enumerated: where only latency counts, that pays for hard layers only, but where
        #: streams share a bank and follow each other.
        self._is_worth_many = spatial_bounds.objective.weights[1] > 0 or bool(restriction.shared_parts)
        #: Whether tiles are enumerated.
        self.is_enabled = self._is_worth_many or self._has_few_tiles
        #: Whether bounds of tiles include the rows of windows, which take time to compute.
        self.is_tight = False
        self._dram_loops: DramLoopBounds | None = None
        self._enumerations = enumerations or TileEnumerations()
        self._of_budget: TileBounds | None = None

    @property
    def _has_few_tiles(self) -> bool:
        """Whether no tensor is row-aligned, and few tiles are expected: spatial mappings up to the first trial bound,
        times the factors of all dims but R and S, whose factors are few.
        """
        spatial_bounds, parameters = self.spatial_bounds, self.parameters
        least, is_even = spatial_bounds.lower_bound, not spatial_bounds.arch.uneven_residency
        if least is None or not is_even or spatial_bounds.restriction.subspace.is_aligned:
            return False
        vectors, _ = spatial_bounds.candidates(int(least * (1 + parameters.tile_steps[0])))
        factors = math.prod(len(divisors(n)) for n in spatial_bounds.layer.bounds[Dim.P :])
        return len(vectors) * factors <= parameters.tiles_latency

    def keep_energy_budget(self, enumerations: TileEnumerations) -> None:
        """From now on, leave out tiles that exceed the budget of energy, if there is one and the objective does not
        count energy: those whose bound as of the objective energy does.
        """
        spatial_bounds, parameters = self.spatial_bounds, self.parameters
        restriction = spatial_bounds.restriction
        if restriction.budget.fj is None or spatial_bounds.objective.weights[1]:
            return
        by_energy = SpatialBounds(spatial_bounds.layer, spatial_bounds.arch, Objective.named("energy"), restriction)
        parameters = attrs.evolve(parameters, trial_tiles=parameters.budget_tiles)
        self._of_budget = TileBounds(
            by_energy, self.tables, enumerations, self.on_enumerated, self.is_over, parameters=parameters
        )

    def tighten(self) -> None:
        """Enumerate tiles from now on whatever the objective, with the tightest bounds."""
        self.is_enabled = self.is_tight = True
        if self.spatial_bounds.restriction.subspace.is_aligned:
            self._dram_loops = None
            self._enumerations.known = None

    # --- Candidates of a master problem ------------------------------------------------------------------------------

    def candidates(self, trial_bound: int, inner_extents: Sequence[int] | None = None) -> Candidates:
        """Return the vectors and tiles with a lower bound of at most the trial bound; those with some extents inside
        the outer loops, if any are given.

        Without tiles, if they are too many to enumerate or to list.
        """
        own = self._own_candidates(trial_bound, inner_extents)
        return own if self._of_budget is None else self._within_budget(own, self._of_budget, inner_extents)

    def _within_budget(
        self, own: Candidates, of_budget: "TileBounds", inner_extents: Sequence[int] | None
    ) -> Candidates:
        """Return the candidates whose tiles keep the budget of energy; without these, or with too many, the same."""
        most_fj = self.spatial_bounds.restriction.budget.fj
        kept = of_budget._own_candidates(most_fj, inner_extents) if most_fj is not None else own
        if kept.tiles is None or (own.tiles is not None and len(own.tiles) <= len(kept.tiles)):
            return own
        places = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(own.vectors))}
        number = np.array([places.get(row.tobytes(), -1) for row in np.ascontiguousarray(kept.vectors)], np.int64)
        tiles = kept.tiles.copy()
        tiles[:, VECTOR] = number[tiles[:, VECTOR]]
        tiles = tiles[tiles[:, VECTOR] >= 0]
        tiles[:, COST] = own.lower_bounds[tiles[:, VECTOR]]
        return own._replace(tiles=tiles)

    def _own_candidates(self, trial_bound: int, inner_extents: Sequence[int] | None) -> Candidates:
        """Return the same whatever their energy."""
        known = self._enumerations.known
        if known is None or known.trial_bound < trial_bound:
            vectors, bounds = self.spatial_bounds.candidates(trial_bound)
            known = self.enumerate(trial_bound, vectors, bounds)
            if known is None:
                return Candidates(vectors, bounds, None).with_inner_extents(inner_extents)
        kept = known.lower_bounds <= trial_bound
        tiles = known.tiles[known.tiles[:, COST] <= trial_bound]
        if inner_extents is not None:
            tiles = tiles[(tiles[:, INSIDE_BUFFER] == inner_extents).all(axis=1)]
        candidates = Candidates(known.vectors[kept], known.lower_bounds[kept], self._listed(known.vectors, kept, tiles))
        return candidates if candidates.tiles is not None else candidates.with_inner_extents(inner_extents)

    def cheapest(self) -> Candidates | None:
        """Return some of the enumerated tiles with the lowest bounds; None if none were enumerated."""
        known, most = self._enumerations.known, self.parameters.incumbent_tiles
        if known is None or not len(known.tiles):
            return None
        bound = np.partition(known.tiles[:, COST], min(most, len(known.tiles)) - 1)[:most].max()
        some = known.tiles[known.tiles[:, COST] <= bound][:most]
        kept = np.isin(np.arange(len(known.vectors)), some[:, VECTOR])
        return Candidates(known.vectors[kept], known.lower_bounds[kept], self._listed(known.vectors, kept, some))

    def _listed(self, vectors: Ints, kept: np.ndarray, tiles: Ints) -> Ints | None:
        """Return the tiles with the numbers of their vectors among those kept: int[m, 18]; None if they are too many.

        Where PEs store nothing, a loop can be of either on-chip level at the same cost, and the enumeration has only
        one of these tiles. All of them are listed.
        """
        most = self.parameters.listed_tiles
        if len(tiles) > most:
            return None
        is_held = vectors[tiles[:, VECTOR]][:, IN_PE].any(axis=1)
        listed = [tiles[is_held]]
        left = most - len(listed[0])
        for tile in tiles[~is_held].tolist():
            vector, own, buffered = vectors[tile[VECTOR]].tolist(), tile[INSIDE_PE], tile[INSIDE_BUFFER]
            inner = [[n] for n in own]
            inner[Dim.C :] = [
                [own[d] * n for n in divisors(buffered[d] // (own[d] * vector[d]))] for d in range(Dim.C, len(Dim))
            ]
            rows = [[tile[VECTOR], *e0, *buffered, tile[COST]] for e0 in itertools.product(*inner)]
            left -= len(rows)
            if left < 0:
                return None
            listed.append(np.array(rows, np.int64))
        found = np.concatenate(listed)
        found[:, VECTOR] = (np.cumsum(kept) - 1)[found[:, VECTOR]]
        return found

    # --- Bounds ------------------------------------------------------------------------------------------------------

    def lower_bound(self, trial_bound: int) -> int | None:
        """Return the least bound of all tiles, or a number above the trial bound if no tile has one up to it.

        None if the enumeration would take too long.
        """
        known = self._enumerations.known
        if known is None or (known.trial_bound < trial_bound and not len(known.tiles)):
            self.enumerate(
                trial_bound, *self.spatial_bounds.candidates(trial_bound), margin=self.parameters.bound_margin
            )
            known = self._enumerations.known
        return None if known is None else int(known.lower_bounds.min(initial=known.trial_bound + 1))

    @property
    def has_found_tiles(self) -> bool:
        """Whether the enumeration up to the highest trial bound found tiles."""
        return self._enumerations.known is not None and len(self._enumerations.known.tiles) > 0

    def bound_of_some_tile(self, trial_bound: int) -> int | None:
        """Return the bound of a tile that is soon found: the least of those of the first spatial mappings, by their
        bounds. None if none is found up to the trial bound.
        """
        vectors, bounds = self.spatial_bounds.candidates(trial_bound)
        if not self._is_affordable(vectors, trial_bound):
            return None
        order = np.argsort(bounds, kind="stable")
        parameters = self.parameters
        run = self._bound_tiles(trial_bound, vectors[order], parameters.bound_margin, parameters.first_tiles)
        tiles = run[0].tiles if run else np.zeros((0, 18), np.int64)
        return int(np.maximum(tiles[:, COST], bounds[order][tiles[:, VECTOR]]).min()) if len(tiles) else None

    def trial_bound_beyond(self, lower_bound: int, tiles: int) -> int | None:
        """Return a trial bound above a lower bound that admits so many tiles more.

        If fewer are known, return the highest trial bound up to which all are. None if no tiles above the lower bound
        are known.
        """
        known = self._enumerations.known
        if known is None or known.trial_bound <= lower_bound or not len(known.tiles):
            return None
        bounds = np.sort(known.tiles[:, COST])
        last = int(np.searchsorted(bounds, lower_bound, "right")) + tiles
        return int(bounds[last]) if last < len(bounds) else known.trial_bound

    # --- Enumeration -------------------------------------------------------------------------------------------------

    def enumerate_up_to(self, trial_bound: int) -> None:
        """Enumerate the tiles with a lower bound of at most the trial bound, or as many of them as are affordable."""
        known = self._enumerations.known
        if known is None or known.trial_bound < trial_bound:
            self.enumerate(trial_bound, *self.spatial_bounds.candidates(trial_bound))

    def enumerate(self, trial_bound: int, vectors: Ints, bounds: Ints, margin: int = 0) -> TileEnumeration | None:
        """Enumerate the tiles of vectors int[n, 19] with lower bounds int[n], and keep them if they reach higher than
        those known.

        Vectors are taken in the order of their bounds. If there are too many tiles, those below the bound of the next
        vector are complete and are kept; the result is None. With a `margin` n > 0 the trial bound falls to an n-th
        above the least bound of a tile found so far.
        """
        cheapest_first = np.argsort(bounds, kind="stable")
        vectors, bounds = vectors[cheapest_first], bounds[cheapest_first]
        if not self._is_affordable(vectors, trial_bound):
            return None
        run = self._bound_tiles(trial_bound, vectors, margin, self._max_tiles(margin))
        if run is None:
            return None
        (reached, _, of_vectors, tiles), interrupted_at = run
        lower_bounds = np.maximum(bounds, of_vectors)
        tiles[:, COST] = np.maximum(tiles[:, COST], bounds[tiles[:, VECTOR]])
        complete_to = reached
        if interrupted_at is not None:
            self._enumerations.too_many = len(vectors)
            complete_to = min(reached, int(bounds[interrupted_at]) - 1)
            tiles = tiles[tiles[:, COST] <= complete_to]
            lower_bounds[bounds > complete_to] = INFINITE_COST
        known = self._enumerations.known
        if known is None or known.trial_bound < complete_to:
            self._enumerations.known = TileEnumeration(complete_to, vectors, lower_bounds, tiles)
        return self._enumerations.known if complete_to == reached else None

    def _is_affordable(self, vectors: Ints, trial_bound: int) -> bool:
        """Whether tiles of so many vectors are enumerated: bounds of tiles do not hold for uneven residency, and where
        only latency counts, close to that of the array's work, they say little.
        """
        is_even = not self.spatial_bounds.arch.uneven_residency
        is_close = not self.spatial_bounds.objective.weights[1] and trial_bound <= self._least_worth_bounding
        return self.is_enabled and is_even and not is_close and 0 < len(vectors) < self._enumerations.too_many / 2

    @property
    def _least_worth_bounding(self) -> float:
        """Return the trial bound from which on tiles are enumerated where only latency counts."""
        return (self.spatial_bounds.lower_bound or 0) * (1 + self.parameters.busy_tiles)

    def _bound_tiles(
        self, trial_bound: int, vectors: Ints, margin: int, allowed: int
    ) -> tuple[TileEnumeration, int | None] | None:
        """Enumerate the tiles of some vectors; None if `is_over` says so.

        Also return the vector at which more tiles than `allowed` were bounded, None if there is none.
        """
        parameters, spatial_bounds = self.parameters, self.spatial_bounds
        costs, kinds = self.figures.with_vectors(vectors)
        # Not zeros: clearing so many rows for a few took as long as bounding the tiles.
        found, least = np.empty((parameters.kept_tiles, 18), np.int64), np.full(len(vectors), INFINITE_COST)
        cycles = spatial_bounds.min_latency(vectors, vectors[:, IN_PE][:, [Tensor.I, Tensor.W]].max(axis=1) > 0)
        goal, dram_loops = self._trial_objective(trial_bound), self.dram_loops
        is_aligned = spatial_bounds.restriction.subspace.is_aligned
        enumerate_until = partial(
            enumerate_tiles, costs, dram_loops, goal, vectors, kinds, cycles, is_aligned, allowed, margin, found, least
        )
        done, number, bounded, goal = call_watched(enumerate_until, self.is_over)
        self.on_enumerated(bounded)
        if self.is_over():
            return None
        enumeration = TileEnumeration(goal.trial_bound, vectors, least, found[:number].copy())
        return enumeration, done if done < len(vectors) else None

    def _max_tiles(self, margin: int) -> int:
        """Return how many tiles, and sets of tiles, one enumeration may bound."""
        parameters = self.parameters
        if self.is_tight:
            return parameters.hard_tiles
        if not self._is_worth_many:
            return parameters.tiles_latency
        return parameters.bound_tiles if margin else parameters.trial_tiles

    def _trial_objective(self, trial_bound: int) -> TrialObjective:
        """Return the objective in the kernels' form: weights, the energy of all MACs, and the trial bound."""
        spatial_bounds = self.spatial_bounds
        cycle_weight, fj_weight = spatial_bounds.objective.weights
        macs_fj = spatial_bounds.layer.macs * spatial_bounds.machine.mac_fj
        return TrialObjective(cycle_weight, fj_weight, fj_weight * macs_fj, trial_bound)

    @property
    def dram_loops(self) -> DramLoopBounds:
        """Lower bounds on what the DRAM's loops cost where tensors are row-aligned (B13); none for too many extents."""
        if self._dram_loops is None:
            spatial_bounds, costs = self.spatial_bounds, self.figures.fixed
            is_aligned = spatial_bounds.restriction.subspace.is_aligned
            if not is_aligned or costs.layer["counts"].prod() > self.parameters.dram_extents:
                return no_dram_loop_bounds()
            windows = np.zeros((0, 9), np.int64)
            if self.is_tight:
                width, room = spatial_bounds.layer.input_bytes, costs.layer["capacity"][0, Level.ROW_BUFFER, Tensor.I]
                windows = window_rows(spatial_bounds.shape, width, spatial_bounds.restriction.dram(Tensor.I), int(room))
            self._dram_loops = dram_loop_bounds(costs, spatial_bounds.machine.dram, windows)
        return self._dram_loops
