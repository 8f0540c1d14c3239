"""A network on an array of nodes: partitions, homes, data exchange, proven plans."""
