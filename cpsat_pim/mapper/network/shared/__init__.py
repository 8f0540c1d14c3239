"""Choices that all layers of a network share, best for their sum: what levels store, and how tensors lie in DRAM."""

from cpsat_pim.mapper.network.shared.decisions import (
    ON_CHIP,
    SHARES,
    Choice,
    Decision,
    changed,
    constrained,
    decisions_of,
)
from cpsat_pim.mapper.network.shared.layer import SharedLayer, bound_of
from cpsat_pim.mapper.network.shared.network import solve_shared
from cpsat_pim.mapper.network.shared.search import SharedSearch
from cpsat_pim.mapper.network.shared.solving import Solving

__all__ = [
    "ON_CHIP",
    "SHARES",
    "Choice",
    "Decision",
    "SharedLayer",
    "SharedSearch",
    "Solving",
    "bound_of",
    "changed",
    "constrained",
    "decisions_of",
    "solve_shared",
]
