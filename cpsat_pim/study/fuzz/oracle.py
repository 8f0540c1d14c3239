"""What is legal, and what input blocks, residency points and assignments to banks there are: the fuzzer's own rules.

Written from docs/model.md (sections 2, 3 and 5) and from nothing else: no rule, size or relevance is taken from the
search, from the validator or from `tables`. Tiles are spanned by the indices that their MACs have, and what returns
is found by walking the loops, so this is for tiny layers only.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture, SeparateEntries
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

#: Dims that select an element of I, W and O (section 1).
RELEVANT = ("RSPQCNG", "RSCKG", "PQKNG")
#: Levels that may store a tensor, innermost first; directions in which a dim may be spread.
_PE, _BUFFER, _ROW_BUFFER = range(3)
_H, _W, _LANES = range(3)


def is_relevant(d: int, t: int) -> bool:
    """Return whether a dim selects an element of a tensor."""
    return Dim(d).name in RELEVANT[t]


#: Any two tensors.
_PAIRS = ((0, 1), (0, 2), (1, 2))


def may_store(arch: PIMArchitecture, m: int, t: int) -> set[bool]:
    """Return what a level may do with a tensor: store it, let it pass, or either (section 2)."""
    memory = arch.hierarchy[m]
    if memory.bypass_defined:
        return {bool(memory.stores[t])}
    has_room = not isinstance(memory.entries, SeparateEntries) or memory.entries[Tensor(t)] > 0
    return {False, True} if memory.stores[t] and has_room else {False}


def bank_assignments(arch: PIMArchitecture) -> Iterator[tuple[int, int, int]]:
    """Yield all ways to put the three tensors into the node's banks, parts numbered as their tensors come."""
    for banks in ((0, 1, 2), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0)):
        if arch.node_banks is None:
            if banks == (0, 1, 2):
                yield banks
        elif max(banks) < arch.node_banks:
            yield banks


def bank_counts(arch: PIMArchitecture, banks: tuple[int, int, int]) -> Iterator[tuple[int, ...]]:
    """Yield all numbers of banks that the tensors can have under an assignment: powers of two, one in a shared bank."""
    there = arch.node_banks or len(set(banks))
    powers = [2**n for n in range(there.bit_length())]
    for counts in product(*(powers if banks.count(part) == 1 else [1] for part in banks)):
        if sum(dict(zip(banks, counts, strict=True)).values()) <= there:
            yield counts


def is_declared(arch: PIMArchitecture, mapping: Mapping, fixed: tuple[int, ...] | None) -> bool:
    """Return whether the declared space has a mapping's assignment to banks (section 8), where numbers of banks are
    `fixed` or, if that is None, chosen: it leaves out those of which another one divides the parts, with as many banks
    for each tensor. Those with fewer banks for the same parts are no better, so they are compared.
    """
    for banks in bank_assignments(arch):
        is_divided = all(mapping.banks[t] == mapping.banks[u] for t, u in _PAIRS if banks[t] == banks[u])
        for counts in bank_counts(arch, banks) if is_divided and banks != mapping.banks else ():
            if fixed in (None, counts) and all(n >= m for n, m in zip(counts, mapping.bank_counts, strict=True)):
                return False
    return True


def spread_fits(arch: PIMArchitecture, spatial: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether the array has the rows, columns and lanes, and each dim the directions that it may have."""
    array = arch.pe_array
    rooms = (array.array_shape.h, array.array_shape.w, array.compute_unit.num_macs)
    if any(math.prod(row) > room for row, room in zip(spatial, rooms, strict=True)):
        return False
    lanes_allow = all(n == 1 or Dim(d) in array.compute_unit.lane_dims for d, n in enumerate(spatial[_LANES]))
    is_split = any(sum(row[d] > 1 for row in spatial) > 1 for d in range(len(Dim)))
    return lanes_allow and not (array.exclusive_spatial and is_split)


def residency_points(order: tuple[Dim, ...], t: int) -> list[int]:
    """Return how many loops of a level may lie outside the tile of a tensor: none, or up to one that changes it."""
    return [0, *(k + 1 for k, d in enumerate(order) if is_relevant(d, t))]


def input_blocks(layer: ConvWorkload, mapping: Mapping) -> list[tuple[int, int]]:
    """Return the heights and widths that a block of a row-aligned I may have, for the tile in the row buffer."""
    rows = Legality(layer, None, mapping)
    sides = []
    for axis, output, filters in ((1, Dim.Q, Dim.S), (0, Dim.P, Dim.R)):
        tile = rows.span(axis, rows.extent(_ROW_BUFFER, output), rows.extent(_ROW_BUFFER, filters))
        whole = rows.span(axis, layer.bounds[output], layer.bounds[filters])
        outputs = rows.extent(_ROW_BUFFER, output)
        steps = {layer.stride[axis] * n for n in range(1, outputs + 1) if outputs % n == 0}
        divisors = {n for n in range(1, whole + 1) if whole % n == 0}
        sides.append(sorted(n for n in steps | divisors | {tile} if n <= tile))
    heights, widths = sides
    return list(product(heights, widths))


@frozen
class Legality:
    """The rules of sections 3 and 5 for one mapping, whose factors, orders and points are well-formed."""

    layer: ConvWorkload
    arch: PIMArchitecture | None
    mapping: Mapping

    def is_legal(self) -> bool:
        """Return whether all rules hold."""
        return self.drawn_as_neighbours() and self.scans_are_regular() and self.rows_are_own() and self.all_fits()

    def is_in_space(self) -> bool:
        """Return whether the mapping is one that the enumeration yields."""
        assert self.arch is not None
        mapping = self.mapping
        stores = all(mapping.stored[m][t] in may_store(self.arch, m, t) for m, t in product(range(3), range(3)))
        is_aligned = mapping.stored[_ROW_BUFFER][Tensor.I]
        blocks = input_blocks(self.layer, mapping) if is_aligned else [(0, 0)]
        return (
            stores
            and mapping.banks in bank_assignments(self.arch)
            and mapping.bank_counts in bank_counts(self.arch, mapping.banks)
            and spread_fits(self.arch, mapping.spatial)
            and (mapping.block_h, mapping.block_w) in blocks
            and self.points_are_possible()
            and self.is_legal()
        )

    def points_are_possible(self) -> bool:
        """Return whether only tiles that a level stores are uneven, on a machine that has such tiles."""
        assert self.arch is not None
        for m, t in product((_PE, _BUFFER), range(3)):
            point, is_stored = self.mapping.outside[m][t], self.mapping.stored[m][t]
            allowed = residency_points(self.mapping.order[m], t) if is_stored and self.arch.uneven_residency else [0]
            if point not in allowed:
                return False
        return True

    # -- sizes --------------------------------------------------------------------------------------------------

    def extent(self, m: int, d: int, t: int | None = None) -> int:
        """Return how many indices of a dim the tile of a level spans; of a tensor, without loops outside its tile."""
        inner = [self.mapping.temporal[k][d] for k in range(m)] + [self.mapping.spatial[_LANES][d]]
        if m > _PE:
            inner += [self.mapping.spatial[_H][d], self.mapping.spatial[_W][d]]
        left_out = self.mapping.order[m][: self.mapping.outside[m][t]] if t is not None and m < _ROW_BUFFER else ()
        return math.prod(inner) * (1 if d in left_out else self.mapping.temporal[m][d])

    def span(self, axis: int, outputs: int, filters: int) -> int:
        """Return from the first to the last position of I that these outputs and filter positions touch."""
        last = self.layer.stride[axis] * (outputs - 1) + self.layer.dilation[axis] * (filters - 1)
        return last + 1

    def elements(self, m: int, t: int) -> int:
        """Return the elements of the box of a tensor that a level holds."""
        e = {Dim(d).name: self.extent(m, d, t) for d in range(len(Dim))}
        if t == Tensor.I:
            return e["N"] * e["G"] * e["C"] * self.span(1, e["Q"], e["S"]) * self.span(0, e["P"], e["R"])
        return math.prod(e[name] for name in RELEVANT[t])

    def width(self, m: int, t: int) -> int:
        """Return the bytes of an element: O on chip, or where sums return from DRAM, is a partial sum."""
        if t != Tensor.O:
            return (self.layer.input_bytes, self.layer.weight_bytes)[t]
        return self.layer.psum_bytes if m < _ROW_BUFFER or self.sums_return() else self.layer.output_bytes

    def sums_return(self) -> bool:
        """Return whether DRAM returns any partial sum: a tile of O comes again, or an output that nothing holds."""
        holders = [m for m in range(3) if self.mapping.stored[m][Tensor.O]]
        holder = holders[-1] if holders else -1
        loops = []
        for m in reversed(range(4)):
            order = self.mapping.order[m]
            if m == holder:
                order = order[: self.mapping.outside[m][Tensor.O]] if m < _ROW_BUFFER else ()
            if m >= holder:
                loops += [(is_relevant(d, Tensor.O), self.mapping.temporal[m][d]) for d in order]
        if holders:
            return _comes_again(tuple(loops), held=True)
        copies = math.prod(row[d] for row in self.mapping.spatial for d in (Dim.R, Dim.S, Dim.C))
        assert self.arch is not None
        return (copies > 1 and not self.arch.spatial_reduction) or _comes_again(tuple(loops), held=False)

    # -- rules --------------------------------------------------------------------------------------------------

    def pes(self, d: int) -> int:
        """Return over how many PEs a dim is spread."""
        return self.mapping.spatial[_H][d] * self.mapping.spatial[_W][d]

    def drawn_as_neighbours(self) -> bool:
        """What no buffer holds is drawn as neighbours: no loop of the PEs between the indices of different PEs."""
        for t in range(3):
            if self.mapping.stored[_BUFFER][t]:
                continue
            held, order = self.mapping.stored[_PE][t], self.mapping.order[_PE]
            loops = order[: self.mapping.outside[_PE][t]] if held else order
            if any(is_relevant(d, t) and self.pes(d) > 1 for d in loops):
                return False
        return True

    def scans_are_regular(self) -> bool:
        """What the DRAM gives of I to PEs or MACs is a box, or for 1x1 filters a grid."""
        pe, buffer, row_buffer = (self.mapping.stored[m][Tensor.I] for m in range(3))
        if buffer or row_buffer:
            return True
        if self.layer.R > 1 or self.layer.S > 1:
            steps = zip(self.layer.stride, self.layer.dilation, strict=True)
            axes = zip(steps, ((Dim.P, Dim.R), (Dim.Q, Dim.S)), strict=True)
            return pe and all(max(step) == 1 or self.pes(p) == self.pes(r) == 1 for step, (p, r) in axes)
        if pe and any(n > 1 for n in self.layer.stride):
            single = all(self.extent(_PE, d, Tensor.I) == 1 for d in (Dim.P, Dim.Q))
            return single or (self.pes(Dim.P) == 1 and self.pes(Dim.Q) == 1)
        return True

    def rows_are_own(self) -> bool:
        """The row buffer stores no tensor whose bank has another one."""
        banks = self.mapping.banks
        return all(not self.mapping.stored[_ROW_BUFFER][t] or banks.count(banks[t]) == 1 for t in range(3))

    def all_fits(self) -> bool:
        """Tiles fit their levels, tensors the DRAM and the banks."""
        assert self.arch is not None
        for m in range(3):
            sizes = {t: self.elements(m, t) * self.width(m, t) for t in range(3) if self.mapping.stored[m][t]}
            if not _level_has_room(self.arch, m, sizes):
                return False
        laid_out = [self.bytes_in_dram(t) for t in range(3)]
        dram = self.arch.hierarchy[Level.DRAM]
        assert not isinstance(dram.entries, SeparateEntries)  # all tensors share the DRAM
        room = dram.entries * dram.word_bytes
        if sum(laid_out) > room:
            return False
        parts = [sum(n for n, p in zip(laid_out, self.mapping.banks, strict=True) if p == part) for part in range(3)]
        counts = dict(zip(self.mapping.banks, self.mapping.bank_counts, strict=True))
        each = room // (self.arch.node_banks or 1)
        return self.arch.node_banks is None or all(parts[part] <= count * each for part, count in counts.items())

    def bytes_in_dram(self, t: int) -> int:
        """Return the bytes of a tensor in its layout: packed, in whole rows beside others, or in blocks."""
        assert self.arch is not None
        row, width, layer = self.arch.hierarchy[_ROW_BUFFER].row_buffer_size, self.width(Level.DRAM, t), self.layer
        names = [Dim(d).name for d in range(len(Dim)) if is_relevant(d, t)]
        whole = {name: layer.bounds[Dim[name]] for name in names}
        block = {name: self.extent(_ROW_BUFFER, Dim[name]) for name in names}
        if t == Tensor.I:
            for axes, axis, side in (("QS", 1, self.mapping.block_h), ("PR", 0, self.mapping.block_w)):
                whole[axes] = self.span(axis, whole.pop(axes[0]), whole.pop(axes[1]))
                del block[axes[0]], block[axes[1]]
                block[axes] = side
        if not self.mapping.stored[_ROW_BUFFER][t]:
            packed = math.prod(whole.values()) * width
            is_alone = self.mapping.banks.count(self.mapping.banks[t]) == 1
            return packed if is_alone else math.ceil(packed / row) * row
        blocks, size = math.prod(math.ceil(whole[a] / block[a]) for a in whole), math.prod(block.values()) * width
        return row * (math.ceil(blocks / (row // size)) if size <= row else blocks * math.ceil(size / row))


def _level_has_room(arch: PIMArchitecture, m: int, sizes: dict[int, int]) -> bool:
    """Return whether the tiles fit a level together, or each its own buffer; two slots leave half for each."""
    memory = arch.hierarchy[m]
    share = 2 if memory.double_buffered and m < _ROW_BUFFER else 1
    if isinstance(memory.entries, SeparateEntries):
        rooms = {t: memory.entries[Tensor(t)] * memory.word_bytes // share for t in sizes}
        return all(sizes[t] <= rooms[t] for t in sizes)
    return sum(sizes.values()) <= memory.entries * memory.word_bytes // share


@lru_cache(maxsize=4096)
def _comes_again(loops: tuple[tuple[bool, int], ...], held: bool) -> bool:
    """Return whether an identity comes again in a walk over loops (relevant or not, factor); if it is held, after
    another one.
    """
    seen: set[tuple[int, ...]] = set()
    last: tuple[int, ...] | None = None
    for digits in product(*(range(factor) for _, factor in loops)):
        identity = tuple(x for x, (relevant, _) in zip(digits, loops, strict=True) if relevant)
        if identity in seen and not (held and identity == last):
            return True
        seen.add(identity)
        last = identity
    return False
