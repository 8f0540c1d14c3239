"""Algorithm 2 against enumeration of all choices."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.planner.baselines.selection import Candidate, select

candidates = st.lists(st.builds(Candidate, perf=st.integers(1, 20), size=st.integers(0, 5)), min_size=1, max_size=3)
regions = st.lists(candidates, min_size=1, max_size=2)
mappings = st.lists(regions, min_size=1, max_size=2)
segments = st.lists(st.lists(mappings, min_size=1, max_size=2), min_size=1, max_size=2)


def choices(segment):
    """(time, quanta) of all choices in one segment: the slowest region, and the fullest."""
    for mapping in segment:
        for region_choices in product(*(list(product(*region)) for region in mapping)):
            perfs = [sum(one.perf for one in region) for region in region_choices]
            sizes = [sum(one.size for one in region) for region in region_choices]
            yield max(perfs), max(sizes)


@given(segments, st.integers(0, 12))
def test_choice_is_the_best_that_fits(given_segments, quanta):
    """Least time among all choices whose segments' fullest regions fit together; and what is chosen has that time."""
    every = [sum(p for p, _ in one) for one in product(*map(list, map(choices, given_segments)))
             if sum(s for _, s in one) <= quanta]  # fmt: skip
    chosen = select(given_segments, quanta)
    assert (chosen is None) == (not every)
    if chosen is None:
        return
    total, room = 0, 0
    for segment, one in zip(given_segments, chosen, strict=True):
        picked = [[region[i][at] for i, at in enumerate(indices)]
                  for region, indices in zip(segment[one.mapping], one.candidates, strict=True)]  # fmt: skip
        total += max(sum(c.perf for c in region) for region in picked)
        room += max(sum(c.size for c in region) for region in picked)
    assert total == min(every)
    assert room <= quanta
