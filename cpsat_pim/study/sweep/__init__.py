"""Sweeps: machines x networks x objectives x options, each different job solved once and kept (docs/sweep.md).

A plan (`plan`, read by `reading` and `points`) names points; their layers are jobs (`job`), which an engine (`engine`)
solves and one process (`run`) writes to a store (`store`), from which results are exported (`export`).
"""
