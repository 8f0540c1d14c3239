"""Exact ticks of the command streams that the compiler emits: recurrences on ints and arrays, compiled.

steps   the steps of a mapping and the barrier groups they become
walk    the ticks of a sequence of barrier groups
sweep   the best of many mappings
"""
