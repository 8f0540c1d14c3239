"""The validator: is a mapping legal on a machine? Plain Python, no tables, no solver, arithmetic of its own.

A mapping must be well-formed (`form`), have legal loops (`loops`), store what it may (`storage`) and fit the machine's
memories (`capacity`). Relevancy is no property of one mapping: `box_elems` names the dims of each tensor, and its tests
compare them with `RELEVANT`.
"""

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check.capacity import CapacityRules, used_bytes
from cpsat_pim.mapping.check.fits import check_fits
from cpsat_pim.mapping.check.form import Form
from cpsat_pim.mapping.check.loops import LoopRules
from cpsat_pim.mapping.check.mapped import REDUCTIONS, box_elems
from cpsat_pim.mapping.check.storage import StorageRules
from cpsat_pim.workload import ConvWorkload

__all__ = ["REDUCTIONS", "box_elems", "check_fits", "check_mapping", "used_bytes"]

_RULES = (LoopRules, StorageRules, CapacityRules)


def check_mapping(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> list[str]:
    """One line per broken rule, in the words of the architecture; none for a legal mapping.

    A mapping that is not even well-formed is told so and not looked at any further.
    """
    return [*Form(arch, mapping).violations()] or [
        line for rules in _RULES for line in rules(layer, arch, mapping).violations()
    ]
