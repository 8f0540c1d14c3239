"""Differential testing: independent computations must agree on random layers, machines and mappings."""
