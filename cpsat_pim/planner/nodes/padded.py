"""Node programs of padded parts: the layer that a mapping is of, which may have larger bounds than the part."""

from cpsat_pim.base.dims import Level
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import with_bounds


def program_of(part: ConvWorkload, mapping: Mapping) -> ConvWorkload:
    """Return the part, or the part padded with zeros to the bounds of a mapping that are all as large or larger."""
    bounds = tuple(mapping.extents(Level.DRAM))
    is_padded = bounds != tuple(part.bounds) and all(new >= old for new, old in zip(bounds, part.bounds, strict=True))
    return with_bounds(part, bounds) if is_padded else part
