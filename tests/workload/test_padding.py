"""What layers may be padded to, and what it means that they are."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.base.dims import Dim
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import build_layer
from cpsat_pim.workload.padding import check_padding, is_awkward, padded_layers, padded_to


def sizes(bound: int, padding: float) -> list[int]:
    """What one bound may become."""
    return [layer.C for layer in padded_layers(ConvWorkload(C=bound), padding)]


@pytest.mark.parametrize(
    ("bound", "padded"),
    [
        (8, [8]),
        (11, [11, 12]),
        (13, [13, 14, 15, 16]),
        (55, [55, 56, 60, 63, 64]),
        (197, [197, 200, 210, 216, 224, 225, 240, 243, 245]),
        (1009, [1009, 1024, 1029, 1050, 1080, 1120, 1125, 1134, 1152, 1176, 1200, 1215, 1225, 1250, 1260]),
    ],
)
def test_awkward_bounds_are_padded_to_numbers_of_small_primes(bound: int, padded: list[int]) -> None:
    """All of them up to a quarter more, as tables of 7-smooth numbers have them."""
    assert sizes(bound, 0.25) == padded


@given(st.integers(1, 400))
def test_a_bound_is_awkward_if_it_has_a_prime_factor_above_7(n: int) -> None:
    """Trial division by every prime up to it says the same."""
    primes = [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]
    assert is_awkward(n) == any(p > 7 for p in primes)


def test_share_is_of_the_macs_of_the_whole_layer() -> None:
    """13 x 14 is 1/13 more than 13 x 13, which 14 x 14 (1.16 times as many) is more than; 0.1 of 110 is 11, exactly."""
    layer = ConvWorkload(P=13, Q=13, K=10)
    found = [padded.bounds for padded in padded_layers(layer, 0.08)]
    assert [(b[Dim.P], b[Dim.Q]) for b in found] == [(13, 13), (13, 14), (14, 13)]
    assert sizes(110, 0.1) == [110, 112, 120]  # 121 would be allowed, and is no number of small primes
    assert sizes(275, 0.02) == [275, 280]  # 1.02 x 275 is 280.5


def test_the_layer_is_first_and_its_padding_is_marked() -> None:
    """So a padded one still says what was asked for: all else is as it was."""
    layer = ConvWorkload(name="conv", P=55, Q=55, C=3, K=64, stride=(4, 4))
    first, *others = padded_layers(layer, 0.25)
    assert first == layer
    macs = [padded.macs for padded in others]
    assert macs == sorted(macs)
    assert layer.macs < macs[0] <= macs[-1] <= 1.25 * layer.macs
    for padded in others:
        assert padded.useful_macs == layer.macs == math.prod(layer.bounds)
        assert (padded.P - padded.zeros[Dim.P], padded.Q - padded.zeros[Dim.Q]) == (55, 55)
        assert (padded.name, padded.stride, padded.C, padded.K) == ("conv", (4, 4), 3, 64)


def test_more_padding_of_a_padded_layer_adds_up() -> None:
    """22 of which 1 is padding already: 24 has 3."""
    (_, padded, *_) = padded_layers(ConvWorkload(C=22, zeros={Dim.C: 1}), 0.1)
    assert (padded.C, padded.zeros[Dim.C], padded.useful_macs) == (24, 3, 21)


def test_a_layer_is_told_by_its_bounds() -> None:
    """The padded one that has them, or the layer itself."""
    layer = ConvWorkload(C=11)
    bounds = ConvWorkload(C=12).bounds
    assert padded_to(layer, bounds, 0.25).zeros[Dim.C] == 1
    assert padded_to(layer, bounds, 0) == layer


@pytest.mark.parametrize("padding", [-0.1, 1, 1.5, math.inf, math.nan, "12%", None, True])
def test_a_share_that_is_none_is_refused(padding: object) -> None:
    """With what was given."""
    with pytest.raises(ValueError, match=r"padding: must be a number from 0 to below 1 \(got"):
        check_padding(padding)  # type: ignore[arg-type]


def test_the_largest_layers_have_padded_ones_too() -> None:
    """None of 2^62 MACs."""
    prime = 2**61 - 1
    assert all(prime <= n < 2**62 for n in sizes(prime, 0.99))


# --- What it is ------------------------------------------------------------------------------------------------------


def convolved(layer: ConvWorkload, inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """O[k, q, p] of I[c, h, w] and W[k, c, s, r], term by term."""
    outputs = np.zeros((layer.K, layer.Q, layer.P), np.int64)
    for r, s, p, q, c, k in itertools.product(*map(range, layer.bounds[:6])):
        h, w = layer.stride[1] * q + layer.dilation[1] * s, layer.stride[0] * p + layer.dilation[0] * r
        outputs[k, q, p] += inputs[c, h, w] * weights[k, c, s, r]
    return outputs


def test_padding_changes_no_output() -> None:
    """Of tensors with zeros behind their ends the padded layer makes, where the layer has outputs, the same ones."""
    layer = ConvWorkload(R=3, S=2, P=3, Q=4, C=2, K=2, stride=(2, 1), dilation=(1, 2))
    padded = ConvWorkload(R=4, S=3, P=5, Q=5, C=3, K=4, stride=(2, 1), dilation=(1, 2), zeros=(1, 1, 2, 1, 1, 2, 0, 0))
    rng = np.random.default_rng(0)
    inputs, weights = (
        rng.integers(1, 9, (2, layer.input_height, layer.input_width)),
        rng.integers(1, 9, (2, 2, 2, 3)),
    )
    larger = [np.zeros((3, padded.input_height, padded.input_width), np.int64), np.zeros((4, 3, 3, 4), np.int64)]
    for tensor, values in zip(larger, (inputs, weights), strict=True):
        tensor[tuple(slice(n) for n in values.shape)] = values
    assert padded.useful_macs == layer.macs
    assert (convolved(padded, *larger)[:2, :4, :3] == convolved(layer, inputs, weights)).all()


def test_padding_is_part_of_the_shape() -> None:
    """As plain data only where there is any, and read back; so such layers are not taken for equal ones without."""
    layer = ConvWorkload(P=56, C=4, zeros={Dim.P: 1})
    assert layer.shape["zeros"] == {"P": 1}
    assert build_layer("file", layer.shape) == layer
    assert "zeros" not in ConvWorkload(P=56, C=4).shape
    assert layer.shape_key != ConvWorkload(P=56, C=4).shape_key


@pytest.mark.parametrize(
    ("zeros", "problem"),
    [
        ({Dim.P: 4}, r"ConvWorkload.zeros.P: must be below the bound 4 \(got 4\)"),
        ({Dim.P: -1}, "ConvWorkload.zeros: must be an integer of at least 0 for each dim"),
        ((1, 1), "ConvWorkload.zeros: must be an integer of at least 0 for each dim"),
        (1, "ConvWorkload.zeros: must be an integer of at least 0 for each dim"),
    ],
)
def test_padding_that_cannot_be_is_refused(zeros: object, problem: str) -> None:
    """With the field, the rule and what was given."""
    with pytest.raises(ValueError, match=problem):
        ConvWorkload(P=4, zeros=zeros)  # type: ignore[arg-type]


@given(*[st.integers(1, 9)] * 4)
def test_used_inputs_are_those_that_some_mac_reads(outputs: int, filters: int, stride: int, dilation: int) -> None:
    """Positions `stride * p + dilation * r`, listed; along both axes, for each sample, group and channel."""
    sizes = {"P": outputs, "R": filters, "Q": 2, "S": 1, "C": 3, "N": 2}
    layer = ConvWorkload(**sizes, stride=(stride, 5), dilation=(dilation, 1))
    listed = {stride * p + dilation * r for p in range(outputs) for r in range(filters)}
    assert layer.used_inputs == len(listed) * 2 * 3 * 2
