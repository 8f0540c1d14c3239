"""JSON Schemas of the files that users write, derived from the same descriptions that read the files."""

from typing import Any

from cpsat_pim.arch.reading import ARCHS
from cpsat_pim.mapping.constraints import CONSTRAINTS
from cpsat_pim.mapping.mapping_file import MAPPINGS
from cpsat_pim.planner.plan_constraints import PLAN_CONSTRAINTS
from cpsat_pim.study.sweep.reading import PLANS
from cpsat_pim.tuner.reading import SPACES, TUNE_PLANS
from cpsat_pim.workload.network import NETWORKS

FILE_KINDS = {"arch": ARCHS, "network": NETWORKS, "mapping": MAPPINGS, "constraints": CONSTRAINTS, "sweep": PLANS}
FILE_KINDS |= {"space": SPACES, "tune": TUNE_PLANS, "plan-constraints": PLAN_CONSTRAINTS}


def schema_of(kind: str) -> dict[str, Any]:
    """Return the schema of a kind of file; `kind` is a key of `FILE_KINDS`."""
    return FILE_KINDS[kind].schema()
