"""Random layers, machines and mappings, on which independent answers to the same question must agree."""
