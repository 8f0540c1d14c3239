"""A mapping of one layer onto one node: its values, file, dataflow class, constraints, and legality."""

from cpsat_pim.mapping.mapping import EVEN, Factors, Mapping, Outside, Stored

__all__ = ["EVEN", "Factors", "Mapping", "Outside", "Stored"]
