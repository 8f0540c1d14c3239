"""Which tensors share the banks of a node: the assignments that are searched (docs/model.md, section 5)."""

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Tensor
from cpsat_pim.mapper.result import Budget
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import BANKS, OWN_BANKS, Banks
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.workload import ConvWorkload


def restrictions(
    layer: ConvWorkload, arch: PIMArchitecture, constraints: Constraints, budget: Budget
) -> list[Restriction]:
    """Return what the searches of a layer are restricted to: each subspace that is not empty, for each assignment to
    banks and, where tensors share a bank, for each that may be fetched by most loops.
    """
    found = [
        Restriction(layer, arch, evolve(constraints, banks=banks), subspace, budget, most_fetched)
        for banks in searched_banks(arch, constraints.banks)
        for most_fetched in most_fetched_tensors(arch, banks)
        for subspace in Subspace
    ]
    return [restriction for restriction in found if not restriction.is_empty]


def searched_banks(arch: PIMArchitecture, fixed: Banks | None = None) -> list[Banks]:
    """Return the assignments of a machine that are searched: the fixed one, or those with as many parts as possible.

    Any other assignment becomes one of these if a part is divided. That opens no row more, as each tensor is
    interrupted at no other places, and banks then work side by side. That the *predicted* latency falls with it was
    only enumerated, for tiny layers: the declared space leaves the others out. The fixed one is absent if the node has
    too few banks for it.
    """
    if fixed is not None:
        return [fixed] if part_count(fixed) <= (arch.node_banks or len(Tensor)) and _can_share(arch, fixed) else []
    most = min(arch.node_banks or len(Tensor), len(Tensor))
    return [banks for banks in BANKS.values() if part_count(banks) == most]


def most_fetched_tensors(arch: PIMArchitecture, banks: Banks) -> list[Tensor | None]:
    """Return the tensors of a shared bank of which more loops may fetch one than any other; of such mappings each is
    searched by itself. Only [None] if no tensors share a bank, or if all rows are closed after every scan anyway.
    """
    shared = [t for t in Tensor if banks.count(banks[t]) > 1]
    return [*shared] if shared and arch.page_policy == "open" else [None]


def part_count(banks: Banks) -> int:
    """Return the number of parts of an assignment: each takes one bank."""
    return len(set(banks))


def _can_share(arch: PIMArchitecture, banks: Banks) -> bool:
    """Whether tensors of the machine may share banks, or each has its own anyway."""
    return arch.node_banks is not None or banks == OWN_BANKS
