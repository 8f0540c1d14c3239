"""Distances from proven optima: what is read, what is refused, and how the cost of random search is extrapolated."""

import io
import json
import math
from pathlib import Path

import attrs
import pytest
from rich.console import Console

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.cli import main
from cpsat_pim.mapper.network.run import solve_network
from cpsat_pim.mapper.result import Objective, SolvedNetwork, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.study.baselines.quality import Comparison, Sampling, compare, sample
from cpsat_pim.study.baselines.references import Reference, distinct, read_references, solved_references
from cpsat_pim.study.baselines.search import Effort
from cpsat_pim.study.baselines.text import print_summary
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

LAYER = ConvWorkload(name="small", P=2, Q=2, C=4, K=8)
NETWORK = Network(
    name="pair",
    layers=(
        NetworkNode(name="small", workload=LAYER),
        NetworkNode(name="twin", workload=ConvWorkload(name="twin", P=2, Q=2, C=4, K=8)),
    ),
)


@pytest.fixture(scope="module")
def solved() -> SolvedNetwork:
    """Two equal layers, proven."""
    return solve_network(NETWORK, PIMArchitecture(), SolveRequest(objective=Objective.named("energy"), time_limit=30))


@pytest.fixture
def results(solved: SolvedNetwork, tmp_path: Path) -> Path:
    """The same as a file."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps(solved.to_dict()))
    return path


def only(references: dict[str, Reference | None]) -> Reference:
    """The reference of layers that are all equal."""
    (reference,) = distinct((each for each in references.values() if each), lambda each: each.problem.layer)
    return reference


def test_file_says_what_the_solver_said(solved: SolvedNetwork, results: Path) -> None:
    """One reference for the two equal layers."""
    fresh, read = only(solved_references(solved)), only(read_references(results))
    assert (read.status, read.best, read.bound) == (fresh.status, fresh.best, fresh.bound)
    assert read.status is Status.OPTIMAL
    assert read.best.value == solved.layers[0].solved.objective_value
    assert [node.name for node in distinct(NETWORK.layers, lambda node: node.workload)] == ["small"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("objective", 1, "small: objective: the mapping costs "),
        ("status", "GOOD", "status: must be one of OPTIMAL"),
        ("bound", "low", "small: bound: must be a number or null"),
    ],
)
def test_file_of_another_version_or_kind_is_refused(results: Path, key: str, value: object, message: str) -> None:
    """Its bounds would say nothing."""
    document = json.loads(results.read_text())
    for entry in document["layers"]:
        entry[key] = value
    results.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        read_references(results)


def test_no_baseline_is_below_a_proven_optimum(results: Path) -> None:
    """And the ratio of the optimum itself is 1."""
    reference = only(read_references(results))
    compared = compare(reference.problem, ["ws", "os", "greedy", "random", "annealing"], Effort(samples=50), reference)
    assert compared.refuting == []
    assert all(outcome.best and reference.ratio(outcome.best.value) >= 1 for outcome in compared.outcomes)
    assert reference.ratio(reference.best.value) == 1


def test_baseline_below_a_bound_refutes_it(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3: a proof that is wrong is a bug of this program, whoever finds it."""
    document = json.loads(results.read_text())
    for entry in document["layers"]:
        entry["bound"] = 10**15
    results.write_text(json.dumps(document))
    assert main(["bench", "quality", str(results), "--only", "ws"]) == 3
    assert "small: ws is below the proven lower bound" in capsys.readouterr().err


def sampling(distances: list[float]) -> Sampling:
    """A thousand samples in ten seconds."""
    return Sampling(samples=1000, seconds=10.0, distances=tuple(distances))


def test_what_was_sampled_is_not_extrapolated() -> None:
    """Three of 1000 are within 2 %: one in 333, which take 3.3 s."""
    found = sampling([0.005, 0.01, 0.02, 0.5])
    assert found.has_seen(0.02)
    assert found.samples_within(0.02) == pytest.approx(1000 / 3)
    assert found.seconds_for(1000 / 3) == pytest.approx(10 / 3)


@pytest.mark.parametrize("exponent", [1.0, 3.0])
def test_power_law_is_found(exponent: float) -> None:
    """A share x^a of all samples is within x: the i-th of 1000 at (i/1000)^(1/a), and within 0.1 % one of 1000^a."""
    found = sampling([(i / 1000) ** (1 / exponent) for i in range(1, 17)])
    # The mean of ln(16/i) over i = 1..15 is ln(16^15 / 15!) / 15; with many more samples it would be 1.
    assert found.exponent == pytest.approx(exponent * 15 / math.log(16**15 / math.factorial(15)))
    needed = found.samples_within(0.001)
    assert needed is not None
    if exponent == 1:  # the least one is there
        assert needed == pytest.approx(1000)
    else:
        assert not found.has_seen(0.001)
        assert 1000**exponent / 30 < needed < 1000**exponent * 1000


def test_samples_that_are_all_alike_tell_nothing() -> None:
    """No curve to follow."""
    found = sampling([0.5, 0.5, 0.5])
    assert found.exponent is None
    assert found.samples_within(0.1) is None


@pytest.mark.parametrize(("last", "written"), [(0.50001, 0.50001), (math.inf, None)], ids=["nearly alike", "endless"])
def test_samples_that_tell_of_no_end_are_told_so(last: float, written: float | None) -> None:
    """A curve that falls so slowly that nobody can count to its end, and costs beside which the least is nothing."""
    found = sampling([0.5] * 15 + [last])
    assert found.samples_within(0.1) is None
    assert found.to_dict()["distances"] == [0.5] * 15 + [written]


def test_summary_says_how_many_are_proven(solved: SolvedNetwork) -> None:
    """Ratios to what is not the optimum for sure are not called that."""
    fresh = only(solved_references(solved))
    ends = []
    for references in ([fresh], [fresh, attrs.evolve(fresh, status=Status.FEASIBLE)]):
        written = io.StringIO()
        found = [Comparison(problem=each.problem, outcomes=(), reference=each) for each in references]
        print_summary(Console(file=written, width=200), found)
        ends.append(written.getvalue().strip().splitlines()[-1])
    assert ends[1] == "1 of 2 optima are proven; the others are the best known mappings"
    assert "proven" not in ends[0]


def test_all_samples_that_are_near_are_counted(solved: SolvedNetwork) -> None:
    """Of a layer with few mappings most may be near: more than are needed to follow a curve."""
    fresh = only(solved_references(solved))
    expensive = attrs.evolve(fresh, best=attrs.evolve(fresh.best, value=100 * fresh.best.value))
    found = sample(expensive, Effort(samples=100))
    assert found is not None
    assert len(found.distances) > 16
    assert len(found.distances) == 100 or found.distances[-1] > 0.1


@pytest.mark.parametrize(
    ("key", "value"), [("constraints", {"temporal": {"DRAM": {"C": 4}}}), ("budget", {"cycles": 9000})]
)
def test_optimum_of_some_mappings_is_refused(results: Path, key: str, value: object) -> None:
    """A baseline keeps nothing, so it may be better."""
    document = json.loads(results.read_text())
    document["layers"][0][key] = value
    results.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=f"small: {key}: must be absent: the baselines keep none"):
        read_references(results)
