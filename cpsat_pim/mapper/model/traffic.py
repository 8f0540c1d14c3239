"""Tiles, capacities and access energy as CP-SAT expressions: all traffic is a fixed size times a reuse factor."""

import itertools
import math
from collections.abc import Callable, Sequence

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import access_energies_fj, tile_width, to_machine
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.variables import Variables
from cpsat_pim.mapping import Stored
from tables.bounds.spatial import (
    Energies,
    Sharing,
    Terms,
    array_tiles_span,
    energy_terms,
    input_tiles_span,
    step_points,
)
from tables.dram import block_counts
from tables.factors import divisors
from tables.nest import FILTER_OF, MACS
from tables.nest import span as span_of

#: A quantity: coefficient times variable.
Quantity = tuple[int, Int]


class Traffic:
    """`tile[m, t]`: elements of t's tile at level m. `energy[t]`: access energy in fJ.

    `moved[t][name]`: quantities of elements, named as in `tables.bounds.spatial.energy_terms`.
    """

    def __init__(self, v: Variables, reuse: Reuse) -> None:
        self.v, self.b, self.reuse = v, v.b, reuse
        self.energies = Energies(access_energies_fj(v.arch), Sharing(v.arch.multicast, v.arch.spatial_reduction))
        self.elements = [v.layer.elements(t) for t in Tensor]
        self.levels = [Level.PE, Level.GLOBAL_BUFFER] + ([Level.ROW_BUFFER] if v.has_row_buffer_loops else [])
        self._input_spans()
        self._tiles()
        self._tiles_fit()
        self._tensors_fit_dram()
        self.moved = [self._moved_inputs(), self._moved_weights(), self._moved_outputs()]
        self.energy = [self._energy(t) for t in Tensor]

    def _input_spans(self) -> None:
        """Eq. 2, 3: look up I's span, and the sum of spans over all tiles, per level and axis."""
        self.span: dict[tuple[int, Dim], Int] = {}
        self.span_sum: dict[tuple[int, Dim], Int] = {}
        for level, axis in itertools.product(self.levels, (Dim.P, Dim.Q)):
            extents, filters = self.v.tile[level][Tensor.I], Dim(FILTER_OF[axis])
            stride, dilation = (s[0 if axis is Dim.P else 1] for s in (self.v.layer.stride, self.v.layer.dilation))
            rows = [
                (p, r, span_of(p, r, stride, dilation), input_tiles_span(self.v.shape, axis, p, r))
                for p in self.b.values(extents[axis])
                for r in self.b.values(extents[filters])
            ]
            names = (f"span{level}_{axis.name}", f"spans{level}_{axis.name}")
            self.span[level, axis], self.span_sum[level, axis] = self.b.lookup(
                [extents[axis], extents[filters]], rows, names
            )

    def _tiles(self) -> None:
        """Eq. 22: make the elements of each tile; those of W and O are products of class extents."""
        self.tile: dict[tuple[int, int], Int] = {}
        for level in self.levels:
            area = self.b.product([self.span[level, Dim.P], self.span[level, Dim.Q]], f"area{level}")
            depth = [self.v.tile[level][Tensor.I][d] for d in (Dim.C, Dim.N, Dim.G)]
            self.tile[level, Tensor.I] = self.b.product([area, *depth], f"tile{level}_I")
            for t in (Tensor.W, Tensor.O):
                classes = [x for c, x in enumerate(self.v.class_tile[level][t]) if c != t]
                self.tile[level, t] = self.b.product(classes, f"tile{level}_{t.name}")

    def _tiles_fit(self) -> None:
        """Eq. 17: the tiles that a level stores fit its usable capacity together, or each its own buffer.

        Blocks of outputs that come back to the row buffer have the width of partial sums.
        """
        for level in self.levels:
            capacity = self.v.arch.usable_bytes(level)
            used = []
            for t in Tensor:
                stored = self.v.stored(level, t)
                if stored is False:
                    continue
                share = self.b.interval(0, self.v.arch.usable_bytes_of(Level(level), t), f"used{level}_{t.name}")
                width = tile_width(self.v.layer, level, t)
                self.b.imply([stored], share >= self.tile[level, t] * width)
                if t is Tensor.O and level is Level.ROW_BUFFER and self.v.layer.psum_bytes > width:
                    returns = self.b.at_least_two(self.reuse.factors[t][level], "blocks_return")
                    self.b.imply([stored, returns], share >= self.tile[level, t] * self.v.layer.psum_bytes)
                used.append(share)
            if used and self.v.arch.hierarchy[level].is_shared:
                self.b.model.add(sum(used) <= capacity)

    def _tensors_fit_dram(self) -> None:
        """The tensors fit the DRAM together. Row-aligned ones take whole rows, W and O as many as their blocks fill.

        Every other tensor takes at least its size; whole rows where it shares a bank. Each part fits its banks.
        """
        level, arch, b = Level.ROW_BUFFER, self.v.arch, self.b
        used: list[Int] = []
        for t in Tensor:
            size, aligned = self.elements[t] * self.v.layer.width_bytes[t], self.v.first_consumer(level, t)
            whole = -(-size // arch.row_bytes) * arch.row_bytes
            if aligned is False:
                used.append(whole if self.v.restriction.is_shared(t) else size)
                continue
            if t is Tensor.I:  # its blocks are smaller than its tile
                used.append(b.interval(size, whole, f"dram_bytes_{t.name}"))
                b.imply([aligned], used[-1] >= whole)
                continue
            rows = [(n, self._block_rows(t, n) * arch.row_bytes) for n in divisors(self.elements[t])]
            used.append(b.interval(size, max(taken for _, taken in rows), f"dram_bytes_{t.name}"))
            b.imply([aligned], used[-1] >= b.lookup([self.tile[level, t]], rows, [f"dram_rows_{t.name}"])[0])
        b.imply([], sum(used) <= arch.hierarchy[Level.DRAM].capacity_bytes)
        for t in Tensor:
            room = self.v.restriction.part_bytes(t)
            if room is not None:
                b.imply([], sum(used[u] for u in self.v.restriction.part(t)) <= room)

    def _block_rows(self, t: Tensor, tile: int) -> int:
        """Return the DRAM rows that W or O takes in blocks of `tile` elements."""
        size, width = self.elements[t], self.v.layer.width_bytes[t]
        return block_counts(size // tile, tile * width, to_machine(self.v.arch).dram)[1]

    def _moved_inputs(self) -> dict[str, Quantity]:
        """Make the quantities of I: sums of spans over all tiles times the reuse factors."""
        v, b, reuse = self.v, self.b, self.reuse.factors[Tensor.I]
        rest = math.prod(v.bounds[d] for d in (Dim.C, Dim.N, Dim.G))
        moved: dict[str, Quantity] = {}
        for level in self.levels[1:]:
            sums = [self.span_sum[level, Dim.P], self.span_sum[level, Dim.Q]]
            moved[f"moved{level}"] = (rest, b.product([b.product(sums, f"halo{level}"), reuse[level]], f"I{level}"))
        boxes = b.product([self.span_sum[Level.PE, Dim.P], self.span_sum[Level.PE, Dim.Q]], "halo0")
        moved["fills"] = (rest, b.product([boxes, reuse[Level.PE], v.pes[Dim.K]], "fills_I"))
        arrays = b.product([self._array_spans(a) for a in (Dim.P, Dim.Q)], "haloA")
        moved["moved0"] = (rest, b.product([arrays, reuse[Level.PE]], "I0"))
        points = b.product([self._step_points(a) for a in (Dim.P, Dim.Q)], "points")
        moved["uses"] = (rest, b.product([points, reuse[MACS]], "uses_I"))
        return moved

    def _array_spans(self, axis: Dim) -> Int:
        """Return the sum over array tiles of the positions that their PEs' boxes cover along an axis."""
        v, b, filters = self.v, self.b, Dim(FILTER_OF[axis])
        rows = [
            (*p, *r, array_tiles_span(v.shape, axis, *p, *r)) for p in self._boxes(axis) for r in self._boxes(filters)
        ]
        keys = [x for d in (axis, filters) for x in (v.tile[Level.PE][Tensor.I][d], v.e0[d], v.pes[d])]
        return b.lookup(keys, rows, [f"arrays_{axis.name}"])[0]

    def _boxes(self, d: Dim) -> list[tuple[int, int, int]]:
        """Return the possible triples along a dim: extent of a PE's tile of I, distance of the PEs, number of PEs."""
        v, b, tile = self.v, self.b, self.v.tile[Level.PE][Tensor.I][d]
        parts = set(b.values(v.lanes[d])) if tile is not v.e0[d] else set()
        return [
            (held, e0, pes)
            for e0, pes in _pairs(b.values(v.e0[d]), b.values(v.pes[d]), v.bounds[d])
            for held in parts | {e0}
            if e0 % held == 0
        ]

    def _step_points(self, axis: Dim) -> Int:
        """Return the sum over steps of the distinct positions along an axis that the MACs use."""
        v, b, filters = self.v, self.b, Dim(FILTER_OF[axis])
        rows = [
            (l_p, p, n_p, l_r, r, n_r, step_points(v.shape, axis, l_p, p, n_p, l_r, r, n_r))
            for l_p, p, n_p in self._lane_triples(axis)
            for l_r, r, n_r in self._lane_triples(filters)
        ]
        keys = [x for d in (axis, filters) for x in (v.lanes[d], v.e0[d], v.pes[d])]
        return b.lookup(keys, rows, [f"points_{axis.name}"])[0]

    def _lane_triples(self, d: Dim) -> list[tuple[int, int, int]]:
        """Return the possible triples along a dim: lanes, distance of the PEs, number of PEs."""
        v, b = self.v, self.b
        exclusive = v.arch.pe_array.exclusive_spatial
        return [
            (lanes, e0, pes)
            for e0, pes in _pairs(b.values(v.e0[d]), b.values(v.pes[d]), v.bounds[d])
            for lanes in b.values(v.lanes[d])
            if e0 % lanes == 0 and not (exclusive and lanes > 1 and pes > 1)
        ]

    def _moved_weights(self) -> dict[str, Quantity]:
        """Make the quantities of W."""
        v, reuse, size = self.v, self.reuse.factors[Tensor.W], self.elements[Tensor.W]
        moved = {f"moved{c}": (size, reuse[c]) for c in self.levels}
        within = v.class_divisors[Tensor.W]
        copies = self.b.product([reuse[Level.PE], v.class_pes[Tensor.W]], "fills_W", within)
        return moved | {"fills": (size, copies), "uses": (size, reuse[MACS])}

    def _moved_outputs(self) -> dict[str, Quantity]:
        """Make the quantities of O."""
        v, reuse, size = self.v, self.reuse.factors[Tensor.O], self.elements[Tensor.O]
        within, holders = v.class_divisors[Tensor.O], v.class_pes[Tensor.O]
        moved = {f"moved{c}": (size, reuse[c]) for c in self.levels}
        return moved | {
            "held": (size, self.b.product([reuse[Level.PE], holders], "held", within)),
            "holders": (size, holders),
            "sums": (size, self.b.product([reuse[MACS], holders], "sums", within)),
            "uses": (size, reuse[MACS]),
            "one": (size, 1),
        }

    def _energy(self, t: Tensor) -> Int:
        """Eq. 43: the access energy of a tensor is that under the set of levels which stores it."""
        return self.at_least_terms(t, lambda stored: energy_terms(t, stored, self.energies), 1, f"energy_{t.name}")

    def at_least_terms(self, t: Tensor, terms_of: Callable[[Stored], Terms], scale: int, name: str) -> Int:
        """Return a variable that is at least `scale` times the terms of the set of levels which stores t."""
        quantities = {**self.moved[t], "macs": (self.v.layer.macs, 1)}
        options: list[tuple[Lit, list[Quantity]]] = []
        for stored, literal in self.v.is_stored_set[t].items():
            terms = terms_of(stored).items()
            options.append((literal, [(scale * c * quantities[q][0], quantities[q][1]) for q, c in terms]))
        low = min(sum(c * self.b.bounds_of(x)[0 if c > 0 else 1] for c, x in terms) for _, terms in options)
        high = max(sum(c * self.b.bounds_of(x)[1 if c > 0 else 0] for c, x in terms) for _, terms in options)
        total = self.b.interval(max(low, 0), max(high, 0), name)
        for literal, found in options:
            if found:
                self.b.imply([literal], total >= sum(c * x for c, x in found))
        return total


def _pairs(inner: Sequence[int], outer: Sequence[int], bound: int) -> list[tuple[int, int]]:
    """Return the pairs of values whose product divides the bound."""
    return [(x, y) for x in inner for y in outer if bound % (x * y) == 0]
