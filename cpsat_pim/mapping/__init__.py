"""A mapping of one layer onto one node: its values, file, dataflow class, constraints, and legality."""

from cpsat_pim.mapping.mapping import BANKS, EVEN, OWN_BANKS, Banks, Factors, Mapping, Outside, Stored, banks_text

__all__ = ["BANKS", "EVEN", "OWN_BANKS", "Banks", "Factors", "Mapping", "Outside", "Stored", "banks_text"]
