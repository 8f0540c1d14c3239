"""Spaces, areas and their files: machines of designs, figures by hand, one line for each mistake."""

from pathlib import Path

import pytest

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.planner.space import Space
from cpsat_pim.tuner.area import AreaModel
from cpsat_pim.tuner.fields import numbers_of
from cpsat_pim.tuner.reading import read_space, read_tune_plan
from cpsat_pim.tuner.space import HardwareSpace, describe
from cpsat_pim.tuner.task import Fidelity

PLAN = Path(__file__).parents[2] / "scripts" / "tuner" / "nicepim.yaml"


def test_area_of_the_papers_machine() -> None:
    """32 nodes of 1,024 PEs of 906 um2 and buffers of 0.01924 + 0.1545 + 0.03772 mm2: 36.45 mm2."""
    area = AreaModel().array_mm2(32, numbers_of(read_arch("stacked-3d-4x8")).get)
    assert area == pytest.approx(32 * (1024 * 906e-6 + 0.01924 + 0.1545 + 0.03772))


def test_area_between_sizes_is_linear_and_beyond_them_proportional() -> None:
    """3 KiB lies between 2 and 4; half a KiB and 4096 KiB outside of the table; routers are added for each node."""
    model = AreaModel(router_mm2=0.5)
    assert model.sram_mm2(3 * 1024) == pytest.approx((0.00321 + 0.00552) / 2)
    assert model.sram_mm2(512) == pytest.approx(0.00205 / 2)
    assert model.sram_mm2(4096 * 1024) == pytest.approx(2 * 2.145)
    assert model.array_mm2(2, {}.get) == pytest.approx(1.0)


def test_table_of_buffers_must_increase() -> None:
    """Sizes and areas."""
    with pytest.raises(ValueError, match=r"AreaModel\.sram: must be pairs of KiB and mm2, both increasing"):
        AreaModel(sram=[[2, 0.1], [1, 0.2]])


def test_nicepims_space_is_that_of_its_table() -> None:
    """16 arrays, 256 x 256 PE arrays, 12 sizes of three buffers; its corners are the presets' figures."""
    space = read_space("nicepim")
    assert space.size == 16 * 256**2 * 12**3
    values = dict(space.values(space.whole.low))
    values |= {"array.rows": 16, "array.cols": 16, "arch.pe_array.array_shape.h": 8, "arch.pe_array.array_shape.w": 8}
    node, preset = space.array(values).node, read_arch("stacked-3d-16x16")
    assert node.dram_timings == preset.dram_timings
    assert node.activation_energy == pytest.approx(preset.activation_energy)
    assert node.row_bytes == preset.row_bytes
    assert node.hierarchy[Level.DRAM] == preset.hierarchy[Level.DRAM]
    assert node.hierarchy[Level.ROW_BUFFER] == preset.hierarchy[Level.ROW_BUFFER]
    assert node.hierarchy[Level.GLOBAL_BUFFER].entries_of(Tensor.W) == 512


def test_machine_of_a_design_has_its_values(space: HardwareSpace) -> None:
    """Rows, PEs and buffers; each node has its part of what is shared."""
    array = space.array(space.values((1, 0, 2, 3, 1, 2, 0)))
    assert (array.rows, array.cols) == (4, 2)
    assert (array.node.pe_array.array_shape.h, array.node.pe_array.array_shape.w) == (8, 16)
    assert [array.node.hierarchy[Level.GLOBAL_BUFFER].entries_of(t) for t in Tensor] == [2048, 8192, 512]
    assert array.node.column_bytes == 32768 // 8 // 8


def write(path: Path, text: str) -> Path:
    """A file with a text."""
    path.write_text(text)
    return path


def mistakes(path: Path) -> list[str]:
    """The lines that reading a space gives."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_space(path)
    return str(caught.value).splitlines()


def test_units_are_those_of_the_machine(tmp_path: Path) -> None:
    """16 KiB of two-byte words are 8,192 entries."""
    head = "version: 1\narch: stacked-3d-4x4\n"
    text = head + "axes: {arch.hierarchy.GLOBAL_BUFFER.entries.I: [16 KiB, 32 KiB]}\n"
    assert read_space(write(tmp_path / "mine.yaml", text)).axes[0].values == (8192, 16384)


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ("{arch.pe_array.array_shape.x: [1, 2]}", "axes.arch.pe_array.array_shape.x: unknown key; there are h, w"),
        ("{arch.page_policy: [1, 2]}", "axes.arch.page_policy: must be one of open, closed (got 1)"),
        ("{array.rows: [4, 2]}", "axes.array.rows: must have at least one value, each larger than the one before"),
        ("{array.rows: [2, 4.5]}", "axes.array.rows: must be positive integers (got 4.5)"),
        ("{array.rows: [0, 2]}", "axes.array.rows: must be positive integers (got 0)"),
        ("{arch.clock: [1 GHz, 2 GHz]}", "axes.arch.clock: has no effect: latency counts cycles"),
        ("{arch.pu_count: [1, 2]}", "axes.arch.pu_count: has no effect: array.cols counts nodes"),
        ("{array.rwos: [2, 4]}", "axes.array.rwos: unknown key; did you mean 'array.rows'?"),
        ("{arch.pe_array.array_shape.h: [0, 2]}", "must be a positive integer (got 0)"),
        ("{arch.hierarchy.GLOBAL_BUFFER.entries.I: [3 mm2]}", "must be a number, or one with a unit"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, axes: str, says: str) -> None:
    """Where and what; a line each."""
    lines = mistakes(write(tmp_path / "mine.yaml", f"version: 1\narch: stacked-3d-4x4\naxes: {axes}\n"))
    assert len(lines) == 1, lines
    assert says in lines[0], lines[0]
    assert lines[0].startswith(str(tmp_path / "mine.yaml:3:"))


def test_shared_numbers_must_exist_and_be_no_axes(tmp_path: Path) -> None:
    """Both mistakes at once."""
    text = (
        "version: 1\narch: stacked-3d-4x4\naxes: {arch.dram_timings.co_w: [512, 1024]}\n"
        "shared: {arch.dram_timings.co_w: 32768, arch.dram_timings.tFOO: 3}\n"
    )
    lines = mistakes(write(tmp_path / "mine.yaml", text))
    assert [line.partition("shared.")[2] for line in lines] == [
        "arch.dram_timings.co_w: must not be an axis too",
        "arch.dram_timings.tFOO: is no number of the machine",
    ]


def test_plan_of_the_paper_is_readable() -> None:
    """Five networks; the reference is the machine of the paper."""
    task = read_tune_plan(PLAN).task
    assert [network.name for network in task.networks] == ["googlenet", "resnet152", "vgg16", "darknet53", "bert-base"]
    assert task.space.area_mm2(task.reference) == pytest.approx(36.45, abs=0.01)


def test_space_of_plans_is_part_of_the_fidelity(tmp_path: Path) -> None:
    """Keys that are absent are those of `plan`."""
    text = "version: 1\nspace: nicepim\nnetworks: [alexnet]\nplans: {dims: 1, layouts: [BCHW]}\n"
    fidelity = read_tune_plan(write(tmp_path / "plan.yaml", text)).task.fidelity
    assert fidelity.plans == Space(dims=1, home_dims=1, layouts=("BCHW",), cuts=0)


def test_plans_with_branches_side_by_side_have_no_floors() -> None:
    """So they are no fidelity."""
    with pytest.raises(ValueError, match=r"Fidelity.plans.cuts: must be 0 \(got 2\)"):
        Fidelity(plans=Space(cuts=2))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("methods: [gp, magic]", "methods: must be a list of gp, gp-floors, random"),
        ("weights: [1, 2]", "weights: must be a weight for each of the 1 networks"),
        ("networks: [alexnett]", "unknown network 'alexnett'; did you mean 'alexnet'?"),
        ("space: nicepin", "unknown space of machines 'nicepin'; did you mean 'nicepim'?"),
        ("fidelity: exact", "fidelity: must be one of analytic, bounds, plan"),
        ("reference: {arch.nix: 3}", "plan.yaml:4:23: reference.arch.nix: unknown key; there are name, vault_count"),
        ("reference: {array.rows: 2.5}", "plan.yaml:4:25: reference.array.rows: must be positive integers (got 2.5)"),
        ("plans: {cuts: 2}", "plans.cuts: unknown key"),
        ("plans: {homes: 1}", "plans.homes: unknown key; did you mean 'home_dims'?"),
        ("plans: {layouts: [CHWB]}", "plans.layouts: must be different ones of BCHW and BHWC"),
    ],
)
def test_mistakes_of_plans_are_one_line(tmp_path: Path, line: str, says: str) -> None:
    """Where and what."""
    keys = {"space": "space: nicepim", "networks": "networks: [alexnet]"}
    keys[line.partition(":")[0]] = line
    with pytest.raises(ValueError, match=r".") as caught:
        read_tune_plan(write(tmp_path / "plan.yaml", "\n".join(["version: 1", *keys.values()])))
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("array.rows", 4, "rows 4"),
        ("arch.pe_array.array_shape.h", 16, "h 16"),
        ("arch.hierarchy.GLOBAL_BUFFER.entries.I", 8192, "I 8192 elements"),
        ("arch.hierarchy.PE.entries", 1, "entries 1 element"),
        ("arch.hierarchy.DRAM.access_cost", 0.5, "access_cost 0.5 nJ/element"),
        ("arch.dram_timings.co_w", 256, "co_w 256 bits"),
        ("arch.dram_timings.tRP", 14, "tRP 14 cycles"),
    ],
)
def test_values_are_named_with_their_units(path: str, value: float, says: str) -> None:
    """As docs/files.md lists them: sizes in elements, widths in bits, timings in cycles; counts have none."""
    assert describe({path: value}) == says
