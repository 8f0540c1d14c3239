"""The search for the optimal mapping of one layer, by master problems, completions and cuts (docs/solver.md)."""

from cpsat_pim.mapper.search.request import OTHER, OnProgress, Progress, SolveRequest, ignore_progress
from cpsat_pim.mapper.search.solve import solve_layer

__all__ = ["OTHER", "OnProgress", "Progress", "SolveRequest", "ignore_progress", "solve_layer"]
