"""Where kernels come from: a decorated function, a file that is read but not run, or the shipped ones."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from cpsat_pim.compiler.language.ir import Kernel
from cpsat_pim.compiler.language.mistakes import KernelMistake, mistake
from cpsat_pim.compiler.language.parse import parse_function

SHIPPED = "shipped.py.txt"


def kernel(function: Callable[..., Any]) -> Kernel:
    """The kernel that a function states; the function itself never runs.

    Raises:
        KernelMistake: with line and column, at whatever the language does not have.
    """
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    known = function.__globals__

    def find(name: str) -> Kernel | None:
        found = known.get(name)
        return found if isinstance(found, Kernel) else _shipped().get(name)

    node = tree.body[0]
    file = Path(inspect.getsourcefile(function) or "kernel").name
    if not isinstance(node, ast.FunctionDef):
        raise mistake(file, node, "expected a function")
    return parse_function(node, file, find)


def read_kernel(reference: str) -> Kernel:
    """The kernel `NAME` that is shipped, or `FILE.py:NAME`.

    Raises:
        KernelMistake: there is none, or it is wrong.
        OSError: the file cannot be read.
    """
    file, colon, name = reference.rpartition(":")
    return shipped_kernel(name) if not colon else kernel_of_text(Path(file).read_text(), file, name)


def kernel_of_text(text: str, file: str, name: str) -> Kernel:
    """The kernel `name` of a file's text.

    Raises:
        KernelMistake: there is none, or it is wrong.
    """
    return _named(_kernels_of(text, file), name, file)


def shipped_kernel(name: str) -> Kernel:
    """A kernel of the package.

    Raises:
        KernelMistake: there is none of that name.
    """
    return _named(_shipped(), name, "shipped kernels")


def shipped_names() -> tuple[str, ...]:
    """The kernels of the package."""
    return tuple(_shipped())


def _named(kernels: dict[str, Kernel], name: str, where: str) -> Kernel:
    if name not in kernels:
        raise KernelMistake(f"{where}: no kernel {name} (there are {', '.join(kernels) or 'none'})")
    return kernels[name]


@cache
def _shipped() -> dict[str, Kernel]:
    text = resources.files(__package__).joinpath(SHIPPED).read_text()
    return _kernels_of(text, SHIPPED)


def _kernels_of(text: str, file: str) -> dict[str, Kernel]:
    """The functions of a file that are decorated `@kernel`, in order; each may call those before it."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise KernelMistake(f"{file}:{error.lineno}:{error.offset}: {error.msg}") from None
    found: dict[str, Kernel] = {}
    for node in _kernel_functions(tree.body):
        found[node.name] = parse_function(node, file, lambda name: found.get(name) or _other(name, file))
    return found


def _other(name: str, file: str) -> Kernel | None:
    return None if file == SHIPPED else _shipped().get(name)


def _kernel_functions(body: Iterable[ast.stmt]) -> Iterable[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef) and any(_is_kernel(mark) for mark in node.decorator_list):
            yield node


def _is_kernel(mark: ast.expr) -> bool:
    return isinstance(mark, ast.Name | ast.Attribute) and ast.unparse(mark).split(".")[-1] == "kernel"
