"""Results of solves: status, lower bound, mapping and figures, free of the solver; they recost themselves."""

from cpsat_pim.mapper.result.layer import Predicted, ProgressPoint, SolvedLayer
from cpsat_pim.mapper.result.network import NetworkLayer, SharedChoice, SolvedNetwork
from cpsat_pim.mapper.result.objective import NO_LIMIT, Budget, Objective, SecondObjective, Status

__all__ = [
    "NO_LIMIT",
    "Budget",
    "NetworkLayer",
    "Objective",
    "Predicted",
    "ProgressPoint",
    "SecondObjective",
    "SharedChoice",
    "SolvedLayer",
    "SolvedNetwork",
    "Status",
]
