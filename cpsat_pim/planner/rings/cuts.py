"""Lower bounds by cuts: what must leave a block of nodes, over the links that leave it.

Let B be a rectangle of nodes. A ring of a sharing set with a node inside of B and one outside leaves B at least once.
XY routes leave B only over links from a node of B to one that is not, so the heaviest of these k links carries at least
ceil(sets split by B / k). This holds for any routes and for any order of the rings.
"""

import numpy as np
from attrs import frozen

from cpsat_pim.planner.rings.instance import Instance, Mesh
from cpsat_pim.planner.rings.routes import Ints


@frozen(kw_only=True)
class Block:
    """A rectangle of nodes, the number of sets it splits and of links that leave it."""

    y: int
    x: int
    height: int
    width: int
    split_sets: int
    links_out: int

    @property
    def bound(self) -> int:
        """The load of the heaviest link is at least this."""
        return -(-self.split_sets // self.links_out)


def best_block(instance: Instance) -> Block:
    """Return the block with the largest bound; among equal ones the one with the largest ratio, then the first."""
    rows, cols = _spans(instance.mesh.rows), _spans(instance.mesh.cols)
    split, out = _split_sets(instance, rows, cols), _links_out(instance.mesh, rows, cols)
    bound = np.where(out > 0, -(-split // np.maximum(out, 1)), 0)
    ratio = np.where(bound == bound.max(), split / np.maximum(out, 1), -1.0)
    i, j = np.unravel_index(np.argmax(ratio), ratio.shape)
    (y0, y1), (x0, x1) = rows[i].tolist(), cols[j].tolist()
    return Block(y=y0, x=x0, height=y1 - y0, width=x1 - x0, split_sets=int(split[i, j]), links_out=int(out[i, j]))


def _spans(side: int) -> Ints:
    """int64[span][2]: all ranges [first, end) of positions."""
    return np.array([(a, b) for a in range(side) for b in range(a + 1, side + 1)], np.int64)


def _split_sets(instance: Instance, rows: Ints, cols: Ints) -> Ints:
    """int64[row span][column span]: sets with nodes on both sides; counted inside by prefix sums over the mesh."""
    mesh = instance.mesh
    split = np.zeros((len(rows), len(cols)), np.int64)
    for nodes in instance.sets:
        sums = np.zeros((mesh.rows + 1, mesh.cols + 1), np.int64)
        y, x = np.divmod(np.array(nodes), mesh.cols)
        sums[y + 1, x + 1] = 1
        sums = sums.cumsum(0).cumsum(1)
        strips = sums[rows[:, 1]] - sums[rows[:, 0]]
        inside = strips[:, cols[:, 1]] - strips[:, cols[:, 0]]
        split += (inside > 0) & (inside < len(nodes))
    return split


def _links_out(mesh: Mesh, rows: Ints, cols: Ints) -> Ints:
    """int64[row span][column span]: links from a node inside to one outside; sides on the mesh's border have none."""
    open_rows = (rows[:, 0] > 0).astype(np.int64) + (rows[:, 1] < mesh.rows)
    open_cols = (cols[:, 0] > 0).astype(np.int64) + (cols[:, 1] < mesh.cols)
    heights, widths = rows[:, 1] - rows[:, 0], cols[:, 1] - cols[:, 0]
    return np.outer(open_rows, widths) + np.outer(heights, open_cols)
