"""Boxes that come again open rows again: the bounds B6 and B20 of docs/solver.md hold for each stream.

Each is computed here from the loops of a random mapping and its shape table, and compared with the stream's count.
"""

import math
import random

import attrs
import numpy as np
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.dims import RELEVANT, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.mapper.bounds.stream_bounds import build_tables, has_known_boxes
from cpsat_pim.mapper.model.variables import CLASSES
from cpsat_pim.mapping import OWN_BANKS, Mapping
from tables.bounds.shapes import ShapeTable
from tables.counts.stream import dram_stream
from tables.nest import MACS
from tests.cross.test_bounds import draw_mapping

LAYERS = {
    "matrix": ConvWorkload(C=24, K=20, P=12, psum_bytes=1),
    "3x3": ConvWorkload(R=3, S=3, P=4, Q=6, C=4, K=8, psum_bytes=1),
    "batch": ConvWorkload(P=6, Q=4, C=12, K=8, N=3, psum_bytes=1),
    "stride": ConvWorkload(P=6, Q=4, C=12, K=8, stride=2, psum_bytes=1),
    "stride along rows": ConvWorkload(P=4, Q=6, C=8, K=6, N=2, stride=(3, 1), psum_bytes=1),
}
LEVELS = (Level.GLOBAL_BUFFER, Level.ROW_BUFFER, Level.DRAM)
DRAWN = 120


def machine(row_bytes: int, banks: int) -> PIMArchitecture:
    """The default machine with rows and banks of a tensor so few that boxes share and straddle rows."""
    arch = PIMArchitecture()
    row_buffer, dram = arch.hierarchy[2:]
    row_buffer = attrs.evolve(row_buffer, row_buffer_size=row_bytes)
    return attrs.evolve(arch, hierarchy=(*arch.hierarchy[:2], row_buffer, attrs.evolve(dram, num_banks=banks)))


def box_inside(mapping: Mapping, level: Level) -> list[int]:
    """The extents inside a level's loops: those of all PEs together for the global buffer."""
    pes = mapping.array_factor if level == Level.GLOBAL_BUFFER else lambda _: 1
    return [n * pes(d) for d, n in zip(Dim, mapping.extents(Level(level - 1)), strict=True)]


def figures(table: ShapeTable, layout: int, extents: list[int]) -> tuple[int, int, int]:
    """The box's rows of a first pass, of one that comes again at once, and of one with others in between."""
    rows = (table.layout == layout) & table.is_of_boxes
    rows &= (table.extents == [extents[d] for d in table.dims]).all(axis=1)
    (at,) = np.flatnonzero(rows)
    columns = (table.box_activations, table.swept_repeat_activations, table.box_repeat_activations)
    first, again, more = (int(column[at]) for column in columns)
    return first, again, more


def swept(mapping: Mapping, level: Level, t: Tensor) -> list[int] | None:
    """The extents that contiguous innermost loops relevant to t sweep at a level; None if there are none."""
    order, extents = mapping.order[level], box_inside(mapping, level)
    inner = next((c for c in Tensor if order and order[-1] in CLASSES[c]), t)
    if inner is t:
        return None
    for d in reversed(order):
        if d not in CLASSES[inner]:
            break
        extents[d] *= mapping.temporal[level][d]
    return extents


def fetches_again(mapping: Mapping, level: Level, t: Tensor) -> int:
    """How often the loops of a level and outside would fetch a tile held inside: irrelevant ones with others inside."""
    loops = [(m, d) for m in reversed(LEVELS) if m >= level for d in mapping.order[m]]
    last = max((i for i, (_, d) in enumerate(loops) if d in RELEVANT[t]), default=0)
    return math.prod(mapping.temporal[m][d] for m, d in loops[:last] if d not in RELEVANT[t])


def bounds_of(mapping: Mapping, t: Tensor, consumer: int, level: Level, table: ShapeTable) -> list[int]:
    """The bounds on t's activations by its boxes at a level."""
    layout, is_drawn = mapping.layout[t], consumer == MACS
    passes = math.prod(mapping.temporal[m][d] for m in LEVELS if m >= level for d in CLASSES[t])
    found = []
    first, again, more = figures(table, layout, box_inside(mapping, level))
    if is_drawn:
        found += [first + again * (passes - 1), first + more * (fetches_again(mapping, level, t) - 1)]
    if (box := swept(mapping, level, t)) is not None:
        first, again, _ = figures(table, layout, box)
        found.append(first + again * (passes - 1))
    return found


@pytest.mark.parametrize("banks", [1, 3])
@pytest.mark.parametrize("row_bytes", [32, 64])
@pytest.mark.parametrize("name", LAYERS)
def test_boxes_open_their_rows_in_every_pass(name: str, row_bytes: int, banks: int) -> None:
    """No stream opens fewer rows than a bound of some box says; some bounds are met."""
    layer, arch = LAYERS[name], machine(row_bytes, banks)
    tables, dram, rng = build_tables(layer, arch), to_machine(arch).dram, random.Random(f"{name} {row_bytes} {banks}")
    checked = met = 0
    for _ in range(DRAWN):
        mapping = attrs.evolve(draw_mapping(layer, arch, rng), banks=OWN_BANKS)
        nest = to_nest(layer, mapping, arch.spatial_reduction)
        for t in filter(lambda t: has_known_boxes(layer, t), Tensor):
            consumer = nest.consumers(t)[0]
            for level in LEVELS:
                if consumer < level and consumer != Level.ROW_BUFFER:
                    activations = dram_stream(nest, t, dram).activations
                    for bound in bounds_of(mapping, t, consumer, level, tables[t]):
                        assert bound <= activations, (mapping, t, level)
                        checked, met = checked + 1, met + (bound == activations > 1)
    assert checked > DRAWN
    assert met
