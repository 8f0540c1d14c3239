"""The parts of a layer's space, each with programs of its own."""

from enum import Enum


class Subspace(Enum):
    """Of no tensor row-aligned, or of at least one.

    Without a row-aligned tensor a loop of the row buffer is as good as one of the DRAM, so one loop per dim outside the
    global buffer says all (`MERGED`), unless there are two of some dim (`SPLIT`): with another loop between them these
    can open fewer rows than one (docs/model.md, section 8).
    """

    MERGED = "merged"
    ALIGNED = "aligned"
    SPLIT = "split"

    @property
    def is_aligned(self) -> bool:
        """Whether some tensor is row-aligned."""
        return self is Subspace.ALIGNED
