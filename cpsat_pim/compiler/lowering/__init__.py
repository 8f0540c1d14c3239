"""From a mapping to the commands of every channel, the contents of the banks, and back from the results."""

from cpsat_pim.compiler.lowering.contraction import Lowered, lower, predicted_ticks

__all__ = ["Lowered", "lower", "predicted_ticks"]
