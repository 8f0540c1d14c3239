"""Layers, networks, and padding."""

from cpsat_pim.workload.layer import ConvWorkload

__all__ = ["ConvWorkload"]
