"""The three subspaces into which the mappings of a layer are divided. Each has master problems of its own."""

from enum import Enum


class Subspace(Enum):
    """A part of the search space. Every mapping has the cost of a mapping in one of them.

    `ALIGNED`: at least one tensor is row-aligned. Without a row-aligned tensor the row buffer stores nothing, so a loop
    of it acts like a loop of the DRAM. `MERGED`: no tensor is row-aligned, and each dim has one loop outside the global
    buffer. `SPLIT`: no tensor is row-aligned, and some dim has two loops there. With a loop of another dim between
    them, these can open fewer rows than one loop in place of both (docs/solver.md, B14).
    """

    MERGED = "merged"
    ALIGNED = "aligned"
    SPLIT = "split"

    @property
    def is_aligned(self) -> bool:
        """Whether some tensor is row-aligned."""
        return self is Subspace.ALIGNED
