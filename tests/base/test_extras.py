"""Optional packages that are there and cannot be imported."""

from pathlib import Path

import pytest

from cpsat_pim.base.extras import MissingExtra, import_extra


@pytest.mark.parametrize("error", ["ImportError('no name of that kind')", "OSError('libx.so: no such file')"])
def test_package_that_cannot_be_imported_is_one_line(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too old, or without a library that it needs: why, and what to install."""
    (tmp_path / "half_there.py").write_text(f"raise {error}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtra) as caught:
        import_extra("half_there", "plots")
    reason = error.partition("'")[2].removesuffix("')")
    assert str(caught.value) == f"half_there cannot be imported ({reason}): pip install 'cpsat-pim[plots]'"
