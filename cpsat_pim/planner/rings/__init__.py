"""Data exchange of sharing sets along rings: least load of the heaviest link, with a lower bound and its certificate.

instance        meshes, sharing sets, masks of free digits
routes          XY routes and link loads
cuts            bounds by blocks of nodes
relaxation      bounds by link weights
certificate     what proves a bound
tours, constructions, merging, annealing, feasibility    rings: made, joined, searched, solved
decomposition   groups of sets that share no link
schedule        all of it in order
transposition   rows and columns exchanged
table           loads by mask, looked up
baselines       shortest tours and shortest paths, which ignore loads
two_phase       first along rows, then along columns, for small data
document, text, picture    JSON, what is printed, SVG
check           a schedule held against `tracesim.rings`
"""

from cpsat_pim.planner.rings.instance import Instance, Mask, Mesh, digits_instance, masked_instance
from cpsat_pim.planner.rings.schedule import NO_SEARCH, Effort, Schedule, schedule_rings

__all__ = [
    "NO_SEARCH",
    "Effort",
    "Instance",
    "Mask",
    "Mesh",
    "Schedule",
    "digits_instance",
    "masked_instance",
    "schedule_rings",
]
