"""Validation rules for the fields of frozen values.

A rule is an attrs validator; its error reads `Class.field: rule (got value)`. The readers of files check the same
rules, and the JSON Schemas for editors are derived from them.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from attrs import field, frozen

#: No number in a file or listing may reach this limit: products with it would exceed 64 bits.
LIMIT = 2**62


def complain(instance: Any, attribute: Any, rule: str, value: Any) -> None:
    """Raise the ValueError of a violated rule."""
    raise ValueError(f"{type(instance).__name__}.{attribute.name}: {rule} (got {value!r})")


@frozen(eq=False)
class Rule:
    """A condition on a value: its message, its test, and its JSON Schema.

    `choices` are the allowed words, if the rule is a choice of words.
    """

    says: str
    holds: Callable[[Any], bool]
    schema: dict[str, Any] = field(factory=dict)
    choices: tuple[str, ...] = ()

    def broken_by(self, value: Any) -> str | None:
        """Return the message of the rule if the value violates it, else None."""
        if not self.holds(value):
            return self.says
        return "must stay below 2^62" if _is_real(value) and abs(value) >= LIMIT else None

    def __call__(self, instance: Any, attribute: Any, value: Any) -> None:
        """Raise a ValueError if the value violates the rule."""
        problem = self.broken_by(value)
        if problem:
            complain(instance, attribute, problem, value)


def is_integer(value: Any) -> bool:
    """Return whether the value is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    """Return whether the value is a finite number and not a bool."""
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool) and math.isfinite(value)


def _is_pair(value: Any) -> bool:
    """Return whether the value is a positive integer, which stands for two, or two of them."""
    numbers = value if isinstance(value, tuple) and len(value) == 2 else (value,)
    return all(is_integer(v) and 0 < v < LIMIT for v in numbers)


def _are_booleans(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(isinstance(v, bool) for v in value)


positive = Rule("must be a positive integer", lambda v: is_integer(v) and v > 0, {"type": "integer", "minimum": 1})
#: A width in bytes: whole bits, so that an element of 4 bits has half a byte.
whole_bits = Rule(
    "must be a positive number of bytes, of whole bits",
    lambda v: _is_real(v) and v > 0 and (8 * v) % 1 == 0,
    {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.125},
)
not_negative = Rule(
    "must be an integer of at least 0", lambda v: is_integer(v) and v >= 0, {"type": "integer", "minimum": 0}
)
not_negative_real = Rule(
    "must be a finite number of at least 0", lambda v: _is_real(v) and v >= 0, {"type": "number", "minimum": 0}
)
positive_real_or_none = Rule(
    "must be a positive number or nothing for no limit",
    lambda v: v is None or (_is_real(v) and v > 0),
    {"type": ["number", "null"], "exclusiveMinimum": 0},
)
pair_of_positive = Rule(
    "must be a positive integer, or two (width, height)",
    _is_pair,
    {
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2},
        ]
    },
)
three_booleans = Rule(
    "must be three booleans [input, weight, output]",
    _are_booleans,
    {"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 3},
)
#: Limits of the command line's `--time-limit`.
seconds = Rule(
    "must be a positive number of at most 1e7",
    lambda v: _is_real(v) and 0 < v <= 1e7,
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1e7},
)
#: The same, and 0.
seconds_or_none = Rule(
    "must be a number from 0 to 1e7",
    lambda v: _is_real(v) and 0 <= v <= 1e7,
    {"type": "number", "minimum": 0, "maximum": 1e7},
)
seed_number = Rule(
    "must be an integer from 0 to 2147483647",
    lambda v: is_integer(v) and 0 <= v < 2**31,
    {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
)
share = Rule(
    "must be a number from 0 to below 1",
    lambda v: _is_real(v) and 0 <= v < 1,
    {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
)
text = Rule("must be text", lambda v: isinstance(v, str) and bool(v), {"type": "string", "minLength": 1})
boolean = Rule("must be true or false", lambda v: isinstance(v, bool), {"type": "boolean"})


def one_of(*choices: str) -> Rule:
    """Return the rule that allows only the given words."""
    rule = f"must be one of {', '.join(choices)}"
    return Rule(rule, lambda v: isinstance(v, str) and v in choices, {"enum": list(choices)}, choices)


def is_a(kind: type) -> Rule:
    """Return the rule that allows only instances of a class."""
    return Rule(f"must be a {kind.__name__}", lambda v: isinstance(v, kind))


def or_none(rule: Rule) -> Rule:
    """Return the rule that allows None besides the values of another rule."""
    schema = {"anyOf": [rule.schema, {"type": "null"}]}
    return Rule(f"{rule.says}, or nothing", lambda v: v is None or rule.holds(v), schema, rule.choices)


def as_tuple(value: Any) -> Any:
    """Convert an iterable to a tuple; leave other values for the validator to reject."""
    return tuple(value) if isinstance(value, Iterable) else value


def as_pair(value: Any) -> Any:
    """Convert one integer to a pair of it, and an iterable to a tuple; leave other values for the validator."""
    return (value, value) if is_integer(value) else as_tuple(value)


def as_table(rows: Iterable[Iterable[Any]]) -> tuple[tuple[Any, ...], ...]:
    """Convert rows of entries to tuples of tuples."""
    return tuple(tuple(row) for row in rows)
