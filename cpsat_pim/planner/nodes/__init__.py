"""What node programs cost: lower bounds at once, optima when a plan depends on them."""

from cpsat_pim.planner.nodes.costs import NodeCosts
from cpsat_pim.planner.nodes.problem import FREE_LAYOUTS, Layouts, NodeCost, NodeProblem, layout_index

__all__ = ["FREE_LAYOUTS", "Layouts", "NodeCost", "NodeCosts", "NodeProblem", "layout_index"]
