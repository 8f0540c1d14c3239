"""The energy of a spatial mapping without refetches is a lower bound, and its terms are those of the exact counts."""

import math

import numpy as np
from hypothesis import assume, given, settings

from cpsat_pim.base.dims import IRRELEVANT, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import access_energies_fj, predict, to_nest, to_shape
from cpsat_pim.workload import ConvWorkload
from tables.bounds.spatial import Energies, Sharing, energy_terms, min_energy, needed_elements
from tables.nest import MACS
from tests.cross.cases import Case, cases


def energies_of(case: Case) -> Energies:
    """Return the machine's energies, and what its array shares."""
    return Energies(access_energies_fj(case.arch), Sharing(case.arch.multicast, case.arch.spatial_reduction))


def stored_set(case: Case, t: Tensor) -> tuple[bool, bool, bool]:
    """Return which levels store a tensor."""
    return case.mapping.stored[0][t], case.mapping.stored[1][t], case.mapping.stored[2][t]


def spent_fj(case: Case, t: Tensor) -> int:
    """Return the energy of a tensor's exact accesses."""
    accesses, costs = predict(case.layer, case.arch, case.mapping).figures.accesses, access_energies_fj(case.arch)
    return sum(count * costs[m][way] for m in Level for way, count in enumerate(accesses[m][t]))


@settings(max_examples=150)
@given(case=cases())
def test_energy_without_refetches_is_a_lower_bound(case: Case) -> None:
    """For every mapping with this spatial mapping and these stored sets."""
    pes, lanes = [case.mapping.array_factor(d) for d in Dim], list(case.mapping.spatial[2])
    shape, energies, vectors = to_shape(case.layer), energies_of(case), np.array([pes + lanes], np.int64)
    for t in Tensor:
        assert min_energy(shape, t, stored_set(case, t), energies, vectors)[0] <= spent_fj(case, t)


@settings(max_examples=100)
@given(case=cases())
def test_energy_terms_are_the_counted_accesses(case: Case) -> None:
    """The model's coefficients times the mapping's quantities give the exact energy of weights and outputs."""
    nest = to_nest(case.layer, case.mapping, case.arch.spatial_reduction)
    assume(not nest.rereads_copies())
    for t in (Tensor.W, Tensor.O):
        size, copies = case.layer.elements(t), math.prod(nest.array(d) for d in IRRELEVANT[t])
        fetched, used = size * nest.reuse(t, 0) * copies, size * nest.reuse(t, MACS)
        quantities = {f"moved{c}": size * nest.reuse(t, c) for c in range(3)}
        quantities |= {"macs": case.layer.macs, "one": size, "holders": size * copies}
        quantities |= {"fills": fetched, "held": fetched, "uses": used, "sums": used * copies}
        terms = energy_terms(t, stored_set(case, t), energies_of(case))
        assert sum(c * quantities[q] for q, c in terms.items()) == spent_fj(case, t)


def test_needed_elements_skip_what_the_stride_skips() -> None:
    """1x1 filters with stride 2 on 4 outputs use 4 of 7 positions."""
    assert needed_elements(to_shape(ConvWorkload(P=4, C=3, stride=(2, 1))), 0) == 12
