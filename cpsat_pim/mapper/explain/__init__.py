"""Explanations: why nothing is feasible, what bounds a mapping, what one step more of the machine would save."""

from cpsat_pim.mapper.explain.bounds import Bounds, Fill, Resource, Share, find_bounds
from cpsat_pim.mapper.explain.infeasible import Conflict, Member, Threshold, find_conflict
from cpsat_pim.mapper.explain.layers import Explained, ExplainRequest, explain_layer, explain_network
from cpsat_pim.mapper.explain.limits import Limit, Problem
from cpsat_pim.mapper.explain.oracle import Oracle
from cpsat_pim.mapper.explain.upgrades import Gain, Known, Upgrade, sum_gains, upgrades_of

__all__ = [
    "Bounds",
    "Conflict",
    "ExplainRequest",
    "Explained",
    "Fill",
    "Gain",
    "Known",
    "Limit",
    "Member",
    "Oracle",
    "Problem",
    "Resource",
    "Share",
    "Threshold",
    "Upgrade",
    "explain_layer",
    "explain_network",
    "find_bounds",
    "find_conflict",
    "sum_gains",
    "upgrades_of",
]
