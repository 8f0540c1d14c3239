"""The kernels of the simulator of plans do the same with and without the compiler."""

import os
import subprocess
import sys

import numpy as np

from tests.tracesim.array.networks import layer
from tests.tracesim.array.plans import DRAM, array, home, step
from tracesim.array import simulate_plan
from tracesim.array.records import AXIS_C, AXIS_H, AXIS_W, C, K, P, Plan, Pool, Q


def everything() -> str:
    """Return the figures of a plan with all phases."""
    square = (0, 0, 2, 2)
    layers = (
        layer(R=3, S=3, P=8, Q=8, C=8, K=8, pad=(1, 1), pool=Pool((2, 2), (2, 2), (0, 0), (4, 4))),
        layer((1,), P=4, Q=4, C=8, K=16),
    )
    steps = (step(square, [(C, 2)], [(P, 2)], 1), step(square, [(K, 2)], [(Q, 2)], 1))
    split = home(square, [(AXIS_H, 2)], [(AXIS_W, 2)], group=4)
    homes = (split, split, home(square, [(AXIS_C, 2)], [(AXIS_C, 2)], last=True))
    figures = simulate_plan(Plan(array(2, 2), DRAM, (1, 8, 8, 8), 1, layers, steps, homes, (((0,),), ((1,),))))
    return str([value.tolist() if isinstance(value, np.ndarray) else value for value in figures])


def test_simulation_of_a_plan_is_the_same_without_the_compiler() -> None:
    """Everything, kernels included, run as plain Python in a process of its own."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    program = "from tests.tracesim.array.test_compiled import everything; print(everything())"
    plain = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert plain.stdout.strip() == everything()
