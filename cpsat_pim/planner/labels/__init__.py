"""Label setting: the best plan of those that fit the nodes' DRAM, as a shortest path over layers with limited bytes."""
