"""Read JSON files: results and reproducers."""

import json
from pathlib import Path
from typing import Any

from cpsat_pim.base.reading.nodes import MAX_DEPTH, FileMistakes


def read_json(path: str | Path) -> dict[str, Any]:
    """Read the object in a JSON file.

    Raises:
        FileMistakes: the file cannot be read, or does not contain an object.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileMistakes([f"{path}: cannot be read: {error.strerror}"]) from error
    except RecursionError as error:
        raise FileMistakes([f"{path}: is nested too deeply"]) from error
    except ValueError as error:
        raise FileMistakes([f"{path}: is not JSON: {error}"]) from error
    if not isinstance(data, dict):
        raise FileMistakes([f"{path}: must be a JSON object"])
    if _is_too_deep(data):
        raise FileMistakes([f"{path}: is nested too deeply"])
    return data


def _is_too_deep(data: Any) -> bool:
    """Return whether the data are nested deeper than `MAX_DEPTH`, where recursive readers would fail."""
    level = [data]
    for _ in range(MAX_DEPTH):
        children = (value.values() if isinstance(value, dict) else value for value in level)
        level = [child for those in children for child in those if isinstance(child, dict | list)]
    return bool(level)
