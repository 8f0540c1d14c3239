"""The CP-SAT model of one layer: the only package that knows the solver."""

from cpsat_pim.mapper.search.solve import Progress, solve_layer
from cpsat_pim.mapper.search.state import Options

__all__ = ["Options", "Progress", "solve_layer"]
