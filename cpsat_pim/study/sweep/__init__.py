"""Sweeps: solve machines x networks x objectives x options, each distinct job once, and store the results
(docs/sweep.md).

A plan (`plan`, read by `reading` and `points`) lists points. Their layers are jobs (`job`), which an engine (`engine`)
solves. One process (`run`) writes the outcomes to a store (`store`), from which results are exported (`export`).
"""
