"""Instances that tests draw, and the optimum of small ones by trying all rings."""

from itertools import permutations, product

from hypothesis import strategies as st

from cpsat_pim.planner.rings import Instance, Mask, Mesh
from tracesim.rings import heaviest_load

#: Sides that are powers of two.
POWERS = (1, 2, 4, 8)


@st.composite
def masks(draw: st.DrawFn, sides: tuple[int, ...] = POWERS) -> tuple[Mesh, Mask]:
    """A mesh with sides that are powers of two, and one of its masks."""
    rows, cols = draw(st.tuples(st.sampled_from(sides), st.sampled_from(sides)).filter(lambda s: s[0] * s[1] > 1))
    free = draw(st.integers(1, rows * cols - 1))
    return Mesh(rows=rows, cols=cols), Mask(rows=free // cols, cols=free % cols)


@st.composite
def instances(draw: st.DrawFn, longest_side: int = 4, most_sets: int = 3, largest_set: int = 6) -> Instance:
    """Any sets of nodes of a small mesh."""
    sides = st.integers(1, longest_side)
    rows, cols = draw(st.tuples(sides, sides).filter(lambda s: s[0] * s[1] > 1))
    nodes = draw(st.permutations(range(rows * cols)))
    sets = []
    for _ in range(draw(st.integers(1, most_sets))):
        size = draw(st.integers(2, largest_set))
        if len(nodes) < size:
            break
        sets.append(nodes[:size])
        nodes = nodes[size:]
    return Instance(mesh=Mesh(rows=rows, cols=cols), sets=sets or [range(rows * cols)])


def optimum(instance: Instance) -> int:
    """The least heaviest load, by trying all rings of all sets."""
    options = [[(s[0], *rest) for rest in permutations(s[1:])] for s in instance.sets]
    return min(heaviest_load(instance.mesh.cols, rings) for rings in product(*options))
