"""Where kernels come from: a decorated function, a file that is read but not run, or the shipped ones."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import cache, partial
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
        if isinstance(found, Kernel):
            return found
        return shipped_kernel(name) if name in shipped_names() else None

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
    if colon:
        return kernel_of_text(_text_of(file), file, name)
    if reference.endswith(".py"):
        raise KernelMistake(f"{reference}:1:1: expected FILE.py:NAME, the name of a kernel in the file")
    return shipped_kernel(name)


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise KernelMistake(f"{file}:1:1: expected text in UTF-8 ({error.reason} at byte {error.start + 1})") from None


def kernel_of_text(text: str, file: str, name: str) -> Kernel:
    """The kernel `name` of a file's text.

    Raises:
        KernelMistake: there is none, or it is wrong.
    """
    return _File(text, file).kernel(name)


def shipped_kernel(name: str) -> Kernel:
    """A kernel of the package.

    Raises:
        KernelMistake: there is none of that name.
    """
    return _shipped().kernel(name)


def shipped_names() -> tuple[str, ...]:
    """The kernels of the package."""
    return tuple(_shipped().functions)


@cache
def _shipped() -> "_File":
    return _File(resources.files(__package__).joinpath(SHIPPED).read_text(), SHIPPED)


class _File:
    """The functions of a file that are decorated `@kernel`, each read when it is asked for."""

    def __init__(self, text: str, file: str) -> None:
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise KernelMistake(f"{file}:{error.lineno}:{error.offset}: {error.msg}") from None
        self.file, self.tree = file, tree
        self.functions = {node.name: node for node in _kernel_functions(tree.body)}
        self._read: dict[str, Kernel] = {}

    def kernel(self, name: str) -> Kernel:
        """The kernel of a name.

        Raises:
            KernelMistake: there is none, or it is wrong.
        """
        if name not in self.functions:
            raise KernelMistake(self._lacks(name))
        if name not in self._read:
            self._read[name] = parse_function(self.functions[name], self.file, partial(self._before, name))
        return self._read[name]

    def _lacks(self, name: str) -> str:
        """Why there is no kernel of a name: the function has no decorator, or there is none."""
        there = f"(there are {', '.join(self.functions) or 'none'})"
        if self.file == SHIPPED:
            return f"shipped kernels: no kernel {name} {there}"
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
                expected = "expected def with the decorator @kernel, outside of other functions and classes"
                return str(mistake(self.file, node, f"{name} is no kernel: {expected}"))
        return f"{self.file}:1:1: no kernel {name} {there}"

    def _before(self, caller: str, name: str) -> Kernel | None:
        """A kernel that stands before its caller, or a shipped one."""
        names = list(self.functions)
        if name in names[: names.index(caller)]:
            return self.kernel(name)
        return None if self.file == SHIPPED or name not in shipped_names() else shipped_kernel(name)


def _kernel_functions(body: Iterable[ast.stmt]) -> Iterable[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef) and any(_is_kernel(mark) for mark in node.decorator_list):
            yield node


def _is_kernel(mark: ast.expr) -> bool:
    return isinstance(mark, ast.Name | ast.Attribute) and ast.unparse(mark).split(".")[-1] in ("kernel", "DCC_kernel")
