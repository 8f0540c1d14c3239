"""What is wrong with a kernel, as one line."""

import ast


class KernelMistake(ValueError):
    """A kernel that cannot be compiled; the text reads `file:line:column: what is wrong (what was expected)`."""


def mistake(file: str, node: ast.AST, problem: str) -> KernelMistake:
    """The mistake of a syntax node; columns count from 1, as editors do."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
    return KernelMistake(f"{file}:{line}:{column}: {problem}")
