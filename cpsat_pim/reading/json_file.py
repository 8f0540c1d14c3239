"""JSON files: results and reproducers."""

import json
from pathlib import Path
from typing import Any

from cpsat_pim.reading.nodes import FileMistakes


def read_json(path: str | Path) -> dict[str, Any]:
    """The object in a file.

    Raises:
        FileMistakes: it cannot be read, or holds something else.
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
    return data
