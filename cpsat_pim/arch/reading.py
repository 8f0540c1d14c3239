"""Architecture files: YAML with the fields of `PIMArchitecture`, and the presets that come with the package.

    version: 1
    name: mine                     # the file's stem if absent
    extends: hbm-pim               # a preset or a file, of which the rest is a change; without it, fields have defaults
    clock: 400 MHz                 # needed for times and bandwidths by the second
    page_policy: closed
    dram_timings: {tRCDRD: 14 ns, tRP: 6}
    pe_array: {array_shape: {h: 8, w: 8}, compute_unit: {unit_type: simd, num_macs: 4}}
    hierarchy:                     # the levels to change, or a list of all four, inner to outer
      GLOBAL_BUFFER: {entries: 64 KiB, access_cost: 1.2 pJ}

Numbers without a unit are in those of the classes: elements, bytes, cycles of the machine's clock, nJ.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cpsat_pim.arch.architecture import LEVEL_NAMES, PIMArchitecture
from cpsat_pim.base.reading import FileKind, read_plain, record_of

DEFAULT = "default"


def _defaults() -> dict[str, Any]:
    return PIMArchitecture().to_dict()


ARCHS = FileKind(
    kind="architecture",
    record=record_of(PIMArchitecture),
    package="cpsat_pim.arch",
    folder="presets",
    builtin={DEFAULT: _defaults},
    defaults=_defaults,
    item_names=LEVEL_NAMES,
)


def arch_names() -> tuple[str, ...]:
    """Return the names of the presets; `default` is `PIMArchitecture()`."""
    return ARCHS.names()


def read_arch(
    name_or_path: str | Path, directory: Path | None = None, changes: Mapping[str, Any] | None = None
) -> PIMArchitecture:
    """Read a machine: a preset by name, or a file by its path (.yaml or .yml), relative to `directory`. `changes` gives
    other values at paths such as `hierarchy.GLOBAL_BUFFER.entries`, as a file would that extends this one; times in
    seconds are then converted with the changed clock.

    Raises:
        ValueError: no such name, an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    arch: PIMArchitecture = ARCHS.read(name_or_path, directory, changes)
    return arch


def change_arch(arch: PIMArchitecture, changes: Mapping[str, Any]) -> PIMArchitecture:
    """Return a machine with other values at such paths, which may have units. The machine's own times are already in
    cycles, so they do not follow a changed clock.

    Raises:
        ValueError: mistakes in them; a line each, `<path.to.field>: ...`.
    """
    changed: PIMArchitecture = ARCHS.changed(arch.to_dict(), changes)
    return changed


def build_arch(file: str, data: Any) -> PIMArchitecture:
    """Build a machine from fields as `PIMArchitecture.to_dict` returns them; `file` names their source in messages.

    Raises:
        ValueError: mistakes in them; a line each, `<file>: <path.to.field>: ...`.
    """
    arch: PIMArchitecture = read_plain(file, data, record_of(PIMArchitecture))
    return arch
