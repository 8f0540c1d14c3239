"""How the parts of the space are searched in turns."""

import math

import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.mapper.model.master import Program
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search.solve import climb_parts
from cpsat_pim.mapper.search.solver import Reply
from cpsat_pim.mapper.search.state import Options, Search
from cpsat_pim.mapper.space.restriction import Freedom


def test_programs_know_all_lessons_when_they_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that were kept while another part of the space learnt."""
    layer, solve = ConvWorkload(P=14, Q=14, C=64, K=64), Search.solve

    def seen(search: Search, program: Program, until: float, work: float = math.inf) -> Reply:
        if not program.v.any_split:  # else it does not tell what lessons speak of
            assert program.lessons_known == len(search.lessons_of(program.screen.freedom).learnt)
        return solve(search, program, until, work)

    monkeypatch.setattr(Search, "solve", seen)
    search = Search(layer, PIMArchitecture(), Objective.named("latency"), Options(time_limit=60))
    climb_parts(search)
    assert search.lessons_of(Freedom(layer, search.arch)).learnt
