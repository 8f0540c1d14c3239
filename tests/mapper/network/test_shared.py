"""Shared choices: the search over finite tables finds what comparing all choices gives; networks, reports and ends."""

import itertools
import random
import re
import signal
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.mapper.network.run import Execution, NetworkRequest, solve_network
from cpsat_pim.mapper.network.shared import (
    SHARES,
    Choice,
    Decision,
    SharedLayer,
    SharedSearch,
    changed,
    constrained,
    decisions_of,
    solve_shared,
)
from cpsat_pim.mapper.result import Objective, SolvedNetwork, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints, check_constraints
from cpsat_pim.report.jsonfile import build_result
from cpsat_pim.report.view import build_view
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode
from tests.report.results import LAYER, MAPPING

ARCH, ENERGY = PIMArchitecture(), Objective.named("energy")
REQUEST = SolveRequest(objective=ENERGY)

# --- The search, over tables ------------------------------------------------------------------------------------------

DECISIONS = (Decision(Tensor.I), Decision(Tensor.W), Decision(Tensor.O), Decision(Tensor.W, Level.PE))
WHOLE = list(itertools.product((0, 1), repeat=len(DECISIONS)))
Table = dict[Choice, int | None]


class Tabled(SharedLayer):
    """A layer whose mappings are whole choices, each of a cost or illegal."""

    def __init__(self, table: Table, count: int) -> None:
        super().__init__(LAYER, ARCH, DECISIONS, REQUEST)
        self.table, self.count = table, count

    def _factor_bound(self, choice: Choice) -> int | None:
        return 0

    def _changed(self, answer: Any, choice: Choice) -> Any:
        return tuple(own if fixed is None else fixed for own, fixed in zip(answer.mapping, choice, strict=True))

    def _cost(self, mapping: Any) -> int | None:
        return self.table[mapping]

    def solved(self, choice: Choice, is_lucky: bool) -> Any:
        """An answer: the least under a choice, or, out of time, anything and a lower bound."""
        within = [(cost, w) for w, cost in self.table.items() if cost is not None and _fits(w, choice)]
        if not within:
            return SimpleNamespace(status=Status.INFEASIBLE, mapping=None, cost=None, lower_bound=None)
        cost, mapping = min(within) if is_lucky else max(within)
        status = Status.OPTIMAL if is_lucky else Status.FEASIBLE
        least = cost if status is Status.OPTIMAL else min(within)[0] * (3 + is_lucky) // 4
        return SimpleNamespace(status=status, mapping=mapping, cost=cost, lower_bound=least)


def _fits(whole: Choice, choice: Choice) -> bool:
    return all(c is None or w == c for w, c in zip(whole, choice, strict=True))


def search(tables: Sequence[Table], counts: Sequence[int], luck: float = 1, solves: float = float("inf")) -> Any:
    """The search over them, run; `luck` is the share of solves that are in time, `solves` when the time is up."""
    rng, done = random.Random(7), [0]

    def solve(layers: Sequence[SharedLayer], choice: Choice) -> None:
        for layer in layers:
            assert isinstance(layer, Tabled)
            assert choice not in layer.results
            done[0] += 1
            layer.results[choice] = layer.solved(choice, rng.random() < luck)

    found = SharedSearch([Tabled(t, n) for t, n in zip(tables, counts, strict=True)], solve, lambda: done[0] >= solves)
    found.run()
    return found


def sums(tables: Sequence[Table], counts: Sequence[int]) -> dict[Choice, int]:
    """The sum of every choice that suits all."""
    columns = {whole: [table[whole] for table in tables] for whole in WHOLE}
    return {
        whole: sum(n * cost for n, cost in zip(counts, column, strict=True) if cost is not None)
        for whole, column in columns.items()
        if None not in column
    }


table = st.lists(st.none() | st.integers(1, 30), min_size=16, max_size=16).map(
    lambda c: dict(zip(WHOLE, c, strict=True))
)
tables = st.lists(st.tuples(table, st.integers(1, 4)), min_size=1, max_size=4)


@given(tables)
@settings(max_examples=300)
def test_search_finds_the_least_sum(drawn: list[tuple[Table, int]]) -> None:
    """And proves it, or that no choice suits all."""
    given, counts = zip(*drawn, strict=True)
    totals = sums(given, counts)
    found = search(given, counts)
    if not totals:
        assert (found.status, found.total, found.choice, found.bound) == (Status.INFEASIBLE, None, None, None)
        return
    assert (found.status, found.total, found.bound) == (Status.OPTIMAL, min(totals.values()), min(totals.values()))
    assert totals[found.choice] == found.total


@given(tables, st.floats(0, 1), st.integers(1, 30))
@settings(max_examples=300)
def test_bound_holds_whenever_time_ends(drawn: list[tuple[Table, int]], luck: float, solves: int) -> None:
    """Out of time in solves, or for all: the bound is no more than the least sum, what was found no less."""
    given, counts = zip(*drawn, strict=True)
    totals = sums(given, counts)
    found = search(given, counts, luck, solves)
    if totals:
        assert found.bound is not None
        assert found.bound <= min(totals.values())
        assert found.total is None or found.total in totals.values()
    else:
        assert found.total is None


@given(table, st.integers(1, 5))
def test_layers_that_agree_need_no_more_than_a_solve_each(table: Table, layers: int) -> None:
    """The sum is that of the free optima."""
    if any(cost is not None for cost in table.values()):
        found = search([table] * layers, [1] * layers)
        assert found.total == found.bound == layers * min(cost for cost in table.values() if cost is not None)
        assert [len(layer.results) for layer in found.layers] == [1] * layers


# --- Decisions -------------------------------------------------------------------------------------------------------


def test_choice_is_laid_over_constraints_that_do_not_contradict_it() -> None:
    """What both fix is the same, or nothing keeps both."""
    own = Constraints(stored=[[None, True, None], [None] * 3, [None] * 3], layout=[0, None, None])
    decisions = (Decision(Tensor.W, Level.PE), Decision(Tensor.O, Level.PE), Decision(Tensor.I), Decision(Tensor.W))
    both = constrained(own, decisions, (1, 0, None, 1))
    assert both is not None
    assert both.stored[0] == (None, True, False)
    assert both.layout == (0, 1, None)
    assert constrained(own, decisions, (0, 0, None, 1)) is None
    assert constrained(own, decisions, (1, 0, 1, 1)) is None


def test_changed_mapping_has_the_choice_and_the_same_loops() -> None:
    """A row-aligned input gets a block, and loses it again."""
    decisions = decisions_of(["bypass", "layout"])
    wanted = dict.fromkeys(decisions, 0) | {Decision(Tensor.I, Level.ROW_BUFFER): 1, Decision(Tensor.O): 1}
    mapping = changed(MAPPING, LAYER, decisions, tuple(wanted[decision] for decision in decisions))
    assert [decision.of(mapping) for decision in decisions] == [wanted[decision] for decision in decisions]
    assert (mapping.temporal, mapping.spatial, mapping.order) == (MAPPING.temporal, MAPPING.spatial, MAPPING.order)
    assert not [problem for problem in check_mapping(LAYER, ARCH, mapping) if "block" in problem]
    back = changed(mapping, LAYER, decisions, tuple(decision.of(MAPPING) for decision in decisions))
    assert back == MAPPING


@pytest.mark.parametrize("share", [[], ["bypass", "layouts"]])
def test_unknown_shares_are_refused(share: list[str]) -> None:
    """With the names that there are."""
    with pytest.raises(ValueError, match=r"share: must .*bypass, layout"):
        decisions_of(share)


@pytest.mark.parametrize("number", [{"jobs": 0}, {"time_limit": -1}, {"seed": -1}, {"total_time": float("nan")}])
def test_numbers_out_of_range_are_refused(number: dict[str, Any]) -> None:
    """By name, before anything is solved."""
    with pytest.raises(ValueError, match=f"{next(iter(number))}: must be"):
        solve_shared(
            SMALL,
            ARCH,
            SolveRequest(objective=ENERGY, **{k: v for k, v in number.items() if k in ("time_limit", "seed")}),
            ["layout"],
            number.get("total_time", 1),
            Execution(jobs=number.get("jobs", 1)),
        )


# --- Networks --------------------------------------------------------------------------------------------------------


def node(name: str, count: int = 1, **bounds: int) -> NetworkNode:
    """A layer of a network."""
    return NetworkNode(name=name, count=count, workload=ConvWorkload(name=name, **bounds))


SMALL = Network(name="small", layers=(node("a", P=4, C=4, K=4), node("b", C=16, K=16), node("c", 3, P=4, C=4, K=4)))


@pytest.fixture(scope="module")
def solved() -> SolvedNetwork:
    """All that can be shared."""
    return solve_shared(SMALL, ARCH, SolveRequest(objective=ENERGY, time_limit=20), ["bypass", "layout"])


def test_layers_have_the_choice_and_proofs_under_it(solved: SolvedNetwork) -> None:
    """Each is checked and simulated; the sum is no less than that of free layers, counted as often as they occur."""
    shared = solved.shared
    assert shared is not None
    assert shared.choice is not None
    free = solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY))
    assert shared.status is Status.OPTIMAL
    assert shared.objective_value == shared.bound == solved.objective_value
    assert (shared.gap, shared.free) == (0, free.objective_value)
    assert free.objective_value <= solved.objective_value
    assert [(n.name, n.count) for n in solved.layers] == [("a", 1), ("b", 1), ("c", 3)]
    for n in solved.layers:
        assert n.solved.mapping is not None
        assert n.solved.simulated is not None
        assert n.solved.constraints == shared.choice
        assert check_constraints(n.solved.mapping, shared.choice) == []
        assert n.solved.status is Status.OPTIMAL


def test_choice_is_the_same_when_it_is_solved_for_alone(solved: SolvedNetwork) -> None:
    """As constraints it gives the same sum."""
    assert solved.shared is not None
    assert solved.shared.choice is not None
    again = solve_network(SMALL, ARCH, SolveRequest(objective=ENERGY, constraints=solved.shared.choice))
    assert again.objective_value == solved.objective_value


def test_more_that_is_shared_costs_no_less(solved: SolvedNetwork) -> None:
    """Nor fewer layers that share it more."""
    for share in SHARES:
        less = solve_shared(SMALL, ARCH, SolveRequest(objective=ENERGY, time_limit=20), [share])
        assert less.shared is not None
        assert (less.shared.bound or 0) <= solved.objective_value
    alone = solve_shared(SMALL.only(["b"]), ARCH, REQUEST, ["layout"])
    assert (
        alone.objective_value == solve_network(SMALL.only(["b"]), ARCH, SolveRequest(objective=ENERGY)).objective_value
    )


def test_documents_and_pages_tell_the_choice(solved: SolvedNetwork) -> None:
    """The JSON has it in the form of constraints, with the sum, its bound and its gap."""
    document = solved.to_dict()
    shared = document["shared"]
    assert (shared["status"], shared["gap"], shared["share"]) == ("OPTIMAL", 0, ["bypass", "layout"])
    assert shared["objective"] == shared["bound"] == document["totals"]["objective"]
    assert set(shared["choice"]) == {"stored", "layout"}
    assert re.match(r"Shared by all layers: PE stores .*, I N\w+, .*: proven\.", build_view(document, "x")["shared"])
    assert "shared" not in attrs.evolve(solved, shared=None).to_dict()
    for choice in ({"stored": 5}, {"stored": {"PE": {"I": 1}}}, {"layout": {"I": 1}}):
        with pytest.raises(ValueError, match=r"r\.json: shared\.choice\."):
            build_result("r.json", document | {"shared": document["shared"] | {"choice": choice}})


def test_own_constraints_are_kept(solved: SolvedNetwork) -> None:
    """Of one layer they decide for all, as far as they are of what is shared."""
    assert solved.shared is not None
    assert solved.shared.choice is not None
    other = Constraints(layout=[None, 1 - (solved.shared.choice.layout[1] or 0), None])
    constraints = NetworkConstraints(layers={"b": other})
    found = solve_shared(SMALL, ARCH, NetworkRequest(each=REQUEST, constraints=constraints), ["layout"])
    assert {n.solved.mapping and n.solved.mapping.layout[1] for n in found.layers} == {other.layout[1]}


def test_layers_that_cannot_agree_have_no_shared_choice() -> None:
    """By their own constraints, and that is proven; not that they have no mapping, but of one that has none."""
    ways = {name: Constraints(layout=[i, None, None]) for i, name in enumerate("ab")}
    found = solve_shared(
        SMALL.only("ab"), ARCH, NetworkRequest(each=REQUEST, constraints=NetworkConstraints(layers=ways)), ["layout"]
    )
    assert found.shared is not None
    assert (found.shared.status, found.shared.choice, found.shared.bound) == (Status.INFEASIBLE, None, None)
    assert [n.solved.status for n in found.layers] == [Status.UNKNOWN] * 2
    assert [n.solved.constraints for n in found.layers] == [ways["a"], ways["b"]]
    none = attrs.evolve(ways["b"], temporal=[[7] * 8, *[[None] * 8] * 3])
    whole = NetworkConstraints(layers=ways | {"b": none})
    found = solve_shared(SMALL.only("ab"), ARCH, NetworkRequest(each=REQUEST, constraints=whole), ["layout"])
    assert {n.name: n.solved.status for n in found.layers} == {"a": Status.UNKNOWN, "b": Status.INFEASIBLE}


def test_interrupt_keeps_what_is_known() -> None:
    """Ctrl-C in the first solve: the layers solved have no mapping that all share, and no proof."""
    execution = Execution(on_progress=lambda _: signal.raise_signal(signal.SIGINT))
    found = solve_shared(SMALL, ARCH, REQUEST, ["layout"], execution=execution)
    assert found.interrupted
    assert [n.name for n in found.layers] == ["b"]
    assert found.shared is not None
    assert (found.shared.status, found.shared.choice) == (Status.UNKNOWN, None)


def test_starts_are_begun_with() -> None:
    """A mapping of a layer is the first that is known of it."""
    start = solve_network(SMALL.only(["b"]), ARCH, SolveRequest(objective=ENERGY)).layers[0].solved
    assert start.mapping is not None
    seen: list[Any] = []
    request, execution = attrs.evolve(REQUEST, start=start.mapping), Execution(on_progress=seen.append)
    solve_shared(SMALL.only(["b"]), ARCH, request, ["layout"], execution=execution)
    assert seen[0].incumbent == start.objective_value


def test_start_of_any_equal_layer_is_begun_with() -> None:
    """The layers `a` and `c` are one problem: a mapping of the second does for both."""
    start = solve_network(SMALL.only(["c"]), ARCH, SolveRequest(objective=ENERGY)).layers[0].solved
    assert start.mapping is not None
    seen: list[Any] = []
    request, execution = NetworkRequest(each=REQUEST, starts={"c": start.mapping}), Execution(on_progress=seen.append)
    solve_shared(SMALL.only("ac"), ARCH, request, ["layout"], execution=execution)
    assert seen[0].incumbent == start.objective_value


def test_sum_of_products_is_that_of_the_layers() -> None:
    """For `edp` what is least is the sum of the layers' products."""
    found = solve_shared(
        SMALL.only(["b"]), ARCH, SolveRequest(objective=Objective.named("edp")), ["layout"], total_time=4
    )
    (b,) = found.layers
    assert found.shared is not None
    assert found.shared.objective_value == b.solved.latency * b.solved.predicted.energy_fj
    assert b.solved.constraints != FREE
