"""The proven optimum of one layer on one node, and of a network's layers each on its own."""
