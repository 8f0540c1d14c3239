"""A mapping of a contraction: it determines the command stream of every channel completely."""

from attrs import field, frozen

from cpsat_pim.base.validate import as_tuple, boolean, is_a, one_of, positive
from cpsat_pim.compiler.mapping.contraction import CLASSES, DEPTH, OUTPUTS, Contraction
from cpsat_pim.compiler.target import Target
from tables.commands.steps import INPUT_STATIONARY, OUTPUT_STATIONARY, Share, ceiling, place_batch, returns_too_soon

#: An axis that no class owns: its cores but the first are idle.
UNUSED = -1


@frozen(kw_only=True)
class Mapping:
    """How a contraction is cut.

    `splits`: parts of each class over the channels. `owners`: the class along which each axis of a channel cuts, or -1.
    `is_tree`: lanes lie along the depth, else along the outputs. `output_tile` accumulators and `depth_tile` input
    columns a step; `order` of the tiles; which moves run beside MACs. `hull`: loop variables that are laid out with
    what lies between their elements (`docs/compiler.md`, section 2).
    """

    splits: tuple[int, ...] = field(validator=is_a(tuple))
    owners: tuple[int, ...] = field(validator=is_a(tuple))
    is_tree: bool = field(validator=boolean)
    output_tile: int = field(default=1, validator=positive)
    depth_tile: int = field(default=1, validator=positive)
    order: str = field(default="output-stationary", validator=one_of("output-stationary", "input-stationary"))
    overlaps_drains: bool = field(default=False, validator=boolean)
    overlaps_loads: bool = field(default=False, validator=boolean)
    hull: tuple[str, ...] = field(default=(), converter=as_tuple)

    def parts(self, target: Target) -> tuple[int, ...]:
        """Cores of a channel that each class is cut over."""
        counts = [1] * len(CLASSES)
        for owner, size in zip(self.owners, target.axes, strict=True):
            if owner != UNUSED:
                counts[owner] *= size
        return tuple(counts)

    def channel_extents(self, contraction: Contraction) -> tuple[int, ...]:
        """Elements of each class that a channel computes."""
        return tuple(ceiling(extent, split) for extent, split in zip(contraction.extents, self.splits, strict=True))

    def core_extents(self, contraction: Contraction, target: Target) -> tuple[int, ...]:
        """Elements of each class that a core computes."""
        channel = self.channel_extents(contraction)
        return tuple(ceiling(extent, parts) for extent, parts in zip(channel, self.parts(target), strict=True))

    def share(self, contraction: Contraction, target: Target) -> Share:
        """What one core computes, and in which tiles."""
        extents = self.core_extents(contraction, target)
        return Share(
            batches=extents[0],
            shared=extents[1],
            outputs=extents[OUTPUTS],
            depth=extents[DEPTH],
            lanes=target.device.core.lanes,
            is_tree=int(self.is_tree),
            has_inputs=int(contraction.inputs is not None),
            output_tile=self.output_tile,
            depth_tile=self.depth_tile,
            order=OUTPUT_STATIONARY if self.order == "output-stationary" else INPUT_STATIONARY,
            overlaps_drains=int(self.overlaps_drains),
            overlaps_loads=int(self.overlaps_loads),
        )

    def problem(self, contraction: Contraction, target: Target) -> str | None:
        """Why the device cannot run the mapping, or None."""
        core, share = target.device.core, self.share(contraction, target)
        columns = ceiling(share.depth, share.lanes)
        width = min(share.output_tile, ceiling(share.outputs, share.lanes)) * (1 + share.overlaps_drains)
        if _product(self.splits) > target.channels:
            return f"splits over {_product(self.splits)} channels, there are {target.channels}"
        if width > core.accumulators:
            return f"needs {width} accumulators, there are {core.accumulators}"
        if share.has_inputs and min(share.depth_tile, columns) * (1 + share.overlaps_loads) > core.inputs:
            return f"needs {share.depth_tile * (1 + share.overlaps_loads)} input columns, there are {core.inputs}"
        if returns_too_soon(share, core.columns):
            return "several vectors walk over a matrix of more than one and at most two rows"
        if place_batch(share, share.batches, core.columns) > target.columns:
            return (
                f"needs {place_batch(share, share.batches, core.columns)} columns of a bank, there are {target.columns}"
            )
        for axis, owner in enumerate(self.owners):
            if owner not in (UNUSED, OUTPUTS) and share.has_inputs and not target.loadable[axis]:
                return f"inputs cannot differ along {target.axis_names[axis]}"
        return None


def _product(values: tuple[int, ...]) -> int:
    result = 1
    for value in values:
        result *= value
    return result
