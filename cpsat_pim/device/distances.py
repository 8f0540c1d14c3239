"""Ticks that a device asks for between commands."""

from cpsat_pim.device.device import Device


def least_ticks(device: Device, before: int, after: int, level: int | None = None) -> int:
    """Ticks that a device asks for between two commands through one node of a level, or of any level."""
    names = [command.name for command in device.commands]
    return max(
        (
            device.ticks(rule.ticks)
            for rule in device.constraints
            if names[before] in rule.before
            and names[after] in rule.after
            and level in (None, device.levels.index(rule.at))
            and rule.window == 1
            and not rule.siblings
        ),
        default=0,
    )
