"""DCC's figures beside ours: tables and pictures say the same."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts import compiler_pictures
from scripts.compiler_gains import (
    PAPER_SYSTEMS,
    Breakdown,
    Gain,
    Generated,
    breakdown_table,
    gains_table,
    generation_row,
)

GROUPS = ("attention", "qkv", "projection", "feed-forward", "other")
GAINS = [Gain("GEMV", "32x512", 1, 1.0, 2.0, 4.0, 8.0, 2.0), Gain("GEMV", "32x4096", 4, 4.0, 2.0, 1.0, 8.0, 2.0)]
PAIRS = [Breakdown("RED", 1, 1.5, (6.0, 2.0), (3.0, 1.0)), Breakdown("RED", 4, 1.25, (6.0, 2.0), (7.0, 1.0))]
#: Each group of layers takes half as long with each system behind the one before: gains 1, 2, 4, ....
CASE = Generated(
    "gpt3-13b",
    1,
    "128/2048",
    dict.fromkeys(PAPER_SYSTEMS, 3.0),
    {
        system: dict.fromkeys(GROUPS, 1 / 2**i)
        for i, system in enumerate(("gpu", *PAPER_SYSTEMS, "compiled-piped", "compiled"))
    },
    0.0,
)


def texts(path: Path) -> list[str]:
    """The texts of a picture."""
    return [(element.text or "").strip() for element in ElementTree.parse(path).iter() if element.tag.endswith("text")]


def test_geometric_mean_stands_behind_the_bars() -> None:
    """Of 1 and 4, 2 and 2, 4 and 1: 2 each."""
    *_, last = gains_table(GAINS)
    assert last == "| GEMV | geomean |  | 2.00 | 2.00 | 2.00 |  |  |"


def test_gain_is_the_quotient_of_the_sums_of_parts() -> None:
    """(6 + 2) / (3 + 1) = 2; (6 + 2) / (7 + 1) = 1."""
    assert [line.split(" | ")[3] for line in [*breakdown_table(PAIRS)][1:]] == ["2.00", "1.00"]


def test_paper_stands_in_brackets() -> None:
    """Behind each system that it has."""
    row = generation_row(CASE)
    assert row.startswith(
        "| gpt3-13b | 1 | 128/2048 | 2.000 (3.00) | 4.000 (3.00) | 8.000 (3.00) | 16.000 (3.00) | 32.000 |"
    )


@pytest.mark.parametrize("number", [6, 9])
def test_every_gain_stands_above_its_bar(number: int, tmp_path: Path) -> None:
    """The paper's and ours, with the geometric mean of figure 6; both series have a name."""
    pytest.importorskip("matplotlib", reason="the plotting library of the figures is not installed")
    found = texts(compiler_pictures.write(number, {"attacc": GAINS}, tmp_path))
    values = [text for text in found if text in ("1.00", "2.00", "4.00")]
    assert sorted(values) == sorted(["1.00", "4.00"] * 2 + ["2.00"] * (5 if number == 6 else 2))
    assert {"DCC", "ours, 16 channels", "ours, 80 channels"} <= set(found)


def test_parts_and_gains_of_figure_10_are_drawn(tmp_path: Path) -> None:
    """The paper's gains and ours; the same figures give the same file."""
    pytest.importorskip("matplotlib", reason="the plotting library of the figures is not installed")
    path = compiler_pictures.write(10, {"attacc": PAIRS}, tmp_path)
    assert {"1.50", "1.25", "2.00", "1.00", "compute", "rearrangement", "attacc"} <= set(texts(path))
    before = path.read_bytes()
    assert compiler_pictures.write(10, {"attacc": PAIRS}, tmp_path).read_bytes() == before


def test_all_systems_of_figure_8_are_drawn(tmp_path: Path) -> None:
    """With their gains over the host alone, beside the four of the paper."""
    pytest.importorskip("matplotlib", reason="the plotting library of the figures is not installed")
    found = texts(compiler_pictures.write(8, [CASE], tmp_path))
    assert {"2.00", "4.00", "8.00", "16.00", "32.00", "64.00"} <= set(found)
    assert found.count("3.00") == len(PAPER_SYSTEMS)
    assert {*GROUPS, "host alone", *PAPER_SYSTEMS, "compiled-piped", "compiled"} <= set(found)
