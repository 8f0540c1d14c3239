"""Label setting against enumeration of all paths of random staged problems."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.planner.labels.setting import LabelLimits, set_labels
from cpsat_pim.planner.labels.stages import Guide, Multipliers, Stage, StagedProblem

#: What the stages of a problem depend on: a chain, a residual sum, a tensor that everybody reads.
SHAPES = (
    (("a", "b"), ("b", "c"), ("c", "d")),
    (("a", "b"), ("b", "a"), ("a", "c")),
    (("a", "b"), ("a", "c"), ("a", "b", "c"), ("c",)),
)


@st.composite
def problems(draw):
    """Two values a home, up to six options a stage, two resources."""
    shape = draw(st.sampled_from(SHAPES))
    sizes = {name: 2 for names in shape for name in names}
    number = st.integers(0, 9)
    stages = []
    for names in shape:
        count = draw(st.integers(1, 6))
        cells = draw(st.lists(st.tuples(*[st.integers(0, 1)] * len(names)), min_size=count, max_size=count))
        cost = draw(st.lists(number, min_size=count, max_size=count))
        usage = draw(st.lists(st.tuples(number, number), min_size=count, max_size=count))
        stages.append(Stage(variables=names, cells=np.array(cells), cost=np.array(cost), usage=np.array(usage)))
    capacity = np.array(draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
    return StagedProblem(stages=stages, sizes=sizes, capacity=capacity)


def least_cost(problem):
    """The least cost of any choice of options that agree on homes and fit; None if there is none."""
    costs = []
    for options in product(*(range(len(stage)) for stage in problem.stages)):
        homes, agree = {}, True
        for stage, option in zip(problem.stages, options, strict=True):
            for name, value in zip(stage.variables, stage.cells[option], strict=True):
                agree &= homes.setdefault(name, value) == value
        used = sum(stage.usage[option] for stage, option in zip(problem.stages, options, strict=True))
        if agree and (used <= problem.capacity).all():
            costs.append(sum(int(stage.cost[option]) for stage, option in zip(problem.stages, options, strict=True)))
    return min(costs, default=None)


@settings(deadline=None, max_examples=150)
@given(
    problem=problems(),
    prices=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    trial=st.integers(0, 60),
    few=st.booleans(),
)
def test_cheapest_path_that_fits_is_found_or_excluded(problem, prices, trial, few):
    """Up to the trial value the path is the cheapest; the bound never exceeds it, however few labels are kept."""
    by = Multipliers(scale=4, per_unit=np.array(prices))
    guide = Guide(multipliers=by, completions=problem.completions(by))
    limits = LabelLimits(most_labels=2, most_joined=3) if few else LabelLimits(most_joined=3)
    found, best = set_labels(problem, [guide], trial, limits), least_cost(problem)
    if best is not None:
        assert problem.bound(by, guide.completions) <= best
        assert found.bound <= best
    if not few:
        assert (found.path.cost if found.path else None) == (best if best is not None and best <= trial else None)
    if found.path:
        assert found.path.cost >= best
        assert (np.array(found.path.usage) <= problem.capacity).all()
