"""The validator: check whether a mapping is legal on a machine, in plain Python, without `tables` or solver.

A mapping must be well-formed (`form`), have legal loops (`loops`), store what it may (`storage`), and fit the machine's
memories (`capacity`). Which dims a tensor depends on is not a property of one mapping: `box_elems` encodes it, and
tests compare it with `RELEVANT`.
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
    """Return one line per violated rule, with the architecture's names; none for a legal mapping.

    The other rules are not evaluated for a mapping that is not well-formed.
    """
    return [*Form(arch, mapping).violations()] or [
        line for rules in _RULES for line in rules(layer, arch, mapping).violations()
    ]
