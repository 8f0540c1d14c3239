"""Two levels of one slot behind each other: loads, moves and array steps take turns (docs/model.md, section 7)."""

import math

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim import PIMArchitecture
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.mapping import BANKS, Mapping
from cpsat_pim.workload import ConvWorkload
from tables.counts.cost import exact_cost
from tables.counts.latency import exact_latency
from tables.counts.on_chip import takes_turns
from tests.cross.cases import Case, layer_of, shorten

DIMS = (Dim.R, Dim.P, Dim.Q, Dim.C, Dim.K)
#: Levels that store a tensor: the PEs, with a buffer or without one.
PLACES = [(True, False, True), (True, True, False), (True, False, False)]


def one_slot_machine(moved_bytes: float | None) -> PIMArchitecture:
    """A machine of a bank for each tensor, whose levels have one slot each, with links of so many bytes a cycle."""
    arch = PIMArchitecture()
    rates = dict.fromkeys(("read_bandwidth_limit", "write_bandwidth_limit"), moved_bytes)
    buffers = [attrs.evolve(level, double_buffered=False, **rates) for level in arch.hierarchy[:3]]
    hierarchy = (*buffers, attrs.evolve(arch.hierarchy[3], num_banks=1))
    return attrs.evolve(arch, hierarchy=hierarchy, shared_data_bus=False)


@st.composite
def cases_of_one_slot(draw: st.DrawFn) -> Case:
    """Draw a mapping of small even tiles whose output tiles are finished before they leave, reductions innermost."""
    factors = st.sampled_from((1, 1, 2, 3, 4))
    temporal = [[draw(factors) if d in DIMS else 1 for d in Dim] for _ in Level]
    for m in (Level.GLOBAL_BUFFER, Level.ROW_BUFFER, Level.DRAM):
        temporal[m][Dim.R] = temporal[m][Dim.C] = 1  # so no sum returns
    spatial = [[1] * 8, [1] * 8, [1, 1, 1, 1, 2, 2, 1, 1]]
    shorten(temporal, 20_000, DIMS)
    layer = layer_of(temporal, spatial, draw(st.sampled_from((1, 2))))
    of_tensors = [draw(st.sampled_from(PLACES)) for _ in Tensor]
    is_aligned = of_tensors[Tensor.I][Level.ROW_BUFFER]
    height, width = (math.prod(row[d] for row in (*temporal[:3], *spatial)) for d in (Dim.Q, Dim.P))
    mapping = Mapping(
        temporal=temporal,
        spatial=spatial,
        order=[draw(st.permutations([d for d in Dim if temporal[m][d] > 1])) for m in Level],
        stored=[[of_tensors[t][m] for t in Tensor] for m in range(3)],
        layout=draw(st.tuples(*[st.integers(0, 1)] * 3)),
        block_h=height if is_aligned else 0,
        block_w=width if is_aligned else 0,
        banks=BANKS["I|W|O"],
    )
    return Case(layer=layer, arch=one_slot_machine(draw(st.sampled_from((1.0, 4.0, 16.0, None)))), mapping=mapping)


def longest_turns(case: Case) -> tuple[dict[str, int], list[Tensor], int]:
    """The terms of the latency, the tensors that take turns, and the cycles of the walk."""
    nest, machine = to_nest(case.layer, case.mapping, case.arch.spatial_reduction), to_machine(case.arch)
    turning = [t for t in Tensor if takes_turns(nest, machine, t)]
    return exact_cost(nest, machine).latency_terms, turning, exact_latency(nest, machine) - machine.pipeline_latency


@settings(max_examples=300)
@given(cases_of_one_slot())
def test_turns_take_no_longer_than_the_walk_says(case: Case) -> None:
    """Where each tensor has a bank and links of its own."""
    terms, turning, walk = longest_turns(case)
    assert all(terms[f"dram_{t.name}"] <= walk for t in turning)


def test_moves_and_loads_add_up() -> None:
    """Inputs of 8 positions, each of 256 bytes, which PEs take one at a time, from two blocks of four.

    A block fills a row of 1,024 bytes, 32 columns. The first one has come after 14 + 25 + 4 + 31 * 4 = 167 cycles, the
    second one takes 32 * 4 + (14 - 4 + 5 + 14) = 157. A move takes 256 / 64 = 4 cycles, the 64 MACs work 4 steps on
    each position. So the array starts after 171 cycles, works 32, waits for 7 moves, 28, and for the second block but
    for the 4 steps on the last position of the first one, 153. Outputs, which have two slots, end with a column, 4.
    """

    def factors(**of: int) -> tuple[int, ...]:
        return tuple(of.get(d.name, 1) for d in Dim)

    mapping = Mapping(
        temporal=(factors(C=4), factors(P=4), factors(), factors(P=2)),
        spatial=(factors(), factors(C=16), factors(C=4)),
        order=((Dim.C,), (Dim.P,), (), (Dim.P,)),
        stored=((True, True, False), (False, False, True), (True, False, False)),
        layout=(0, 0, 0),
        block_h=1,
        block_w=4,
        banks=BANKS["I|W|O"],
    )
    pe, buffer, row, dram = one_slot_machine(64).hierarchy
    hierarchy = (pe, attrs.evolve(buffer, double_buffered=True), row, dram)
    arch = attrs.evolve(one_slot_machine(64), hierarchy=hierarchy)
    layer = ConvWorkload(P=8, C=256, input_bytes=1, weight_bytes=1, output_bytes=1, psum_bytes=1)
    terms, turning, walk = longest_turns(Case(layer=layer, arch=arch, mapping=mapping))
    assert turning == [Tensor.I]
    assert terms["dram_I"] == walk == 171 + 32 + 28 + 153 + 4
