"""A program as plain data, for JSON, and back (docs/export.md lists the fields)."""

from typing import Any

from attrs import asdict

from cpsat_pim.export.loops.program import Axis, Layout, Loop, LoopProgram, TensorProgram, Tile

#: Version of the document.
VERSION = 1


def program_document(program: LoopProgram) -> dict[str, Any]:
    """Return a program as plain data."""
    return {"version": VERSION} | asdict(program)


def read_program(document: dict[str, Any]) -> LoopProgram:
    """Return the program of a document.

    Raises:
        ValueError: it is no document of this version, or a field is missing or unknown.
    """
    if not isinstance(document, dict) or document.get("version") != VERSION or "sequential" not in document:
        raise ValueError(f"not a file of `export --format loops`, version {VERSION}")
    try:
        return _program({key: value for key, value in document.items() if key != "version"})
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a complete file of `export --format loops`: {error}") from error


def _program(document: dict[str, Any]) -> LoopProgram:
    loops = {part: [Loop(**loop) for loop in document[part]] for part in ("sequential", "pes", "lanes")}
    tensors = {name: _tensor(tensor) for name, tensor in document["tensors"].items()}
    return LoopProgram(**document | loops | {"tensors": tensors})


def _tensor(tensor: dict[str, Any]) -> TensorProgram:
    axes, tiles = [Axis(**axis) for axis in tensor["axes"]], [Tile(**tile) for tile in tensor["tiles"]]
    return TensorProgram(**tensor | {"axes": axes, "layout": Layout(**tensor["layout"]), "tiles": tiles})
