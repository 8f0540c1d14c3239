"""JSON files: what is refused before anything of it is read."""

from pathlib import Path

import pytest

from cpsat_pim.base.reading import FileMistakes, read_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON: Expecting value"),
        ('{"a": 1', "is not JSON: Expecting ',' delimiter"),
        ("[]", "must be a JSON object"),
        ("5", "must be a JSON object"),
        ('{"a": ' + "[" * 100_000, "is nested too deeply"),
        ('{"a": ' + "[" * 500 + "]" * 500 + "}", "is nested too deeply"),
        ('{"a": ' * 101 + "1" + "}" * 101, "is nested too deeply"),
    ],
)
def test_text_that_cannot_be_taken_is_refused_at_once(tmp_path: Path, text: str, message: str) -> None:
    """One line that begins with the file, however deep it is: who reads the values may go down into them."""
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(FileMistakes) as caught:
        read_json(path)
    (line,) = caught.value.lines
    assert line.startswith(f"{path}: {message}")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """Such as a picture; and what is no file at all."""
    path = tmp_path / "f.json"
    path.write_bytes(b"\x89PNG")
    for given, message in ((path, "is not JSON: "), (tmp_path, "cannot be read: Is a directory")):
        with pytest.raises(FileMistakes, match=f"^{given}: {message}"):
            read_json(given)


def test_depth_up_to_the_limit_is_taken(tmp_path: Path) -> None:
    """A hundred levels, far more than any file of ours has."""
    path = tmp_path / "f.json"
    path.write_text('{"a": ' * 100 + "1" + "}" * 100)
    assert list(read_json(path)) == ["a"]
