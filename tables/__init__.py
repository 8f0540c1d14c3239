"""What predicts: exact counts of layers, plans and command streams, lower bounds, and the literature's estimators."""
