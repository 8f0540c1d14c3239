"""What must be so of two optima, whatever they are: a machine that can do more is never worse, equal roles are equal.

A machine with larger buffers, more PEs or freer choices has all the mappings of the lesser one, at the same cost: its
optimum is no worse for any objective. Another has the same mappings, none of which takes more energy or, simulated,
more time. Their predicted latency is an estimate (model.md, section 7) that may rise a little where a link gets
quicker, so of these machines' optima only the energy is compared.
"""

from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

import attrs
import numpy as np
import pytest

from cpsat_pim.arch import PhyDim2, PIMArchitecture, SeparateEntries
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.result import Objective, SolvedLayer
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.study.fuzz.campaign import traced_case, with_mappings
from cpsat_pim.study.fuzz.draw import Drawer
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_bounds import in_turns
from tests.cross.test_solver_against_enumeration import CASES, machine

#: Makes a machine of another one.
Change = Callable[[PIMArchitecture], PIMArchitecture]


def at(level: Level, **figures: Callable[[Any], Any]) -> Change:
    """Return a change of some figures of a level."""

    def change(arch: PIMArchitecture) -> PIMArchitecture:
        old = arch.hierarchy[level]
        new = attrs.evolve(old, **{name: figure(getattr(old, name)) for name, figure in figures.items()})
        return attrs.evolve(arch, hierarchy=[new if m == level else arch.hierarchy[m] for m in Level])

    return change


def having(**fields: Any) -> Change:
    """Return a change of some fields of the machine."""
    return lambda arch: attrs.evolve(arch, **fields)


def with_array(**fields: Any) -> Change:
    """Return a change of some fields of the PE array."""
    return lambda arch: attrs.evolve(arch, pe_array=attrs.evolve(arch.pe_array, **fields))


def with_lanes(arch: PIMArchitecture) -> PIMArchitecture:
    """Return a machine with twice the lanes per PE."""
    unit = arch.pe_array.compute_unit
    return with_array(compute_unit=attrs.evolve(unit, num_macs=2 * unit.num_macs))(arch)


def doubled(number: Any) -> Any:
    """Return twice a limit, or twice each of separate ones."""
    if isinstance(number, SeparateEntries):
        return {t.name: 2 * number[t] for t in Tensor}
    return number if number is None else 2 * number


def freed(arch: PIMArchitecture) -> PIMArchitecture:
    """Return a machine whose levels may bypass every tensor that they store."""
    return attrs.evolve(arch, hierarchy=[attrs.evolve(level, bypass_defined=False) for level in arch.hierarchy])


#: Changes that keep all mappings, and add some.
WIDER: dict[str, Change] = {
    **{f"larger {m.name}": at(m, entries=doubled) for m in (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)},
    "all of the global buffer": at(Level.GLOBAL_BUFFER, entries=doubled, double_buffered=lambda old: True),
    "bypass freed": freed,
    "global buffer for all": at(
        Level.GLOBAL_BUFFER, stores=lambda old: (True, True, True), bypass_defined=lambda old: False
    ),
    "wider array": with_array(array_shape=PhyDim2(2, 2)),
    "more lanes": with_lanes,
    "directions shared": with_array(exclusive_spatial=False),
    "uneven residency": having(uneven_residency=True),
}
#: Changes that keep all mappings, slow down no link, and move nothing more often.
QUICKER: dict[str, Change] = {
    **{
        f"bandwidth of {m.name}": at(m, read_bandwidth_limit=doubled, write_bandwidth_limit=doubled)
        for m in (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)
    },
    "interconnect": with_array(interconnect_bandwidth=None),
    "more ports": at(Level.GLOBAL_BUFFER, ports=doubled),
    "second slots": at(Level.GLOBAL_BUFFER, entries=doubled, double_buffered=lambda old: True),
    "multicast": having(multicast=True),
}
#: Changes that keep all mappings, and raise the energy of none.
THRIFTIER: dict[str, Change] = {
    "spatial reduction": having(spatial_reduction=True),
    # Rows that share one of 2n banks share one of n.
    "twice the banks": at(Level.DRAM, num_banks=doubled),
    "open pages": having(page_policy="open"),
}


@cache
def solved(layer: ConvWorkload, arch: PIMArchitecture, kind: str, beta: float = 1) -> SolvedLayer:
    """Return the optimum of a small layer; each is solved once."""
    return solve_layer(layer, arch, SolveRequest(objective=Objective.named(kind, 1, beta), time_limit=20))


def assert_no_worse(layer: ConvWorkload, better: PIMArchitecture, worse: PIMArchitecture, kind: str) -> None:
    """Assert that the lower bound on the better machine does not exceed the cost of a mapping on the worse one."""
    assert solved(layer, better, kind).bound <= solved(layer, worse, kind).objective_value  # type: ignore[operator]


# --- More is never worse ---------------------------------------------------------------------------------------------

LESSER = {
    "product, all forced": (ConvWorkload(C=4, K=2), machine("IWO!", "IW!", "")),
    "closed pages, two rows of outputs": CASES["closed pages, two rows of outputs"],
    "strided": CASES["strided"],
    "no multicast, no reduction": CASES["no multicast, no reduction"],
}


@pytest.mark.parametrize(("case", "change", "kind"), in_turns(2, LESSER, WIDER, ["energy", "latency"]))
def test_wider_choice_is_never_worse(case: str, change: str, kind: str) -> None:
    """With more capacity, PEs, lanes or options."""
    layer, arch = LESSER[case]
    assert_no_worse(layer, WIDER[change](arch), arch, kind)


@pytest.mark.parametrize("kind", ["energy", "latency"])
@pytest.mark.parametrize("case", LESSER)
@pytest.mark.parametrize(("pe", "buffer"), [((4, 4, 8), (8, 8, 8)), ((2, 6, 8), (4, 14, 6))])
def test_a_shared_buffer_is_never_worse_than_its_parts(
    case: str, kind: str, pe: tuple[int, ...], buffer: tuple[int, ...]
) -> None:
    """The PEs' 16 and the global buffer's 24 bytes divided among I, W and O leave a part of the mappings."""
    layer, arch = LESSER[case]
    sizes = {Level.PE: pe, Level.GLOBAL_BUFFER: buffer}
    parts = arch
    for level, given in sizes.items():
        assert sum(given) == arch.hierarchy[level].entries
        parts = at(level, entries=lambda old, given=given: dict(zip("IWO", given, strict=True)))(parts)  # type: ignore[misc]
    assert_no_worse(layer, arch, parts, kind)


@pytest.mark.parametrize("change", QUICKER | THRIFTIER)
@pytest.mark.parametrize("case", LESSER)
def test_less_that_is_moved_is_never_worse(case: str, change: str) -> None:
    """For energy: multicast, spatial reduction, open pages. Links have no effect."""
    layer, arch = LESSER[case]
    assert_no_worse(layer, (QUICKER | THRIFTIER)[change](arch), arch, "energy")


@pytest.mark.parametrize("change", QUICKER | THRIFTIER)
def test_no_mapping_is_worse_on_the_better_machine(change: str) -> None:
    """Each is legal there, takes no more energy, and with faster links its simulated latency is no longer."""
    draw = Drawer.of(np.random.default_rng(17))
    for _ in range(25):
        case = traced_case(draw)
        # Equal widths: narrower sums lie in other rows. Buses and banks of their own: what waits for a shared one may
        # overtake.
        layer = attrs.evolve(case.layer, psum_bytes=case.layer.output_bytes)
        arch = attrs.evolve(case.arch, shared_data_bus=False, node_banks=None)
        better = (QUICKER | THRIFTIER)[change](arch)
        for mapped in islice(with_mappings(draw, attrs.evolve(case, layer=layer, arch=arch)), 2):
            assert check_mapping(layer, better, mapped.mapping) == []
            before, after = (simulate(layer, of, mapped.mapping) for of in (arch, better))
            assert after.energy_fj <= before.energy_fj
            assert sum(after.row_activations) <= sum(before.row_activations)
            assert after.latency_cycles <= before.latency_cycles or change in THRIFTIER


def test_one_bank_more_may_be_worse() -> None:
    """Weights of two outputs lie three rows apart and are read in turn: in two banks, or in each other's way in three.

    Both outputs for both batches for each of 48 inputs: each of the six rows opens once, or each read opens one.
    """
    layer = ConvWorkload(C=48, K=2, N=2)
    ones, outer = [1] * 8, [1, 1, 1, 1, 48, 2, 2, 1]
    mapping = Mapping(
        temporal=[ones, ones, ones, outer],
        spatial=[ones] * 3,
        order=[(), (), (), (Dim.C, Dim.N, Dim.K)],
        stored=[[False] * 3] * 3,
    )
    opened = [
        predict(
            layer, at(Level.DRAM, num_banks=lambda old, n=n: n)(machine("", "", "")), mapping
        ).figures.row_activations[1]  # type: ignore[misc]
        for n in (1, 2, 3, 6)
    ]
    assert opened == [4 * 48, 6, 4 * 48, 6]


# --- Equal roles are equal -------------------------------------------------------------------------------------------


def flat(kind: str) -> PIMArchitecture:
    """A small machine whose DRAM has neither rows nor columns: an element costs the same wherever it lies.

    Uneven tiles for energy only: with them the least latency takes many times as long to prove.
    """
    arch = attrs.evolve(read_arch("prover-comparison"), uneven_residency=kind == "energy")
    for level, entries in ((Level.PE, 16), (Level.GLOBAL_BUFFER, 48)):
        arch = at(level, entries=lambda old, new=entries: new)(arch)  # type: ignore[misc]
    return with_array(array_shape=PhyDim2(2, 3))(arch)


def transposed(layer: ConvWorkload) -> ConvWorkload:
    """Return the layer with width and height exchanged."""
    return attrs.evolve(
        layer,
        P=layer.Q,
        Q=layer.P,
        R=layer.S,
        S=layer.R,
        stride=layer.stride[::-1],
        dilation=layer.dilation[::-1],
    )


def exchanged(layer: ConvWorkload) -> ConvWorkload:
    """Return a matrix product with its operands exchanged; its rows are a batch."""
    return attrs.evolve(layer, N=layer.K, K=layer.N, input_bytes=layer.weight_bytes, weight_bytes=layer.input_bytes)


@pytest.mark.parametrize("kind", ["energy", "latency"])
@pytest.mark.parametrize(
    ("layer", "other"),
    [
        *(
            (layer, transposed(layer))
            for layer in (
                ConvWorkload(R=2, P=3, Q=2, stride=(2, 1)),
                ConvWorkload(R=2, Q=3, C=2, dilation=(2, 1)),
                ConvWorkload(P=4, Q=2, C=2, stride=(1, 3)),
            )
        ),
        *(
            (layer, exchanged(layer))
            for layer in (ConvWorkload(N=3, C=2, K=2, weight_bytes=2), ConvWorkload(C=3, K=4, psum_bytes=2))
        ),
        # Without a filter and a stride, rows, columns and batches differ only in where they lie.
        (ConvWorkload(P=4, Q=2, C=3), ConvWorkload(N=4, P=2, C=3)),
        (ConvWorkload(P=4, K=3, C=2), ConvWorkload(N=4, K=3, C=2)),
    ],
)
def test_dims_of_equal_roles_may_be_exchanged(layer: ConvWorkload, other: ConvWorkload, kind: str) -> None:
    """On a DRAM without rows and columns. Elsewhere the order of axes in DRAM has an effect."""
    assert_equal(layer, other, flat(kind), kind)


@pytest.mark.parametrize("kind", ["energy", "latency"])
@pytest.mark.parametrize("arch", [machine("O", "IW", "I"), machine("IO", "IW", "", page_policy="closed")])
@pytest.mark.parametrize(
    "layer",
    [ConvWorkload(R=2, P=3, C=2), ConvWorkload(P=4, K=3, stride=(2, 1)), ConvWorkload(R=3, P=2, dilation=(2, 1))],
)
def test_line_may_lie_along_the_width_or_the_height(layer: ConvWorkload, arch: PIMArchitecture, kind: str) -> None:
    """On any machine: if the other axis has extent 1, the elements lie in the same places."""
    assert_equal(layer, transposed(layer), arch, kind)


def assert_equal(layer: ConvWorkload, other: ConvWorkload, arch: PIMArchitecture, kind: str) -> None:
    """Assert that no lower bound of the one exceeds the cost of a mapping of the other."""
    answers = [solved(layer, arch, kind), solved(other, arch, kind)]
    for one, two in (answers, answers[::-1]):
        assert one.bound <= two.objective_value  # type: ignore[operator]


# --- Scale -----------------------------------------------------------------------------------------------------------


def costlier(arch: PIMArchitecture, times: int) -> PIMArchitecture:
    """Return a machine with every energy multiplied."""

    def scaled(cost: float | None) -> float | None:
        return cost and times * cost

    for level in Level:
        arch = at(level, access_cost=scaled, write_cost=scaled)(arch)
    unit = attrs.evolve(arch.pe_array.compute_unit, mac_energy=times * arch.pe_array.compute_unit.mac_energy)
    return attrs.evolve(with_array(compute_unit=unit)(arch), activation_energy=times * arch.activation_energy)


@pytest.mark.parametrize("case", LESSER)
def test_energies_scale_the_optimum(case: str) -> None:
    """Four times the energies, four times the least energy; at a fourth of the weight, the same blend."""
    layer, arch = LESSER[case]
    once, four_times = solved(layer, arch, "energy"), solved(layer, costlier(arch, 4), "energy")
    assert four_times.objective_value == four_times.bound == 4 * once.objective_value  # type: ignore[operator]
    blends = [solved(layer, arch, "blended", 1), solved(layer, costlier(arch, 4), "blended", 0.25)]
    assert len({blend.objective_value for blend in blends}) == len({blend.bound for blend in blends}) == 1


@pytest.mark.parametrize("case", LESSER)
def test_optima_are_proven(case: str) -> None:
    """All optima are proven. Otherwise the comparisons above would mean little."""
    layer, arch = LESSER[case]
    assert all(solved(layer, arch, kind).gap == 0 for kind in ("energy", "latency"))
