"""A mapping of one layer onto one node: its values, file, dataflow class, constraints, and legality."""

from cpsat_pim.mapping.mapping import (
    BANKS,
    EVEN,
    ONE_BANK,
    OWN_BANKS,
    BankCounts,
    Banks,
    Factors,
    Mapping,
    Outside,
    Stored,
    banks_text,
    first_banks,
    is_bank_count,
    part_banks,
)

__all__ = [
    "BANKS",
    "EVEN",
    "ONE_BANK",
    "OWN_BANKS",
    "BankCounts",
    "Banks",
    "Factors",
    "Mapping",
    "Outside",
    "Stored",
    "banks_text",
    "first_banks",
    "is_bank_count",
    "part_banks",
]
