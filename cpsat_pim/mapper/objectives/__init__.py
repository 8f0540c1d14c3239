"""Objectives that take several solves of one layer: the product of latency and energy, and padded layers."""
