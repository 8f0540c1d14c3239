"""The CP-SAT model of one layer: the only package that knows the solver."""

from cpsat_pim.model.search import Options
from cpsat_pim.model.solve import Progress, solve_layer

__all__ = ["Options", "Progress", "solve_layer"]
