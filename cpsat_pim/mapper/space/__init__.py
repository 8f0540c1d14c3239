"""Which mappings are searched: the subspaces of a layer, and what constraints leave of each decision."""
