"""Sizes of a network file that are formulas of its parameters: `K: kv + prompt`."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from attrs import field, frozen

from cpsat_pim.base.reading import WRONG, Kind, hint
from cpsat_pim.base.reading.nodes import text_of
from cpsat_pim.base.reading.reader import Reader, Scales, Schema

#: Values of parameters by name.
Parameters = Mapping[str, int]

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_RULE = "must be a positive integer, or a formula of parameters with + - * // and parentheses"
#: Longer formulas are taken for a mistake.
_LONGEST = 200


def _parsed(text: str) -> ast.expr:
    """Parse a formula.

    Raises:
        ValueError: it is none.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{_RULE}, of at most {_LONGEST} characters")
    try:
        root = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{_RULE} (got {text!r})") from error
    for node in ast.walk(root):
        is_known = isinstance(node, ast.BinOp | ast.Name | ast.Load) or type(node) in _OPERATORS
        if not (is_known or (isinstance(node, ast.Constant) and type(node.value) is int)):
            raise ValueError(f"{_RULE} (got {text!r})")
    return root


def _names_something(text: str) -> bool:
    """Return whether a text can be parsed and has a name in it: other texts are no attempt at a formula."""
    try:
        return any(isinstance(node, ast.Name) for node in ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError):
        return False


@frozen
class Formula:
    """A size as a formula of a network's parameters.

    Raises:
        ValueError: the text is no formula.
    """

    text: str
    _root: ast.expr = field(init=False, eq=False, repr=False)

    @_root.default
    def _parse(self) -> ast.expr:
        return _parsed(self.text)

    def value(self, parameters: Parameters) -> int:
        """Return the size for these parameters.

        Raises:
            ValueError: it names another parameter, divides by 0, or is not positive.
        """
        try:
            number = _evaluated(self._root, parameters)
        except ZeroDivisionError as error:
            raise ValueError(f"{self.text} divides by 0") from error
        if number < 1:
            raise ValueError(f"must be a positive integer (got {self.text} = {number})")
        return number


def _evaluated(node: ast.expr, parameters: Parameters) -> int:
    if isinstance(node, ast.BinOp):
        left, right = _evaluated(node.left, parameters), _evaluated(node.right, parameters)
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Name):
        if not parameters:
            raise ValueError(f"must be a positive integer (got {node.id})")
        if node.id not in parameters:
            raise ValueError(f"unknown parameter {node.id!r}{hint(node.id, parameters)}")
        return parameters[node.id]
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return node.value


@frozen
class Size:
    """A kind of value: an integer of kind `number`, or a formula."""

    number: Kind

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Return an int or a `Formula`."""
        text = text_of(node)
        if text is None or not _names_something(text):
            return self.number.read(reader, node, path, scales)
        reader.enter(node, path)
        try:
            return Formula(text)
        except ValueError as error:
            reader.complain(node, path, str(error))
            return WRONG

    def schema(self, partial: bool = False) -> Schema:
        """Return the schema of the number or of text."""
        return {"anyOf": [self.number.schema(partial), {"type": "string", "maxLength": _LONGEST}]}


def sized(value: Any, parameters: Parameters) -> Any:
    """Return the value of a formula; other values are unchanged.

    Raises:
        ValueError: see `Formula.value`.
    """
    return value.value(parameters) if isinstance(value, Formula) else value
