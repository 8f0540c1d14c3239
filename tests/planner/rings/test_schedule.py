"""The schedule of an instance: optimal where it says so, and told to others without loss."""

import json
from math import ceil
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.planner.rings import NO_SEARCH, Effort, Instance, Mask, Mesh, Schedule, masked_instance, schedule_rings
from cpsat_pim.planner.rings.annealing import Annealing
from cpsat_pim.planner.rings.certificate import LinkWeights, Search
from cpsat_pim.planner.rings.check import Disagreement, check_schedule
from cpsat_pim.planner.rings.decomposition import groups, moved
from cpsat_pim.planner.rings.document import schedule_document
from cpsat_pim.planner.rings.merging import halved, merged_rings
from cpsat_pim.planner.rings.transposition import sorted_schedule, transposed_instance, transposed_schedule
from tests.planner.rings.cases import instances, masks, optimum
from tracesim.rings import SetBound, block_bound, covers, exchange, heaviest_load, ring_loads, weights_bound

#: Small instances need little of it.
SHORT = Effort(restarts=1, annealing=Annealing(moves=2000))

FIGURE_12 = [((4, 4), (0b11, 0b11), 1), ((8, 8), (0b110, 0b110), 1), ((16, 16), (0b1100, 0b1100), 2)]


@pytest.mark.parametrize(("sides", "free", "load"), FIGURE_12)
def test_figure_12_is_proven(sides: tuple[int, int], free: tuple[int, int], load: int) -> None:
    """Loads 1, 1, 2: the corner block of 16x16 has 8 links out and splits 16 sets. Every chunk arrives in 15 steps."""
    schedule = schedule_rings(masked_instance(Mesh(rows=sides[0], cols=sides[1]), Mask(rows=free[0], cols=free[1])))
    check_schedule(schedule)
    assert (schedule.load, schedule.bound, schedule.status, schedule.method) == (load, load, "OPTIMAL", "construction")
    seen = exchange(sides[1], schedule.rings)
    assert (seen.steps, set(seen.step_loads)) == (15, {load})
    assert max(seen.link_chunks.values()) == schedule.chunk_times == 15 * load


@settings(max_examples=40, deadline=None)
@given(instances(most_sets=2, largest_set=5))
def test_small_instances_are_solved_to_the_optimum(instance: Instance) -> None:
    """All rings of all sets are tried by another counter."""
    schedule = schedule_rings(instance, SHORT)
    check_schedule(schedule)
    assert schedule.status == "OPTIMAL"
    assert schedule.load == optimum(instance)


@settings(max_examples=30, deadline=None)
@given(masks())
def test_cuts_and_constructions_alone_are_sound(case: tuple[Mesh, Mask]) -> None:
    """Without any search, rings visit all sets, and load and bound are as counted."""
    schedule = schedule_rings(masked_instance(*case), NO_SEARCH)
    check_schedule(schedule)
    assert schedule.method == "construction"


def test_scattered_sets_are_annealed_down() -> None:
    """On 8x8, four sets of 16 nodes that lie 37 apart are no grids: constructions have twice the load or more."""
    order = [(37 * i) % 64 for i in range(64)]
    instance = Instance(mesh=Mesh(rows=8, cols=8), sets=[order[16 * s : 16 * s + 16] for s in range(4)])
    quick, searched = schedule_rings(instance, NO_SEARCH), schedule_rings(instance, Effort(seconds=30))
    check_schedule(searched)
    assert searched.bound >= quick.bound
    assert searched.load <= quick.load / 2


# --- Groups ------------------------------------------------------------------------------------------------------


@given(instances(longest_side=6, most_sets=5, largest_set=4))
def test_groups_share_no_link(instance: Instance) -> None:
    """Every set is in one group; whatever the rings, links of different groups differ."""
    found = groups(instance)
    assert sorted(s for group in found for s in group.members) == list(range(len(instance.sets)))
    used = []
    for group in found:
        rings = [moved(nodes, instance.mesh.cols, group.place) for nodes in group.instance.sets]
        assert covers([instance.sets[s] for s in group.members], rings)
        used.append(set(ring_loads(instance.mesh.cols, rings)))
    assert sum(map(len, used)) == len(set().union(*used))


def test_a_fixed_leading_digit_splits_the_mesh() -> None:
    """8x8 with the free digits 011x001: two halves in rows, four pairs of columns."""
    assert len(groups(masked_instance(Mesh(rows=8, cols=8), Mask(rows=0b011, cols=0b001)))) == 8


def test_the_bound_of_a_group_holds_in_the_whole() -> None:
    """On 1x6, {0, 2} and {3, 5}, {4} apart: the certificate of one group is one of the whole mesh."""
    weights = schedule_rings(masked_instance(Mesh(rows=16, cols=16), Mask(rows=0b1011, cols=0b0100)), SHORT)
    assert isinstance(weights.certificate, LinkWeights)
    check_schedule(weights)
    assert weights.bound == 2


# --- Merging -----------------------------------------------------------------------------------------------------


@given(masks().filter(lambda case: case[0].nodes > 3), st.booleans())
def test_merged_rings_visit_whole_sets(case: tuple[Mesh, Mask], is_across_rows: bool) -> None:
    """Where a set has two nodes at least on either side."""
    instance = masked_instance(*case)
    halves = halved(instance, is_across_rows=is_across_rows)
    if halves is not None:
        assert covers(instance.sets, merged_rings(instance.mesh, halves.sets, 1))


def test_merging_finds_what_annealing_does_not() -> None:
    """16x16 with the free digits 1101x1001: combs have load 2, the rings of two halves make load 1."""
    schedule = schedule_rings(masked_instance(Mesh(rows=16, cols=16), Mask(rows=0b1101, cols=0b1001)))
    check_schedule(schedule)
    assert (schedule.load, schedule.status, schedule.method) == (1, "OPTIMAL", "merging")


# --- Transposition -----------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(instances(longest_side=5))
def test_transposed_rings_keep_load_and_bound(instance: Instance) -> None:
    """XY reversed is YX: load, bound and certificate hold for the transposed sets."""
    schedule = schedule_rings(instance, SHORT)
    other = transposed_schedule(schedule)
    check_schedule(other)
    assert (other.load, other.bound) == (schedule.load, schedule.bound)
    assert other.instance == transposed_instance(instance)
    assert transposed_schedule(other) == schedule


@settings(max_examples=20, deadline=None)
@given(instances())
def test_sorted_schedules_stay_what_they_are(instance: Instance) -> None:
    """The same rings of the same sets, and a certificate that still holds."""
    schedule = schedule_rings(instance, SHORT)
    found = sorted_schedule(schedule)
    check_schedule(found)
    assert sorted(map(sorted, schedule.instance.sets)) == [list(nodes) for nodes in found.instance.sets]
    assert set(found.rings) == set(schedule.rings)


def test_transposed_link_weights_prove_the_same() -> None:
    """Parts become the rest of the set, leaving becomes entering, links turn round."""
    schedule = schedule_rings(masked_instance(Mesh(rows=16, cols=8), Mask(rows=0b1011, cols=0b100)), SHORT)
    assert isinstance(schedule.certificate, LinkWeights)
    assert any(proof.parts for proof in schedule.certificate.proofs) or schedule.bound == 2
    check_schedule(sorted_schedule(transposed_schedule(schedule)))


# --- What must not pass ------------------------------------------------------------------------------------------


def small_schedule() -> Schedule:
    """A schedule to be spoilt: 4x4, rings of load 1."""
    return schedule_rings(masked_instance(Mesh(rows=4, cols=4), Mask(rows=3, cols=3)))


def test_a_ring_that_skips_a_node_is_refused() -> None:
    """On construction."""
    schedule = small_schedule()
    with pytest.raises(AssertionError, match="visit"):
        evolve(schedule, rings=(schedule.rings[0][:-1],))


def test_a_bound_above_the_load_is_refused() -> None:
    """On construction."""
    with pytest.raises(AssertionError, match="above the load"):
        evolve(small_schedule(), bound=2)


def test_a_bound_that_is_not_proven_is_refused() -> None:
    """A certificate that proves less than the schedule claims."""
    schedule = schedule_rings(masked_instance(Mesh(rows=16, cols=16), Mask(rows=12, cols=12)))
    with pytest.raises(Disagreement, match="is proven"):
        check_schedule(evolve(schedule, bound=1))


# --- JSON --------------------------------------------------------------------------------------------------------


def proven_by(document: dict[str, Any]) -> int:
    """The bound that a document's certificate proves to one who has only the document."""
    rows, cols = map(int, document["mesh"].split("x"))
    certificate = document["certificate"]
    if certificate["kind"] == "block":
        block = [certificate[name] for name in ("y", "x", "height", "width")]
        return block_bound(rows, cols, document["sets"], block)
    weights = {(a, b): weight for a, b, weight in certificate["weights"]}
    proofs = [SetBound(s["leaving"], s["entering"], s["parts"]) for s in certificate["sets"]]
    return max(1, ceil(weights_bound(rows, cols, document["sets"], weights, proofs)))


@settings(max_examples=30, deadline=None)
@given(instances(most_sets=2, largest_set=5))
def test_a_document_proves_itself(instance: Instance) -> None:
    """Rings and certificate of the JSON text suffice to count the load and to check the bound."""
    schedule = schedule_rings(instance, SHORT)
    document = json.loads(json.dumps(schedule_document(schedule)))
    assert covers(document["sets"], document["rings"])
    assert heaviest_load(instance.mesh.cols, document["rings"]) == document["load"]
    if not isinstance(schedule.certificate, Search):
        assert proven_by(document) == document["bound"]
