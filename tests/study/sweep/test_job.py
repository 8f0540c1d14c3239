"""Jobs: what their keys stand for, and how shards part them."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.study.sweep.job import Job, JobOptions, Outcome, attempt, died, digest, failed, solve_job
from cpsat_pim.study.sweep.plan import Shard
from cpsat_pim.study.sweep.versions import Versions, _sources, current_versions
from cpsat_pim.workload import ConvWorkload

JOB = Job(layer=ConvWorkload(name="a", K=4, C=4), arch=PIMArchitecture(), objective=Objective.named("energy"))


def test_names_are_not_content() -> None:
    """Another name of the layer or of the machine, and 64.0 for 64: the same job."""
    arch = attrs.evolve(JOB.arch, name="other", hierarchy=[*JOB.arch.hierarchy])
    level = attrs.evolve(arch.hierarchy[1], read_bandwidth_limit=64.0)
    arch = attrs.evolve(arch, hierarchy=[arch.hierarchy[0], level, *arch.hierarchy[2:]])
    assert attrs.evolve(JOB, layer=ConvWorkload(name="b", K=4, C=4), arch=arch).key == JOB.key


@pytest.mark.parametrize(
    "change",
    [
        {"layer": ConvWorkload(K=4, C=8)},
        {"layer": ConvWorkload(K=4, C=4, input_bytes=2)},
        {"layer": ConvWorkload(K=4, C=4, stride=(2, 1))},
        {"arch": PIMArchitecture(activation_energy=0.829)},
        {"objective": Objective.named("latency")},
        {"objective": Objective.named("blended", 0, 1)},
        {"options": JobOptions(seed=1)},
        {"constraints": Constraints(dataflow="WS")},
        {"options": JobOptions(time_limit=26)},
        {"versions": attrs.evolve(current_versions(), code="other")},
        {"versions": attrs.evolve(current_versions(), solver="9.15")},
    ],
)
def test_all_else_is_content(change: dict[str, object]) -> None:
    """Layer, machine, objective, options, constraints, code and solver."""
    assert attrs.evolve(JOB, **change).key != JOB.key


def test_weights_are_content_exactly() -> None:
    """Blends of 1/10 and of the double next to it."""
    blends = [Objective.named("blended", 1, beta) for beta in (0.1, "0.10", 0.1 + 2**-56)]
    tenth, also_tenth, next_double = (attrs.evolve(JOB, objective=blend).key for blend in blends)
    assert tenth == also_tenth != next_double


def test_digest_does_not_hang_on_the_order_of_keys() -> None:
    """The same mapping."""
    assert digest({"a": 1, "b": [1.0, 2.5]}) == digest({"b": [1, 2.5], "a": 1.0}) != digest({"a": 1, "b": [2.5, 1]})


@given(st.sets(st.text(max_size=5)), st.integers(1, 20))
def test_shards_part_the_jobs_exactly(keys: set[str], count: int) -> None:
    """Disjoint, together all, and of sizes that differ by at most one, whatever the order of the keys."""
    shards = [Shard(index=i, count=count).of(sorted(keys, reverse=True)) for i in range(1, count + 1)]
    assert sorted(key for shard in shards for key in shard) == sorted(keys)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("given", ["", "3", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", "1.0/2"])
def test_a_part_that_is_none_is_refused(given: str) -> None:
    """With what was given."""
    with pytest.raises(ValueError, match="got"):
        Shard.parse(given)


def test_a_worker_of_another_version_refuses() -> None:
    """A result of other code under this key would be wrong."""
    job = attrs.evolve(JOB, versions=Versions(code="0+0", solver="0"))
    outcome = attempt(solve_job, job)
    assert outcome.failure == "error"
    assert "the sweep is of" in str(outcome.reason)


def test_outcomes_survive_a_line() -> None:
    """What the journal of a remote task holds."""
    answered = Outcome(key="k", answer={"gap": 0.5, "name": "ü\n"})
    for outcome in (answered, failed(JOB, RuntimeError("no\nway")), died(JOB, "its worker was killed by SIGKILL")):
        assert "\n" not in outcome.to_line()
        assert Outcome.from_line(outcome.to_line()) == outcome


def test_a_job_keeps_its_constraints() -> None:
    """Without K over the array, and where that cannot be."""
    without = Constraints(spatial=[[None] * 5 + [1, None, None]] * 3)
    answer = solve_job(attrs.evolve(JOB, constraints=without))
    assert answer["status"] == "OPTIMAL"
    assert not any("K" in row for row in answer["mapping"]["spatial"].values())
    nothing = Constraints(spatial=[[None] * 5 + [3, None, None]] * 3)
    assert solve_job(attrs.evolve(JOB, constraints=nothing))["status"] == "INFEASIBLE"


def test_a_version_is_the_code_that_finds_and_writes_answers() -> None:
    """What solves, counts, simulates or writes down makes another version by a change; what only shows makes none."""
    names = {name for name, _ in _sources()}
    assert {
        "tables/counts/cost.py",
        "tracesim/bank.py",
        "cpsat_pim/mapper/search/solve.py",
        "cpsat_pim/evaluate/verify.py",
    } <= names
    assert {"cpsat_pim/report/jsonfile.py", "cpsat_pim/study/sweep/job.py"} <= names
    assert not names & {"cpsat_pim/report/html.py", "cpsat_pim/cli/sweeps.py", "cpsat_pim/study/sweep/store.py"}


def test_versions_of_trials_are_of_planner_and_tuner_too() -> None:
    """A change of the planner changes what plans cost, and no layer's solution."""
    planner = {"cpsat_pim/planner/search.py", "cpsat_pim/tuner/evaluate.py"}
    assert not planner & {name for name, _ in _sources()}
    assert planner <= {name for name, _ in _sources(("planner", "tuner"))}
    assert current_versions("planner", "tuner") != current_versions()
