"""Lower bounds for sets of mappings: what spatial mappings, tiles, outer loops and scans cost at least."""
