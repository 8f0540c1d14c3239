"""Between which scans of a tensor the scans of others lie: as listed step by step, without any rule about loops."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tables.counts.stream import interruption
from tables.counts.walk import _is_interrupted
from tables.nest import IRRELEVANT, Nest
from tests.tables.nests import I, O, W, build_nest

#: The rule, without compiling it.
is_interrupted = getattr(_is_interrupted, "py_func", _is_interrupted)
#: A scan: its tensor, its step, and the loop that moved for it (-1 at the start and at the end).
Scan = tuple[int, int, int]
PARTS = [(0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0)]


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    """Draw up to six loops of 2 or 3 iterations at any levels, what is stored, what tiles leave out, and the parts."""
    places = st.tuples(st.integers(0, 3), st.integers(0, 7), st.integers(2, 3))
    loops = draw(st.lists(places, max_size=6, unique_by=lambda loop: loop[:2]))
    words = [f"{m}{'RSPQCKNG'[d]}{n}" for m, d, n in sorted(loops, key=lambda loop: -loop[0])]
    stored = " ".join("".join(str(m) for m in range(3) if draw(st.booleans())) or "-" for _ in range(3))
    nest = build_nest(" ".join(words), stored, part=draw(st.sampled_from(PARTS)))
    outside = [[draw(st.integers(0, len(nest.order[m]) * nest.stored[m][t])) for t in range(3)] for m in range(2)]
    return nest._replace(outside=(*map(tuple, outside), (0, 0, 0), (0, 0, 0)))


def scans_in_order(nest: Nest) -> list[Scan]:
    """List all scans of DRAM in the order in which the nest makes them (docs/model.md, section 5)."""
    loops = [(m, d, nest.temporal[m][d]) for m in (3, 2, 1, 0) for d in nest.order[m]]
    held: dict[int, tuple[int, ...]] = {}
    visited: set[tuple[int, ...]] = set()
    scans: list[Scan] = []
    before: tuple[int, ...] | None = None
    step = 0
    for step, digits in enumerate(itertools.product(*(range(n) for *_, n in loops))):
        moved = -1 if before is None else next(i for i, (a, b) in enumerate(zip(digits, before, strict=True)) if a > b)
        before = digits
        for t in (I, W, O):
            identity = tile(nest, t, loops, digits)
            if identity is None or held.get(t) == identity:
                continue
            if t == O and t in held:
                scans.append((t, step, moved))
            held[t] = identity
            if t != O or identity in visited:
                scans.append((t, step, moved))
            visited |= {identity} if t == O else set()
        scans += [(t, step, moved) for t in (I, W, O) if tile(nest, t, loops, digits) is None]
    return scans + [(O, step + 1, -1)] * (O in held)


def tile(nest: Nest, t: int, loops: list[tuple[int, int, int]], digits: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the indices that name t's tile at its outermost level; None if the MACs take t straight from DRAM."""
    levels = [m for m in range(3) if nest.stored[m][t]]
    if not levels:
        return None
    level, own = levels[-1], nest.order[levels[-1]][: nest.outside[levels[-1]][t]]
    return tuple(
        x
        for x, (m, d, _) in zip(digits, loops, strict=True)
        if (m > level or (m == level and d in own)) and d not in IRRELEVANT[t]
    )


@settings(max_examples=500)
@given(nests())
def test_rule_finds_where_other_scans_lie_between(nest: Nest) -> None:
    """For each two scans of a tensor that follow each other; those of outputs in one step have nothing between."""
    scans = scans_in_order(nest)
    for t in (I, W, O):
        rule, others = interruption(nest, t), {u for u in (I, W, O) if u != t and nest.part[u] == nest.part[t]}
        own = [i for i, (u, _, _) in enumerate(scans) if u == t]
        for first, second in itertools.pairwise(own):
            is_between = any(u in others for u, _, _ in scans[first + 1 : second])
            (_, one, last), (_, other, moved) = scans[first], scans[second]
            expected = one != other and is_interrupted(last, moved, rule)
            assert is_between == bool(expected)
