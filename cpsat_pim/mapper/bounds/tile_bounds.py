"""Lower bounds per spatial mapping and tiles of both on-chip levels: `tables.bounds.tiles` for a layer on a machine."""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import access_energies_fj, rate, tile_width
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import has_known_boxes, least_columns, least_rows
from cpsat_pim.mapper.space.candidates import COST, IN_PE, INSIDE_BUFFER, INSIDE_PE, LANES, PES, VECTOR, Candidates
from tables.bounds.layer import BOX_COLUMNS, INFINITE_COST, LAYER, QUANTITIES, TileCosts
from tables.bounds.outer_loops import DramLoopBounds, dram_loop_bounds, no_dram_loop_bounds
from tables.bounds.shapes import ShapeTable
from tables.bounds.spatial import (
    Energies,
    Sharing,
    Stored,
    Terms,
    access_terms,
    array_tiles_span,
    crossing_terms,
    energy_terms,
    needed_elements,
    step_points,
)
from tables.bounds.tile_bounds import TrialObjective
from tables.bounds.tiles import enumerate_tiles
from tables.bounds.windows import window_rows
from tables.dram import last_run, last_run_excess
from tables.factors import divisors
from tables.nest import FILTER_OF, Ints, P, Q

#: Tiles, and sets of tiles, that are looked at for the least (fewer where nothing but time counts, for of those that
#: keep the array busy too many are alike), for a target, of which are kept, and of which a program is told one by one.
_MOST_LOOKED, _MOST_TIMED, _MOST_AT_TARGET, _MOST_KEPT, _MOST_TOLD = 30_000_000, 4_000_000, 4_000_000, 200_000, 30_000
#: Tiles, and sets of tiles, of a hard layer that are looked at.
_MOST_THOROUGH = 12_000_000
#: Extents inside the DRAM's loops up to which it is known what these cost.
_MOST_BLOCKS = 200_000
#: Tiles of which a first mapping is made.
_MOST_TRIED = 50
#: Looking for the least, one part of so many above it is looked at, too.
_MARGIN = 32
#: Vectors, and tiles, between two looks at the clock, more or less.
_AT_A_TIME, _TILES_AT_A_TIME = 16, 200_000


class Looked(NamedTuple):
    """All tiles that can cost at most a target, and what there are of vectors and their least (`Candidates`)."""

    target: int
    vectors: Ints
    least: Ints
    tiles: Ints


class Looks:
    """What was found of tiles, and the fewest vectors of which there were too many to look at; parts of the space that
    have the same tiles share it.
    """

    def __init__(self) -> None:
        self.known: Looked | None = None
        self.too_many: float = math.inf


class TileBounds:
    """What a screen leaves, with tiles. `looks`: what was found before; `has_looked` is told how many tiles, and sets
    of them, were looked at.
    """

    def __init__(
        self,
        spatial_bounds: SpatialBounds,
        tables: list[ShapeTable],
        looks: Looks | None = None,
        has_looked: Callable[[int], None] = lambda tiles: None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.spatial_bounds, self.tables, self.has_looked, self.is_over = spatial_bounds, tables, has_looked, is_over
        #: Whether tiles are looked at. Where nothing but time counts that is worth its time for hard layers only.
        self.is_on = spatial_bounds.objective.weights[1] > 0
        #: Whether it is worth its time to count rows of windows, too.
        self.is_thorough = False
        self._outer: DramLoopBounds | None = None
        self.most_looked = _MOST_LOOKED if self.is_on else _MOST_TIMED
        self._looks = looks or Looks()

    def look_closer(self) -> None:
        """Look at tiles whatever the objective, and as closely as can be."""
        self.is_on = self.is_thorough = True
        if self.spatial_bounds.restriction.subspace.is_aligned:
            self._outer = None
            self._looks.known = None

    def candidates(self, target: int) -> Candidates:
        """What can cost at most a target."""
        known = self._looks.known
        if known is None or known.target < target:
            vectors, values = self.spatial_bounds.candidates(target)
            known = self.look(target, vectors, values)
            if known is None:
                return Candidates(vectors, values, None)
        return self._known(known, target)

    def look_up_to(self, target: int) -> None:
        """Look at all tiles up to a target, or as far as that is worth its time."""
        known = self._looks.known
        if known is None or known.target < target:
            self.look(target, *self.spatial_bounds.candidates(target))

    def target_beyond(self, least: int, tiles: int) -> int | None:
        """A target above a bound for which tiles are known: for so many of them more."""
        known = self._looks.known
        if known is None or known.target <= least or not len(known.tiles):
            return None
        bounds = np.sort(known.tiles[:, COST])
        last = int(np.searchsorted(bounds, least, "right")) + tiles
        return int(bounds[last]) if last < len(bounds) else known.target

    def cheapest(self) -> Candidates | None:
        """Some of what is known to cost least, if tiles were looked at."""
        known = self._looks.known
        if known is None or not len(known.tiles):
            return None
        least = np.partition(known.tiles[:, COST], min(_MOST_TRIED, len(known.tiles)) - 1)[:_MOST_TRIED].max()
        some = known.tiles[known.tiles[:, COST] <= least][:_MOST_TRIED]
        kept = np.isin(np.arange(len(known.vectors)), some[:, VECTOR])
        return Candidates(known.vectors[kept], known.least[kept], self._told(known.vectors, kept, some))

    def _known(self, known: Looked, target: int) -> Candidates:
        """Of what was looked at, what can cost at most a target."""
        kept = known.least <= target
        tiles = known.tiles[known.tiles[:, COST] <= target]
        return Candidates(known.vectors[kept], known.least[kept], self._told(known.vectors, kept, tiles))

    def least(self, target: int) -> int | None:
        """The least that any tiles cost, if at most a target, else above it; None if that takes too long to tell."""
        known = self._looks.known
        if known is None or (known.target < target and not len(known.tiles)):
            self.look(target, *self.spatial_bounds.candidates(target), margin=_MARGIN)
            known = self._looks.known
        return None if known is None else int(known.least.min(initial=known.target + 1))

    def look(self, target: int, vectors: Ints, values: Ints, margin: int = 0) -> Looked | None:
        """Look at all tiles of some vectors; None if these are too many, and then those are known that cost less than
        the next one could. See `enumerate_tiles` for the margin.
        """
        cheapest_first = np.argsort(values, kind="stable")
        vectors, values = vectors[cheapest_first], values[cheapest_first]
        spatial_bounds, weight = self.spatial_bounds, self.spatial_bounds.objective.weights[1]
        if not self.is_on or spatial_bounds.arch.uneven_residency or not 0 < len(vectors) < self._looks.too_many / 2:
            return None
        points, kinds = self._positions(vectors)
        costs, outer = self._fixed._replace(points=points[0], arrays=points[1]), self.outer
        found, least = np.zeros((_MOST_KEPT, 18), np.int64), np.full(len(vectors), INFINITE_COST)
        cycles = spatial_bounds.least_latency(vectors, vectors[:, IN_PE][:, [Tensor.I, Tensor.W]].max(axis=1) > 0)
        goal = TrialObjective(
            *spatial_bounds.objective.weights,
            weight * spatial_bounds.layer.macs * spatial_bounds.machine.mac_fj,
            target,
        )
        is_aligned = spatial_bounds.restriction.subspace.is_aligned
        number, looked, begin, last, at_a_time = 0, 0, 0, 0, 1
        allowed = _MOST_THOROUGH if self.is_thorough else self.most_looked if margin else _MOST_AT_TARGET
        while begin < len(vectors) and looked <= allowed and number <= _MOST_KEPT:
            if self.is_over():
                return None
            end = min(begin + at_a_time, len(vectors))
            left = allowed - looked
            last = begin
            number, more, goal = enumerate_tiles(
                costs, outer, goal, vectors, kinds, cycles, is_aligned, begin, end, left, margin, number, found, least
            )
            looked, begin = looked + more, end
            at_a_time = min(2 * at_a_time, _AT_A_TIME) if more < _TILES_AT_A_TIME else max(1, at_a_time // 2)
            self.has_looked(more)
        tiles, least, reached = found[:number].copy(), np.maximum(values, least), goal.target
        tiles[:, COST] = np.maximum(tiles[:, COST], values[tiles[:, VECTOR]])
        if looked > allowed or number > _MOST_KEPT:  # below what the next vectors cost at least all are known
            self._looks.too_many = len(vectors)
            reached = min(reached, int(values[last]) - 1)
            tiles = tiles[tiles[:, COST] <= reached]
            least[values > reached] = INFINITE_COST
        known = self._looks.known
        if known is None or known.target < reached:
            self._looks.known = Looked(reached, vectors, least, tiles)
        return self._looks.known if reached == goal.target else None

    def _told(self, vectors: Ints, kept: np.ndarray, tiles: Ints) -> Ints | None:
        """Tiles of the vectors that are kept, unless they are too many.

        Where PEs store nothing it does not matter which of the inner two levels has a loop: all ways to have it.
        """
        if len(tiles) > _MOST_TOLD:
            return None
        rows, place = [], np.cumsum(kept) - 1
        for tile in tiles.tolist():
            vector, own, buffered = vectors[tile[VECTOR]].tolist(), tile[INSIDE_PE], tile[INSIDE_BUFFER]
            inner = [[n] for n in own]
            if not any(vector[IN_PE]):
                inner[Dim.C :] = [
                    [own[d] * n for n in divisors(buffered[d] // (own[d] * vector[d]))] for d in range(Dim.C, len(Dim))
                ]
            rows += [[place[tile[VECTOR]], *e0, *buffered, tile[COST]] for e0 in itertools.product(*inner)]
            if len(rows) > _MOST_TOLD:
                return None
        return np.array(rows, np.int64).reshape(len(rows), 18)

    # --- The layer's figures -----------------------------------------------------------------------------------------

    @property
    def outer(self) -> DramLoopBounds:
        """What the DRAM's loops cost at least where tensors are row-aligned."""
        if self._outer is None:
            spatial_bounds, costs = self.spatial_bounds, self._fixed
            if not spatial_bounds.restriction.subspace.is_aligned or costs.layer["counts"].prod() > _MOST_BLOCKS:
                return no_dram_loop_bounds()
            windows = np.zeros((0, 9), np.int64)
            if self.is_thorough:
                width, capacity = spatial_bounds.layer.input_bytes, int(costs.layer["capacity"][0, Level.ROW_BUFFER])
                windows = window_rows(spatial_bounds.shape, width, spatial_bounds.machine.dram, capacity)
            self._outer = dram_loop_bounds(costs, spatial_bounds.machine.dram, windows)
        return self._outer

    @cached_property
    def _fixed(self) -> TileCosts:
        """All but what depends on the vectors."""
        spatial_bounds, layer, arch = self.spatial_bounds, self.spatial_bounds.layer, self.spatial_bounds.arch
        bounds, nothing = np.array(layer.bounds), np.zeros((2, 0, 0, 0), np.int64)
        choices = [divisors(n) for n in layer.bounds]
        counts = np.array([len(found) for found in choices])
        table, places = np.ones((8, counts.max()), np.int64), np.zeros((8, bounds.max() + 1), np.int64)
        for d, found in enumerate(choices):
            table[d, : len(found)], places[d, found] = found, range(len(found))
        coefficients, is_offered, paces = self._figures()
        boxes, strides = self._boxes(counts)
        dram = spatial_bounds.machine.dram
        timings = (dram.tCCD, arch.dram_activation_latency, last_run_excess(dram), int(last_run(1, dram)))
        figures = {
            "bounds": bounds,
            "stride": layer.stride,
            "dilation": layer.dilation,
            "counts": counts,
            "resources": len(paces),
            "is_offered": is_offered,
            "strides": strides,
            "dram": [*timings, spatial_bounds.machine.pipeline_latency, dram.column_bytes],
            "min_rows": [least_rows(layer, arch, t) for t in Tensor],
            "min_columns": [least_columns(layer, arch, t) for t in Tensor],
            "activation_fj": spatial_bounds.machine.activation_fj,
            "capacity": [arch.usable_bytes(m) for m in BUFFERS],
            "widths": [[*(tile_width(layer, m, t) for m in BUFFERS), self._least_width(t)] for t in Tensor],
            "needed": [needed_elements(spatial_bounds.shape, t) for t in Tensor],
            "depth": bounds[[Dim.C, Dim.N, Dim.G]].prod(),
        }
        record = np.zeros(1, LAYER)
        for name, value in figures.items():
            record[name] = value
        record["coefficients"][0, : len(paces)], record["rates"][0, : len(paces)] = coefficients, paces
        return TileCosts(record, table, places, nothing, nothing, boxes)

    def _figures(self) -> tuple[Ints, np.ndarray, Ints]:
        """Energy and bytes on ports per quantity, tensor and levels that store it, which of these sets there are, and
        the ports' paces (`tables.bounds.layer.LAYER`).
        """
        layer, arch, restriction = self.spatial_bounds.layer, self.spatial_bounds.arch, self.spatial_bounds.restriction
        sharing = Sharing(arch.multicast, arch.spatial_reduction)
        energies = Energies(access_energies_fj(arch), sharing)
        ports = list(self._ports()) if self.spatial_bounds.objective.weights[0] else []
        coefficients = np.zeros((1 + len(ports), 3, 2, 4, len(QUANTITIES)), np.int64)
        is_offered = np.zeros((3, 2, 4), np.bool_)
        for t in Tensor:
            for stored in itertools.product(*(restriction.storing_choices(m, t) for m in BUFFERS)):
                if stored[Level.ROW_BUFFER] and not restriction.subspace.is_aligned:
                    continue
                kept, at = (stored[0], stored[1], stored[2]), (int(t), int(stored[0]), 2 * stored[1] + stored[2])
                is_offered[at] = True
                figures = [(1, energy_terms(t, kept, energies))]
                figures += [(tile_width(layer, level, t), terms(t, kept, sharing)) for level, terms, _ in ports]
                for f, (scale, found) in enumerate(figures):
                    for name, count in found.items():
                        coefficients[(f, *at)][QUANTITIES.index(name)] = scale * count
        return coefficients, is_offered, np.array([(1, 1, 1, 0), *(pace for *_, pace in ports)])

    def _ports(self) -> Iterator[tuple[Level, Callable[[int, Stored, Sharing], Terms], tuple[int, int, int, int]]]:
        """What bytes pass on the chip: the level whose widths they have, their quantities, and `rates` of
        `tables.bounds.layer.LAYER`.
        """
        arch = self.spatial_bounds.arch
        for level in ON_CHIP:
            memory = arch.hierarchy[level]
            for way, limit in enumerate((memory.read_bandwidth_limit, memory.write_bandwidth_limit)):
                pace = rate(limit)
                if pace[0]:

                    def accesses(t: int, kept: Stored, sharing: Sharing, at: tuple[int, int] = (level, way)) -> Terms:
                        return access_terms(t, kept, sharing).get(at, {})

                    yield level, accesses, (*pace, memory.ports, int(level is Level.PE))
        pace = rate(arch.pe_array.interconnect_bandwidth)
        if pace[0]:
            yield Level.PE, crossing_terms, (*pace, 1, 0)

    def _least_width(self, t: Tensor) -> int:
        """Bytes per element in DRAM, of outputs whether or not they are partial sums."""
        layer = self.spatial_bounds.layer
        return min(layer.output_bytes, layer.psum_bytes) if t is Tensor.O else layer.width_bytes[t]

    def _boxes(self, counts: Ints) -> tuple[Ints, Ints]:
        """Columns of the shape tables per tensor, layout and box, and how far apart boxes are along each dim.

        Of outputs that may come back in another width nothing is known.
        """
        layer = self.spatial_bounds.layer
        found = np.zeros((3, max(len(table.extents) for table in self.tables), 2, len(BOX_COLUMNS)), np.int64)
        strides = np.zeros((3, 8), np.int64)
        for t, table in zip(Tensor, self.tables, strict=True):
            if t is Tensor.O and layer.psum_bytes != layer.output_bytes:
                continue
            sizes = [int(counts[d]) for d in table.dims]
            boxes = int(np.prod(sizes, dtype=np.int64))
            strides[t, list(table.dims)] = [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]
            for i, name in enumerate(BOX_COLUMNS):
                column = getattr(table, name).reshape(-1, 2, boxes)
                if name not in ("box_activations", "swept_repeat_activations") or has_known_boxes(layer, t):
                    found[t, :boxes, :, i] = column.min(axis=0).T  # of strided scans, too
        return found.reshape(3, -1, 2 * len(BOX_COLUMNS)), strides

    def _positions(self, vectors: Ints) -> tuple[Ints, Ints]:
        """Positions of I along both axes that steps use and array tiles cover: int[2, 2, kinds, n, n] and int[n, 4]."""
        lanes, pes = vectors[:, LANES], vectors[:, PES]
        found, kinds = [], []
        for axis in (P, Q):
            columns = [x[:, d] for d in (axis, FILTER_OF[axis]) for x in (lanes, pes)]
            unique, kind = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
            found.append([self._positions_of(axis, *row) for row in unique.tolist()])
            kinds += [kind.ravel()] * 2
        most = max(map(len, found))
        n = self._fixed.divisors.shape[1]
        points = np.zeros((2, 2, most, n + 1, n + 1), np.int64)
        for side, of in enumerate(found):
            points[:, side, : len(of), :n, :n] = np.array(of).transpose(1, 0, 2, 3)
        points[..., n, n] = np.where(points > 0, points, INFINITE_COST).min(axis=(-2, -1))
        return points, np.column_stack(kinds)

    def _positions_of(self, axis: int, lanes_p: int, pes_p: int, lanes_r: int, pes_r: int) -> Ints:
        """The same of an axis for one kind of vector: int[2, n, n]."""
        shape, n = self.spatial_bounds.shape, self._fixed.divisors.shape[1]
        filters = FILTER_OF[axis]
        found = np.zeros((2, n, n), np.int64)
        for i, p in enumerate(divisors(shape.bounds[axis])):
            for j, r in enumerate(divisors(shape.bounds[filters])):
                e_p, e_r = p * lanes_p, r * lanes_r
                if shape.bounds[axis] % (e_p * pes_p) or shape.bounds[filters] % (e_r * pes_r):
                    continue
                found[0, i, j] = step_points(shape, axis, lanes_p, e_p, pes_p, lanes_r, e_r, pes_r)
                found[1, i, j] = array_tiles_span(shape, axis, e_p, e_p, pes_p, e_r, e_r, pes_r)
        return found
