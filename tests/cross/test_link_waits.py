"""Waits for a link that tensors share (docs/model.md, section 7): never above the walk, and close to it where they are
long.
"""

from pathlib import Path

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim import PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.mapping import BANKS, Mapping
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import read_network
from tables.counts.cost import exact_cost
from tables.counts.latency import exact_latency
from tables.counts.link import link_wait
from tables.counts.on_chip import compute_cycles
from tests.cross.cases import Case, layer_of, points, shorten

DIMS = (Dim.R, Dim.P, Dim.Q, Dim.C, Dim.K)
#: Where a tensor is stored: in the PEs, in the global buffer, or in both.
PLACES = [(True, False, False), (False, True, False), (True, True, False)]


@st.composite
def cases_of_one_link(draw: st.DrawFn) -> Case:
    """Draw a mapping with tiles of all sizes, of tensors that are stored on chip and share a bank or a bus."""
    factors = st.sampled_from((1, 1, 2, 3, 4, 8))
    temporal = [[draw(factors) if d in DIMS and m != Level.ROW_BUFFER else 1 for d in Dim] for m in Level]
    spatial = [[1] * 8, [1] * 8, [1, 1, 1, 1, 2, 2, 1, 1]]
    shorten(temporal, 40_000, DIMS)
    layer = layer_of(temporal, spatial, draw(st.sampled_from((1, 2))))
    of_tensors = [draw(st.sampled_from(PLACES)) for _ in Tensor]
    mapping = Mapping(
        temporal=temporal,
        spatial=spatial,
        order=[draw(st.permutations([d for d in Dim if temporal[m][d] > 1])) for m in Level],
        stored=[[of_tensors[t][m] for t in Tensor] for m in range(3)],
        layout=draw(st.tuples(*[st.integers(0, 1)] * 3)),
        banks=BANKS[draw(st.sampled_from(("IWO", "IO|W", "I|WO", "IW|O")))],
    )
    mapping = attrs.evolve(mapping, outside=draw(points(mapping)))
    arch = PIMArchitecture()
    pe, buffer, row, dram = arch.hierarchy
    slots = [attrs.evolve(level, double_buffered=draw(st.booleans())) for level in (pe, buffer)]
    hierarchy = (*slots, row, attrs.evolve(dram, num_banks=1))
    return Case(layer=layer, arch=attrs.evolve(arch, hierarchy=hierarchy, shared_data_bus=draw(st.booleans())),
                mapping=mapping)  # fmt: skip


@settings(max_examples=300)
@given(cases_of_one_link())
def test_array_waits_no_longer_for_a_link_than_the_walk_says(case: Case) -> None:
    """In each part, and on the bus: if there is a wait, the array's cycles and the wait follow each other."""
    nest, machine = to_nest(case.layer, case.mapping, case.arch.spatial_reduction), to_machine(case.arch)
    streams, walk = exact_cost(nest, machine).streams, exact_latency(nest, machine)
    parts = [tuple(t for t in Tensor if nest.part[t] == part) for part in set(nest.part)]
    for tensors in [*parts, *[tuple(Tensor)] * machine.is_bus_shared]:
        wait = link_wait(nest, machine, tensors, streams)
        assert wait == 0 or compute_cycles(nest, machine) + wait <= walk


def test_waits_for_a_bank_whose_scans_take_as_long_as_the_array() -> None:
    """Weights of 48 columns and two of three rows come after every fourth input tile: their load is hidden by the steps
    on one input tile, not on four. The formula without that wait is a third too low.
    """
    arch = read_arch(str(Path(__file__).parents[2] / "scripts" / "certificate" / "one-pe.yaml"))
    layer = next(node.workload for node in read_network("resnet50").layers if node.name == "layer2.0.conv2")
    layer = attrs.evolve(layer, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=2)
    ones = (1,) * 8
    mapping = Mapping(
        temporal=[(3, 1, 7, 1, 4, 2, 1, 1), (1, 1, 4, 1, 1, 1, 1, 1), ones, (1, 3, 1, 28, 8, 8, 1, 1)],
        spatial=[ones, ones, (1, 1, 1, 1, 4, 8, 1, 1)],
        order=[(Dim.R, Dim.P, Dim.C, Dim.K), (Dim.P,), (), (Dim.Q, Dim.K, Dim.C, Dim.S)],
        stored=[(True, False, False), (False, True, True), (False,) * 3],
        layout=(1, 1, 1),
        banks=BANKS["IWO"],
    )
    nest, machine = to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch)
    cost, walk = exact_cost(nest, machine), exact_latency(nest, machine)
    assert cost.latency_cycles <= walk <= cost.latency_cycles * 1.05
    assert walk > 1.25 * max(cost.dram_cycles, cost.compute_cycles)


def test_one_write_out_less_than_there_are_output_tiles_waits_for_a_link() -> None:
    """A part of ResNet-50's layer4.0.downsample: four output tiles, each of two tiles of inputs
    and of weights. The last write-out of the four is the end.

    A tile of inputs, 13 x 13 x 128 elements of 2 bytes, fills 169 columns of 256 bytes, one of weights, 128 x 128, 128,
    and one of outputs, 49 x 128 of 4 bytes, 98. A tile of inputs spans all positions, 13 x 13 x 512 bytes, in 3 rows of
    32 KiB, one of weights 128 x 512 bytes in 2. A column takes 2 cycles and a miss 6 - 2 + 2 + 6 = 12. So the 784 steps
    on a tile hide 784 - (338 + 36) - (256 + 24) = 130 cycles of each of three write-outs. All four open 7 rows, and the
    last one takes 220 cycles: 2 * 392 + 12 * 7 - 220 - 3 * 130 = 258. The formula is one cycle above the walk: the
    first scan of inputs ends as if no other followed.
    """
    arch = read_arch("stacked-3d-4x4")
    layer = ConvWorkload(
        P=7, Q=7, C=256, K=512, stride=(2, 2), input_bytes=2, weight_bytes=2, output_bytes=4, psum_bytes=4
    )
    ones = (1,) * 8
    mapping = Mapping(
        temporal=[(1, 1, 1, 1, 4, 4, 1, 1), (1, 1, 7, 7, 1, 1, 1, 1), ones, (1, 1, 1, 1, 2, 4, 1, 1)],
        spatial=[(1, 1, 1, 1, 1, 32, 1, 1), (1, 1, 1, 1, 32, 1, 1, 1), ones],
        order=[(Dim.C, Dim.K), (Dim.P, Dim.Q), (), (Dim.K, Dim.C)],
        stored=[(False,) * 3, (True,) * 3, (False,) * 3],
        layout=(1, 0, 0),
        banks=BANKS["IWO"],
    )
    nest, machine = to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch)
    cost = exact_cost(nest, machine)
    assert link_wait(nest, machine, tuple(Tensor), cost.streams) == 258
    start, end = sum(stream.first_cycles for stream in cost.streams[:2]), cost.streams[Tensor.O].last_cycles
    assert cost.latency_terms["dram_bus"] == start + 6272 + 258 + end == exact_latency(nest, machine) + 1
