"""The layers of a network: solved in worker processes, verified, their Pareto fronts, choices that they share."""
