"""Exact ticks of the command streams that the compiler emits: recurrences on ints and arrays, compiled.

steps     the steps of a mapping and the barrier groups they become
walk      the ticks of a sequence of barrier groups on AttAcc
sweep     the best of many mappings
window    the ticks of runs under a controller that reorders commands between barriers (HBM-PIM)
in_order  the ticks of runs under a controller that issues commands in order (AiM, UPMEM)
"""
