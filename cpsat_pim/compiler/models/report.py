"""The times of systems as text and as JSON."""

from collections.abc import Mapping as Names
from typing import Any

from cpsat_pim.compiler.models.block import GROUPS, Parts, Request
from cpsat_pim.compiler.models.llm import speedups
from cpsat_pim.device import Device

#: Version of the JSON of `llm --json`.
FORMAT = 1


def format_times(request: Request, times: Names[str, Parts]) -> str:
    """A line a system: its gain over the host alone, and milliseconds a token by group of layers."""
    tokens, gains = len(request.lengths), speedups(times)
    lines = [f"{'system':14} {'gain':>6} {'ms a token':>11}  " + "  ".join(f"{group:>12}" for group in GROUPS)]
    for system, parts in times.items():
        token = {group: seconds * 1e3 / tokens for group, seconds in parts.items()}
        shares = "  ".join(f"{token[group]:12.4f}" for group in GROUPS)
        lines.append(f"{system:14} {gains[system]:6.3f} {sum(token.values()):11.4f}  {shares}")
    return "\n".join(lines)


def as_data(request: Request, device: Device, times: Names[str, Parts]) -> dict[str, Any]:
    """The times as JSON takes them, in seconds of all tokens."""
    return {
        "format": FORMAT,
        "model": request.model.name,
        "device": device.name,
        "batch": request.batch,
        "given_tokens": request.given,
        "generated_tokens": request.generated,
        "seconds": {system: dict(parts) for system, parts in times.items()},
        "gain": speedups(times),
    }
