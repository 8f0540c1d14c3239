"""YAML as nodes: what is refused before anything is read, and what aliases and merge keys mean."""

import contextlib
import random
from pathlib import Path

import pytest

from cpsat_pim.base.reading.fields import Value
from cpsat_pim.base.reading.nodes import (
    MAX_SHOWN,
    FileMistakes,
    from_plain,
    plain,
    shown,
    to_plain,
    to_yaml,
)
from cpsat_pim.base.reading.reader import Reader
from cpsat_pim.base.reading.text import MAX_BYTES, compose, file_text
from cpsat_pim.workload.network import read_network

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)
)

#: Twenty lists, each of 40 that lie in each other, around the one before.
LADDER = "a0: &a0 []\n" + "".join(f"a{i}: &a{i} {'[' * 40}*a{i - 1}{']' * 40}\n" for i in range(1, 20))


def scalar(text):
    """The value of a YAML text."""
    return plain(compose("f", text, Reader().complain))


def complaints(text):
    """What composing a text complains about."""
    reader = Reader()
    root = compose("f", text, reader.complain)
    with pytest.raises(FileMistakes) as caught:
        reader.read(root, Value())
    return str(caught.value).splitlines()


# --- Words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("1e3", 1000),
        ("1.50", 1.5),
        ("0.1", 0.1),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("true", True),
        ("null", None),
        ("~", None),
        ("'5'", "5"),
        ('"true"', "true"),
        ("yes", "yes"),
        ("N", "N"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2001-01-01", "2001-01-01"),
        ("[1, a]", (1, "a")),
    ],
)
def test_words_are_those_of_yaml_1_2(text, value):
    """Decimal numbers, true, false and null; all else is text, in whatever way older YAML reads it."""
    result = scalar(text)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize("data", [5, -0.25, 1e-7, True, None, "5", "", "true", "a: b", [1, "x"], float("inf")])
def test_plain_data_become_nodes_of_the_same_value(data):
    """JSON's values, so that results are read by the readers of files."""
    value = plain(from_plain("f", data))
    assert value == (tuple(data) if isinstance(data, list) else data)


def test_values_are_shown_as_they_stand_and_shortened():
    """One line of at most 60 characters."""
    for text, expected in (("'a'", "'a'"), ("[1, 'a']", "[1, 'a']"), ("{a: 1}", "a mapping"), ("~", "~")):
        assert shown(compose("f", text, Reader().complain)) == expected
    assert len(shown(compose("f", "x" * 1000, Reader().complain))) == 60


# --- Refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "f: expands to more than 100000 values"),
        ("a: &a [*a]", "f:1:4: contains itself"),
        ("a: &a {b: {c: *a}}", "f:1:4: contains itself"),
        ("x: " + "[" * 5000 + "]" * 5000, "f: is nested too deeply"),
        ("- " * 5000 + "1", "f: is nested too deeply"),
        ("- " * 101 + "1", "f: is nested too deeply"),
        (LADDER, "f: is nested too deeply"),
        ("a: *b", "f:1:4: is not YAML: found undefined alias 'b'"),
        ("a: 1\n  b: 2", "f:2:4: is not YAML: mapping values are not allowed here"),
        ("\t", "f:1:1: is not YAML: found character '\\t' that cannot start any token"),
    ],
)
def test_text_that_cannot_be_taken_is_refused_at_once(text, message):
    """Before anything is built of it: ten to the thirtieth values take no time."""
    with pytest.raises(FileMistakes) as caught:
        compose("f", text, Reader().complain)
    assert str(caught.value) == message


def test_large_files_are_not_read(tmp_path: Path):
    """No more than the limit is taken from any file, however long."""
    path = tmp_path / "big.yaml"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(FileMistakes, match="is larger than 1 MiB"):
        file_text(path)
    if Path("/dev/zero").exists():
        with pytest.raises(FileMistakes, match="is larger than 1 MiB"):
            file_text(Path("/dev/zero"))


def test_keys_and_tags_are_checked_everywhere():
    """Twice the same key, keys that are no words, tags that would call programs."""
    assert complaints("a: {b: 1, b: 2}\n[c]: 3\nd: !!python/object/apply:os.system [ls]\ne: !f 1\n") == [
        "f:1:11: b: is given twice",
        "f:2:1: a key must be a word",
        "f:3:4: has the tag tag:yaml.org,2002:python/object/apply:os.system, which means nothing here",
        "f:4:4: has the tag !f, which means nothing here",
    ]


def test_keys_that_are_not_scalars_are_dropped():
    """Beside a merge, in what is extended and wherever a table is read: nobody asks for them after that."""
    text = "base: &b {x: 1}\nd: {[a, b]: 1, {c: d}: 2, <<: *b}\n"
    problems: list[str] = []
    root = compose("f", text, lambda node, path, problem: problems.append(problem))
    assert to_plain(root) == {"base": {"x": 1}, "d": {"x": 1}}
    assert problems == ["a key must be a word"] * 2


@pytest.mark.parametrize("text", ["0.0.0", "1e5", "1.5", "007", "true", "yes", "~", "", "a: b", "2024-01-01", "-", "x"])
def test_text_is_written_as_text(text):
    """Whatever it looks like: a layer's name is one when it is read back."""
    for style in (True, None):
        root = compose("f", to_yaml({"name": text, text: 1}, default_flow_style=style), Reader().complain)
        assert to_plain(root) == {"name": text, text: 1}


def test_of_very_many_mistakes_the_first_are_told(tmp_path: Path):
    """And how many there are more."""
    path = tmp_path / "n.yaml"
    path.write_text("version: 1\nlayers:\n" + "".join(f"- {{name: a{i}, P: 0}}\n" for i in range(200)))
    with pytest.raises(ValueError, match=r".") as caught:
        read_network(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == MAX_SHOWN + 1
    assert lines[-1] == f"... and {200 - MAX_SHOWN} more"


@pytest.mark.parametrize(
    ("text", "place"),
    [("layers:\n- {name: NUMBER}", r"3:10: layers\[0\]\.name"), ("extends: NUMBER\nlayers: [{P: 1}]", "2:10: extends")],
)
def test_number_too_long_to_keep_in_place_of_a_name_has_its_place(tmp_path: Path, text: str, place: str):
    """Names are looked at before they are read: for the paths of other mistakes, and for what is extended."""
    path = tmp_path / "n.yaml"
    path.write_text(f"version: 1\n{text.replace('NUMBER', '9' * 50)}\n")
    with pytest.raises(FileMistakes, match=rf"{path}:{place}: must be a number below"):
        read_network(path)


# --- Aliases and merge keys ------------------------------------------------------------------------------------------


def test_aliases_and_merge_keys_repeat_what_they_name(tmp_path: Path):
    """A layer as its anchor says, but for what it says itself; the first of several bases comes first."""
    path = tmp_path / "n.yaml"
    path.write_text(
        "version: 1\nlayers:\n- &a {name: a, P: 4, K: 8}\n- {<<: *a, name: b, K: 2}\n"
        "- {name: c, <<: [{C: 3}, *a], after: [a]}\n"
    )
    network = read_network(path)
    assert [(n.name, n.workload.P, n.workload.K, n.workload.C) for n in network.layers] == [
        ("a", 4, 8, 1),
        ("b", 4, 2, 1),
        ("c", 4, 8, 3),
    ]


def test_merge_key_of_anything_else_is_a_mistake():
    """It names what it is."""
    assert complaints("a: {<<: 5, b: 1}") == ["f:1:9: <<: must be a mapping (got 5)"]


@pytest.mark.parametrize("seed", range(300))
def test_damaged_files_are_refused_in_lines(tmp_path: Path, seed: int):
    """A network with a few characters cut out, doubled or replaced is read, or refused: never another exception."""
    chance = random.Random(seed)
    text = list("version: 1\nbytes: {input: 2}\nlayers:\n- {name: a, P: 4, stride: [1, 2]}\n- {name: b, after: [a]}\n")
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(text))
        text[at] = chance.choice(["", text[at] * 2, *"{}[]:,&*!|>'\"%@`#-? \n\t0x~<"])
    path = tmp_path / "n.yaml"
    path.write_text("".join(text))
    with contextlib.suppress(FileMistakes):
        read_network(path)
