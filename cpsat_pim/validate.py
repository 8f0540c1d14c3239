"""Validators for attrs fields; every message reads `Class.field: rule (got value)`."""

import math
from collections.abc import Callable, Iterable
from typing import Any


def complain(instance: Any, attribute: Any, rule: str, value: Any) -> None:
    """Raise the ValueError of a broken rule."""
    raise ValueError(f"{type(instance).__name__}.{attribute.name}: {rule} (got {value!r})")


def is_integer(value: Any) -> bool:
    """An int that is not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def positive(instance: Any, attribute: Any, value: Any) -> None:
    """A positive integer."""
    if not is_integer(value) or value <= 0:
        complain(instance, attribute, "must be a positive integer", value)


def not_negative(instance: Any, attribute: Any, value: Any) -> None:
    """An integer of at least 0."""
    if not is_integer(value) or value < 0:
        complain(instance, attribute, "must be an integer of at least 0", value)


def not_negative_real(instance: Any, attribute: Any, value: Any) -> None:
    """A finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        complain(instance, attribute, "must be a finite number of at least 0", value)


def positive_real_or_none(instance: Any, attribute: Any, value: Any) -> None:
    """A finite positive number, or None for 'no limit'."""
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0
    ):
        complain(instance, attribute, "must be a positive number or nothing for no limit", value)


def pair_of_positive(instance: Any, attribute: Any, value: Any) -> None:
    """Two positive integers (width, height)."""
    if not isinstance(value, tuple) or len(value) != 2 or not all(is_integer(v) and v > 0 for v in value):
        complain(instance, attribute, "must be two positive integers (width, height)", value)


def three_booleans(instance: Any, attribute: Any, value: Any) -> None:
    """Three booleans [input, weight, output]."""
    if not isinstance(value, tuple) or len(value) != 3 or not all(isinstance(v, bool) for v in value):
        complain(instance, attribute, "must be three booleans [input, weight, output]", value)


def text(instance: Any, attribute: Any, value: Any) -> None:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        complain(instance, attribute, "must be text", value)


def one_of(*choices: str) -> Callable[[Any, Any, Any], None]:
    """One of some words."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        if value not in choices:
            complain(instance, attribute, f"must be one of {', '.join(choices)}", value)

    return check


def is_a(kind: type) -> Callable[[Any, Any, Any], None]:
    """An object of a class."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        if not isinstance(value, kind):
            complain(instance, attribute, f"must be a {kind.__name__}", value)

    return check


def as_tuple(value: Any) -> Any:
    """A list as a tuple; what is neither is left for the validator to refuse."""
    return tuple(value) if isinstance(value, Iterable) else value


def boolean(instance: Any, attribute: Any, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool):
        complain(instance, attribute, "must be true or false", value)
