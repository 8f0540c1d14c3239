"""Stacks, sums and lives of tensors, by hand."""

from typing import Any

import pytest

from tests.tracesim.array.networks import layer
from tests.tracesim.array.plans import DRAM, array, home, step
from tracesim.array.capacity import Life, lives
from tracesim.array.inputs import build_case
from tracesim.array.network import derive_network
from tracesim.array.readings import Member, Reading, stack_channels
from tracesim.array.records import ADD, CONCAT, Plan

NODE = (0, 0, 1, 1)


def build(layers: list[Any], segments: Any = None, channels: int = 1) -> Plan:
    """Return a plan on one node, or with these segments of (region, layers) on 1 x 2."""
    placed = segments or [[(NODE, (number,))] for number in range(len(layers))]
    regions = {number: region for segment in placed for region, numbers in segment for number in numbers}
    steps = tuple(step(regions[number]) for number in range(len(layers)))
    names = tuple(tuple(tuple(numbers) for _, numbers in segment) for segment in placed)
    homes = (home(NODE),) * (len(layers) + 1)
    return Plan(array(1, 2), DRAM, (1, channels, 1, 1), 1, tuple(layers), steps, homes, names)


def test_first_reader_decides_the_order_of_a_stack() -> None:
    """One reads 2 then 1, another 1, 3: the stack is 2, 1, 3 with 2, 1 and 1 channels."""
    layers = [
        layer((0,), K=1),
        layer((0,), K=2),
        layer((0,), K=1),
        layer((2, 1), C=3, join=CONCAT),
        layer((1, 3), C=2, join=CONCAT),
        layer((3, 2), C=3, join=CONCAT),
    ]
    network = derive_network(build(layers))
    assert network.stacks[2] == (2, 1, 3)
    assert network.members[1:4] == (Member(2, 2), Member(2, 0), Member(2, 3))
    assert network.inputs[4][0].spans == ((2, 1), (3, 1))
    # Channels 0, 1, 2 of the last reader: all of tensor 3, then both of tensor 2.
    assert stack_channels(network.inputs[5][0], (0, 3)) == [(3, 4), (0, 2)]


def test_range_of_a_readers_channels_may_begin_within_a_tensor() -> None:
    """Spans of 2 at 5 and 3 at 0: channels 1 to 3 are 6, 0 and 1."""
    assert stack_channels(Reading((1, 2), 1, ((5, 2), (0, 3)), (0, 2)), (1, 4)) == [(6, 7), (0, 2)]


def test_sum_of_a_sum_is_finished_by_the_last_layer() -> None:
    """1 + 2 is finished by layer 1; 4 + (1 + 2) by layer 3, which runs later."""
    layers = [layer((0,)), layer((0,)), layer((1, 2), join=ADD), layer((3,)), layer((4, 1), join=ADD)]
    sums = derive_network(build(layers)).sums
    assert (sums[1].finisher, sums[4].finisher) == (1, 3)


def test_layer_that_would_finish_two_sums_is_refused() -> None:
    """3 + (1 + 2) waits for layer 1, too, if 3 is the input."""
    layers = [layer((0,)), layer((0,)), layer((1, 2), join=ADD), layer((0, 1), join=ADD)]
    with pytest.raises(ValueError, match="two sums at once"):
        derive_network(build(layers))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([layer((0,)), layer((0,), K=2), layer((1, 2), join=ADD)], "differ in shape"),
        ([layer((0,)), layer((0,)), layer((1, 2), join=ADD), layer((1, 0), join=ADD)], "another one"),
        ([layer((0,)), layer((0,), P=2), layer((1, 2), C=2, join=CONCAT)], "different sizes"),
        ([layer((0,)), layer((1, 1), C=2, join=CONCAT)], "concatenates a tensor twice"),
        ([layer((0,)), layer((0, 1), R=2, weight_dim=4)], "R = S = 1"),
        ([layer((0,)), layer((0, 1), K=2, weight_dim=5)], "reads W of shape"),
        ([layer((0, 0))], "reads one tensor"),
        ([layer((2,))], "from before the layer"),
    ],
)
def test_networks_that_do_not_fit_are_refused(layers: list[Any], message: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(ValueError, match=message):
        build_case(build(layers))


def test_tensors_live_from_their_layer_to_their_last_use() -> None:
    """Input to layer 1; 1 until the sum's reader; 2 only finishes the sum; 3 is read to the end; 4, 5 by nobody."""
    layers = [layer((0,)), layer((0,)), layer((1, 2), join=ADD), layer((3,)), layer((3,))]
    found = lives(build_case(build(layers)))
    assert found == {0: Life(0, 1), 1: Life(0, 2), 3: Life(2, 4), 4: Life(3, 4), 5: Life(4, 4)}


def test_segment_of_two_regions_holds_whatever_lives_in_it() -> None:
    """Layers 1 and 2 run side by side: 1, which only layer 1 reads, is there for both; their sum is made at the end."""
    other = (0, 1, 1, 1)
    layers = [layer((0,)), layer((1,)), layer((0,)), layer((2, 3), join=ADD)]
    segments = [[(NODE, (0,))], [(NODE, (1,)), (other, (2,))], [(NODE, (3,))]]
    found = lives(build_case(build(layers, segments)))
    assert found == {0: Life(0, 2), 1: Life(0, 2), 2: Life(1, 3), 3: Life(1, 2), 4: Life(3, 3)}
