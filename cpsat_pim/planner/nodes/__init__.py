"""What node programs cost: lower bounds at once, optima when a plan depends on them."""

from cpsat_pim.planner.nodes.costs import NodeCosts
from cpsat_pim.planner.nodes.problem import (
    FREE_LAYOUTS,
    HIGHEST,
    Layouts,
    NodeCost,
    NodeProblem,
    Useful,
    highest,
    layout_index,
)
from cpsat_pim.planner.nodes.workers import WorkerKilled

__all__ = [
    "FREE_LAYOUTS",
    "HIGHEST",
    "Layouts",
    "NodeCost",
    "NodeCosts",
    "NodeProblem",
    "Useful",
    "WorkerKilled",
    "highest",
    "layout_index",
]
