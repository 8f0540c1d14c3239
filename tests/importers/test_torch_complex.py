"""Products of complex tensors of PyTorch programs are counted in real multiply-accumulates."""

from pathlib import Path

import pytest

from cpsat_pim.importers import import_network
from cpsat_pim.workload.network import Network

pytest.importorskip("torch", reason="needs the extra: pip install 'cpsat-pim[torch]'")


@pytest.fixture(autouse=True)
def in_this_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's module is looked for in the working directory."""
    monkeypatch.chdir(Path(__file__).parent)


def imported(function: str, **bind: int) -> Network:
    """The network of a function of the models beside this file."""
    return import_network(f"torch_complex:{function}", bind).network


def macs_of(network: Network) -> list[tuple[str, int]]:
    """The multiply-accumulates of each layer."""
    return [(node.name, node.count * node.workload.macs) for node in network.layers]


@pytest.mark.parametrize(
    "function", ["matrices", "linear", "vectors", "swapped", "convolutions", "einsum", "multiply_and_sum"]
)
def test_complex_product_is_four_real_ones(function):
    """(a + bi)(c + di) = (ac - bd) + (ad + bc)i, in each layer of the same model with real elements."""
    real, both = imported(function, complex_elements=0), imported(function)
    assert macs_of(both) == [(name, 4 * macs) for name, macs in macs_of(real)]


def test_result_of_a_complex_product_has_two_real_elements_each():
    """3 x 4 complex elements times 4 x 5: rows of 8 real ones become rows of 10."""
    (node,) = imported("linear").layers
    assert (node.workload.P, node.workload.C, node.workload.K) == (3, 8, 10)


def test_complex_groups_stay_groups():
    """Two groups of 2 channels to 3, 3 x 3 taps: of 4 real ones to 6."""
    node = imported("convolutions").layers[0]
    assert (node.workload.G, node.workload.C, node.workload.K) == (2, 4, 6)


def test_product_of_complex_and_real_elements_is_two_real_ones():
    """Three rows of four, twice."""
    assert [macs for _, macs in macs_of(imported("mixed"))] == [2 * 12, 2 * 12]


def test_squared_magnitude_is_no_product_of_two_tensors():
    """Only the product of 3 x 4 by 4 x 2 complex elements is left."""
    assert [macs for _, macs in macs_of(imported("power"))] == [4 * 3 * 4 * 2]


def test_complex_tensor_made_of_two_reads_both():
    """3 rows of 10 real elements from 2 x 5, to 2 complex ones."""
    network = imported("joined")
    assert network.layers[-1].after == tuple(one.name for one in network.layers[:2])
    assert [macs for _, macs in macs_of(network)] == [60, 60, 3 * 10 * 4]
