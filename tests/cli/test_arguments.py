"""Types of arguments."""

import argparse

import pytest

from cpsat_pim.cli.arguments import names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("conv1", ["conv1"]),
        ("conv1, conv2 ,conv3", ["conv1", "conv2", "conv3"]),
        ('"a,b",c', ["a,b", "c"]),
        ('c, "a,b"', ["c", "a,b"]),
        ('a"b', ['a"b']),  # a quote inside a name is part of it
        ("", [""]),
        ("a,", ["a", ""]),
    ],
)
def test_names_stand_between_commas(text: str, expected: list[str]) -> None:
    """A comma in double quotes belongs to the name."""
    assert names(text) == expected


def test_names_are_one_line() -> None:
    """Not a traceback of the parser's."""
    with pytest.raises(argparse.ArgumentTypeError, match="names between commas"):
        names("a\nb,c")
