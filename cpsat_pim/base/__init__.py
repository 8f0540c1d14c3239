"""The vocabulary of the package (dims, units, rules for fields) and what reads and writes files."""
