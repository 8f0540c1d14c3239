"""Which mappings are searched: the subspaces of a layer, and the choices that constraints leave to each decision."""
