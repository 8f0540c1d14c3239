"""Counts row activations with Ramulator 2.1 (github.com/CMU-SAFARI/ramulator2) and compares them with the simulated.

    python scripts/check_with_ramulator2.py RESULT.json --program VENV/bin/python [--layers A,B]

The program is a Python in which Ramulator's package `ramulator` can be imported. For each mapping of a results or
mapping file the script writes the trace and a program for Ramulator, as `trace --config` does, runs it, and prints a
line. Ends with 1 if a count differs.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from check_with_dramsim3 import compare


def count_with_ramulator2(program: str, trace: Path, configuration: Path) -> tuple[int, int]:
    """Return the columns and activations that Ramulator counts, without the access that is sent twice, if counted."""
    printed = subprocess.run([program, str(configuration)], check=True, capture_output=True, text=True).stdout
    found = {key: int(value) for key, value in re.findall(r"^(ACT|RD|WR), (\d+)", printed, re.MULTILINE)}
    columns = found["RD"] + found["WR"]
    with trace.open("rb") as lines:
        count = sum(1 for _ in lines)
    return columns - (columns == count + 1), found["ACT"]


def main() -> int:
    """Compare with Ramulator 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=sys.executable)
    return compare(parser, "ramulator2", count_with_ramulator2)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"check_with_ramulator2: {error}")
