"""The machine's classes: every attribute is checked on construction, and the seeds' listings are valid programs."""

import math

import attrs
import pytest

from cpsat_pim.arch import (
    ComputeUnit,
    DramTimings,
    MemoryHierarchy,
    MemoryLevel,
    PEArray,
    PhyDim2,
    PIMArchitecture,
)
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.workload import ConvWorkload

LEVEL = {"name": "a", "entries": 8}
SHAPE = PhyDim2(h=2, w=2)

#: What no field of a kind accepts.
NOT_POSITIVE = [0, -1, 1.5, "4", None, True]
NOT_COUNT = [-1, 1.5, "4", None, True]
NOT_REAL = [-0.1, math.nan, math.inf, "1", True]
NOT_BOOLEAN = [0, 1, "true", None]
NOT_LIMIT = [0, -1.0, math.nan, math.inf, "1", True]
NOT_TEXT = ["", 5, None]


def test_every_attribute_has_a_case_below():
    """No field of a class is left unchecked."""
    for kind in (PhyDim2, ComputeUnit, PEArray, MemoryLevel, DramTimings, PIMArchitecture, ConvWorkload):
        checked = {case[2] for case in CASES if case[0] is kind}
        assert checked == {attribute.name for attribute in attrs.fields(kind)}, kind.__name__


CASES = [
    (PhyDim2, {"h": 1, "w": 1}, "h", NOT_POSITIVE),
    (PhyDim2, {"h": 1, "w": 1}, "w", NOT_POSITIVE),
    (ComputeUnit, {}, "unit_type", ["vector", "", None, 5, ["simd"]]),
    (ComputeUnit, {"unit_type": "simd"}, "num_macs", NOT_POSITIVE),
    (ComputeUnit, {}, "mac_energy", [*NOT_REAL, None]),
    (ComputeUnit, {}, "reduction_latency", NOT_COUNT),
    (ComputeUnit, {"unit_type": "simd"}, "internal_dim", [8, -1, 2.0, True, "c", "X"]),
    (PEArray, {}, "array_shape", [None, (2, 2), 4]),
    (PEArray, {"array_shape": SHAPE}, "compute_unit", [None, "simd"]),
    (PEArray, {"array_shape": SHAPE}, "interconnect_bandwidth", NOT_LIMIT),
    (PEArray, {"array_shape": SHAPE}, "exclusive_spatial", NOT_BOOLEAN),
    (MemoryLevel, LEVEL, "name", NOT_TEXT),
    *((MemoryLevel, LEVEL, name, NOT_POSITIVE) for name in ("entries", "blocksize", "instances", "num_banks")),
    *((MemoryLevel, LEVEL, name, NOT_POSITIVE) for name in ("row_buffer_size", "ports", "word_bytes")),
    *((MemoryLevel, LEVEL, name, [*NOT_REAL, None]) for name in ("latency", "access_cost")),
    (MemoryLevel, LEVEL, "write_cost", NOT_REAL),
    (MemoryLevel, LEVEL, "stores", [(True, True), [1, 1, 1], "yes", 5, None]),
    *((MemoryLevel, LEVEL, name, NOT_BOOLEAN) for name in ("bypass_defined", "double_buffered")),
    *((MemoryLevel, LEVEL, name, NOT_LIMIT) for name in ("read_bandwidth_limit", "write_bandwidth_limit")),
    *((DramTimings, {}, name, NOT_COUNT) for name in ("RL", "WL", "tRCDRD", "tRP", "tRAS", "tRC", "tRTP")),
    *((DramTimings, {}, name, NOT_POSITIVE) for name in ("tCCD_L", "BL")),
    (DramTimings, {}, "co_w", [*NOT_POSITIVE, 12]),
    *((DramTimings, {}, name, [-1, 1.5, "4", True]) for name in ("tRFC", "tWR", "tWTR", "tRTW", "tRRD", "tFAW")),
    (DramTimings, {}, "tREFI", [0, -1, 1.5, "4", True]),
    (PIMArchitecture, {}, "name", NOT_TEXT),
    *((PIMArchitecture, {}, name, NOT_POSITIVE) for name in ("vault_count", "pu_count")),
    (PIMArchitecture, {}, "dram_timings", [None, 5, "HBM2"]),
    (PIMArchitecture, {}, "hierarchy", [None, 5, "four", (1, 2, 3, 4), [], [MemoryLevel(**LEVEL)] * 5]),
    (PIMArchitecture, {}, "pe_array", [None, SHAPE]),
    (PIMArchitecture, {}, "page_policy", ["adaptive", "", None]),
    (PIMArchitecture, {}, "activation_energy", [*NOT_REAL, None]),
    (PIMArchitecture, {}, "static_power", [-1.0, math.nan, math.inf, "1", True]),
    (PIMArchitecture, {}, "clock", [0, -1, 1.5, "4", True]),
    (PIMArchitecture, {}, "node_banks", [0, -1, 1.5, "4", True]),
    *((PIMArchitecture, {}, name, NOT_BOOLEAN) for name in ("multicast", "spatial_reduction", "shared_data_bus")),
    (PIMArchitecture, {}, "uneven_residency", NOT_BOOLEAN),
    (ConvWorkload, {}, "name", NOT_TEXT),
    *((ConvWorkload, {}, dim.name, NOT_POSITIVE) for dim in Dim),
    *((ConvWorkload, {}, name, [0, (1,), (1, 0), (1, 2, 3), (1.5, 1), None]) for name in ("stride", "dilation")),
    (ConvWorkload, {}, "zeros", [(0,) * 7, (-1,) + (0,) * 7, (0.5,) + (0,) * 7, 5, "12345678"]),
    *(
        (ConvWorkload, {}, f"{name}_bytes", [0, -1, 0.3, "4", None, True])
        for name in ("input", "weight", "output", "psum")
    ),
]


@pytest.mark.parametrize(("kind", "valid", "name", "values"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_attribute_is_validated_on_construction(kind, valid, name, values):
    """A wrong value is a ValueError of one line that names class and field and shows the value."""
    for value in values:
        with pytest.raises(ValueError, match=rf"{kind.__name__}\.{name}: .* \(got .*\)") as caught:
            kind(**valid | {name: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "valid", "name", "values"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_values_are_frozen(kind, valid, name, values):
    """Nothing can be changed after construction."""
    instance = kind(**{"array_shape": SHAPE} | valid) if kind is PEArray else kind(**valid)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(instance, name, values[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ComputeUnit(num_macs=2), "ComputeUnit.num_macs: a scalar unit has 1 (got 2)"),
        (lambda: ComputeUnit(internal_dim=4), "ComputeUnit.internal_dim: a scalar unit spreads nothing (got 4)"),
        (
            lambda: ComputeUnit(unit_type="reduction_tree", num_macs=4, internal_dim=Dim.K),
            f"ComputeUnit.internal_dim: a reduction_tree unit spreads R/S/C (got {Dim.K!r})",
        ),
        (
            lambda: PIMArchitecture(dram_timings={"tRCD": 14}),
            "DramTimings.tRCD: no such timing, there are RL, WL, tRCDRD, tRP, tRAS, tRC, tRTP, tCCD_L, BL, co_w, "
            "tRFC, tREFI, tWR, tWTR, tRTW, tRRD, tFAW",
        ),
        (
            lambda: PIMArchitecture(dram_timings={"tRCDRD": 2, "tRP": 2, "tRTP": 0, "tCCD_L": 5}),
            "DramTimings.tCCD_L: must be at most tRCDRD + tRTP + tRP = 4 (got 5)",
        ),
        (  # nanoseconds at 500 Hz, each rounded up to a cycle
            lambda: PIMArchitecture(dram_timings={"tRFC": 1, "tREFI": 1}),
            "DramTimings.tRFC: must be less than tREFI = 1 (got 1); is the unit of the clock right?",
        ),
        (
            lambda: PIMArchitecture(dram_timings={"RL": 0, "tRCDRD": 3, "BL": 8, "tCCD_L": 8}),
            "DramTimings.tCCD_L: must be at most tRCDRD + RL + BL/2 = 7 (got 8)",
        ),
        (
            lambda: PIMArchitecture(dram_timings={"co_w": 24 * 8}),
            "PIMArchitecture.hierarchy[2].row_buffer_size: must be a multiple of the column width 24 B (got 1024)",
        ),
        (
            lambda: PIMArchitecture(hierarchy=[MemoryLevel(**LEVEL)] * 3),
            "PIMArchitecture.hierarchy: must have 4 levels (PE, global buffer, row buffer, DRAM) (got a, a, a)",
        ),
        (
            lambda: PIMArchitecture(hierarchy=[MemoryLevel(**LEVEL, stores=[True, True, False])] * 4),
            "PIMArchitecture.hierarchy[3].stores: the DRAM stores all tensors (got [True, True, False])",
        ),
        (
            lambda: ConvWorkload(output_bytes=2),
            "ConvWorkload.psum_bytes: must be at least output_bytes (2) (got 1)",
        ),
    ],
)
def test_attributes_that_contradict_each_other_are_refused(build, message):
    """Rules between fields name the field that has to change."""
    with pytest.raises(ValueError, match=r".") as caught:
        build()
    assert str(caught.value) == message


def test_layer_has_fewer_than_2_to_the_62_macs():
    """2^61 is legal, 2^62 is not."""
    assert ConvWorkload(C=2**31, K=2**30).macs == 2**61
    with pytest.raises(ValueError, match=r"below 2\^62"):
        ConvWorkload(C=2**31, K=2**31)


# --- Listings --------------------------------------------------------------------------------------------------------


def test_listings_6_and_7_construct():
    """Layers and the default machine as in the examples."""
    assert PIMArchitecture() == PIMArchitecture()
    workloads = [
        ConvWorkload(name="ResNet_Layer2", R=3, S=3, P=56, Q=56, C=64, K=128, N=1, stride=(1, 1)),
        ConvWorkload(name="L1", R=7, S=7, P=112, Q=112, C=3, K=64, N=1),
        ConvWorkload(name="L2", R=3, S=3, P=56, Q=56, C=64, K=128, N=1),
        ConvWorkload(name="L3", R=1, S=1, P=56, Q=56, C=128, K=128, N=1),
    ]
    assert workloads[0].bounds == (*workloads[2].bounds,)


def test_listing_8_constructs():
    """A custom array and hierarchy, its levels added one by one."""
    pe_array = PEArray(
        array_shape=PhyDim2(h=16, w=16),
        compute_unit=ComputeUnit(unit_type="tensor_core", num_macs=8, mac_energy=0.56e-3),
    )
    hierarchy = MemoryHierarchy()
    hierarchy.add_level(
        MemoryLevel(name="PELocalBuffer", entries=512, blocksize=1, instances=256, latency=1.0, access_cost=0.001)
    )
    hierarchy.add_level(
        MemoryLevel(name="GlobalBuffer", entries=65536, blocksize=64, instances=1, latency=5.0, access_cost=0.02)
    )
    hierarchy.add_level(MemoryLevel(name="RowBuffer", entries=1024, row_buffer_size=1024))
    hierarchy.add_level(MemoryLevel(name="LocalDRAM", entries=2**24))
    arch = PIMArchitecture(pe_array=pe_array, hierarchy=hierarchy)
    assert [level.name for level in arch.hierarchy] == ["PELocalBuffer", "GlobalBuffer", "RowBuffer", "LocalDRAM"]
    assert arch.pe_array.macs_per_cycle == 16 * 16 * 8
    assert arch.pipeline_latency == 1 + 5


def test_hierarchy_has_room_for_four_levels():
    """A fifth level is refused; the four are there by index, in order, and counted."""
    hierarchy = MemoryHierarchy()
    for name in "abcd":
        hierarchy.add_level(MemoryLevel(name=name, entries=1))
    assert (len(hierarchy), hierarchy[3].name, [level.name for level in hierarchy]) == (4, "d", list("abcd"))
    with pytest.raises(ValueError, match=r"MemoryHierarchy: has 4 levels, no room for another \(got 'e'\)"):
        hierarchy.add_level(MemoryLevel(name="e", entries=1))


def test_machine_keeps_its_levels_when_the_hierarchy_changes_later():
    """A machine is a value: the list that it was built from is not part of it."""
    hierarchy = MemoryHierarchy([MemoryLevel(name=name, entries=1) for name in "abcd"])
    arch = PIMArchitecture(hierarchy=hierarchy)
    hierarchy.levels.clear()
    assert len(arch.hierarchy) == 4


def test_timings_may_be_a_dict():
    """Listing 1 has `dram_timings: dict`; what it leaves out keeps its default."""
    arch = PIMArchitecture(dram_timings={"tRCDRD": 20})
    assert arch.dram_timings == DramTimings(tRCDRD=20)


# --- Figures ---------------------------------------------------------------------------------------------------------


def test_default_activation_latency_is_that_of_table_1_and_hbm2():
    """TRCD + tRTP + tRP - tCCD = 14 + 5 + 14 - 4."""
    assert PIMArchitecture().dram_activation_latency == 29


@pytest.mark.parametrize(("level", "usable"), [(Level.PE, 256), (Level.GLOBAL_BUFFER, 32768), (Level.ROW_BUFFER, 3072)])
def test_double_buffering_halves_what_tiles_may_use(level, usable):
    """512 and 65536 entries of a byte are halved; the row buffer is not double buffered."""
    assert PIMArchitecture().usable_bytes(level) == usable


def test_double_buffering_of_an_odd_size_rounds_down():
    """Two halves of 7 bytes have 3."""
    levels = [MemoryLevel(name=name, entries=7) for name in "abcd"]
    arch = PIMArchitecture(hierarchy=levels)
    assert [arch.usable_bytes(level) for level in Level] == [3, 3, 7, 7]


def test_capacity_is_entries_times_word():
    """16 entries of 2 bytes."""
    assert MemoryLevel(name="a", entries=16, word_bytes=2).capacity_bytes == 32


@pytest.mark.parametrize(
    ("stores", "is_defined", "choices"),
    [
        (True, False, (False, True)),
        (False, False, (False,)),
        (True, True, (True,)),
        (False, True, (False,)),
    ],
)
def test_storing_choices_follow_mask_and_bypass(stores, is_defined, choices):
    """The mask is a permission, or with bypass_defined an order (Eq. 6)."""
    level = MemoryLevel(**LEVEL, stores=[True, stores, True], bypass_defined=is_defined)
    arch = PIMArchitecture(hierarchy=[level, *PIMArchitecture().hierarchy[1:]])
    assert arch.storing_choices(Level.PE, Tensor.W) == choices


@pytest.mark.parametrize(
    ("of_pes", "of_buffer", "draws"),
    [
        ([False, False, True], [True, False, True], True),
        ([False, False, True], [True, True, False], False),
        ([True, True, False], [False, False, False], False),
        ([False, True, True], [False, True, True], True),
    ],
)
def test_operands_are_drawn_from_dram_where_no_level_on_chip_may_store_one(of_pes, of_buffer, draws):
    """Only I and W are operands; either level will do."""
    levels = PIMArchitecture().hierarchy
    pes, buffer = attrs.evolve(levels[0], stores=of_pes), attrs.evolve(levels[1], stores=of_buffer)
    assert PIMArchitecture(hierarchy=(pes, buffer, *levels[2:])).draws_operands_from_dram == draws


@pytest.mark.parametrize(
    ("unit", "dims"),
    [
        ({}, ()),
        ({"unit_type": "simd"}, tuple(Dim)),
        ({"unit_type": "reduction_tree"}, (Dim.R, Dim.S, Dim.C)),
        ({"unit_type": "tensor_core", "internal_dim": 5}, (Dim.K,)),
        ({"unit_type": "tensor_core", "internal_dim": "K"}, (Dim.K,)),
    ],
)
def test_lane_dims_follow_the_unit(unit, dims):
    """A scalar spreads nothing, a tree what it adds up, a wired unit its one dim."""
    assert ComputeUnit(**unit).lane_dims == dims


@pytest.mark.parametrize("timings", [{}, {"RL": 1, "BL": 2, "tCCD_L": 4}])
def test_machine_without_activations_has_runs_of_back_to_back_columns(timings):
    """n columns cost n * tCCD: period(n) of model.md section 5 with the zeroed timings."""
    arch = PIMArchitecture(dram_timings=timings).without_row_activation()
    t = arch.dram_timings
    for n in (1, 2, 7):
        period = max(t.tRC, max(t.tRAS, t.tRCDRD + (n - 1) * t.tCCD_L + t.tRTP) + t.tRP)
        assert period == n * t.tCCD_L
    assert arch.activation_energy == 0
    assert arch.dram_activation_latency == 0


def test_node_banks_are_shared_and_have_equal_parts_of_the_dram() -> None:
    """Two banks of half the DRAM each; with banks of the node no tensor has several for itself."""
    levels = PIMArchitecture().hierarchy
    one = attrs.evolve(levels[3], num_banks=1)
    arch = PIMArchitecture(node_banks=2, hierarchy=(*levels[:3], one))
    assert arch.bank_bytes == one.capacity_bytes // 2
    assert PIMArchitecture().bank_bytes is None
    several = attrs.evolve(levels[3], num_banks=4)
    with pytest.raises(ValueError, match=r"hierarchy\[3\].num_banks: must be 1, as parts share node_banks \(got 4\)"):
        PIMArchitecture(node_banks=2, hierarchy=(*levels[:3], several))
