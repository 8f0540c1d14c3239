"""Loads of rings for all masks of all meshes of up to 16x16, and how many are proven.

    python scripts/benchmark_rings.py                the meshes of the target: 4x4, 4x8, 8x8, 16x16
    python scripts/benchmark_rings.py --mesh 8x8     one mesh
    python scripts/benchmark_rings.py --write        all meshes, and writes the table that the planner looks up

Each mask and its transpose count once. All rings are counted, and all certificates checked, by `tracesim.rings` too.
"""

import argparse
import csv
import time
from collections import Counter
from pathlib import Path

import cpsat_pim.planner.rings as rings_package
from cpsat_pim.planner.rings import Effort, Schedule, masked_instance, schedule_rings
from cpsat_pim.planner.rings.check import check_schedule
from cpsat_pim.planner.rings.instance import Mask, Mesh, read_mesh
from cpsat_pim.planner.rings.table import COLUMNS, FILE, table_keys

TARGET = ("4x4", "4x8", "8x8", "16x16")


def main() -> None:
    """Schedule, check, count."""
    arguments = _arguments()
    wanted = [str(read_mesh(text)) for text in arguments.mesh or TARGET]
    keys = [key for key in table_keys() if arguments.write or str(key[0]) in wanted]
    effort = Effort(seconds=arguments.seconds)
    begin = time.monotonic()
    found = [_scheduled(mesh, mask, effort) for mesh, mask in keys]
    print(f"{time.monotonic() - begin:.0f} s in all")
    for mesh in dict.fromkeys(str(mesh) for mesh, _ in keys):
        _print_counts(mesh, [s for s in found if str(s.instance.mesh) == mesh])
    if arguments.write:
        _write(found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Loads of rings by mask.")
    parser.add_argument("--mesh", action="append", metavar="RxC", help="only this mesh; may be given again")
    parser.add_argument("--seconds", type=float, default=Effort().seconds, help="of each group of sets (%(default)s)")
    parser.add_argument("--write", action="store_true", help=f"all meshes, and write {FILE}")
    return parser.parse_args()


def _scheduled(mesh: Mesh, mask: Mask, effort: Effort) -> Schedule:
    """One mask, checked; a line if constructions and cuts did not prove it."""
    schedule = schedule_rings(masked_instance(mesh, mask), effort)
    check_schedule(schedule)
    if schedule.method != "construction" or schedule.status != "OPTIMAL":
        kind = type(schedule.certificate).__name__
        figures = f"load {schedule.load} bound {schedule.bound} ({kind}), {schedule.method}, {schedule.seconds:.1f} s"
        print(f"{schedule.instance.name}: {figures}", flush=True)
    return schedule


def _print_counts(mesh: str, found: list[Schedule]) -> None:
    proven = sum(s.status == "OPTIMAL" for s in found)
    ratio = max(s.load / s.bound for s in found)
    methods = Counter(s.method for s in found)
    print(f"{mesh}: {proven} of {len(found)} proven, load at most {ratio:g} times the bound; {dict(methods)}")


def _write(found: list[Schedule]) -> None:
    """The table, beside the module that reads it."""
    path = Path(rings_package.__file__).parent / FILE
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for s in found:
            mask = s.instance.mask
            assert mask is not None
            writer.writerow([s.instance.mesh, mask.digits(s.instance.mesh), s.load, s.bound])


if __name__ == "__main__":
    main()
