"""Peak memory of this process, where Linux reports it."""

from pathlib import Path

_STATUS, _REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Forget the peak up to now."""
    if _REFERENCES.exists():
        _REFERENCES.write_text("5")


def peak_mib() -> float | None:
    """Return the peak of resident memory since the last reset, else since the process began; None if unknown."""
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)
