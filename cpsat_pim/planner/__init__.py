"""Whole networks on an array of nodes: what a plan is, what it costs, and the best one with proof (docs/array.md)."""
