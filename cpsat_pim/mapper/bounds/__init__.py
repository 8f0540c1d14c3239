"""Lower bounds on the cost of a layer, a spatial mapping or a tile, computed without the solver.

Labels such as (B1) are those of the bounds in docs/solver.md, where their proofs are.
"""
