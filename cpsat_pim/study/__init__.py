"""Studies that consist of many solves: sweeps, comparisons with baseline mappers, and fuzzing."""
