"""What node programs cost: lower bounds at once, optima when a plan depends on them."""

from cpsat_pim.planner.nodes.costs import NodeCosts
from cpsat_pim.planner.nodes.problem import FREE_LAYOUTS, Layouts, NodeCost, NodeProblem, layout_index
from cpsat_pim.planner.nodes.workers import WorkerKilled

__all__ = ["FREE_LAYOUTS", "Layouts", "NodeCost", "NodeCosts", "NodeProblem", "WorkerKilled", "layout_index"]
