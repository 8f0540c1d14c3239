"""The independent count, by hand, and false certificates, which must be refused."""

from fractions import Fraction

import pytest

from tracesim.rings import SetBound, block_bound, covers, exchange, heaviest_load, ring_loads, walk, weights_bound

#: 2x2, nodes 0 1 / 2 3.
ROUND, CROSSED = (0, 1, 3, 2), (0, 3, 1, 2)


def test_a_walk_turns_once() -> None:
    """On 3 columns from (0, 0) to (2, 1): right, down, down."""
    assert list(walk(3, 0, 7)) == [(0, 1), (1, 4), (4, 7)]


def test_loads_by_hand() -> None:
    """Round the square each link of one direction carries 1. Crossed, 0 to 3 and 1 to 2 turn at 1 and 0:
    0 -> 1 -> 3, 3 -> 1, 1 -> 0 -> 2, 2 -> 0.
    """
    assert heaviest_load(2, [ROUND]) == 1
    assert ring_loads(2, [CROSSED]) == {(0, 1): 1, (1, 3): 1, (3, 1): 1, (1, 0): 1, (0, 2): 1, (2, 0): 1}


def test_an_exchange_brings_every_chunk_to_every_node() -> None:
    """Sets of 4 and of 2: 3 steps; in the second and third only the large set sends."""
    seen = exchange(4, [(0, 1, 5, 4), (2, 3)])
    assert (seen.steps, seen.step_loads) == (3, (1, 1, 1))
    assert seen.link_chunks[0, 1] == 3
    assert seen.link_chunks[2, 3] == 1
    assert seen.hops == 4 * 3 + 2


def test_rings_that_leave_a_node_out_do_not_cover() -> None:
    """A node twice, a node missing, a ring missing."""
    assert covers([(0, 1, 2)], [(1, 0, 2)])
    assert not covers([(0, 1, 2)], [(1, 0, 0)])
    assert not covers([(0, 1, 2)], [(1, 0)])
    assert not covers([(0, 1, 2)], [])


def test_a_block_counts_split_sets_over_links_out() -> None:
    """2x4, the left half: rows 0 and 1 lead out of it, so two links. Three sets cross, of which one lies inside."""
    sets = [(0, 2), (1, 3), (4, 6), (5, 1)]
    assert block_bound(2, 4, [(0, 2), (1, 3), (4, 6)], (0, 0, 2, 2)) == 2
    assert block_bound(2, 4, sets, (0, 0, 1, 1)) == 1
    with pytest.raises(ValueError, match="no link"):
        block_bound(2, 4, sets, (0, 0, 2, 4))


def test_link_weights_prove_their_ratio() -> None:
    """1x3, sets {0, 2} over three nodes: both links of each direction carry it, so 4 over 4 with unit weights."""
    weights = dict.fromkeys([(0, 1), (1, 0), (1, 2), (2, 1)], 1)
    assert weights_bound(1, 3, [(0, 2)], weights, [SetBound((2, 2), (0, 0))]) == Fraction(1)
    part = SetBound((0, 0), (0, 0), (((0,), 2),))
    assert weights_bound(1, 3, [(0, 2)], weights, [part]) == Fraction(1, 2)


@pytest.mark.parametrize(
    "bound",
    [
        SetBound((3, 2), (0, 0)),
        SetBound((2, 2), (0, 1)),
        SetBound((2, 2), (0, 0), (((0,), 1),)),
        SetBound((0, 0), (0, 0), (((0,), -1),)),
        SetBound((0, 0), (0, 0), (((0, 2), 1),)),
    ],
)
def test_a_proof_that_claims_too_much_is_refused(bound: SetBound) -> None:
    """Numbers above a route's weight, a negative value, a part that is all of the set."""
    weights = dict.fromkeys([(0, 1), (1, 0), (1, 2), (2, 1)], 1)
    with pytest.raises(ValueError, match=r"exceeds|proper part"):
        weights_bound(1, 3, [(0, 2)], weights, [bound])


@pytest.mark.parametrize("weights", [{}, {(0, 1): 0}, {(0, 1): -1, (1, 0): 2}, {(0, 2): 1}])
def test_weights_that_are_none_are_refused(weights: dict[tuple[int, int], int]) -> None:
    """Nothing, zeros, a negative one, one that is not on a link."""
    with pytest.raises(ValueError, match="weight"):
        weights_bound(1, 3, [(0, 2)], weights, [SetBound((0, 0), (0, 0))])
