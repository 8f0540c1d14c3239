"""The recorder against the simulator it mirrors, on random mapped layers."""

from hypothesis import given, settings

from cpsat_pim.evaluate.verify import record, simulate
from tests.cross.cases import Case, cases
from tracesim.timeline import ARRAY_STEP, END, KIND, LIMIT, LINK, MOVE_IN, START


@settings(max_examples=60)
@given(cases(uneven=True))
def test_timeline_ends_when_the_simulation_ends(case: Case) -> None:
    """The last end is the simulated latency less the constant; rows opened and links served one move at a time."""
    figures = simulate(case.layer, case.arch, case.mapping)
    recorded = record(case.layer, case.arch, case.mapping, limit=10**5)
    assert recorded.events[:, END].max() == figures.latency_cycles - case.arch.pipeline_latency
    assert tuple(recorded.activations) == figures.row_activations
    assert tuple(recorded.maps.sum(axis=(1, 2))) == figures.row_activations
    busy_until: dict[tuple[bool, int], int] = {}
    for row in recorded.events.tolist():
        if row[KIND] != LIMIT:
            track = (row[KIND] == ARRAY_STEP, row[LINK])
            assert row[START] >= busy_until.get(track, 0)
            busy_until[track] = row[END]


@settings(max_examples=10)
@given(cases(uneven=True))
def test_few_events_end_when_all_of_them_do(case: Case) -> None:
    """With room for 40 the last end is the same, and none is counted twice."""
    whole = record(case.layer, case.arch, case.mapping, limit=10**5)
    few = record(case.layer, case.arch, case.mapping, limit=40)
    assert few.events[:, END].max() == whole.events[:, END].max()
    assert len(few.events) + few.dropped == len(whole.events)
    assert whole.dropped == 0
    assert (whole.events[:, KIND] >= MOVE_IN).all()
