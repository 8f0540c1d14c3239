"""Label setting: the cheapest path that stays within all capacities (Desrochers and Soumis 1988).

A label is a path through the first stages: its state, cost, and usage. Of two labels of a state, one that costs and
uses no more dominates the other. A label whose bound (its cost and usage at the multipliers, and the least completion)
exceeds the trial value cannot become a path of that value, so it is pruned; one that leaves too little of a resource
for the least completion is infeasible.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from attrs import frozen

from cpsat_pim.planner.eliminate import INFINITE
from cpsat_pim.planner.labels.stages import Guide, Multipliers, Path, Stage, StagedProblem
from tables.array.labels import undominated


@frozen(kw_only=True)
class LabelLimits:
    """`most_labels`: labels that are kept at a stage, those of the least bounds; `most_joined`: made at a time.

    Each label takes about 100 bytes.
    """

    most_labels: int = 200_000
    most_joined: int = 2_000_000


@frozen(kw_only=True, eq=False)
class Found:
    """The best path of at most the trial value, if any; `bound`: no path that fits costs less.

    `is_complete`: whether no labels were left out for their number.
    """

    path: Path | None
    bound: int
    is_complete: bool = True


@frozen(kw_only=True, eq=False)
class _Labels:
    """Labels of a stage: states int64[labels, variables], cost, usage int64[labels, resources], bounds of their paths.

    `parent`: the label before the stage; `option`: that of the stage.
    """

    states: np.ndarray
    cost: np.ndarray
    usage: np.ndarray
    bound: np.ndarray
    parent: np.ndarray
    option: np.ndarray

    def take(self, which: np.ndarray) -> "_Labels":
        """Return some of the labels."""
        return _Labels(**{name: getattr(self, name)[which] for name in _ARRAYS})


#: The arrays of labels.
_ARRAYS = ("states", "cost", "usage", "bound", "parent", "option")


def set_labels(
    problem: StagedProblem,
    guides: Sequence[Guide],
    trial: int,
    limits: LabelLimits | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Found:
    """Return the cheapest path that fits and costs at most `trial`, and a bound of all paths that fit.

    The bound is the path's cost, or `trial` + 1 if there is none, unless labels were left out for their number.
    """
    return _LabelSetting(problem, guides, trial, limits or LabelLimits(), is_over).run()


class _LabelSetting:
    """Labels stage by stage."""

    def __init__(
        self,
        problem: StagedProblem,
        guides: Sequence[Guide],
        trial: int,
        limits: LabelLimits,
        is_over: Callable[[], bool],
    ) -> None:
        self.problem, self.guides, self.trial, self.limits = problem, guides, trial, limits
        self.is_over = is_over
        self.least_usage = [problem.completions(_only(problem, r)) for r in range(len(problem.capacity))]
        self.left_out = INFINITE

    def run(self) -> Found:
        """Extend all labels by every stage, then trace the cheapest back."""
        resources = len(self.problem.capacity)
        none = np.zeros(1, dtype=np.int64)
        labels = _Labels(
            states=np.zeros((1, 0), dtype=np.int64),
            cost=none,
            usage=np.zeros((1, resources), dtype=np.int64),
            bound=none,
            parent=none,
            option=none,
        )
        history = []
        for at in range(len(self.problem.stages)):
            if self.is_over():
                return Found(path=None, bound=0, is_complete=False)
            labels = self._extended(at, labels)
            history.append((labels.parent, labels.option))
            if not len(labels.cost):
                return self._found(None, self.trial + 1)
        best = int(labels.cost.argmin())
        path = Path(
            options=tuple(_traced(history, best)),
            cost=int(labels.cost[best]),
            usage=tuple(int(used) for used in labels.usage[best]),
        )
        return self._found(path, path.cost)

    def _found(self, path: Path | None, bound: int) -> Found:
        return Found(path=path, bound=min(bound, self.left_out), is_complete=self.left_out >= INFINITE)

    def _extended(self, at: int, labels: _Labels) -> _Labels:
        """Return the labels behind a stage."""
        made = [self._undominated(part, at) for part in self._joined(at, labels)]
        whole = _Labels(**{name: np.concatenate([getattr(part, name) for part in made]) for name in _ARRAYS})
        found = self._undominated(whole, at) if len(made) > 1 else whole
        most = self.limits.most_labels
        if len(found.cost) > most:
            order = np.argsort(found.bound, kind="stable")
            self.left_out = min(self.left_out, int(found.bound[order[most]]))
            found = found.take(order[:most])
        return found

    def _joined(self, at: int, labels: _Labels) -> Iterator[_Labels]:
        """Yield the extensions of labels by options with the same homes, so many at a time, without what is pruned."""
        stage, before = self.problem.stages[at], self.problem.frontiers[at]
        shared = [name for name in stage.variables if name in before]
        keys = _keys(self.problem, labels.states, [before.index(name) for name in shared], shared)
        useful = useful_options(self.problem, stage)
        own = _keys(self.problem, stage.cells[useful], [stage.variables.index(name) for name in shared], shared)
        order = np.argsort(own, kind="stable")
        options = useful[order]
        first, last = (np.searchsorted(own[order], keys, side=side) for side in ("left", "right"))
        counts = last - first
        ends = np.cumsum(counts)
        start = 0
        while start < len(keys):
            done = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + self.limits.most_joined, side="right")))
            which = np.arange(start, stop)
            parent = np.repeat(which, counts[which])
            within = np.arange(len(parent)) - np.repeat(ends[which] - counts[which] - done, counts[which])
            yield self._pruned(at, stage, labels, parent, options[first[parent] + within])
            start = stop

    def _pruned(self, at: int, stage: Stage, labels: _Labels, parent: np.ndarray, option: np.ndarray) -> _Labels:
        """Return extensions of labels by options, without those that exceed the trial value or a capacity."""
        problem, behind = self.problem, self.problem.frontiers[at + 1]
        before = problem.frontiers[at]
        states = np.empty((len(parent), len(behind)), dtype=np.int64)
        for i, name in enumerate(behind):
            own = name in stage.variables
            states[:, i] = (
                stage.cells[option, stage.variables.index(name)] if own else labels.states[parent, before.index(name)]
            )
        cost, usage = labels.cost[parent] + stage.cost[option], labels.usage[parent] + stage.usage[option]
        bound, place = cost, tuple(states.T)
        for guide in self.guides:
            by = guide.multipliers
            rest = guide.completions[at + 1][place]
            priced = by.scale * cost + (usage - problem.capacity) @ by.per_unit + rest
            bound = np.maximum(bound, -(-priced // by.scale))
        keep = bound <= self.trial
        for r, least in enumerate(self.least_usage):
            keep &= usage[:, r] + least[at + 1][place] <= problem.capacity[r]
        made = _Labels(states=states, cost=cost, usage=usage, bound=bound, parent=parent, option=option)
        return made.take(np.flatnonzero(keep))

    def _undominated(self, labels: _Labels, at: int) -> _Labels:
        """Return the labels that none of their state dominates."""
        names = self.problem.frontiers[at + 1]
        states = _keys(self.problem, labels.states, list(range(len(names))), list(names))
        return labels.take(_first(states, labels))


def _only(problem: StagedProblem, resource: int) -> Multipliers:
    """Return multipliers by which a path costs what it uses of one resource."""
    per_unit = np.zeros(len(problem.capacity), dtype=np.int64)
    per_unit[resource] = 1
    return Multipliers(scale=0, per_unit=per_unit)


def _traced(history: Sequence[tuple[np.ndarray, np.ndarray]], last: int) -> list[int]:
    """Return the options of the path that ends with a label; `history`: parents and options of each stage."""
    options = []
    for parent, option in reversed(history):
        options.append(int(option[last]))
        last = int(parent[last])
    return options[::-1]


def useful_options(problem: StagedProblem, stage: Stage) -> np.ndarray:
    """Return the options of a stage that no other one at the same homes dominates."""
    return _first(_keys(problem, stage.cells, list(range(len(stage.variables))), list(stage.variables)), stage)


def _first(states: np.ndarray, some: Stage | _Labels) -> np.ndarray:
    """Return which labels or options no other one of the same state dominates."""
    order = np.lexsort((some.usage.sum(axis=1), some.cost, states))
    keep = np.zeros(len(order), dtype=np.bool_)
    undominated(states[order], some.usage[order], keep)
    return order[keep]


def _keys(problem: StagedProblem, states: np.ndarray, axes: list[int], names: list[str]) -> np.ndarray:
    """Return a number for each combination of values of some variables."""
    number = np.zeros(len(states), dtype=np.int64)
    for axis, name in zip(axes, names, strict=True):
        number = number * problem.sizes[name] + states[:, axis]
    return number
