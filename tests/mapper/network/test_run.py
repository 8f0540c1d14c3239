"""Networks: equal layers once, longest first, here or in workers, and what a stop leaves behind."""

import itertools
import math
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.verify import Disagreement
from cpsat_pim.mapper.network.run import Execution, NetworkRequest, WorkersDied, solve_and_verify, solve_network
from cpsat_pim.mapper.network.tasks import Results, _run_in_workers
from cpsat_pim.mapper.result import Objective, SolvedNetwork, Status
from cpsat_pim.mapper.search import Progress, SolveRequest
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode
from tables.counts.stream import LONG_SCANS
from tables.counts.walk import walk_stream
from tests.deaths import Task

ENERGY = Objective.named("energy")
ARCH = PIMArchitecture()


def node(name: str, count: int = 1, **bounds: int) -> NetworkNode:
    """A layer of a network."""
    return NetworkNode(name=name, count=count, workload=ConvWorkload(name=name, **bounds))


SMALL = Network(
    name="small", layers=(node("a", P=4, C=4, K=4), node("b", C=16, K=16), node("c", count=3, P=4, C=4, K=4))
)


def facts(solved: SolvedNetwork) -> list[object]:
    """All but the times."""
    return [
        (n.name, n.count, n.solved.workload.name, n.solved.status, n.solved.mapping, n.solved.simulated)
        for n in solved.layers
    ]


def test_equal_layers_are_solved_once_and_the_longest_first() -> None:
    """b has 256 MACs, a and c 64 each and are one."""
    seen: list[Progress] = []
    solved = solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY), Execution(on_progress=seen.append))
    assert list(dict.fromkeys(p.layer for p in seen)) == ["b", "a"]
    named = [(n.name, n.count, n.solved.workload.name) for n in solved.layers]
    assert named == [("a", 1, "a"), ("b", 1, "b"), ("c", 3, "c")]
    a, b, c = (n.solved for n in solved.layers)
    assert a.mapping == c.mapping
    assert (a.status, a.simulated and a.simulated.energy_fj) == (Status.OPTIMAL, a.predicted.energy_fj)
    assert solved.energy_fj == 4 * a.predicted.energy_fj + b.predicted.energy_fj
    assert not solved.interrupted


def test_equal_layers_under_different_constraints_are_solved_apart() -> None:
    """a and c are equal; c must not store W in the PEs."""
    bypass = Constraints(stored=[[None, False, None], [None] * 3, [None] * 3])
    constraints = NetworkConstraints(layers={"c": bypass})
    seen: list[Progress] = []
    solved = solve_network(
        SMALL,
        ARCH,
        NetworkRequest(each=SolveRequest(objective=ENERGY), constraints=constraints),
        Execution(on_progress=seen.append),
    )
    assert {p.layer for p in seen} == {"a", "b", "c"}
    a, _, c = (n.solved for n in solved.layers)
    assert (a.constraints, c.constraints) == (FREE, bypass)
    assert c.mapping is not None
    assert not c.mapping.stored[0][1]
    assert c.predicted.energy_fj >= a.predicted.energy_fj


def test_start_that_breaks_a_constraint_is_refused() -> None:
    """It would stand for an optimum that it is not."""
    a = solve_network(SMALL.only(["a"]), ARCH, SolveRequest(objective=ENERGY)).layers[0].solved.mapping
    assert a is not None
    other = Constraints(layout=[1 - a.layout[0], None, None])
    with pytest.raises(ValueError, match="a: the mapping to start from: I: the axis order must be"):
        solve_network(
            SMALL.only(["a"]),
            ARCH,
            NetworkRequest(
                each=SolveRequest(objective=ENERGY), constraints=NetworkConstraints(everywhere=other), starts={"a": a}
            ),
        )


def test_what_was_known_while_solving_is_kept() -> None:
    """As it was reported, each change once, up to the proof."""
    seen: list[Progress] = []
    (b,) = solve_network(
        SMALL.only(["b"]), ARCH, SolveRequest(objective=ENERGY), Execution(on_progress=seen.append)
    ).layers
    times, pairs = [known[0] for known in b.solved.progress], [known[1:] for known in b.solved.progress]
    assert times == sorted(times)
    assert pairs == [pair for pair, _ in itertools.groupby((p.incumbent, p.bound) for p in seen)]
    assert pairs[-1] == (b.solved.objective_value, b.solved.bound)


def test_row_aligned_blocks_are_left_where_the_dram_has_no_room_for_them() -> None:
    """Row buffers that cost nothing invite all tensors, but I and O of 64 B would take a row of 1 KiB each."""
    layer = ConvWorkload(C=64, K=64)
    levels = ARCH.hierarchy
    free = evolve(levels[2], access_cost=0)
    tight = evolve(ARCH, hierarchy=(*levels[:2], free, evolve(levels[3], entries=64 * 64 + 64 + 64)))
    solved = solve_and_verify(layer, tight, SolveRequest(objective=ENERGY, then=None, time_limit=20))
    assert solved.status is Status.OPTIMAL
    assert solved.mapping.stored[2][0] is solved.mapping.stored[2][2] is False


def test_workers_give_the_same_answers() -> None:
    """Two processes; what progress comes from them is of these layers."""
    seen: list[Progress] = []
    solved = solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY), Execution(jobs=2, on_progress=seen.append))
    assert facts(solved) == facts(solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY)))
    assert {p.layer for p in seen} <= {"a", "b"}


def test_names_choose_layers() -> None:
    """In the network's order; a name that is not there is refused."""
    solved = solve_network(SMALL.only(["c", "b"]), ARCH, SolveRequest(objective=ENERGY))
    assert [n.name for n in solved.layers] == ["b", "c"]
    with pytest.raises(ValueError, match="small: no layer is named 'd'; there are a, b, c"):
        solve_network(SMALL.only(["d"]), ARCH, SolveRequest(objective=ENERGY))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jobs": 0}, "Execution.jobs: must be a positive integer (got 0)"),
        ({"jobs": 1.5}, "Execution.jobs: must be a positive integer (got 1.5)"),
        ({"time_limit": math.nan}, "SolveRequest.time_limit: must be a number from 0 to 1e7 (got nan)"),
        ({"time_limit": -1}, "SolveRequest.time_limit: must be a number from 0 to 1e7 (got -1)"),
        ({"time_limit": math.inf}, "SolveRequest.time_limit: must be a number from 0 to 1e7 (got inf)"),
        ({"time_limit": "60"}, "SolveRequest.time_limit: must be a number from 0 to 1e7 (got '60')"),
        ({"seed": -1}, "SolveRequest.seed: must be an integer from 0 to 2147483647 (got -1)"),
    ],
)
def test_numbers_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    """Before any worker starts: a time that is no number would never be over."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Execution(**changes) if "jobs" in changes else SolveRequest(objective=ENERGY, **changes)


@pytest.mark.parametrize(
    "changes", [{"start": {}}, {"constraints": {}}, {"constraints": None}, {"budget": 5}, {"budget": None}]
)
def test_values_of_another_type_are_refused(changes: dict[str, Any]) -> None:
    """Each names its field."""
    with pytest.raises(ValueError, match=re.escape(f"SolveRequest.{next(iter(changes))}: must be a ")):
        SolveRequest(objective=ENERGY, **changes)


@pytest.mark.parametrize("jobs", [1, 2])
def test_stop_before_the_start_leaves_nothing(jobs: int) -> None:
    """Layers not begun are absent."""
    stop = threading.Event()
    stop.set()
    solved = solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY), Execution(jobs=jobs, stop=stop))
    assert (solved.layers, solved.interrupted) == ((), True)


def test_stop_keeps_what_is_done() -> None:
    """Stopped by the first layer's progress: that one is answered, the others are absent."""
    stop = threading.Event()
    solved = solve_network(
        SMALL, ARCH, SolveRequest(objective=ENERGY), Execution(stop=stop, on_progress=lambda progress: stop.set())
    )
    assert ([n.name for n in solved.layers], solved.interrupted) == (["b"], True)
    assert solved.layers[0].solved.mapping is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_is_a_stop_and_afterwards_itself_again(number: signal.Signals) -> None:
    """Ctrl-C, or `kill`, while a layer is being solved."""
    before, stop = signal.getsignal(number), threading.Event()

    def interrupt_once(progress: object) -> None:
        if not stop.is_set():
            os.kill(os.getpid(), number)

    solved = solve_network(
        SMALL, ARCH, SolveRequest(objective=ENERGY), Execution(stop=stop, on_progress=interrupt_once)
    )
    assert ([n.name for n in solved.layers], solved.interrupted) == (["b"], True)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_interrupt_while_workers_start_is_a_stop(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches them before they can decide to ignore it: they must not die of it, nor the run with them.

    Workers that begin anew have begun no layer by then. A copy may have, and ends it with what it has found by then.
    """
    if way == "fork" and sys.platform != "linux":
        pytest.skip("forks are used on Linux only")
    context = multiprocessing.get_context(way)
    kind = type(context.Process())
    start, workers = kind.start, []

    def interrupted_start(worker: Any) -> None:
        start(worker)
        workers.append(worker.pid)
        if len(workers) == 2:
            for process in (*workers, os.getpid()):
                os.kill(process, signal.SIGINT)

    monkeypatch.setattr(kind, "start", interrupted_start)
    monkeypatch.setattr("cpsat_pim.mapper.network.tasks.worker_context", lambda stop: context)
    solved = solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY), Execution(jobs=2))
    assert (len(workers), solved.interrupted) == (2, True)
    assert way == "fork" or solved.layers == ()


def test_worker_that_is_killed_takes_no_other_answer_along(tmp_path: Path) -> None:
    """A task that kills its worker once is run again; one that kills it whenever it runs has no answer."""
    tasks: list[Any] = [Task("a"), Task("b", kills_once=str(tmp_path / "b")), Task("c", is_deadly=True), Task("d")]
    kept: list[Results] = []
    assert _run_in_workers(tasks, Execution(), kept.append) == {"a": "a", "b": "b", "c": None, "d": "d"}
    assert kept == [{"a": "a"}, {"a": "a", "b": "b"}, {"a": "a", "b": "b", "d": "d"}]


def test_signal_to_the_group_of_processes_is_a_stop() -> None:
    """SIGTERM to all, as `timeout` and schedulers send it: workers leave it to the parent, and obey only the parent."""
    program = (
        "import os, signal, sys, time; from cpsat_pim.mapper.network.run import *\n"
        "from cpsat_pim.mapper.network.tasks import _run_in_workers; from tests.deaths import Waiting\n"
        "if __name__ == '__main__':\n"
        "    tasks = [Waiting(name) for name in 'ab']\n"
        "    print(sorted(_run_in_workers(tasks, Execution(jobs=2), print).items()), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert {process.stdout.readline() for _ in "ab"} == {"a waits\n", "b waits\n"}
    os.killpg(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "[('a', 'a'), ('b', 'b')]"
    assert process.returncode == 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_solved_is_kept_before_the_rest_is(jobs: int) -> None:
    """With one worker b comes first; as if the run had ended there."""
    kept: list[SolvedNetwork] = []
    whole = solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY), Execution(jobs=jobs), on_solved=kept.append)
    assert [[n.name for n in part.layers] for part in kept] in ([["b"]], [["a", "c"]])[:jobs]
    for part in kept:
        assert part.interrupted
        assert facts(part) == [known for known in facts(whole) if known[0] in {n.name for n in part.layers}]


def test_death_of_a_worker_is_told_with_what_was_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """b is lost; a and c, which are equal, are not."""
    whole = {
        n.solved.workload.shape_key: n.solved for n in solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY)).layers
    }
    lost = {key: None if solved.workload.name == "b" else solved for key, solved in whole.items()}
    monkeypatch.setattr("cpsat_pim.mapper.network.tasks._run_in_workers", lambda *_: lost)
    with pytest.raises(WorkersDied, match=r"a worker process was killed: no answer for b") as caught:
        solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY), Execution(jobs=2))
    solved = caught.value.solved
    assert ([n.name for n in solved.layers], solved.interrupted) == (["a", "c"], True)


def test_disagreement_of_a_layer_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for a hard instance."""
    monkeypatch.setattr("cpsat_pim.evaluate.verify.check_mapping", lambda *_: ["a rule is broken"])
    with pytest.raises(Disagreement, match="b: the mapping found does not hold:\n  a rule is broken"):
        solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY))


def test_layers_start_from_their_own_mappings_else_from_that_of_all() -> None:
    """A start by name replaces that of every layer; equal layers share the first one that there is."""
    first, other = (
        Mapping(temporal=[[1] * 8] * 4, spatial=[[1] * 8] * 3, order=[()] * 4, stored=stored)
        for stored in ([[True] * 3] * 3, [[False] * 3] * 3)
    )
    request = NetworkRequest(each=SolveRequest(objective=ENERGY, start=first), starts={"c": other})
    assert request.starts_by_key(SMALL.layers) == {request.key(SMALL.layers[0]): other}
    assert request.of(SMALL.layers[1]).start == first
    assert request.of(SMALL.layers[0], other).start == other


def test_time_limit_ends_the_verification() -> None:
    """Three primes make 2^31 steps, which the simulator does not walk in the time: there is a mapping all the same."""
    layer = ConvWorkload(N=127, C=4093, K=4099)
    solved = solve_and_verify(layer, ARCH, SolveRequest(objective=ENERGY, time_limit=2))
    assert solved.mapping is not None
    assert solved.simulated is None


def test_long_streams_are_counted_once() -> None:
    """Both searches, the recost and the report share the counts: W is scanned 265,189 times, an element at a time."""
    counted: list[bytes] = []

    def count(*stream: Any) -> Any:
        if stream[0][:, 0].prod() >= LONG_SCANS:
            counted.append(pickle.dumps(stream[:2]))
        return walk_stream(*stream)

    with patch("tables.counts.stream.walk_stream", count):
        solved = solve_and_verify(ConvWorkload(N=3, C=509, K=521), ARCH, SolveRequest(objective=ENERGY, time_limit=100))
    assert solved.status is Status.OPTIMAL
    assert counted
    assert len(counted) == len(set(counted))
