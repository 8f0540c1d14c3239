"""Bytes per element: a network's own, or those of the machine's words."""

from fractions import Fraction

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.export.loops import build_program, execute
from cpsat_pim.mapper.explain.bounds import find_bounds
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_fits, check_mapping, used_bytes
from cpsat_pim.mapping.widths import in_whole_units, machine_widths, on_machine, width_warnings, with_widths
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import read_network
from cpsat_pim.workload.network_text import shape_network
from tests.cross.cases import Case
from tests.export.loops.test_execute import Rows, convolve, numbers
from tests.shorthand import read_loops, read_stored


def test_network_without_widths_takes_the_machine_s() -> None:
    """HBM-PIM has words of 2 B everywhere, AttAcc accumulators of 4 B, the default machine bytes."""
    expected = {"default": (1, 1, 1, 1), "hbm-pim": (2, 2, 2, 2), "attacc": (2, 2, 2, 4)}
    for name, widths in expected.items():
        arch = read_arch(name)
        assert machine_widths(arch) == widths
        for network in (read_network("alexnet"), shape_network("P=4,K=2")):
            fitted = on_machine(network, arch)
            assert {node.workload.width_bytes for node in fitted.layers} == {widths}
            assert list(width_warnings(fitted, arch)) == []


def test_given_widths_stay_and_are_warned_of() -> None:
    """Half-width elements on words of 2 B cost half of what is counted; of 4 B, twice."""
    arch = read_arch("hbm-pim")
    for width, effect in ((1, "2 times too high"), (4, "2 times too low")):
        network = with_widths(shape_network("P=4,K=2"), (width,) * 4)
        assert on_machine(network, arch) == network
        (line,) = width_warnings(network, arch)
        assert line.startswith(f"elements of I, W, O have {width} B in every layer, but words of hbm-pim have 2 B")
        assert effect in line


# --- Elements of some bits -------------------------------------------------------------------------------------------


def test_four_bit_weights_take_half_a_byte_each() -> None:
    """C 128 x K 64 weights of 4 bits are 4,096 B: 4 rows of 1 KiB and, scanned once as a whole, 128 columns of 32 B.

    The 128 inputs and 64 outputs of 2 B are 8 and 4 columns of a row each.
    """
    layer = ConvWorkload(C=128, K=64, input_bytes=2, weight_bytes=Fraction(1, 2), output_bytes=2, psum_bytes=4)
    dram, everywhere = [[1] * 8, [1] * 8, [1] * 8, [1] * 8], [[False] * 3, [True] * 3, [False] * 3]
    dram[Level.GLOBAL_BUFFER] = list(layer.bounds)
    order = [[], [Dim.K, Dim.C], [], []]
    mapping = Mapping(temporal=dram, spatial=[[1] * 8] * 3, order=order, stored=everywhere)
    assert used_bytes(layer, PIMArchitecture(), mapping)[Level.DRAM] == {Tensor.I: 256, Tensor.W: 4096, Tensor.O: 128}
    assert check_mapping(layer, PIMArchitecture(), mapping) == []
    for figures in (predict(layer, PIMArchitecture(), mapping).figures, simulate(layer, PIMArchitecture(), mapping)):
        assert figures.row_activations == (1, 4, 1)
        assert figures.column_accesses == (8, 128, 4)


def test_narrow_elements_are_predicted_simulated_and_exported_alike() -> None:
    """Weights of 2 bits and inputs of 4: the columns and rows that the exported program scans, counted one by one."""
    layer = ConvWorkload(R=3, P=8, C=40, K=6, input_bytes=Fraction(1, 2), weight_bytes=Fraction(1, 4))
    loops = read_loops("3K6 1C40 1P4 0R3 WP2")
    stored = read_stored("0 1 1")
    mapping = Mapping(temporal=loops.temporal, spatial=loops.spatial, order=loops.order, stored=stored)
    case = Case(layer=layer, arch=PIMArchitecture(), mapping=mapping)
    rows = Rows(case)
    inputs, weights = numbers(layer, 1)
    program = build_program(layer, case.arch, mapping)
    assert (execute(program, inputs, weights, rows.scan) == convolve(layer, inputs, weights)).all()
    for figures in (predict(layer, case.arch, mapping).figures, simulate(layer, case.arch, mapping)):
        assert figures.column_accesses == tuple(rows.columns.values())
        assert figures.row_activations == tuple(rows.activations.values())


def test_width_that_does_not_divide_a_column_is_told() -> None:
    """32 B hold 85 elements of 3 bits and a rest."""
    (line,) = check_fits(ConvWorkload(weight_bytes=Fraction(3, 8)), PIMArchitecture())
    assert line == "DramTimings.co_w: a column of 32 B does not hold whole elements of 3 bit"


def test_whole_bytes_stay_as_they_are() -> None:
    """Only fractions change the unit: 4 bits make it half a byte, 5 bits a bit."""
    layer, arch = ConvWorkload(), PIMArchitecture()
    assert in_whole_units(layer, arch) == (layer, arch)
    for bits, scale in ((4, 2), (12, 2), (2, 4), (5, 8)):
        scaled, machine = in_whole_units(ConvWorkload(weight_bytes=Fraction(bits, 8), psum_bytes=4), arch)
        assert scaled.width_bytes == (scale, bits * scale // 8, scale, 4 * scale)
        assert (machine.row_bytes, machine.column_bytes) == (arch.row_bytes * scale, arch.column_bytes * scale)


def test_a_layer_s_own_widths_stay() -> None:
    """What a layer gives is neither the machine's nor that of `--bytes`."""
    network = shape_network("P=4,K=2")
    (node,) = network.layers
    own = attrs.evolve(network, layers=[attrs.evolve(node, bytes={"weight": Fraction(1, 2)})])
    for fitted in (on_machine(own, read_arch("attacc")), with_widths(own, (2, 2, 2, 4))):
        assert fitted.layers[0].workload.width_bytes == (2, Fraction(1, 2), 2, 4)


def test_sizes_with_a_half_byte_are_told_as_decimals() -> None:
    """One weight of 4 bits beside an input of 2 B and a sum of 4 B in a PE of one byte, of which half is usable."""
    everything = {"bypass_defined": True, "stores": (True, True, True)}
    pe = attrs.evolve(PIMArchitecture().hierarchy[Level.PE], entries=1, word_bytes=1, **everything)
    arch = PIMArchitecture(hierarchy=(pe, *PIMArchitecture().hierarchy[1:]))
    layer = ConvWorkload(input_bytes=2, weight_bytes=Fraction(1, 2), output_bytes=2, psum_bytes=4)
    (line,) = check_fits(layer, arch)
    assert line.endswith("I 2 + W 0.5 + O 4 = 6.5 B, there are 0 B (half of 1 B: double buffered)")


def test_what_bounds_a_mapping_of_narrow_elements_is_in_whole_bytes() -> None:
    """Three weights of 4 bits in a buffer are two bytes."""
    loops = read_loops("1K3")
    mapping = Mapping(temporal=loops.temporal, spatial=loops.spatial, order=loops.order, stored=read_stored("- 1 -"))
    bounds = find_bounds(ConvWorkload(K=3, weight_bytes=Fraction(1, 2)), PIMArchitecture(), mapping)
    assert [fill.used for fill in bounds.fills][Level.GLOBAL_BUFFER] == {Tensor.W: 2}
