"""The CP-SAT master problem of one layer: a relaxation whose objective is a lower bound on the exact cost.

Labels such as (B5) are those of the bounds in docs/solver.md, where their proofs are.
"""
