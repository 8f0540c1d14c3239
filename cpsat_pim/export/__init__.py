"""Mappings for other tools: DRAM traces for cycle-accurate simulators, YAML for Timeloop (docs/export.md)."""
