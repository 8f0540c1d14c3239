"""Lower bounds by cuts: what must leave a block of nodes, over the links that leave it.

Let B be a rectangle of nodes. A ring of a sharing set with a node inside of B and one outside leaves B at least once.
XY routes leave B only over links from a node of B to one that is not, so the heaviest of these k links carries at least
ceil(sets split by B / k). This holds for any routes and for any order of the rings.

The same blocks bound every exchange, by rings or not: of a set of n nodes with i inside, the n - i chunks of the others
must enter B, over as many links as leave it. And every node receives n - 1 chunks.
"""

from collections.abc import Callable

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
    split, out = _counted(instance, rows, cols, _is_split), _links_out(instance.mesh, rows, cols)
    bound = np.where(out > 0, -(-split // np.maximum(out, 1)), 0)
    ratio = np.where(bound == bound.max(), split / np.maximum(out, 1), -1.0)
    i, j = np.unravel_index(np.argmax(ratio), ratio.shape)
    (y0, y1), (x0, x1) = rows[i].tolist(), cols[j].tolist()
    return Block(y=y0, x=x0, height=y1 - y0, width=x1 - x0, split_sets=int(split[i, j]), links_out=int(out[i, j]))


def exchange_bound(instance: Instance) -> int:
    """Return a lower bound on the chunk times of any exchange of the sets, by rings or not.

    A link, and the port of a node, passes one chunk at a time.
    """
    rows, cols = _spans(instance.mesh.rows), _spans(instance.mesh.cols)
    entering = _counted(instance, rows, cols, _chunks_outside)
    links = _links_out(instance.mesh, rows, cols)
    by_blocks = np.where(links > 0, -(-entering // np.maximum(links, 1)), 0)
    return max(instance.steps, int(by_blocks.max()))


def _spans(side: int) -> Ints:
    """int64[span][2]: all ranges [first, end) of positions."""
    return np.array([(a, b) for a in range(side) for b in range(a + 1, side + 1)], np.int64)


def _is_split(inside: Ints, size: int) -> Ints:
    """1 where a set has nodes on both sides."""
    return ((inside > 0) & (inside < size)).astype(np.int64)


def _chunks_outside(inside: Ints, size: int) -> Ints:
    """Chunks that must enter a block: those of the nodes outside, if some node inside wants them."""
    return np.where(inside > 0, size - inside, 0)


def _counted(instance: Instance, rows: Ints, cols: Ints, count: Callable[[Ints, int], Ints]) -> Ints:
    """int64[row span][column span]: a count of each set, added up over all sets, by its nodes inside of each block.

    Nodes inside are prefix sums over the mesh.
    """
    mesh = instance.mesh
    total = np.zeros((len(rows), len(cols)), np.int64)
    for nodes in instance.sets:
        sums = np.zeros((mesh.rows + 1, mesh.cols + 1), np.int64)
        y, x = np.divmod(np.array(nodes), mesh.cols)
        sums[y + 1, x + 1] = 1
        sums = sums.cumsum(0).cumsum(1)
        strips = sums[rows[:, 1]] - sums[rows[:, 0]]
        inside = strips[:, cols[:, 1]] - strips[:, cols[:, 0]]
        total += count(inside, len(nodes))
    return total


def _links_out(mesh: Mesh, rows: Ints, cols: Ints) -> Ints:
    """int64[row span][column span]: links from a node inside to one outside; sides on the mesh's border have none."""
    open_rows = (rows[:, 0] > 0).astype(np.int64) + (rows[:, 1] < mesh.rows)
    open_cols = (cols[:, 0] > 0).astype(np.int64) + (cols[:, 1] < mesh.cols)
    heights, widths = rows[:, 1] - rows[:, 0], cols[:, 1] - cols[:, 0]
    return np.outer(open_rows, widths) + np.outer(heights, open_cols)
