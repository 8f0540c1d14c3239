"""Kernels of several statements: for every statement the host or a mapping, and one layout for every matrix."""
