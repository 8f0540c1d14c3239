"""Random draws cover every option: those of the property tests' strategies and those of `fuzz`."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from cpsat_pim.arch.pe_array import LANE_DIMS
from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Direction, Level, Tensor
from cpsat_pim.mapping import BANKS, Banks
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.study.fuzz.campaign import enumerated_case, solved_case, traced_case, with_mappings
from cpsat_pim.study.fuzz.draw import RATES, Drawer
from tests.cross.cases import cases

#: Whether a drawn case, of layer, machine and mapping, has an option.
Option = Callable[[Any], bool]

DRAWN, MAPPED = 400, 40
WIDTHS = ("input_bytes", "weight_bytes", "output_bytes", "psum_bytes")
STORING = {"forced": (True,), "forbidden": (False,), "free": (False, True)}
YES_OR_NO = (False, True)
BOOLEANS = ("multicast", "spatial_reduction", "shared_data_bus", "uneven_residency")


def layer_has(name: str, value: object) -> Option:
    """A field of the layer."""
    return lambda case: getattr(case.layer, name) == value


def machine_has(name: str, value: object) -> Option:
    """A field of the machine."""
    return lambda case: getattr(case.arch, name) == value


def unit_is(kind: str) -> Option:
    """The type of the compute units."""
    return lambda case: case.arch.pe_array.compute_unit.unit_type == kind


def is_linked_at(rate: float | None) -> Option:
    """The limit of the bandwidth between PEs and what is outside them."""
    return lambda case: case.arch.pe_array.interconnect_bandwidth == rate


def is_buffered(level: Level, doubly: bool) -> Option:
    """Double buffering of a level."""
    return lambda case: case.arch.hierarchy[level].double_buffered == doubly


def moves_at(level: Level, way: str, rate: float | None) -> Option:
    """The limit of a level's bandwidth in a direction."""
    return lambda case: getattr(case.arch.hierarchy[level], f"{way}_bandwidth_limit") == rate


def may_store(level: Level, tensor: Tensor, choices: tuple[bool, ...]) -> Option:
    """What the machine says of a tensor in a level."""
    return lambda case: case.arch.storing_choices(level, tensor) == choices


def is_shared(level: Level, shared: bool) -> Option:
    """Whether the tensors share the buffer of a level."""
    return lambda case: case.arch.hierarchy[level].is_shared == shared


def has_none_for(tensor: Tensor) -> Option:
    """A level without a buffer for a tensor."""
    return lambda case: any(level.entries_of(tensor) == 0 for level in case.arch.hierarchy)


def has_multiple(n: int) -> Option:
    """A bound that is a multiple of a large or awkward number."""
    return lambda case: any(bound % n == 0 for bound in case.layer.bounds)


def stores(level: Level, tensor: Tensor, value: bool) -> Option:
    """What the mapping says of a tensor in a level."""
    return lambda case: case.mapping.stored[level][tensor] == value


def is_uneven(level: Level, tensor: Tensor) -> Option:
    """A tile that covers only part of its level's loops."""
    return lambda case: case.mapping.outside[level][tensor] > 0


def shares(banks: Banks) -> Option:
    """Which tensors share a bank."""
    return lambda case: case.mapping.banks == banks


def is_chosen(node_banks: int) -> Option:
    """How many of the node's banks each tensor has is the solver's choice."""
    return lambda case: case.bank_counts is None and case.arch.node_banks == node_banks


def only(case: Any, *dims: Dim) -> bool:
    """Whether all other dims are 1, and these are not."""
    return all((bound > 1) == (d in dims) for d, bound in zip(Dim, case.layer.bounds, strict=True))


LAYERS: dict[str, Option] = {
    **{f"{name} {width}": layer_has(name, width) for name, width in product(WIDTHS, (1, 2, 4))},
    "padding": lambda case: any(case.layer.zeros),
    "mixed precision": lambda case: len(set(case.layer.width_bytes)) == 3,
    "stride": lambda case: min(case.layer.stride) > 1,
    "stride in one direction": lambda case: min(case.layer.stride) == 1 < max(case.layer.stride),
    "dilation": lambda case: max(case.layer.dilation) > 1 and case.layer.R * case.layer.S > 1,
    "groups": lambda case: case.layer.G > 1 and case.layer.C * case.layer.K > 1,
    "depthwise": lambda case: case.layer.G > 1 == case.layer.C * case.layer.K and case.layer.R * case.layer.S > 1,
    "batch": lambda case: case.layer.N > 1,
    "matrix and vector": lambda case: only(case, Dim.C, Dim.K),
}
LARGER: dict[str, Option] = {
    "matrix product": lambda case: only(case, Dim.N, Dim.C, Dim.K),
    **{f"a multiple of {n}": has_multiple(n) for n in (7, 11, 55, 197)},
}
MACHINES: dict[str, Option] = {
    **{f"{policy} pages": machine_has("page_policy", policy) for policy in ("open", "closed")},
    **{f"{banks} banks": machine_has("banks", banks) for banks in (1, 2, 3, 4, 8, 16)},
    **{f"{name} {value}": machine_has(name, value) for name, value in product(BOOLEANS, YES_OR_NO)},
    **{
        f"double buffering {value} in {level.name}": is_buffered(level, value)
        for level, value in product(ON_CHIP, YES_OR_NO)
    },
    **{
        f"{way} of {level.name} at {rate}": moves_at(level, way, rate)
        for level, way, rate in product(BUFFERS, ("read", "write"), RATES)
    },
    **{f"interconnect at {rate}": is_linked_at(rate) for rate in RATES},
    **{f"{kind} unit": unit_is(kind) for kind in LANE_DIMS},
    "lanes of one dim": lambda case: case.arch.pe_array.compute_unit.internal_dim is not None,
    **{
        f"{tensor.name} {kind} in {level.name}": may_store(level, tensor, choices)
        for level, tensor, (kind, choices) in product(BUFFERS, Tensor, STORING.items())
    },
    **{f"shared {shared} {level.name}": is_shared(level, shared) for level, shared in product(BUFFERS, YES_OR_NO)},
    **{f"no buffer for {t.name}": has_none_for(t) for t in Tensor},
    "exclusive directions": lambda case: case.arch.pe_array.exclusive_spatial,
    "shared directions": lambda case: not case.arch.pe_array.exclusive_spatial,
}
MAPPINGS: dict[str, Option] = {
    **{
        f"{tensor.name} stored in {level.name} {value}": stores(level, tensor, value)
        for level, tensor, value in product(BUFFERS, Tensor, YES_OR_NO)
    },
    "a dim over H and W": lambda case: any(min(h, w) > 1 for h, w in zip(*case.mapping.spatial[:2], strict=True)),
    **{f"{tensor.name} uneven in {level.name}": is_uneven(level, tensor) for level, tensor in product(ON_CHIP, Tensor)},
    "lanes": lambda case: max(case.mapping.spatial[Direction.INTERNAL]) > 1,
}
TRACED: dict[str, Option] = {
    **LARGER,
    "a multiple of 1009": has_multiple(1009),
    **{f"{banks} banks of the node": machine_has("node_banks", banks) for banks in (None, 1, 2, 3, 4)},
}
CHOSEN: dict[str, Option] = {f"numbers chosen of {banks} banks": is_chosen(banks) for banks in (1, 2, 3, 4, 8)}
SHARED: dict[str, Option] = {text: shares(banks) for text, banks in BANKS.items()}


def missing(options: dict[str, Option], drawn: list[Any]) -> list[str]:
    """Options that none of the drawn cases has."""
    return [name for name, has in options.items() if not any(has(case) for case in drawn)]


def drawn_by_strategies() -> list[Any]:
    """The same examples every time."""
    found: list[Any] = []

    @settings(max_examples=DRAWN, derandomize=True, database=None, phases=[Phase.generate])
    @given(cases(uneven=True))
    def keep(case: Any) -> None:
        found.append(case)

    keep()
    return found


def drawn_by_fuzz(draw_case: Callable[[Drawer], Any]) -> tuple[list[Any], list[Any]]:
    """Many cases, and some with mappings."""
    draw = Drawer.of(np.random.default_rng(0))
    drawn = [draw_case(draw) for _ in range(DRAWN)]
    return drawn, [mapped for case in drawn[:MAPPED] for mapped in with_mappings(draw, case)]


def test_strategies_draw_every_option() -> None:
    """Of layers, machines and mappings, in a few hundred draws."""
    assert missing(LAYERS | LARGER | MACHINES | MAPPINGS, drawn_by_strategies()) == []


@pytest.mark.parametrize(
    ("draw_case", "of_cases", "of_mappings"),
    [
        (traced_case, LAYERS | TRACED | MACHINES, MAPPINGS | SHARED),
        (solved_case, LAYERS | LARGER | MACHINES, MAPPINGS),
        (enumerated_case, LAYERS | MACHINES | CHOSEN, {}),
    ],
)
def test_fuzz_draws_every_option(
    draw_case: Callable[[Drawer], Any], of_cases: dict[str, Option], of_mappings: dict[str, Option]
) -> None:
    """In each kind of its rounds; the mappings are legal, uneven ones too."""
    drawn, mapped = drawn_by_fuzz(draw_case)
    assert missing(of_cases, drawn) == []
    assert missing(of_mappings, mapped) == []
    assert all(check_mapping(case.layer, case.arch, case.mapping) == [] for case in mapped)


def test_layers_of_fuzz_stay_as_small_as_asked_for() -> None:
    """However large their bounds may be."""
    draw = Drawer.of(np.random.default_rng(1))
    assert 197 <= max(draw.layer(300).macs for _ in range(DRAWN)) <= 300
