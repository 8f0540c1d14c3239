"""A mapping for devices that send the same inputs to all cores of a channel (HBM-PIM, AiM, UPMEM).

A core has some accumulators that meet the same input at the same time, each with a matrix column of its own (HBM-PIM:
8). They count as one more axis, the innermost. A *pass* computes one result of every accumulator.
"""

from math import prod

from attrs import field, frozen

from cpsat_pim.base.validate import as_tuple, boolean, is_a, not_negative, one_of, positive
from cpsat_pim.compiler.mapping.contraction import BATCH, CLASSES, DEPTH, OUTPUTS, SHARED, Contraction
from cpsat_pim.compiler.mapping.mapping import UNUSED
from tables.commands.steps import ceiling


@frozen
class Passes:
    """What one accumulator computes: a pass for every batch element, vector of it and output.

    A pass meets `columns` input columns, `tile` of them are loaded at a time. `keeps_inputs`: all are loaded once for
    all outputs. `stores_inputs`: they are loaded from the banks.
    """

    batches: int
    shared: int
    outputs: int
    columns: int
    tile: int
    keeps_inputs: bool
    stores_inputs: bool = False

    @property
    def count(self) -> int:
        """Passes."""
        return self.batches * self.shared * self.outputs

    @property
    def tiles(self) -> int:
        """Tiles of input columns of a pass."""
        return ceiling(self.columns, self.tile)

    def stride(self, registers: int) -> int:
        """Matrix columns from an output to the next; whole turns of the registers if each input has one of its own."""
        is_whole = self.keeps_inputs or self.stores_inputs
        return ceiling(self.columns, registers) * registers if is_whole else self.columns


@frozen(kw_only=True)
class BroadcastMapping:
    """How a contraction is cut.

    `splits`: parts of each class over the channels. `owners`: the class that each axis of a channel and the
    accumulators cut, or -1. `lanes`: the class along which the lanes of a column lie; along the depth, the host adds
    them up. `depth_tile` input columns are loaded at a time. `keeps_inputs`: they are loaded once for all outputs of a
    vector. `stores_inputs`: the host writes them into the banks of the cores, from which they are loaded (HBM-PIM), so
    that they may differ: then axes of a channel may cut the batch and the depth, too. `order`: all depth tiles of an
    output first, or all outputs of a depth tile (the host adds the parts up). `mode_bank`: the bank that the writes to
    the mode register name (HBM-PIM). `hull`: loop variables that are laid out with what lies between their elements.
    """

    splits: tuple[int, ...] = field(validator=is_a(tuple))
    owners: tuple[int, ...] = field(validator=is_a(tuple))
    lanes: str = field(default="depth", validator=one_of("depth", "outputs"))
    depth_tile: int = field(default=1, validator=positive)
    keeps_inputs: bool = field(default=False, validator=boolean)
    stores_inputs: bool = field(default=False, validator=boolean)
    order: str = field(default="output-stationary", validator=one_of("output-stationary", "input-stationary"))
    mode_bank: int = field(default=0, validator=not_negative)
    hull: tuple[str, ...] = field(default=(), converter=as_tuple)

    def parts(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Accumulators of a channel that each class is cut over."""
        counts = [1] * len(CLASSES)
        for owner, size in zip(self.owners, axes, strict=True):
            if owner != UNUSED:
                counts[owner] *= size
        return tuple(counts)

    def channel_extents(self, contraction: Contraction) -> tuple[int, ...]:
        """Elements of each class that a channel computes."""
        return tuple(ceiling(extent, split) for extent, split in zip(contraction.extents, self.splits, strict=True))

    def core_extents(self, contraction: Contraction, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Elements of each class that an accumulator computes."""
        channel = self.channel_extents(contraction)
        return tuple(ceiling(extent, parts) for extent, parts in zip(channel, self.parts(axes), strict=True))

    def passes(self, contraction: Contraction, axes: tuple[int, ...], lanes: int) -> Passes:
        """What one accumulator computes."""
        extents = self.core_extents(contraction, axes)
        along = {"depth": DEPTH, "outputs": OUTPUTS}[self.lanes]
        counts = [ceiling(extent, lanes) if number == along else extent for number, extent in enumerate(extents)]
        tile = min(self.depth_tile, counts[DEPTH])
        return Passes(
            counts[BATCH], counts[SHARED], counts[OUTPUTS], counts[DEPTH], tile, self.keeps_inputs, self.stores_inputs
        )

    def splits_problem(self, channels: int) -> str | None:
        """Why the channels do not suffice, or None."""
        used = prod(self.splits)
        return f"splits over {used} channels, there are {channels}" if used > channels else None
