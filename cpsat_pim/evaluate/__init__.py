"""The cost of a mapping: predicted exactly by `tables`, and simulated by `tracesim`, which is the reference."""
