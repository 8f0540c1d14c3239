"""Exact counts of a mapped layer: reuse, accesses, DRAM columns, row activations and cycles, and the seeds' estimators."""
