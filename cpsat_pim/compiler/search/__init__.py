"""The best mapping of a kernel, with the space it was sought in."""

from cpsat_pim.compiler.search.space import SpaceOf, space_of
from cpsat_pim.compiler.search.sweep import Optimum, best_mapping

__all__ = ["Optimum", "SpaceOf", "best_mapping", "space_of"]
