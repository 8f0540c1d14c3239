"""Which tensors share the banks of a node, and how many each has: what is searched (docs/model.md, section 5)."""

from itertools import combinations, product

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Tensor
from cpsat_pim.mapper.result import Budget
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import BANKS, ONE_BANK, OWN_BANKS, BankCounts, Banks, part_banks
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.workload import ConvWorkload

#: `Mapping.banks` and `Mapping.bank_counts`.
Assignment = tuple[Banks, BankCounts]


def restrictions(
    layer: ConvWorkload, arch: PIMArchitecture, constraints: Constraints, budget: Budget
) -> list[Restriction]:
    """Return what the searches of a layer are restricted to: each subspace that is not empty, for each assignment to
    banks and, where tensors share a bank, for each that may be fetched by most loops.
    """
    found = [
        Restriction(layer, arch, evolve(constraints, banks=banks, bank_counts=counts), subspace, budget, most_fetched)
        for banks, counts in searched_banks(arch, constraints)
        for most_fetched in most_fetched_tensors(arch, banks)
        for subspace in Subspace
    ]
    return [restriction for restriction in found if not restriction.is_empty]


def searched_banks(arch: PIMArchitecture, constraints: Constraints = FREE) -> list[Assignment]:
    """Return the assignments of a machine that are searched: of those that the constraints leave, the ones that none
    dominates (docs/solver.md, Bank counts). None if the node has too few banks for what they fix.

    Any other assignment becomes one of these if parts are divided or have twice the banks. That opens no row more: each
    tensor is interrupted at no other places, and its rows stay open for longer. The latency may rise by that of an
    access (docs/solver.md, Shared banks): the declared space leaves the others out all the same.
    """
    found = [
        (banks, counts)
        for banks in BANKS.values()
        for counts in _counts(arch, banks, constraints)
        if constraints.banks in (None, banks)
    ]
    return [one for one in found if not any(_dominates(other, one) for other in found)]


def most_fetched_tensors(arch: PIMArchitecture, banks: Banks) -> list[Tensor | None]:
    """Return the tensors of a shared bank of which more loops may fetch one than any other; of such mappings each is
    searched by itself. Only [None] if no tensors share a bank, or if all rows are closed after every scan anyway.
    """
    shared = [t for t in Tensor if banks.count(banks[t]) > 1]
    return [*shared] if shared and arch.page_policy == "open" else [None]


def _counts(arch: PIMArchitecture, banks: Banks, constraints: Constraints) -> list[BankCounts]:
    """Return how many banks the tensors can have: powers of two, one bank where several tensors share it."""
    wanted = constraints.bank_counts
    if arch.node_banks is None:
        return [ONE_BANK] if banks == OWN_BANKS and wanted in (None, ONE_BANK) else []
    powers = [1 << bits for bits in range(arch.most_banks.bit_length())]
    choices = product(*(powers if banks.count(part) == 1 else [1] for part in banks))
    fitting = [(i, w, o) for i, w, o in choices if sum(part_banks(banks, (i, w, o))) <= arch.node_banks]
    return [counts for counts in fitting if wanted in (None, counts)]


def _dominates(one: Assignment, other: Assignment) -> bool:
    """Whether an assignment divides the parts of another one, or leaves them as they are, and gives no tensor fewer
    banks.
    """
    (banks, counts), (coarse, fewer) = one, other
    if one == other or any(n < m for n, m in zip(counts, fewer, strict=True)):
        return False
    return all(coarse[t] == coarse[u] for t, u in combinations(Tensor, 2) if banks[t] == banks[u])
