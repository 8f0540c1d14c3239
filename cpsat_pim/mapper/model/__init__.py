"""The CP-SAT master problem of one layer: a relaxation whose objective is a lower bound on the exact cost."""
