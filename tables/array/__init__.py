"""Exact counts of what a step of a plan moves between nodes: flits a link, DRAM columns and activations."""
