"""Lower bounds on the cost of a layer, a spatial mapping or a tile, computed without the solver."""
