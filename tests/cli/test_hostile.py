"""Files that were not meant well: every command refuses them in lines that name the file, before anything is solved."""

import re
from pathlib import Path

import pytest

from cpsat_pim.cli import main

#: A command for each kind of file, and what such a file says of a number.
KINDS = {
    "arch": ("map P=4 --arch", "vault_count: {}"),
    "network": ("run", "layers: [{{name: a, P: {}}}]"),
    "model": ("baselines", "layers: [{{name: a, count: {}}}]"),
    "front": ("pareto", "layers: [{{name: a, C: {}}}]"),
    "mapping": ("simulate", "layers: [{{name: a, shape: {{P: {}}}, mapping: {{}}}}]"),
    "trace": ("trace --format ramulator2 -o t", "layers: [{{name: a, shape: {{P: {}}}, mapping: {{}}}}]"),
    "start": ("run resnet50 --start-from", "layers: [{{name: fc, mapping: {{temporal: {{PE: {{K: {}}}}}}}}}]"),
    "constraints": ("map P=4 --constraints", "temporal: {{PE: {{P: {}}}}}"),
    "sweep": ("sweep", "list: [{{network: P=4, time_limit: {}}}]"),
}

NINES = ", ".join(["*{0}"] * 9)
BOMB = "a: &a [x]\n" + "".join(f"{b}: &{b} [{NINES.format(a)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))

FILES = {
    "bomb": f"version: 1\n{BOMB}",
    "loop": "version: 1\nx: &a [*a]\n",
    "deep": f"version: 1\nx: {'[' * 400}{']' * 400}\n",
    "long": f"# {'x' * 2**21}\nversion: 1\n",
    "digits": f"version: {'9' * 100_000}\n",
    "exponent": "version: 1e999999999\n",
    "code": "version: 1\nname: !!python/object/apply:os.system [echo]\n",
    "twice": "version: 1\nversion: 1\n",
    "two": "version: 1\n---\nversion: 1\n",
    "nothing": "",
    "scalar": "5\n",
    "later": "version: 2\n",
    "undated": "name: x\n",
    "unknown": "version: 1\nclok: 5\n",
    "extending": "version: 1\nextends: extending.yaml\n",
    "bytes": "\x00\x01\x02",
}


def complaints(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Nothing on stdout; the lines on stderr, none of which is long or a traceback's."""
    out, err = capsys.readouterr()
    assert out == ""
    assert all(line.startswith("cpsat_pim: error: ") and len(line) < 400 for line in err.splitlines())
    return [line.removeprefix("cpsat_pim: error: ") for line in err.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, in a few lines that begin with its name, and nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    path = Path(f"{name}.yaml")
    path.write_text(FILES[name])
    assert main([*KINDS[kind][0].split(), str(path)]) == 2
    lines = complaints(capsys)
    assert 0 < len(lines) < 5
    assert all(line.startswith(f"{path}:") for line in lines)
    assert [*Path().iterdir()] == [path]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "number", ["-1", "0", ".nan", ".inf", "1e30", "4611686018427387904", "4 furlongs", "two", "[1]", "true", ""]
)
def test_a_number_that_is_none_is_told_with_its_place(
    number: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`<file>:<line>:<column>: <path>: <rule> (got <what stands there>)`."""
    monkeypatch.chdir(tmp_path)
    command, text = KINDS[kind]
    Path("f.yaml").write_text(f"version: 1\n{text.format(number)}\n")
    assert main([*command.split(), "f.yaml"]) == 2
    lines = complaints(capsys)
    got = re.escape(number or "nothing")
    assert any(re.fullmatch(rf"f\.yaml:2:\d+: [\w\[\].]+: must .*\(got '?{got}'?\)(;.*)?", line) for line in lines), (
        lines
    )


@pytest.mark.parametrize(
    "command",
    [
        "map P=4000000000,Q=4000000000",
        "run P=4000000000,Q=4000000000",
        "pareto P=4000000000,Q=4000000000",
        "baselines P=4000000000,Q=4000000000",
        "run f.yaml",
        "simulate f.yaml",
        "sweep p.yaml",
    ],
)
def test_products_past_62_bits_are_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """16 x 10^18 MACs are more than 2^62, whichever way they are asked for."""
    monkeypatch.chdir(tmp_path)
    shape = "P: 4000000000, Q: 4000000000"
    layer = f"shape: {{{shape}}}, mapping: {{}}" if command.startswith("simulate") else shape
    Path("f.yaml").write_text(f"version: 1\nlayers: [{{name: a, {layer}}}]\n")
    Path("p.yaml").write_text("version: 1\nlist: [{network: 'P=4000000000,Q=4000000000'}]\n")
    assert main(command.split()) == 2
    assert any("2^62" in line for line in complaints(capsys))
