"""What a sweep adds to a job: 2,000 jobs of one layer, answered without the solver, then from the store.

    python scripts/benchmark_sweep.py [--count 2000] [--jobs 2]

Prints milliseconds a job: through worker processes into a new store (their start apart), and of the same sweep again.
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from cpsat_pim.study.sweep.engine.local import run_locally
from cpsat_pim.study.sweep.job import Job
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import Watch, run_sweep
from cpsat_pim.study.sweep.store import Store

LIMIT_MS = 5.0
PLAN = """
version: 1
base: {{network: "R=3,S=3,P=56,Q=56,C=64,K=64"}}
grid:
  seed: {{from: 0, to: {last}, step: 1}}
"""


def answer(job: Job) -> dict[str, Any]:
    """A results file's entry of the size of a real one."""
    counts = dict.fromkeys("IWO", 1)
    levels = ("PE", "GLOBAL_BUFFER", "ROW_BUFFER", "DRAM")
    accesses = {level: {tensor: {"read": 1, "write": 1} for tensor in "IWO"} for level in levels}
    figures = {"latency_cycles": 1, "compute_cycles": 1, "dram_cycles": 1, "energy_fj": 1}
    figures |= {"row_activations": counts, "column_accesses": counts, "accesses": accesses}
    mapping = {"temporal": accesses, "spatial": accesses, "order": counts, "stored": counts, "layout": counts}
    entry = {"name": job.layer.name, "count": 1, "shape": job.layer.shape, "status": "OPTIMAL", "objective": 1}
    entry |= {"bound": 1, "gap": 0.0, "solve_seconds": 0.0, "predicted": figures, "simulated": figures}
    return entry | {"mapping": mapping}


class Start(Watch):
    """Measures the time from the first job's dispatch to its answer: the workers' start."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.seconds: float | None = None

    def begin(self, tally: object) -> None:
        """Look at the clock."""
        self.begun = time.monotonic()

    def end(self, outcome: object) -> None:
        """Look at the clock, the first time."""
        if self.seconds is None:
            self.seconds = time.monotonic() - self.begun


def main() -> None:
    """Print two lines; the exit code is 1 if one of them is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "benchmark.yaml"
        path.write_text(PLAN.format(last=args.count - 1))
        times = [sweep_ms(path, args.count, args.jobs) for _ in range(2)]
    print(f"{args.count} jobs through {args.jobs} workers into a new store: {times[0]:.2f} ms a job")
    print(f"the same {args.count} jobs again, all solved before: {times[1]:.2f} ms a job")
    if max(times) > LIMIT_MS:
        raise SystemExit(f"over the limit of {LIMIT_MS} ms a job")


def sweep_ms(path: Path, count: int, jobs: int) -> float:
    """Milliseconds a job of a whole sweep, from reading the plan, without the workers' start."""
    begun, start = time.monotonic(), Start()
    with Store(path.with_suffix(".sqlite")) as store:
        summary = run_sweep(read_plan(path), store, partial(run_locally, workers=jobs, work=answer), watch=start)
    assert summary.after.done == count
    return 1e3 * (time.monotonic() - begun - (start.seconds or 0.0)) / count


if __name__ == "__main__":
    main()
