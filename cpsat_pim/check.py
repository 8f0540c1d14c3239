"""The validator: is a mapping legal on a machine? Plain Python, no tables, no solver, arithmetic of its own.

The five checks of section 12.1 are factorization, buffer capacity, PE array fit, relevancy and loop ordering. Relevancy
is no property of one mapping: `box_elems` names the dims of each tensor, and its tests compare them with `RELEVANT`.
"""

import math
from collections.abc import Iterator

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.dims import BUFFERS, ON_CHIP, RELEVANT, Dim, Direction, Level, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.units import to_fj
from cpsat_pim.validate import LIMIT, is_integer
from cpsat_pim.workload import ConvWorkload

REDUCTIONS = (Dim.R, Dim.S, Dim.C)
DIRECTION_WORDS = {Direction.H: "H", Direction.W: "W", Direction.INTERNAL: "Internal"}


def check_mapping(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> list[str]:
    """One line per broken rule, in the words of the architecture; none for a legal mapping.

    A mapping that is not even well-formed is told so and not looked at any further.
    """
    return [*_Form(arch, mapping).violations()] or [*_Check(layer, arch, mapping).violations()]


def check_fits(layer: ConvWorkload, arch: PIMArchitecture) -> list[str]:
    """One line per reason why no mapping of the layer can exist on the machine or be counted; none if none is known."""
    rules = (_columns_hold_elements, _forced_tiles_fit, _layer_fits_dram, _energy_is_countable)
    return [line for rule in rules for line in rule(layer, arch)]


def used_bytes(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> tuple[dict[Tensor, int], ...]:
    """Bytes of each tensor that a level stores, PE..DRAM: its tile, in DRAM all of it as it is laid out."""
    check = _Check(layer, arch, mapping)
    tiles = [{t: check._tile_bytes(level, t) for t in Tensor if mapping.stored[level][t]} for level in BUFFERS]
    return (*tiles, {t: check._dram_bytes(t) for t in Tensor})


def box_elems(layer: ConvWorkload, extents: tuple[int, ...], tensor: Tensor) -> int:
    """Elements of the box of a tensor that such extents (one per dim) span; of I gaps included (Eq. 2, 3, 22)."""
    r, s, p, q, c, k, n, g = extents
    return {
        Tensor.I: n * g * c * input_height(layer, q, s) * input_width(layer, p, r),
        Tensor.W: g * k * c * s * r,
        Tensor.O: n * g * k * q * p,
    }[tensor]


def input_width(layer: ConvWorkload, outputs: int, filters: int) -> int:
    """Columns of I from the first to the last that so many columns of outputs and filter touch (Eq. 2)."""
    return layer.stride[0] * (outputs - 1) + layer.dilation[0] * (filters - 1) + 1


def input_height(layer: ConvWorkload, outputs: int, filters: int) -> int:
    """Rows of I from the first to the last that so many rows of outputs and filter touch (Eq. 3)."""
    return layer.stride[1] * (outputs - 1) + layer.dilation[1] * (filters - 1) + 1


# --- A well-formed mapping -------------------------------------------------------------------------------------------


@frozen
class _Form:
    """Whether a mapping's tables have their sizes and hold what they should: what the arithmetic below relies on."""

    arch: PIMArchitecture
    mapping: Mapping

    def violations(self) -> Iterator[str]:
        yield from self._factors_are_positive_integers()
        yield from self._orders_name_dims()
        yield from self._storage_is_boolean()
        yield from self._layouts_are_known()
        yield from self._blocks_are_integers()
        yield from self._points_are_in_the_orders()

    def _factors_are_positive_integers(self) -> Iterator[str]:
        """Four temporal and three spatial rows have one positive integer per dim (Eq. 12)."""
        levels = [level.name for level in self.arch.hierarchy]
        yield from _rows_have_factors("temporal", levels, self.mapping.temporal)
        yield from _rows_have_factors("spatial", [*DIRECTION_WORDS.values()], self.mapping.spatial)

    def _orders_name_dims(self) -> Iterator[str]:
        """There is an order per level, and it holds nothing but dims."""
        if len(self.mapping.order) != len(Level):
            yield f"order: must have {len(Level)} levels (got {len(self.mapping.order)})"
        for level, order in zip(self.arch.hierarchy, self.mapping.order, strict=False):
            for entry in order:
                if not is_integer(entry) or not 0 <= entry < len(Dim):
                    yield f"{level.name}: the order must name dims (got {entry!r})"

    def _storage_is_boolean(self) -> Iterator[str]:
        """The levels below DRAM say of each tensor whether they store it (Eq. 6)."""
        stored = self.mapping.stored
        if [len(row) for row in stored] != [len(Tensor)] * len(BUFFERS):
            yield f"stored: must have {len(BUFFERS)} levels of {len(Tensor)} tensors (got {stored!r})"
        if not all(isinstance(entry, bool) for row in stored for entry in row):
            yield f"stored: must be true or false (got {stored!r})"

    def _layouts_are_known(self) -> Iterator[str]:
        """Each tensor has one of its two axis orders (Eq. 21, 50, 51)."""
        layout = self.mapping.layout
        if len(layout) != len(Tensor) or not all(is_integer(index) and index in (0, 1) for index in layout):
            yield f"layout: must be 0 or 1 for each of I, W, O (got {layout!r})"

    def _blocks_are_integers(self) -> Iterator[str]:
        """The sides of input blocks are integers."""
        for side in ("block_h", "block_w"):
            if not is_integer(getattr(self.mapping, side)):
                yield f"{side}: must be an integer (got {getattr(self.mapping, side)!r})"

    def _points_are_in_the_orders(self) -> Iterator[str]:
        """At the PEs and the global buffer as many loops lie outside a tile as the level has, or fewer."""
        outside = self.mapping.outside
        if [len(row) for row in outside] != [len(Tensor)] * len(ON_CHIP):
            yield f"outside: must have {len(ON_CHIP)} levels of {len(Tensor)} tensors (got {outside!r})"
        for level, row, order in zip(self.arch.hierarchy, outside, self.mapping.order, strict=False):
            for entry in row:
                if not is_integer(entry) or not 0 <= entry <= len(order):
                    yield f"{level.name}: the loops outside a tile must be 0 to {len(order)} (got {entry!r})"


def _rows_have_factors(table: str, names: list[str], rows: tuple[tuple[int, ...], ...]) -> Iterator[str]:
    """So many rows of one positive integer per dim."""
    if len(rows) != len(names):
        yield f"{table}: must have {len(names)} rows (got {len(rows)})"
    for name, row in zip(names, rows, strict=False):
        if len(row) != len(Dim):
            yield f"{name}: must have {len(Dim)} {table} factors (got {len(row)})"
        for dim, factor in zip(Dim, row, strict=False):
            if not is_integer(factor) or factor < 1:
                yield f"{name}: the {table} factor of {dim.name} must be a positive integer (got {factor!r})"


# --- A legal mapping -------------------------------------------------------------------------------------------------


@frozen
class _Check:
    """The rules of a legal mapping, one method each."""

    layer: ConvWorkload
    arch: PIMArchitecture
    mapping: Mapping

    def violations(self) -> Iterator[str]:
        yield from self._factors_multiply_to_bounds()
        yield from self._dims_use_one_direction()
        yield from self._array_has_room()
        yield from self._lanes_spread_their_dims()
        yield from self._loops_are_ordered()
        yield from self._storage_is_allowed()
        yield from self._residency_is_allowed()
        yield from self._points_are_canonical()
        yield from self._direct_steps_are_contiguous()
        yield from self._direct_tiles_are_contiguous()
        yield from self._input_scans_are_regular()
        yield from self._tiles_fit()
        yield from self._input_blocks_lie_in_the_input()
        if self._has_usable_blocks():
            yield from self._input_block_fits_row_buffer()
            yield from self._tensors_fit_dram()

    def _factors_multiply_to_bounds(self) -> Iterator[str]:
        """The seven factors of a dim multiply to its bound (Eq. 10)."""
        for dim in Dim:
            factors = self._factors(dim)
            if math.prod(factors) != self.layer.bounds[dim]:
                product = " x ".join(map(str, factors))
                yield f"{dim.name}: factors {product} = {math.prod(factors)}, the bound is {self.layer.bounds[dim]}"

    def _dims_use_one_direction(self) -> Iterator[str]:
        """A dim is spread over at most one of H, W, Internal, unless the array says otherwise (Eq. 13)."""
        if not self.arch.pe_array.exclusive_spatial:
            return
        for dim in Dim:
            used = [word for s, word in DIRECTION_WORDS.items() if self.mapping.spatial[s][dim] > 1]
            if len(used) > 1:
                yield f"PE array: {dim.name} is spread over {' and '.join(used)}, at most one is allowed"

    def _array_has_room(self) -> Iterator[str]:
        """The factors over H, W and Internal fit the rows, columns and lanes (Eq. 18-20)."""
        shape = self.arch.pe_array.array_shape
        room = {
            Direction.H: (shape.h, "rows"),
            Direction.W: (shape.w, "columns"),
            Direction.INTERNAL: (self.arch.pe_array.compute_unit.num_macs, "lanes of a PE"),
        }
        for direction, (limit, places) in room.items():
            used = math.prod(self.mapping.spatial[direction])
            if used > limit:
                yield f"PE array: {DIRECTION_WORDS[direction]} uses {used} {places}, there are {limit}"

    def _lanes_spread_their_dims(self) -> Iterator[str]:
        """Only dims that the compute unit can spread over its lanes have an Internal factor."""
        unit = self.arch.pe_array.compute_unit
        allowed = "/".join(dim.name for dim in unit.lane_dims) or "nothing"
        for dim in Dim:
            factor = self.mapping.spatial[Direction.INTERNAL][dim]
            if factor > 1 and dim not in unit.lane_dims:
                yield f"PE array: Internal has {dim.name} = {factor}, a {unit.unit_type} unit spreads {allowed}"

    def _loops_are_ordered(self) -> Iterator[str]:
        """At each level every dim with a factor above 1 is in the order once, and no other (Eq. 15, 16)."""
        for level in Level:
            order = self.mapping.order[level]
            for dim in Dim:
                factor, times = self.mapping.temporal[level][dim], order.count(dim)
                if times != int(factor > 1):
                    yield (
                        f"{self._name(level)}: loop {dim.name} of factor {factor} is {times} times in the order "
                        f"{_letters(order) or '(empty)'}, it must be there {int(factor > 1)} times"
                    )

    def _direct_steps_are_contiguous(self) -> Iterator[str]:
        """MACs that draw a tensor straight from the row buffer or DRAM take neighbouring indices of its spread dims."""
        for tensor in Tensor:
            if self.mapping.stored[Level.PE][tensor] or self.mapping.stored[Level.GLOBAL_BUFFER][tensor]:
                continue
            for dim in RELEVANT[tensor]:
                pes, loop = self.mapping.array_factor(dim), self.mapping.temporal[Level.PE][dim]
                if pes > 1 and loop > 1:
                    yield (
                        f"{tensor.name}: no buffer holds it, so {dim.name}, spread over {pes} PEs, "
                        f"cannot also loop within a PE (got {loop})"
                    )

    def _direct_tiles_are_contiguous(self) -> Iterator[str]:
        """PEs that fetch a tensor straight from the row buffer or DRAM take neighbouring indices of its spread dims."""
        for tensor in Tensor:
            if not self.mapping.stored[Level.PE][tensor] or self.mapping.stored[Level.GLOBAL_BUFFER][tensor]:
                continue
            for dim in self._left_out(Level.PE, tensor):
                pes = self.mapping.array_factor(dim)
                if pes > 1 and dim in RELEVANT[tensor]:
                    yield (
                        f"{tensor.name}: the global buffer does not hold it, so {dim.name}, spread over {pes} PEs, "
                        f"cannot also loop outside its tile within a PE"
                    )

    def _input_scans_are_regular(self) -> Iterator[str]:
        """What comes from DRAM is a box of I or, for 1x1 filters, a regular grid of it."""
        stored = [self.mapping.stored[level][Tensor.I] for level in BUFFERS]
        if stored[Level.GLOBAL_BUFFER] or stored[Level.ROW_BUFFER]:
            return
        has_filter = self.layer.R > 1 or self.layer.S > 1
        is_stepped = max(*self.layer.stride, *self.layer.dilation) > 1
        if not stored[Level.PE] and has_filter:
            yield "I: a filter window must come through a buffer, MACs cannot draw it straight from DRAM"
        if stored[Level.PE] and is_stepped and has_filter:
            yield "I: PEs cannot take a strided or dilated window straight from DRAM, it must come through a buffer"
        if stored[Level.PE] and max(self.layer.stride) > 1 and not has_filter:
            extents = self._tile_extents(Level.PE, Tensor.I)
            is_spread = self.mapping.array_factor(Dim.P) * self.mapping.array_factor(Dim.Q) > 1
            if is_spread and max(extents[Dim.P], extents[Dim.Q]) > 1:
                yield "I: PEs that take several strided positions each straight from DRAM cannot be spread over P or Q"

    def _storage_is_allowed(self) -> Iterator[str]:
        """A level stores what it must and nothing that it cannot (Eq. 6)."""
        for level in BUFFERS:
            for tensor in Tensor:
                is_stored = self.mapping.stored[level][tensor]
                if is_stored not in self.arch.storing_choices(level, tensor):
                    yield f"{self._name(level)}: {'cannot' if is_stored else 'must'} store {tensor.name}"

    def _residency_is_allowed(self) -> Iterator[str]:
        """Only tiles that a level stores cover part of its loops, and only on machines that can hold them."""
        for level, tensor in self._uneven_tiles():
            order = self.mapping.order[level]
            covered = _letters(order[self.mapping.outside[level][tensor] :]) or "none"
            tile = f"{self._name(level)}: the tile of {tensor.name} covers {covered} of the loops {_letters(order)}"
            if not self.arch.uneven_residency:
                yield f"{tile}, the machine has no uneven residency"
            if not self.mapping.stored[level][tensor]:
                yield f"{tile}, but is not stored"

    def _points_are_canonical(self) -> Iterator[str]:
        """The loop just outside an uneven tile changes it; else the same tile is named by a point further out."""
        for level, tensor in self._uneven_tiles():
            dim = self._left_out(level, tensor)[-1]
            if dim not in RELEVANT[tensor]:
                yield f"{self._name(level)}: {dim.name} does not change the tile of {tensor.name}, which must cover it"

    def _tiles_fit(self) -> Iterator[str]:
        """The tiles that a level stores fit its usable capacity together (Eq. 17)."""
        for level in BUFFERS:
            sizes = {t: self._tile_bytes(level, t) for t in Tensor if self.mapping.stored[level][t]}
            if sum(sizes.values()) > self.arch.usable_bytes(level):
                yield f"{self._name(level)}: the tiles take {_sum_text(sizes)}, {_capacity_text(self.arch, level)}"

    def _input_blocks_lie_in_the_input(self) -> Iterator[str]:
        """A row-aligned I has blocks of at least one element and at most the input; any other has none (Eq. 8, 9)."""
        is_aligned = self._is_row_aligned(Tensor.I)
        sides = (
            ("h", self.mapping.block_h, self.layer.input_height),
            ("w", self.mapping.block_w, self.layer.input_width),
        )
        for side, value, limit in sides:
            if is_aligned and not 1 <= value <= limit:
                yield f"{self._name(Level.ROW_BUFFER)}: block_{side} of I must be from 1 to {limit} (got {value})"
            if not is_aligned and value != 0:
                yield f"{self._name(Level.ROW_BUFFER)}: stores no I, so block_{side} must be 0 (got {value})"

    def _input_block_fits_row_buffer(self) -> Iterator[str]:
        """The block of a row-aligned I fits the row buffer, as its tile does (Eq. 17)."""
        level = Level.ROW_BUFFER
        size = math.prod(self._block(Tensor.I)) * self.layer.input_bytes
        if self._is_row_aligned(Tensor.I) and size > self.arch.usable_bytes(level):
            block = " x ".join(map(str, self._block(Tensor.I)))
            yield f"{self._name(level)}: a block of I takes {block} = {size} B, {_capacity_text(self.arch, level)}"

    def _tensors_fit_dram(self) -> Iterator[str]:
        """The three tensors, laid out as the mapping says, fit the DRAM together."""
        level = Level.DRAM
        sizes = {t: self._dram_bytes(t) for t in Tensor}
        if sum(sizes.values()) > self.arch.hierarchy[level].capacity_bytes:
            yield f"{self._name(level)}: the tensors take {_sum_text(sizes)}, {_capacity_text(self.arch, level)}"

    # Quantities

    def _name(self, level: Level) -> str:
        return self.arch.hierarchy[level].name

    def _factors(self, dim: Dim) -> list[int]:
        """The seven factors of a dim, outer to inner: T3, T2, T1, H, W, T0, Internal."""
        t0, t1, t2, t3 = (row[dim] for row in self.mapping.temporal)
        over_h, over_w, internal = (row[dim] for row in self.mapping.spatial)
        return [t3, t2, t1, over_h, over_w, t0, internal]

    def _extents(self, level: Level) -> tuple[int, ...]:
        """e0, e1, e2 of every dim: its innermost two factors at the PE, all but T3 and T2, or all but T3."""
        first = {Level.PE: 5, Level.GLOBAL_BUFFER: 2, Level.ROW_BUFFER: 1}[level]
        return tuple(math.prod(self._factors(dim)[first:]) for dim in Dim)

    def _uneven_tiles(self) -> list[tuple[Level, Tensor]]:
        return [(level, tensor) for level in ON_CHIP for tensor in Tensor if self.mapping.outside[level][tensor]]

    def _left_out(self, level: Level, tensor: Tensor) -> tuple[Dim, ...]:
        """The loops of a level outside its tile of a tensor, outermost first."""
        return self.mapping.order[level][: self.mapping.outside[level][tensor]] if level in ON_CHIP else ()

    def _tile_extents(self, level: Level, tensor: Tensor) -> tuple[int, ...]:
        """e0, e1, e2 of every dim without the factors of loops outside the tile."""
        left_out, factors = self._left_out(level, tensor), self.mapping.temporal[level]
        return tuple(n // factors[d] if d in left_out else n for d, n in zip(Dim, self._extents(level), strict=True))

    def _tile_bytes(self, level: Level, tensor: Tensor) -> int:
        return box_elems(self.layer, self._tile_extents(level, tensor), tensor) * self._width_bytes(level, tensor)

    def _width_bytes(self, level: Level, tensor: Tensor) -> int:
        """Bytes per element; O has partial sums on chip, and beyond when they are spilled."""
        output = self.layer.output_bytes
        if level < Level.ROW_BUFFER or self._are_partial_sums_spilled():
            output = self.layer.psum_bytes
        return (self.layer.input_bytes, self.layer.weight_bytes, output)[tensor]

    def _are_partial_sums_spilled(self) -> bool:
        """Whether DRAM gives back any O: one of its tiles returns, as a reduction loop runs outside a loop of O.

        With no level that holds O the MACs add in DRAM, and every addition after an output's first reads it back.
        """
        holders = [m for m in BUFFERS if self.mapping.stored[m][Tensor.O]]
        outside = self._loops_outside(holders[-1] if holders else None)
        first = next((i for i, dim in enumerate(outside) if dim in REDUCTIONS), len(outside))
        if not holders:
            return first < len(outside) or self._has_unadded_copies()
        return any(dim not in REDUCTIONS for dim in outside[first:])

    def _loops_outside(self, holder: Level | None) -> list[Dim]:
        """The temporal loops outside a level's tile of O (None: outside the MACs), outermost first."""
        levels = [m for m in reversed(Level) if holder is None or m > holder]
        loops = [(m, dim) for m in levels for dim in self.mapping.order[m]]
        if holder is not None:
            loops += [(holder, dim) for dim in self._left_out(holder, Tensor.O)]
        return [dim for m, dim in loops if self.mapping.temporal[m][dim] > 1]

    def _has_unadded_copies(self) -> bool:
        """Whether several MACs of one step send partial sums of the same output."""
        copies = math.prod(row[dim] for row in self.mapping.spatial for dim in REDUCTIONS)
        return not self.arch.spatial_reduction and copies > 1

    def _is_row_aligned(self, tensor: Tensor) -> bool:
        return self.mapping.stored[Level.ROW_BUFFER][tensor]

    def _has_usable_blocks(self) -> bool:
        return not self._is_row_aligned(Tensor.I) or min(self.mapping.block_h, self.mapping.block_w) > 0

    def _block(self, tensor: Tensor) -> tuple[int, ...]:
        """Extents of a row-aligned tensor's block: I N, G, C, height, width; W G, K, C, S, R; O N, G, K, Q, P."""
        r, s, p, q, c, k, n, g = self._extents(Level.ROW_BUFFER)
        return (
            (n, g, c, self.mapping.block_h, self.mapping.block_w),
            (g, k, c, s, r),
            (n, g, k, q, p),
        )[tensor]

    def _whole(self, tensor: Tensor) -> tuple[int, ...]:
        """Extents of a tensor along the axes of `_block`."""
        r, s, p, q, c, k, n, g = self.layer.bounds
        return (
            (n, g, c, self.layer.input_height, self.layer.input_width),
            (g, k, c, s, r),
            (n, g, k, q, p),
        )[tensor]

    def _dram_bytes(self, tensor: Tensor) -> int:
        """Bytes of a tensor in its layout; a row-aligned one takes whole rows (Eq. 52-56)."""
        width = self._width_bytes(Level.DRAM, tensor)
        whole = self._whole(tensor)
        if not self._is_row_aligned(tensor):
            return math.prod(whole) * width
        block = self._block(tensor)
        blocks = math.prod(_ceil(side, part) for side, part in zip(whole, block, strict=True))
        return _rows_of_blocks(blocks, math.prod(block) * width, self.arch.row_bytes) * self.arch.row_bytes


def _rows_of_blocks(blocks: int, block_bytes: int, row_bytes: int) -> int:
    """Rows of a row-aligned tensor: as many blocks in a row as fit, or whole rows to every block."""
    if block_bytes <= row_bytes:
        return _ceil(blocks, row_bytes // block_bytes)
    return blocks * _ceil(block_bytes, row_bytes)


# --- A layer that fits -----------------------------------------------------------------------------------------------


def _forced_tiles_fit(layer: ConvWorkload, arch: PIMArchitecture) -> Iterator[str]:
    """A level that must store some tensors has room for one element of each, the smallest tiles there are (Eq. 17)."""
    for level in BUFFERS:
        output = layer.psum_bytes if level < Level.ROW_BUFFER else layer.output_bytes
        widths = dict(zip(Tensor, (layer.input_bytes, layer.weight_bytes, output), strict=True))
        sizes = {t: width for t, width in widths.items() if arch.storing_choices(level, t) == (True,)}
        if sum(sizes.values()) > arch.usable_bytes(level):
            yield (
                f"{arch.hierarchy[level].name}: one element of each tensor that it must store takes "
                f"{_sum_text(sizes)}, {_capacity_text(arch, level)}"
            )


def _columns_hold_elements(layer: ConvWorkload, arch: PIMArchitecture) -> Iterator[str]:
    """An element is never spread over columns."""
    widest, column = max(layer.width_bytes), arch.dram_timings.column_bytes
    if widest > column:
        yield f"DramTimings.co_w: a column of {column} B is narrower than an element of {widest} B"


def _layer_fits_dram(layer: ConvWorkload, arch: PIMArchitecture) -> Iterator[str]:
    """The three tensors fit the DRAM at their smallest: no partial sums spilled, packed or in full rows."""
    sizes = {t: _least_dram_bytes(layer, arch, t) for t in Tensor}
    if sum(sizes.values()) > arch.hierarchy[Level.DRAM].capacity_bytes:
        name = arch.hierarchy[Level.DRAM].name
        yield f"{name}: the layer takes at least {_sum_text(sizes)}, {_capacity_text(arch, Level.DRAM)}"


def _energy_is_countable(layer: ConvWorkload, arch: PIMArchitecture) -> Iterator[str]:
    """What a layer costs at one place, if every MAC pays there, stays within 64 bits; rows are opened by elements."""
    costs = {"a MAC": arch.pe_array.compute_unit.mac_energy}
    for level in arch.hierarchy:
        costs[f"an access of {level.name}"] = max(level.access_cost, level.write_cost or 0)
    for what, cost in costs.items():
        if layer.macs * to_fj(cost) >= LIMIT:
            yield f"{what} of {cost} nJ: {layer.macs} of them cost more than 2^62 fJ, which cannot be counted"
    elements = sum(layer.elements(tensor) for tensor in Tensor)
    if elements * to_fj(arch.activation_energy) >= LIMIT:
        cost = arch.activation_energy
        yield f"a row activation of {cost} nJ: {elements} of them cost more than 2^62 fJ, which cannot be counted"


def _least_dram_bytes(layer: ConvWorkload, arch: PIMArchitecture, tensor: Tensor) -> int:
    """Packed bytes, rounded up to whole rows where the tensor must be row-aligned."""
    width = (layer.input_bytes, layer.weight_bytes, layer.output_bytes)[tensor]
    packed = box_elems(layer, layer.bounds, tensor) * width
    is_aligned = arch.storing_choices(Level.ROW_BUFFER, tensor) == (True,)
    return _ceil(packed, arch.row_bytes) * arch.row_bytes if is_aligned else packed


# --- Words -----------------------------------------------------------------------------------------------------------


def _sum_text(sizes: dict[Tensor, int]) -> str:
    """`I 3 + W 4 = 7 B`."""
    parts = " + ".join(f"{tensor.name} {size}" for tensor, size in sizes.items())
    return f"{parts} = {sum(sizes.values())} B"


def _capacity_text(arch: PIMArchitecture, level: Level) -> str:
    """What a level holds, and why it is less than its size."""
    usable, whole = arch.usable_bytes(level), arch.hierarchy[level].capacity_bytes
    return f"there are {usable} B" + (f" (half of {whole} B: double buffered)" if usable < whole else "")


def _letters(order: tuple[Dim, ...]) -> str:
    """`CKP`, outermost first."""
    return "".join(Dim(dim).name for dim in order)


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
