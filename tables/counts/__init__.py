"""Exact counts of one mapped layer: accesses, DRAM columns, row activations, cycles, and the cost made of them."""
