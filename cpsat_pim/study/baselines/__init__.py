"""Mappers to beat: heuristics, searches and the seeds' estimates; legal mappings, scored by the exact cost."""
