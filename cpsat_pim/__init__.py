"""Provably optimal mappings of neural-network layers onto DRAM processing-in-memory accelerators."""
