"""Decisions that couple the layers of a model, by CP-SAT: one layout of a weight for all batch sizes, one layout of
keys and values for all lengths, host or PIM or both for every layer, and what the banks hold.
"""
