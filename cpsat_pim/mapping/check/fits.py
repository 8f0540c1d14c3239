"""Necessary conditions for a layer to have a mapping on a machine, checked without a search."""

from collections.abc import Iterator
from functools import partial

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Level, Tensor
from cpsat_pim.base.units import to_fj
from cpsat_pim.base.validate import LIMIT
from cpsat_pim.mapping import ONE_BANK, BankCounts
from cpsat_pim.mapping.check.mapped import box_elems, ceil_div
from cpsat_pim.mapping.check.messages import capacity_text, overfull, sum_text
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.layer import width_text


def check_fits(layer: ConvWorkload, arch: PIMArchitecture, bank_counts: BankCounts | None = ONE_BANK) -> list[str]:
    """Return one line per reason why no mapping of the layer can exist or be counted; none if no reason is known.

    `bank_counts`: how many of the node's banks each tensor has, as in `Constraints`: None if that is free.
    """
    fits_dram = partial(_layer_fits_dram, bank_counts=bank_counts)
    rules = (_columns_hold_elements, _forced_tiles_fit, fits_dram, _energy_is_countable)
    return [line for rule in rules for line in rule(layer, arch)]


def _columns_hold_elements(layer: ConvWorkload, arch: PIMArchitecture) -> Iterator[str]:
    """An element must lie within one column."""
    widest, column = max(layer.width_bytes), arch.dram_timings.column_bytes
    if widest > column:
        yield f"DramTimings.co_w: a column of {column} B is narrower than an element of {width_text(widest)}"
        return
    for width in sorted({width for width in layer.width_bytes if column % width}):
        yield f"DramTimings.co_w: a column of {column} B does not hold whole elements of {width_text(width)}"


def _forced_tiles_fit(layer: ConvWorkload, arch: PIMArchitecture) -> Iterator[str]:
    """A level that must store some tensors must fit one element of each, the smallest possible tiles (Eq. 17)."""
    for level in BUFFERS:
        output = layer.psum_bytes if level < Level.ROW_BUFFER else layer.output_bytes
        widths = dict(zip(Tensor, (layer.input_bytes, layer.weight_bytes, output), strict=True))
        sizes = {t: width for t, width in widths.items() if arch.storing_choices(level, t) == (True,)}
        for problem in overfull(arch, level, sizes):
            yield f"{arch.hierarchy[level].name}: one element of each tensor that it must store takes {problem}"


def _layer_fits_dram(layer: ConvWorkload, arch: PIMArchitecture, bank_counts: BankCounts | None) -> Iterator[str]:
    """The three tensors must fit the DRAM at their smallest: no spilled partial sums, packed or in full rows. If they
    do, each must also fit its banks of the node: as many as are fixed, or the most that it can have.
    """
    sizes = {t: _least_dram_bytes(layer, arch, t) for t in Tensor}
    total, room, name = sum(sizes.values()), arch.hierarchy[Level.DRAM].capacity_bytes, arch.hierarchy[Level.DRAM].name
    if total > room:
        needed = f"{capacity_text(arch, Level.DRAM)}, so it needs {ceil_div(total, room)} nodes or more"
        yield f"{name}: the layer takes at least {sum_text(sizes)}, {needed}"
        return
    counts = (arch.most_banks,) * len(Tensor) if bank_counts is None else bank_counts
    for (tensor, size), count in zip(sizes.items(), counts, strict=True):
        if arch.bank_bytes is not None and size > count * arch.bank_bytes:
            there, where = count * arch.bank_bytes, "a bank" if count == 1 else f"{count} banks"
            banks = f", or more banks (bank_counts: at most {arch.most_banks})" if count < arch.most_banks else ""
            needed = f"{there} B in {where}, so it needs {ceil_div(size, there)} nodes or more{banks}"
            yield f"{name}: {tensor.name} takes at least {size} B, there are {needed}"


def _least_dram_bytes(layer: ConvWorkload, arch: PIMArchitecture, tensor: Tensor) -> int:
    """Return the packed bytes, rounded up to whole rows if the tensor must be row-aligned."""
    width = (layer.input_bytes, layer.weight_bytes, layer.output_bytes)[tensor]
    packed = box_elems(layer, layer.bounds, tensor) * width
    is_aligned = arch.storing_choices(Level.ROW_BUFFER, tensor) == (True,)
    return ceil_div(packed, arch.row_bytes) * arch.row_bytes if is_aligned else packed


def _energy_is_countable(layer: ConvWorkload, arch: PIMArchitecture) -> Iterator[str]:
    """The energy at one place, if every MAC accesses it, must stay below 2^62 fJ; so must that of one row activation
    per element.
    """
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
