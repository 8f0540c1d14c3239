"""Scripts as modules, which import their neighbours."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a script by its name, and forgets it afterwards."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    known = set(sys.modules)
    yield import_module
    for name in set(sys.modules) - known:
        if str(SCRIPTS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
