"""Dispatch over lengths: exact optima, one layout of keys and values, fewest mappings."""

import json
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpsat_pim.cli import main
from cpsat_pim.compiler.attention import Attention, AttentionMapping, attention_ticks, best_attention, lower_attention
from cpsat_pim.compiler.dispatch.cover import fewest_mappings
from cpsat_pim.compiler.dispatch.layout import best_layout
from cpsat_pim.compiler.dispatch.lengths import CONTEXT, SCORE, LengthOptimum, LengthSearch, best_of_lengths
from cpsat_pim.compiler.dispatch.table import ticks_of_lengths
from cpsat_pim.compiler.lowering.contraction import empty_stream, moves
from cpsat_pim.compiler.mapping import Mapping
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import read_device
from tables.commands.walk import ADDRESS as FIRST_COLUMN
from tables.commands.walk import DRAIN, DRAINS, LOAD, LOADS, MAC, MACS, SEGMENT, walk
from tracesim.commands import Stream, simulate

TARGET = target_of(read_device("attacc"))


@cache
def best_of(tokens: int) -> LengthOptimum:
    """The fastest mapping of an attention of four heads."""
    return LengthSearch(4, 64, TARGET).best(tokens)


@st.composite
def pairs(draw: st.DrawFn, heads: int, tokens: int, head_size: int) -> AttentionMapping:
    """Any mapping of an attention whose heads are on channels of their own."""
    attention, found = Attention(heads, tokens, head_size), []
    for contraction in (attention.score, attention.context):
        owners = [draw(st.sampled_from((-1, 2) if axis == 0 else (-1, 2, 3))) for axis in range(4)]
        mapping = Mapping(
            splits=(heads, 1, 1, 1),
            owners=tuple(owners),
            is_tree=draw(st.booleans()),
            output_tile=draw(st.integers(1, 2)),
            depth_tile=draw(st.sampled_from((1, 2, 4, 8))),
            order=draw(st.sampled_from(("output-stationary", "input-stationary"))),
            overlaps_drains=draw(st.booleans()),
            overlaps_loads=draw(st.booleans()),
        )
        if mapping.problem(contraction, TARGET) is not None:
            mapping = Mapping(splits=(heads, 1, 1, 1), owners=tuple(owners), is_tree=True)
        found.append(mapping)
    return AttentionMapping(*found)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
@given(st.data())
def test_no_mapping_is_faster_than_the_proven_one(data: st.DataObject) -> None:
    """Every pair of a score and a context mapping takes at least the ticks that are called optimal."""
    tokens = data.draw(st.sampled_from((7, 40, 129, 300)))
    best = best_of(tokens)
    assert best.status == "OPTIMAL"
    assert attention_ticks(Attention(4, tokens, 64), data.draw(pairs(4, tokens, 64)), TARGET) >= best.ticks


@pytest.mark.parametrize(
    ("heads", "tokens", "head_size"), [(40, 129, 128), (40, 500, 128), (7, 97, 64), (200, 3000, 32)]
)
def test_ticks_are_the_simulators(heads: int, tokens: int, head_size: int) -> None:
    """The best mapping takes what the simulator says, and not more than the two separate optima."""
    best = LengthSearch(heads, head_size, TARGET).best(tokens)
    attention = Attention(heads, tokens, head_size)
    assert simulate(TARGET.rules, lower_attention(attention, best.mapping, TARGET)).finish == best.ticks
    assert best.bound <= best.ticks <= best_attention(attention, TARGET).ticks


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=20)
@given(st.data())
def test_ticks_of_a_range_are_those_of_each_length(data: st.DataObject) -> None:
    """Lengths that are said to take the same ticks do. A channel's buffer holds 8,192 scores: from 4,097 tokens on, two
    heads take two rounds."""
    first = data.draw(st.sampled_from((1, 90, 300, 4080)))
    lengths, search = range(first, first + 33), LengthSearch(4, 64, TARGET)
    drawn = data.draw(pairs(4, first, 64))
    mapping = AttentionMapping(evolve(drawn.score, splits=(2, 1, 1, 1)), evolve(drawn.context, splits=(2, 1, 1, 1)))
    each = [attention_ticks(Attention(4, tokens, 64), mapping, TARGET) for tokens in lengths]
    assert ticks_of_lengths(search, mapping, lengths) == each


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=30)
@given(st.data())
def test_compute_ticks_are_those_of_a_stream_without_moves(data: st.DataObject) -> None:
    """The simulator runs the commands of a mapping but for loads and drains; barriers stay where they are."""
    tokens = data.draw(st.sampled_from((7, 40, 129, 300)))
    mapping = data.draw(pairs(4, tokens, 64))
    stream = lower_attention(Attention(4, tokens, 64), mapping, TARGET)
    stays = np.isin(stream.kind, [TARGET.device.command(name) for name in ("MACAB", "SFM")])
    alone = simulate(TARGET.rules, Stream(*(column[stays] for column in stream))).finish
    assert LengthSearch(4, 64, TARGET).compute_ticks(tokens, mapping) == alone


def test_lengths_of_a_block_have_the_optima_of_single_searches() -> None:
    """What is transferred from one length to others equals a search for each of them."""
    search = LengthSearch(40, 128, TARGET)
    for found in best_of_lengths(search, 1020, 1045):
        assert found.ticks == search.best(found.tokens).ticks == search.ticks(found.tokens, found.mapping)


@pytest.fixture(scope="module")
def layout() -> tuple[LengthSearch, range, AttentionMapping]:
    """One layout for 60 to 150 tokens, and the mapping of the shortest of them."""
    search, lengths = LengthSearch(4, 64, TARGET), range(60, 151)
    return search, lengths, best_layout(search, lengths).mappings[0]


def test_one_layout_lies_between_optima_and_bound(layout: tuple[LengthSearch, range, AttentionMapping]) -> None:
    """Its sum is at least the proven bound, and no length is faster than its own optimum would allow in a dense layout
    of the longest."""
    search, lengths, _ = layout
    found = best_layout(search, lengths)
    assert found.bound <= int(found.ticks.sum())
    assert found.ticks[-1] >= search.best(lengths[-1]).ticks
    assert (np.diff(found.ticks) >= -30).all()


def test_reserved_layout_takes_the_simulators_ticks(layout: tuple[LengthSearch, range, AttentionMapping]) -> None:
    """A stream whose MACs lie where the longest length has them: walk and simulator agree."""
    search, lengths, mapping = layout
    for tokens in (60, 61, 77, 128, 150):
        groups = search.groups(tokens, mapping, lengths[-1])
        ticks = search.ticks(tokens, mapping, lengths[-1])
        assert simulate(TARGET.rules, _stream(search, groups, mapping)).finish == ticks


def test_tokens_keep_their_columns(layout: tuple[LengthSearch, range, AttentionMapping]) -> None:
    """Every run of MACs of a short length begins where a run of the longest begins."""
    search, lengths, mapping = layout
    begins = [
        {int(group[FIRST_COLUMN]) for group in search.groups(tokens, mapping, lengths[-1]) if group[MACS]}
        for tokens in (60, lengths[-1])
    ]
    if not any(part.overlaps_drains and part.overlaps_loads for part in (mapping.score, mapping.context)):
        assert begins[0] <= begins[1]


def _stream(search: LengthSearch, groups: np.ndarray, mapping: AttentionMapping) -> Stream:
    """The commands of barrier groups, with their places but without what they compute."""
    table = search.moves_of(mapping)
    sizes = groups[:, MACS] + groups[:, DRAINS] * table.drain_moves[groups[:, SEGMENT]]
    emitted = np.zeros((int((sizes + groups[:, LOADS] * table.load_moves[groups[:, SEGMENT]]).sum()), 4), np.int64)
    walk(TARGET.timing, groups, table, -1, emitted)
    stream, device = empty_stream(len(emitted), 4), TARGET.device
    stream.group[:] = emitted[:, 2]
    stream.coords[:, :-1] = -1
    for at, (kind, number, group, _) in enumerate(emitted.tolist()):
        segment, drained = int(groups[group, SEGMENT]), int(groups[group, DRAINS])
        if kind == MAC:
            column = int(groups[group, FIRST_COLUMN]) + number
            stream.kind[at], stream.row[at], stream.column[at] = TARGET.mac, *divmod(column, device.core.columns)
            continue
        if segment not in (SCORE, CONTEXT):
            stream.kind[at] = device.command("SFM")
            continue
        chosen = mapping.score if segment == SCORE else mapping.context
        loads, drains = moves(chosen, search.contractions[segment], TARGET)
        stream.kind[at] = TARGET.drain if kind == DRAIN else TARGET.load
        first = drained * len(drains) if kind == LOAD else 0
        rows = drains if kind == DRAIN else loads
        stream.coords[at, :-1] = rows[(number - first) % len(rows)]
    return stream


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_fewest_mappings_are_the_smallest_cover(data: st.DataObject) -> None:
    """CP-SAT chooses as few as trying all subsets."""
    ticks = np.array(
        data.draw(st.lists(st.lists(st.integers(90, 120), min_size=6, max_size=6), min_size=2, max_size=5))
    )
    best, percent = ticks.min(axis=0), data.draw(st.sampled_from((0.0, 5.0, 10.0)))
    cover = fewest_mappings(ticks, best, percent)
    good = ticks * 1000 <= best * round(1000 + 10 * percent)
    sizes = [
        size
        for size in range(1, len(ticks) + 1)
        if any(good[list(some)].any(axis=0).all() for some in combinations(range(len(ticks)), size))
    ]
    assert cover.status == "OPTIMAL"
    assert len(cover.chosen) == cover.bound == sizes[0]
    assert all(good[number, at] for at, number in enumerate(cover.of_length))


def test_command_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compile attention --lengths --dispatch`: every length has a mapping, ticks and a bound."""
    file = tmp_path / "table.json"
    words = ["compile", "attention", "--sizes", "B=4,K=64", "--lengths", "60:90", "--dispatch", str(file)]
    assert main(words) == 0
    data = json.loads(file.read_text())
    assert data["status"] == "OPTIMAL"
    assert len(data["ticks"]) == len(data["bounds"]) == 31
    assert [data["table"][0]["from"], data["table"][-1]["to"]] == [60, 90]
    assert "one layout" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["compile", "attention", "--sizes", "B=4,K=64", "--lengths", "9:8"], "expected lengths such as 128:4096"),
        (["compile", "gemv", "--sizes", "B=4,K=64", "--lengths", "8:9"], "expected the kernel attention"),
        (["compile", "attention", "--sizes", "B=4,K=64", "--dispatch", "t.json"], "expected --lengths"),
    ],
)
def test_mistakes_are_one_line(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong range or kernel ends with one line."""
    assert main(words) == 2
    message = capsys.readouterr().err.strip()
    assert expected in message
    assert "\n" not in message
