"""Baseline mappers: heuristics, searches and the seeds' estimates; they return legal mappings, scored by the exact
cost.
"""
