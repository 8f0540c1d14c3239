"""What pages and docstrings name is there: modules, classes and functions, options, scripts and other files."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import COMMANDS, PAGES, ROOT

PACKAGES = ("cpsat_pim", "tables", "tracesim")
MODEL = ROOT / "docs" / "model.md"


def inline(page: Path) -> set[str]:
    """What a page has between backticks, without its blocks."""
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)))


@cache
def modules() -> tuple[str, ...]:
    """The modules of the packages, by their full names."""
    files = [path.relative_to(ROOT) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return tuple(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files)


@cache
def source(module: str) -> str:
    """The text of a module."""
    file = ROOT / module.replace(".", "/")
    return (file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text()


@cache
def defined() -> dict[str, set[str]]:
    """Names that the modules define at their top or in a class, with the modules."""
    found: dict[str, set[str]] = {}
    for module in modules():
        for node in ast.walk(ast.parse(source(module))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.setdefault(node.name, set()).add(module)
    return found


def leads_somewhere(start: Any, names: list[str]) -> bool:
    """Whether attributes, or submodules, lead on from a module or a class by these names."""
    for name in names:
        if not hasattr(start, name) and f"{start.__name__}.{name}" in modules():
            importlib.import_module(f"{start.__name__}.{name}")
        if not hasattr(start, name):
            return False
        start = getattr(start, name)
    return True


def starts(first: str) -> Iterator[Any]:
    """What the first part of a dotted name may mean: a package, a part of the main one, a class of any."""
    yield from (importlib.import_module(name) for name in (first, f"cpsat_pim.{first}") if name in modules())
    found = [importlib.import_module(module) for module in sorted(defined().get(first, ()))]
    yield from (getattr(module, first) for module in found if hasattr(module, first))  # else it is a method there


def is_there(name: str) -> bool:
    """Whether a name, dotted or not, is one of the packages'; `model.Cuts` may be in any module of `model`."""
    first, *rest = name.split(".")
    if not rest:
        return first in defined()
    within = (start for module in defined().get(rest[0], ()) if f".{first}." in module for start in starts(rest[0]))
    return any(leads_somewhere(start, rest) for start in starts(first)) or any(
        leads_somewhere(start, rest[1:]) for start in within
    )


def beside(module: str, first: str) -> list[str]:
    """The modules that the first part of a dotted name means within a module: beside it, below it or above."""
    parts = module.split(".")
    places = (".".join([*parts[:n], first]) for n in range(len(parts), 0, -1))
    return [place for place in places if place in modules()]


def named_in(module: str) -> set[str]:
    """Dotted names in the docstrings and comments of a module that begin with a package, a class of one or a module
    beside it; others may be of any library, or of a file.
    """
    nodes = (node.value for node in ast.walk(ast.parse(source(module))) if isinstance(node, ast.Expr))
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    codes = re.findall(r"`([^`\n]+)`", "\n".join([*strings, *re.findall(r"#.*", source(module))]))
    dotted = {code for code in codes if re.fullmatch(r"\w+(\.\w+)+", code)}
    firsts = {name: name.split(".")[0] for name in dotted}
    return {
        name
        for name, first in firsts.items()
        if first in PACKAGES or (first[0].isupper() and first in defined()) or beside(module, first)
    }


def is_there_for(module: str, name: str) -> bool:
    """Whether a dotted name is that of something, seen from a module."""
    first, *rest = name.split(".")
    near = (importlib.import_module(place) for place in beside(module, first))
    return is_there(name) or any(leads_somewhere(start, rest) for start in near)


@pytest.mark.parametrize("package", PACKAGES)
def test_code_that_code_names_is_there(package: str) -> None:
    """In docstrings and comments."""
    own = [module for module in modules() if module.split(".")[0] == package]
    named = [(module, name) for module in own for name in sorted(named_in(module))]
    assert [f"{module}: {name}" for module, name in named if not is_there_for(module, name)] == []
    assert len(named) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_that_is_named_is_there(page: Path) -> None:
    """Dotted names of the packages; on the page of the model, all dotted names."""
    own = r"\w+" if page == MODEL else "|".join(PACKAGES)
    dotted = {code for code in inline(page) if re.fullmatch(rf"({own})(\.\w+)+", code)}
    dotted |= set(re.findall(r"^\.\. auto\w+:: (\w+\.[\w.]+)", page.read_text(), re.MULTILINE))
    assert [name for name in sorted(dotted) if not is_there(name)] == []
    assert page != MODEL or len(dotted) > 40


def test_equations_are_where_they_are_said_to_be() -> None:
    """Every name in the second column of the table of equations."""
    rows = re.findall(r"^\| (?:DLS |HCM )?\d[^|]*\|([^|]+)\|", MODEL.read_text(), re.MULTILINE)
    names = re.findall(r"`([^`]+)`", " ".join(rows))
    assert [name for name in names if not is_there(name)] == []
    assert len(names) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_are_named_are_there(page: Path) -> None:
    """In running text and in commands; but for what is made."""
    named = re.findall(rf"(?<![\w./])(?:docs|scripts|tests|\.ci|{'|'.join(PACKAGES)})/[\w./-]*\w", page.read_text())
    assert [name for name in named if name != "docs/_build" and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_that_are_named_are_there(page: Path) -> None:
    """Of some command; of a script, where its line is shown."""
    known = {name for parser in COMMANDS.values() for action in parser._actions for name in action.option_strings}
    scripts = " ".join(path.read_text() for path in (ROOT / "scripts").glob("*.py"))
    named = {name for code in inline(page) for name in re.findall(r"(?<![\w-])--[a-z][a-z-]*", code)}
    assert [name for name in sorted(named - known) if f'"{name}"' not in scripts] == []
    for script, words in re.findall(r"python (scripts/\w+\.py)([^\n#`]*)", page.read_text()):
        options = re.findall(r"--[a-z][a-z-]*", words)
        assert all(f'"{option}"' in (ROOT / script).read_text() for option in options), script
