"""Lower bounds on what a layer, a spatial mapping or a tile costs, found without the solver."""
