"""Branches of a network side by side on regions of the array: blocks of layers, slicing trees, and their costs."""

from cpsat_pim.planner.branches.blocks import Block, find_blocks
from cpsat_pim.planner.branches.cuts import Leaf, members
from cpsat_pim.planner.branches.parallel import Parallel

__all__ = ["Block", "Leaf", "Parallel", "find_blocks", "members"]
