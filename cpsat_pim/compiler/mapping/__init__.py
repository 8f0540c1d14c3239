"""What is decided about a kernel: how it is cut over channels, cores and lanes, and in which order it runs."""

from cpsat_pim.compiler.mapping.contraction import CLASSES, Contraction, contraction_of
from cpsat_pim.compiler.mapping.mapping import Mapping

__all__ = ["CLASSES", "Contraction", "Mapping", "contraction_of"]
