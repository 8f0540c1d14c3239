"""The pages show files that can be read and messages as they are printed; the index lists every page."""

import argparse
import re
import runpy
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.cli.arguments import cpus
from cpsat_pim.cli.program import build_parser
from cpsat_pim.cli.sweeps import expand_shorthand
from cpsat_pim.mapping.constraints import read_constraints
from cpsat_pim.mapping.mapping_file import read_mapping_file
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.workload.network import read_network

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text()
FILES = (ROOT / "docs" / "files.md").read_text()
EXAMPLES = dict(re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", FILES, re.DOTALL))
READERS = {
    "chip.yaml": read_arch,
    "net.yaml": read_network,
    "mapping.yaml": read_mapping_file,
    "constraints.yaml": read_constraints,
}


def messages_of(path: Path) -> list[str]:
    """Return the messages for a file with mistakes."""
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
    """The chip, and the plan that uses it: two machines, two objectives."""
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
    assert messages_of(Path("chip.yaml")) == re.findall(r"    cpsat_pim: error: (.*)", FILES)


def test_mistakes_of_a_plan_are_shown_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the page shows the lines."""
    monkeypatch.chdir(tmp_path)
    lines = ["version: 1", "base: {network: resnet50, time_limit: 0}", "grid:", "  arch: [default, hbm-pin]"]
    Path("plan.yaml").write_text("\n".join(lines))
    shown = re.findall(r"    cpsat_pim: error: (.*)", (ROOT / "docs" / "sweep.md").read_text())
    for line, start in zip(messages_of(Path("plan.yaml")), shown, strict=True):
        assert line.startswith(start.removesuffix("..."))


def test_the_index_has_all_pages() -> None:
    """Each once."""
    listed = re.findall(r"\(([\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text())
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "index.md")


#: Pictures that are drawn when the pages are built (docs/conf.py).
DRAWN = {"house.svg"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    """Files that are there, and headings in them."""
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        path = page.parent / target if target else page
        assert path.exists() or path.name in DRAWN, target
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in [re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings]


def test_picture_of_the_house_has_every_room() -> None:
    """Each folder of the package is a box, with the first sentence of its docstring."""
    drawing = runpy.run_path(str(ROOT / "docs" / "house.py"))["draw"]()
    rooms = {path.parent.name for path in (ROOT / "cpsat_pim").glob("*/__init__.py")}
    assert rooms <= set(re.findall(r'class="room"[^>]*>(\w+)<', drawing))
    assert "The command line" in drawing


def test_citation_and_package_agree() -> None:
    """Version and licence."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert [project["version"], project["license"]] == [cited["version"], cited["license"]]


def test_every_command_of_the_readme_is_run_in_ci() -> None:
    """Each stands in a block with a marker, and `.ci/run` runs the block of each marker once."""
    blocks = re.findall(r"^<!-- ci: ([\w-]+) -->\n```\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    marked = "".join(text for _, text in blocks)
    assert re.findall(r".*\.venv/bin/.*\n", README) == re.findall(r".*\.venv/bin/.*\n", marked)
    run = re.findall(r"^run_readme_(?:command|tour) ([\w-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert sorted(run) == sorted(name for name, _ in blocks)


# --- The command line ------------------------------------------------------------------------------------------------


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that has no commands of its own, with its parser."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for word, inner in (item for group in groups for item in group.choices.items()):
        yield from commands(inner, f"{name} {word}".strip())
    if not groups:
        yield name, parser


COMMANDS = dict(commands(build_parser()))
DESCRIBED_IN_WORDS = {"None", "False", str(cpus())}


def documented_options(page: str, usual: set[str]) -> Iterator[tuple[tuple[str, str], str | None]]:
    """Command and option of the tables' rows, and the default of those that have a column for it.

    A row is of the command at its beginning, else of those that its second cell consists of. Else it is of the usual
    ones and ends with the default.
    """
    for line in re.findall(r"^\| `.*", (ROOT / "docs" / page).read_text(), re.MULTILINE):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        first = {name for name in COMMANDS if cells[0].startswith(f"`{name} ")}
        second = set(cells[1].replace("`", "").split(", "))
        named = first or (second if second <= COMMANDS.keys() else set())
        for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cells[0]):
            yield from (((command, option), None if named else cells[-1].strip("`")) for command in named or usual)


def test_options_are_those_of_the_program() -> None:
    """Each is there for each command that has it, with its choices and its default; and there is no other."""
    usual = {"cli.md": {"run", "map"}, "sweep.md": {"sweep run"}, "baselines.md": {"baselines", "bench quality"}}
    usual |= {"fuzz.md": {"fuzz"}, "explain.md": {"explain"}, "rings.md": {"schedule"}, "plan.md": {"plan"}}
    usual |= {"compiler.md": {"compile"}, "tuner.md": {"tune"}}
    rows = dict(row for page, commands in usual.items() for row in documented_options(page, commands))
    text = "".join((ROOT / "docs" / page).read_text() for page in usual)
    for command, parser in COMMANDS.items():
        for action in parser._actions[1:]:  # the first is --help
            names = [name for name in action.option_strings if (command, name) in rows]
            assert names or not action.option_strings, f"{command}: {action.option_strings}"
            assert all(choice in text for choice in action.choices or ())
            documented = {rows.pop((command, name)) for name in names} - {None}
            assert str(action.default) in DESCRIBED_IN_WORDS or documented <= {str(action.default).removesuffix(".0")}
    assert not rows


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_those_of_the_program(page: Path) -> None:
    """Each that a page shows has arguments that the program takes."""
    text = page.read_text().replace("\\\n", " ")
    for line in re.findall(r"(?:python -m cpsat_pim|cpsat-pim) ((?!COMMAND)[^\n`|>]+)", text):
        words = shlex.split(line, comments=True)
        assert build_parser().parse_args(expand_shorthand(words)).command, line
