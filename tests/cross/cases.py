"""Random mapped layers on random machines, for tests that compare two independent results.

Layers and machines are those that `fuzz` draws, here from integers that Hypothesis chooses and shrinks. Mappings are
more than the mapper would choose from: capacities and compute units are ignored, and any order and any stored sets go.
"""

import math

import attrs
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapping import BANKS, Mapping
from cpsat_pim.study.fuzz.draw import DIMS, Drawer
from cpsat_pim.workload import ConvWorkload

MAX_MACS = 3000
MAX_OUTER_STEPS = 1100
FACTORS = [2, 3, 1, 4, 5, 7, 11, 55, 197, 1009]


@attrs.frozen(kw_only=True)
class Case:
    """A mapped layer on a machine; its repr can be pasted into a test."""

    layer: ConvWorkload
    arch: PIMArchitecture
    mapping: Mapping


def shorten(temporal: list[list[int]], most: int, dims: tuple[Dim, ...]) -> None:
    """Set the largest factors of these dims to 1 until there are at most so many steps. Modifies temporal."""
    while math.prod(map(math.prod, temporal)) > most:
        m, d = max(((m, d) for m in Level for d in dims), key=lambda place: temporal[place[0]][place[1]])
        temporal[m][d] = 1


def layer_of(temporal: list[list[int]], spatial: list[list[int]], element_bytes: int) -> ConvWorkload:
    """Return the layer whose bounds are the products of a mapping's factors."""
    bounds = [math.prod(row[d] for row in (*temporal, *spatial)) for d in Dim]
    widths = dict.fromkeys(("input_bytes", "weight_bytes", "output_bytes", "psum_bytes"), element_bytes)
    return ConvWorkload(name="drawn", **dict(zip("RSPQCKNG", bounds, strict=True)), **widths)


@st.composite
def cases(draw: st.DrawFn, *, uneven: bool = False) -> Case:
    """Draw a mapping, the layer whose bounds its factors multiply to, and a machine; tiles may be `uneven`."""
    drawer = Drawer(lambda n: draw(st.integers(0, n - 1)))
    temporal, spatial = draw(factor_tables())
    layer = drawer.layer_of({d: math.prod(row[d] for row in (*temporal, *spatial)) for d in Dim})
    mapping = draw(mappings(layer, temporal, spatial))
    if uneven:
        mapping = attrs.evolve(mapping, outside=draw(points(mapping)))
    return Case(layer=layer, arch=drawer.machine(), mapping=mapping)


def in_one_bank(case: Case, banks: str) -> Case:
    """Return the case on a machine with one bank a part, and the tensors divided among them."""
    dram = attrs.evolve(case.arch.hierarchy[Level.DRAM], num_banks=1)
    arch = attrs.evolve(case.arch, hierarchy=(*case.arch.hierarchy[: Level.DRAM], dram))
    return attrs.evolve(case, arch=arch, mapping=attrs.evolve(case.mapping, banks=BANKS[banks]))


@st.composite
def in_several_banks(draw: st.DrawFn) -> Case:
    """Draw a case on such a machine, with several banks for tensors that do not share theirs."""
    case = in_one_bank(draw(cases(uneven=True)), draw(st.sampled_from(["I|W|O", "I|W|O", *BANKS])))
    alone = [case.mapping.banks.count(part) == 1 for part in case.mapping.banks]
    counts = [draw(st.sampled_from([2, 1, 4, 8])) if own else 1 for own in alone]
    return attrs.evolve(case, mapping=attrs.evolve(case.mapping, bank_counts=counts))


@st.composite
def factor_tables(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Draw temporal and spatial factors whose product stays small: a list of factors, each at a random place."""
    temporal, spatial = [[1] * 8 for _ in range(4)], [[1] * 8 for _ in range(3)]
    rows = [*temporal, *spatial]
    macs = outer_steps = 1
    entries = st.tuples(st.integers(0, 6), st.sampled_from(draw(st.sampled_from(DIMS))), st.sampled_from(FACTORS))
    for row, dim, factor in draw(st.lists(entries, max_size=12, unique_by=lambda entry: entry[:2])):
        is_outer = Level.PE < row <= Level.DRAM
        if macs * factor > MAX_MACS or (is_outer and outer_steps * factor > MAX_OUTER_STEPS):
            continue
        rows[row][dim] = factor
        macs *= factor
        outer_steps *= factor if is_outer else 1
    return temporal, spatial


@st.composite
def mappings(draw: st.DrawFn, layer: ConvWorkload, temporal: list[list[int]], spatial: list[list[int]]) -> Mapping:
    """Draw any orders, stored sets, layouts and blocks."""
    order = [draw(st.permutations([d for d in Dim if temporal[m][d] > 1])) for m in Level]
    stored = [draw(st.tuples(st.booleans(), st.booleans(), st.booleans())) for _ in range(3)]
    is_aligned = stored[Level.ROW_BUFFER][Tensor.I]
    return Mapping(
        temporal=temporal,
        spatial=spatial,
        order=order,
        stored=stored,
        layout=draw(st.tuples(*[st.integers(0, 1)] * 3)),
        block_h=draw(st.integers(1, layer.input_height)) if is_aligned else 0,
        block_w=draw(st.integers(1, layer.input_width)) if is_aligned else 0,
    )


@st.composite
def points(draw: st.DrawFn, mapping: Mapping) -> list[list[int]]:
    """Draw any residency points of the tiles that the PEs and the global buffer store."""
    most = [[len(mapping.order[m]) * mapping.stored[m][t] for t in Tensor] for m in ON_CHIP]
    return [[draw(st.integers(0, loops)) for loops in row] for row in most]
