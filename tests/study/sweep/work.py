"""Replacements of the solver: they return a result at once, slowly, or die. Workers import them by name.

Every call leaves a line `key pid` in the file that SWEEP_LOG names.
"""

import os
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from cpsat_pim.study.sweep.engine.local import run_locally
from cpsat_pim.study.sweep.job import Job
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import run_sweep
from cpsat_pim.study.sweep.store import Store

#: A layer of so many output channels kills its worker, one of so many raises.
DEADLY, RAISING = 13, 17

LATENCY, ENERGY = 100, 7000


def quick(job: Job) -> dict[str, Any]:
    """Return a result whose figures identify the job: K times 100 cycles, K times 7000 fJ."""
    with open(os.environ["SWEEP_LOG"], "a") as log:
        log.write(f"{job.key} {os.getpid()}\n")
    k = job.layer.K
    activations = {"I": 1, "W": 2, "O": k}
    predicted = {"latency_cycles": LATENCY * k, "energy_fj": ENERGY * k, "row_activations": activations}
    costs = {"objective": ENERGY * k, "bound": ENERGY * k, "gap": 0.0, "solve_seconds": 0.25}
    figures = {"predicted": predicted, "simulated": predicted | {"latency_cycles": LATENCY * k + 1}, "mapping": {}}
    named = {"name": job.layer.name, "count": 1, "shape": job.layer.shape, "status": "OPTIMAL"}
    return named | costs | figures | {"mapping": {"order": {"PE": "K"}}}


def slow(job: Job) -> dict[str, Any]:
    """Return a result after a delay."""
    time.sleep(0.2)
    return quick(job)


def deadly(job: Job) -> dict[str, Any]:
    """Return a result, or die or raise if the layer's name says so."""
    answer = quick(job)
    if job.layer.K == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.layer.K == RAISING:
        raise RuntimeError("no\nway")
    return answer


def deadly_once(job: Job) -> dict[str, Any]:
    """As deadly, but only the first time."""
    return quick(job) if calls()[job.key] else deadly(job)


def calls() -> Counter[str]:
    """How often each job was tried."""
    log = Path(os.environ["SWEEP_LOG"])
    return Counter(line.split()[0] for line in log.read_text().splitlines()) if log.exists() else Counter()


def pids() -> set[int]:
    """The processes that have tried."""
    return {int(line.split()[1]) for line in Path(os.environ["SWEEP_LOG"]).read_text().splitlines()}


def sweep(plan: str, workers: int = 2) -> None:
    """Run a whole sweep of slow results, for a process of its own."""
    with Store(Path(plan).with_suffix(".sqlite")) as store:
        run_sweep(read_plan(plan), store, partial(run_locally, workers=workers, work=slow))


if __name__ == "__main__":
    sweep(sys.argv[1])
