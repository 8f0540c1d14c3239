"""Plans carried out element by element give the network's outputs."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracesim.array.plans import plans, toured, values_of
from tests.tracesim.array.reference import evaluate
from tracesim.array.execute import execute_plan
from tracesim.array.records import Plan


@settings(max_examples=60)
@given(plan=plans(), seed=st.integers(0, 9))
def test_outputs_equal_the_network_evaluated_directly(plan: Plan, seed: int) -> None:
    """Whatever the partition, homes, layouts, replication and segments: no element is missing, doubled or unneeded."""
    check_outputs(plan, seed)


@settings(max_examples=30)
@given(data=st.data(), plan=plans(is_host=False), seed=st.integers(0, 9))
def test_any_tours_give_the_same_outputs(data: Any, plan: Plan, seed: int) -> None:
    """Tours change who passes on what to whom, and nothing else."""
    check_outputs(data.draw(toured(plan)), seed)


def check_outputs(plan: Plan, seed: int) -> None:
    """Carry the plan out, and compare with the network evaluated directly."""
    inputs, weights = values_of(plan, seed)
    outcome = execute_plan(plan, inputs, weights)
    for tensor, expected in evaluate(plan, inputs, weights).items():
        np.testing.assert_array_equal(outcome.outputs[tensor], expected)
    assert outcome.macs == sum(int(np.prod(layer.bounds)) for layer in plan.layers)
