"""The choice of one candidate for every statement, by CP-SAT.

A layout is in the banks if a chosen mapping uses it; then it takes its rows, and its packing is paid once. The rows of
all layouts in use, and those that an elementwise statement works on, must fit a bank. The objective is the time of all
statements one after another, with packing.
"""

from typing import Any

from attrs import frozen

from cpsat_pim.compiler.chain.candidates import Candidate, Choices, Layout
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.solving import finds_solution


@frozen
class Choice:
    """The chosen candidates in the order of the statements, their time, and a bound of every choice; picoseconds."""

    chosen: tuple[Candidate, ...]
    value_ps: int
    bound_ps: int

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The matrices in the banks, each once."""
        return layouts_of(self.chosen)


def layouts_of(chosen: tuple[Candidate, ...]) -> tuple[Layout, ...]:
    """The layouts that candidates use, each once."""
    return tuple({found.layout.key: found.layout for found in chosen if found.layout is not None}.values())


def value_of(chosen: tuple[Candidate, ...]) -> int:
    """Picoseconds of candidates, one a statement."""
    return sum(found.time_ps for found in chosen) + sum(layout.packing_ps for layout in layouts_of(chosen))


def fits(chosen: tuple[Candidate, ...], rows: int) -> bool:
    """Whether so many rows of a bank suffice."""
    working = max(found.working_rows for found in chosen)
    return sum(layout.rows for layout in layouts_of(chosen)) + working <= rows


def choose(choices: tuple[Choices, ...], rows: int, seconds: float = 60.0) -> Choice:
    """The choice of least time for banks of so many rows.

    Raises:
        KernelMistake: no choice fits the banks, or none was found in time. With a host there always is one.
        ValueError: the model is malformed, or its answer is no choice.
    """
    from ortools.sat.python import cp_model

    model = _Model(cp_model, choices, rows)
    chosen, bound = model.solved(cp_model.CpSolver(), seconds)
    value = value_of(chosen)
    if not fits(chosen, rows) or bound > value:
        raise ValueError("the solver's answer does not keep the rows of a bank, or is below its bound")
    return Choice(chosen, value, bound)


class _Model:
    """Variables and constraints; each method is one rule."""

    def __init__(self, cp_model: Any, choices: tuple[Choices, ...], rows: int) -> None:
        self.model, self.choices, self.rows = cp_model.CpModel(), choices, rows
        self.candidate_vars = [
            [self.model.new_bool_var(f"statement {number} candidate {at}") for at in range(len(found.candidates))]
            for number, found in enumerate(choices)
        ]
        everything = tuple(candidate for found in choices for candidate in found.candidates)
        self.layouts = layouts_of(everything)
        self.layout_vars = {layout.key: self.model.new_bool_var(layout.tensor) for layout in self.layouts}
        self._every_statement_has_one_candidate()
        self._mappings_need_their_layout()
        self._rows_suffice()
        self.model.minimize(self._time())

    def _every_statement_has_one_candidate(self) -> None:
        for literals in self.candidate_vars:
            self.model.add_exactly_one(literals)

    def _mappings_need_their_layout(self) -> None:
        for literal, candidate in self._pairs():
            if candidate.layout is not None:
                self.model.add_implication(literal, self.layout_vars[candidate.layout.key])

    def _rows_suffice(self) -> None:
        """All layouts stay in the banks; an elementwise statement works beside them."""
        kept = sum(self.layout_vars[layout.key] * layout.rows for layout in self.layouts)
        self.model.add(kept <= self.rows)
        for literal, candidate in self._pairs():
            if candidate.working_rows:
                self.model.add(kept + candidate.working_rows * literal <= self.rows)

    def _time(self) -> Any:
        """All statements, and the packing of every layout in use."""
        statements = sum(literal * candidate.time_ps for literal, candidate in self._pairs())
        return statements + sum(self.layout_vars[layout.key] * layout.packing_ps for layout in self.layouts)

    def _pairs(self) -> list[tuple[Any, Candidate]]:
        return [
            pair
            for literals, found in zip(self.candidate_vars, self.choices, strict=True)
            for pair in zip(literals, found.candidates, strict=True)
        ]

    def solved(self, solver: Any, seconds: float) -> tuple[tuple[Candidate, ...], int]:
        """The chosen candidates and the bound; of a proven optimum the value itself, since a bound is a double."""
        if not finds_solution(self.model, solver, seconds):
            raise KernelMistake(f"no choice fits the {self.rows:,} rows of a bank ({solver.status_name()})")
        chosen = tuple(
            next(
                candidate
                for literal, candidate in zip(literals, found.candidates, strict=True)
                if solver.value(literal)
            )
            for literals, found in zip(self.candidate_vars, self.choices, strict=True)
        )
        return chosen, value_of(chosen) if solver.status_name() == "OPTIMAL" else int(solver.best_objective_bound)
