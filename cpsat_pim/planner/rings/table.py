"""Loads by mask, computed once for all meshes whose sides are powers of two up to 16.

`ring_loads.csv` holds a line for each mesh with at most as many rows as columns, and each mask of it; of a square mesh
only masks whose rows number is at least the columns number. The rest are transposes (see `transposition`). It is made
by `python scripts/benchmark_rings.py --write`.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from cpsat_pim.planner.rings.instance import Mask, Mesh, all_masks, check_mask, masked_instance
from cpsat_pim.planner.rings.schedule import Effort, Schedule, schedule_rings
from cpsat_pim.planner.rings.transposition import sorted_schedule, transposed_schedule

FILE = "ring_loads.csv"
COLUMNS = ("mesh", "free", "load", "bound")

#: Sides of the meshes in the table.
SIDES = (1, 2, 4, 8, 16)


class RingLoad(NamedTuple):
    """Chunks that the heaviest link carries in a step of the best known rings; no rings have less than the bound."""

    load: int
    bound: int


def ring_load(mesh: Mesh, mask: Mask) -> RingLoad:
    """Return the load of the best known rings of a mask, and its lower bound.

    Raises:
        ValueError: the mask is not one of the mesh, or the table does not have the mesh.
    """
    check_mask(mesh, mask)
    mesh, mask, _ = canonical(mesh, mask)
    found = _loads().get((str(mesh), mask.digits(mesh)))
    if found is None:
        raise ValueError(f"the table holds meshes of sides up to {SIDES[-1]} (got {mesh}); use schedule_rings")
    return found


def masked_schedule(mesh: Mesh, mask: Mask, effort: Effort | None = None) -> Schedule:
    """Return the rings of a mask, searched as for the table: transposed if the table holds the transpose.

    Annealing is the same for the same seed, but ends with the time limit, so a slow machine may find a higher load.

    Raises:
        ValueError: the mask is not one of the mesh.
    """
    check_mask(mesh, mask)
    mesh, mask, is_transposed = canonical(mesh, mask)
    schedule = schedule_rings(masked_instance(mesh, mask), effort)
    return sorted_schedule(transposed_schedule(schedule)) if is_transposed else schedule


def canonical(mesh: Mesh, mask: Mask) -> tuple[Mesh, Mask, bool]:
    """The mesh and mask that stand in the table for these, and whether they are the transposes."""
    if (mesh.rows, -mask.rows) <= (mesh.cols, -mask.cols):
        return mesh, mask, False
    return mesh.transposed, mask.transposed, True


def table_keys() -> list[tuple[Mesh, Mask]]:
    """The lines of the table, in order."""
    meshes = [Mesh(rows=r, cols=c) for c in SIDES for r in SIDES if r <= c and r * c > 1]
    return [(mesh, mask) for mesh in meshes for mask in all_masks(mesh) if not canonical(mesh, mask)[2]]


@cache
def _loads() -> dict[tuple[str, str], RingLoad]:
    text = (files("cpsat_pim.planner.rings") / FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {(row["mesh"], row["free"]): RingLoad(int(row["load"]), int(row["bound"])) for row in rows}
