"""Bytes per element: a network's own, or those of the machine's words."""

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.mapping.widths import machine_widths, on_machine, width_warnings, with_widths
from cpsat_pim.workload.network import read_network, shape_network


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
