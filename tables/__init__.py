"""Exact counts of a mapped layer: reuse, accesses, DRAM columns, row activations, cycles, and the seeds' estimators."""
