"""A mapping of one layer onto one node: its values, its file, its dataflow class, constraints on it, and its legality."""

from cpsat_pim.mapping.mapping import EVEN, Factors, Mapping, Outside, Stored

__all__ = ["EVEN", "Factors", "Mapping", "Outside", "Stored"]
