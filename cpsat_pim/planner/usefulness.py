"""Up to which costs node programs matter at the homes that an optimum uses."""

import numpy as np

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.nodes import HIGHEST, NodeProblem, Useful
from cpsat_pim.planner.options import At, LayerOptions
from cpsat_pim.planner.weighing import FREE_BYTES, Price


class Usefulness:
    """The options of a layer that were looked at, at given homes, by their bounds and by their solved node programs.

    `slack`: by so much the optimum over lower bounds may rise before it is no better than the best plan that is known;
    None if none is. At a `price` of bytes an option that costs no more may take more room, so nothing is of no use.
    """

    def __init__(self, options: LayerOptions, at: At, slack: int | None = None, price: Price = FREE_BYTES) -> None:
        self.options, self.at, self.slack, self.price = options, at, slack, price
        self.lower, self.tie = options.costs_at(at, False, price)
        self.solved = options.costs_at(at, True, price)[0]

    @property
    def least_solved(self) -> int:
        """What the best option whose node program is solved costs."""
        return int(self.solved.min(initial=INFINITE))

    def useful_below(self) -> int:
        """Return the cost from which on the node program of the best option at these homes is of no use there.

        Another option, which is solved, then costs no more at the same homes. `HIGHEST` if none is solved.
        """
        return self._program_below(self._cheapest_first()[0], self.least_solved)

    def alternative(self) -> tuple[NodeProblem, int] | None:
        """Return the unsolved node problem with the least bound at these homes, and from where on it is of no use.

        None if each option that has no mapping costs at least as much as the best solved one.
        """
        bounds = np.where(self.solved < INFINITE, INFINITE, self.lower)
        if int(bounds.min(initial=INFINITE)) >= self.least_solved:
            return None
        i = int(bounds.argmin())
        return self.options.problem(i, self.at), self._program_below(i, self.least_solved)

    def likeliest(self) -> NodeProblem | None:
        """Return the unsolved node problem of the option that may cost least at these homes, by what its node program
        may cost; None if that is no less than what the best solved option costs.
        """
        likely = np.where(self.solved < INFINITE, INFINITE, self.options.likely_at(self.at))
        i = int(likely.argmin())
        return None if likely[i] >= self.least_solved else self.options.problem(i, self.at)

    def unrefined(self, count: int) -> Useful:
        """Return the best option's node problem, and others, up to so many, whose bounds are not those of tiles.

        Bounds rise up to the cost from which on an option matters no more at these homes: where another one, which is
        solved, costs no more; and where no plan with it is better than the best one, as the optimum over lower bounds
        uses an option of the least cost. There are none if the best option's bound is as high.
        """
        found: Useful = {}
        for i in self._cheapest_first():
            problem, below = self.options.problem(i, self.at), self._program_below(i, self._matters_below)
            known = self.options.costs.cost(problem)
            if known is not None and not known.is_refined and known.least < below:
                found[problem] = max(found.get(problem, 0), below)
            if len(found) in (0, count):
                break
        return found

    def untied(self) -> Useful:
        """Return the best option's node problem, if its bound is not that of its layouts, as `unrefined`."""
        i = self._cheapest_first()[0]
        problem, below = self.options.problem(i, self.at), self._program_below(i, self._matters_below)
        known = self.options.costs.cost(problem)
        return {} if known is None or known.is_tied or known.least >= below else {problem: below}

    def _cheapest_first(self) -> list[int]:
        found: list[int] = np.lexsort((self.tie, self.lower)).tolist()
        return found

    @property
    def _matters_below(self) -> int:
        """From this cost on an option is of no use at these homes."""
        if self.price != FREE_BYTES:
            return INFINITE
        by_plan = INFINITE if self.slack is None else int(self.lower.min()) + self.slack
        return min(self.least_solved, by_plan)

    def _program_below(self, row: int, cost: int) -> int:
        """Return the cost of a row's node program at which the row costs so much."""
        return HIGHEST if cost >= INFINITE else int(self.options.programs_below(self.at, cost)[row])
