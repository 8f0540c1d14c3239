"""The page of a compiled kernel."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cpsat_pim.cli import main
from cpsat_pim.compiler.broadcast import lowered_of
from cpsat_pim.compiler.compile import compile_kernel, stream_of
from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping
from cpsat_pim.compiler.picture import CHART_TICKS, LANES, lanes_of, plan_page, slot_bars
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import read_device
from tracesim.commands import Function, simulate
from tracesim.commands.records import FUNCTION

TARGET = target_of(read_device("attacc"))


def test_bars_are_the_simulated_commands() -> None:
    """Bars of moves and rows are as many as the simulator issues in the shown ticks; bars of MACs do not overlap."""
    kernel = shipped_kernel("gemv")
    plan = compile_kernel(kernel, {"B": 2, "N": 60, "K": 48}, TARGET.device, 4)
    stream = stream_of(plan, kernel, TARGET.device)
    trace, bars = simulate(TARGET.rules, stream), list(slot_bars(stream, TARGET.device))
    shown = trace.issue <= CHART_TICKS
    assert sum(bar.lane in (1, 2, 3) for bar in bars) == int((shown & (stream.kind != TARGET.mac)).sum())
    assert sum(bar.lane == 4 for bar in bars) == int((trace.inserted[:, 0] <= CHART_TICKS).sum())
    macs = sorted((bar.first, bar.last) for bar in bars if bar.lane == 0)
    assert all(before[1] <= after[0] for before, after in pairwise(macs))
    assert sum(round((last - first) / TARGET.timing.mac) for first, last in macs) == int(
        np.sum(shown & (stream.kind == TARGET.mac))
    )


def test_dimension_sets_state_what_divides_them() -> None:
    """The table names channels and axes of every class as the mapping does; the bank's rows are those of its matrix."""
    kernel = shipped_kernel("gemv")
    plan = compile_kernel(kernel, {"B": 2, "N": 60, "K": 48}, TARGET.device, 4)
    mapping = plan.mappings["gemv"]
    page = plan_page(plan, kernel, stream_of(plan, kernel, TARGET.device), TARGET.device)
    for name, number in (("b", 0), ("n", 2), ("k", 3)):
        axes = [axis for axis, owner in zip(TARGET.axis_names, mapping.owners, strict=True) if owner == number]
        row = re.search(f"<tr><td>{name}</td><td>[^<]*</td><td>([^<]*)</td><td>([^<]*)</td></tr>", page)
        assert row is not None
        assert row.groups() == (str(mapping.splits[number]), ", ".join(axes) or "none")


def test_inputs_that_come_from_banks_are_loads() -> None:
    """With inputs in banks, fills of registers stand in the lane of loads, beside products; of vectors, which have no
    products, in the lane of what is computed."""
    device, sizes = read_device("hbm-pim"), {"B": 4, "N": 128, "K": 16}
    kernel = shipped_kernel("gemv").bind(sizes)
    mapping = BroadcastMapping(splits=(1, 1, 1, 1), owners=(-1, 0, -1, 2), stores_inputs=True)
    stream = lowered_of(kernel, mapping, device).program.stream
    assert {*lanes_of(stream, device)[stream.work[:, FUNCTION] == Function.FILL]} == {LANES.index("load")}
    vectors = shipped_kernel("va").bind({"B": 1, "N": 100})
    added = lowered_of(vectors, ElementwiseMapping(channels=1), device).program.stream
    assert {*lanes_of(added, device)[added.work[:, FUNCTION] == Function.FILL]} == {LANES.index("compute")}


def test_numbers_of_ticks_lie_in_the_picture() -> None:
    """The last one, too: a digit is at most 8 pixels wide. The axis says what it counts."""
    kernel = shipped_kernel("gemv")
    plan = compile_kernel(kernel, {"B": 32, "N": 512, "K": 128}, TARGET.device, 16)
    page = plan_page(plan, kernel, stream_of(plan, kernel, TARGET.device), TARGET.device)
    width, chart = re.findall(r"<svg width=(\d+)[^>]*>(.*?)</svg>", page)[0]
    numbers = re.findall(r"<text x=(\d+) y=\d+>(\d+)</text>", chart)
    assert numbers[-1][1] == "600"
    assert all(int(x) + 8 * len(number) <= int(width) for x, number in numbers)
    assert ">tick<" in chart


@pytest.mark.parametrize(
    "words",
    [
        ["attention", "--sizes", "B=4,N=60,K=64"],
        ["gemm", "--sizes", "B=1,N=40,K=64", "--device", "hbm-pim", "--channels", "2"],
        ["va", "--sizes", "B=1,N=3000", "--device", "hbm-pim", "--channels", "2"],
        ["gemm", "--sizes", "B=1,N=40,K=64", "--device", "gddr6-aim", "--channels", "2"],
        ["va", "--sizes", "B=1,N=40000", "--device", "upmem", "--channels", "2"],
    ],
)
def test_command_writes_a_page(tmp_path: Path, words: list[str]) -> None:
    """`compile --html` writes a page whose pictures are well-formed, for every kind of controller."""
    file = tmp_path / "plan.html"
    assert main(["compile", *words, "--html", str(file)]) == 0
    page = file.read_text()
    assert "Dimension sets" in page
    for picture in page.split("<svg ")[1:]:
        body = "<svg>" + picture[picture.index(">") + 1 : picture.index("</svg>")] + "</svg>"
        for attribute in ("x", "y", "width", "height"):
            body = _quoted(body, attribute)
        assert len(ElementTree.fromstring(body)) > 3


def _quoted(text: str, attribute: str) -> str:
    """Numbers of an attribute in quotes, as XML asks."""
    return re.sub(rf" {attribute}=(-?\d+)", rf' {attribute}="\1"', text)
