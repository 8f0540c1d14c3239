"""The pages show files that can be read and mistakes as they are told; none is left out of the index."""

import re
import textwrap
from pathlib import Path

import pytest

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.constraints import read_constraints
from cpsat_pim.mapping_file import read_mapping_file
from cpsat_pim.sweep.reading import read_plan
from cpsat_pim.workload.network import read_network

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text()
FILES = (ROOT / "docs" / "files.md").read_text()
EXAMPLES = dict(re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", FILES, re.DOTALL))
READERS = {
    "chip.yaml": read_arch,
    "net.yaml": read_network,
    "mapping.yaml": read_mapping_file,
    "constraints.yaml": read_constraints,
}


def told(path: Path) -> list[str]:
    """What the program says of a file with mistakes."""
    with pytest.raises(ValueError, match=r".") as caught:
        (read_plan if path.name == "plan.yaml" else read_arch)(path)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("name", READERS)
def test_example_is_valid(name: str, tmp_path: Path) -> None:
    """Each block is a file of its kind."""
    path = tmp_path / name
    path.write_text(EXAMPLES[name])
    READERS[name](path)


def test_examples_of_the_readme_are_valid(tmp_path: Path) -> None:
    """The chip, and the plan that uses it: two machines of two sizes."""
    for name in ("chip.yaml", "plan.yaml"):
        text = re.search(rf"    # {name}\n((    .*\n)+)", README)
        assert text is not None
        (tmp_path / name).write_text(textwrap.dedent(text[1]))
    assert read_arch(tmp_path / "chip.yaml").hierarchy[0].entries == 512  # 1 KiB of two bytes each
    assert len(read_plan(tmp_path / "plan.yaml").points) == 4


def test_mistakes_are_shown_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages of the page are those of the program for a file with these mistakes."""
    monkeypatch.chdir(tmp_path)
    lines = ["version: 1", "extends: hbm-pim", "vault_count: 4", "clok: 1 GHz", "multicast: true"]
    lines += ["dram_timings: {tRCDRD: 1, tRP: 14 nS}", "hierarchy:", "  GLOBAL_BUFFER: {entries: 0 KiB}"]
    Path("chip.yaml").write_text("\n".join(lines))
    assert told(Path("chip.yaml")) == re.findall(r"    cpsat_pim: error: (.*)", FILES)


def test_mistakes_of_a_plan_are_shown_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the page shows the lines."""
    monkeypatch.chdir(tmp_path)
    lines = ["version: 1", "base: {network: resnet50, time_limit: 0}", "grid:", "  arch: [default, hbm-pin]"]
    Path("plan.yaml").write_text("\n".join(lines))
    shown = re.findall(r"    cpsat_pim: error: (.*)", (ROOT / "docs" / "sweep.md").read_text())
    for line, start in zip(told(Path("plan.yaml")), shown, strict=True):
        assert line.startswith(start.removesuffix("..."))


def test_the_index_has_all_pages() -> None:
    """Each once."""
    listed = re.findall(r"\((\w+\.md)\)", (ROOT / "docs" / "index.md").read_text())
    assert sorted(listed) == sorted(page.name for page in PAGES[1:] if page.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    """Files that are there, and headings in them."""
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        path = page.parent / target if target else page
        assert path.exists(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in [re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings]
