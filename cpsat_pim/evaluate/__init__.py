"""What a mapping costs: predicted exactly by `tables`, and simulated by `tracesim`, which is always right."""
