"""Formulas of parameters in network files."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.workload.network import read_network
from cpsat_pim.workload.parameters import Formula
from tests.conftest import FileWriter


@pytest.fixture
def write(file_writer: FileWriter) -> Callable[[str | bytes], str]:
    """Write `net.yaml` in a directory of its own and return its name."""
    return file_writer("net.yaml")


NETWORK = """version: 1
parameters: {batch: 2, kv: 0}
layers:
- {name: a, N: batch, K: kv + 3, count: 2 * batch}
- {name: b, C: 5}
"""


@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 50))
def test_formula_is_integer_arithmetic(kv: int, heads: int, rest: int) -> None:
    """Products before sums, parentheses first, quotients rounded down."""
    values = {"kv": kv, "heads": heads}
    assert Formula(f"kv * heads + {rest}").value(values) == kv * heads + rest
    assert Formula(f"heads * (kv + {rest})").value(values) == heads * (kv + rest)
    assert Formula(f"(kv + {rest}) // heads + 1").value(values) == (kv + rest) // heads + 1


def test_file_has_its_own_values_and_takes_others(write: Callable[[str], str]) -> None:
    """The name says which values are not the file's."""
    own = read_network(write(NETWORK))
    assert [(n.workload.N, n.workload.K, n.count) for n in own.layers] == [(2, 3, 4), (1, 1, 1)]
    assert (own.name, own.parameters) == ("net", {"batch": 2, "kv": 0})
    other = read_network(write(NETWORK), parameters={"kv": 7})
    assert [(n.workload.N, n.workload.K, n.count) for n in other.layers] == [(2, 10, 4), (1, 1, 1)]
    assert (other.name, other.parameters) == ("net (kv=7)", {"batch": 2, "kv": 7})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("K: kv + 3", "K: kv + x", "layers[a].K: unknown parameter 'x'; there are batch, kv"),
        ("K: kv + 3", "K: kv", "layers[a].K: must be a positive integer (got kv = 0)"),
        ("K: kv + 3", "K: 3 // kv", "layers[a].K: 3 // kv divides by 0"),
        ("K: kv + 3", "K: kv ** 2", "layers[a].K: must be a positive integer, or a formula of parameters"),
        ("K: kv + 3", "K: print(1)", "layers[a].K: must be a positive integer, or a formula of parameters"),
        ("kv: 0", "kv: -1", "parameters[kv]: must be an integer of at least 0"),
    ],
)
def test_mistake_is_told_at_its_place(write: Callable[[str], str], old: str, new: str, message: str) -> None:
    """A line with the path of the size."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_network(write(NETWORK.replace(old, new)))
    assert message in str(caught.value)


def test_unknown_parameter_is_refused(write: Callable[[str], str]) -> None:
    """With the names that there are."""
    with pytest.raises(ValueError, match=r"no parameter is named 'x'; there are batch, kv"):
        read_network(write(NETWORK), parameters={"x": 1})
    with pytest.raises(ValueError, match=r"alexnet: no parameter is named 'x'; it has none"):
        read_network("alexnet", parameters={"x": 1})
