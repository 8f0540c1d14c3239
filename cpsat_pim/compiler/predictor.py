"""DCC's learned predictor (section IV-D), for comparison: it ranks drafts (`drafts`), and nothing depends on it.

A model of gradient-boosted trees (XGBoost) is trained on drafts that are drawn at random from some sizes and timed. Of
all drafts of a size the one with the least predicted time is taken.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from cpsat_pim.base.extras import import_extra
from cpsat_pim.base.validate import not_negative, positive
from cpsat_pim.compiler.drafts import DraftSpace
from tables.commands.sweep import NONE

Floats = NDArray[np.float64]


@frozen(kw_only=True)
class Protocol:
    """How the predictor is trained: `rounds` trees with a `learning_rate` (DCC, section V: 5000 and 0.1), on `samples`
    drafts of every size, which the paper does not state; `seed` of the draws."""

    rounds: int = field(default=5000, validator=positive)
    learning_rate: float = 0.1
    samples: int = field(default=50, validator=positive)
    seed: int = field(default=0, validator=not_negative)


@frozen(eq=False)
class Sized:
    """A size of a kernel: the elements of its classes, all its drafts, and the exact optimum in picoseconds."""

    extents: tuple[int, ...]
    drafts: DraftSpace
    best_ps: int


def features(sized: Sized) -> Floats:
    """float64[drafts, columns]: logarithms of the size, the channels, the cores and the elements a core."""
    groups, cores = sized.drafts.groups, sized.drafts.cores
    extents = np.broadcast_to(np.array(sized.extents), groups.shape)
    lengths = np.ceil(extents / (groups * cores))
    return np.asarray(np.log2(np.concatenate([extents, groups, cores, lengths], axis=1)), np.float64)


def chosen_times(sizes: Sequence[Sized], protocol: Protocol) -> list[int]:
    """Picoseconds of the draft that the predictor takes for every size; drafts that cannot be run are passed over.

    Raises:
        MissingExtra: XGBoost is not installed.
    """
    xgboost, rng = import_extra("xgboost", "tune"), np.random.default_rng(protocol.seed)
    rows = [features(sized) for sized in sizes]
    inputs, labels = _drawn(sizes, rows, protocol, rng)
    parameters = {"eta": protocol.learning_rate, "nthread": 1, "seed": protocol.seed, "tree_method": "hist"}
    model = xgboost.train(parameters, xgboost.DMatrix(inputs, label=labels), num_boost_round=protocol.rounds)
    return [_first_that_runs(sized, _ranked(model, table, rng)) for sized, table in zip(sizes, rows, strict=True)]


def _drawn(
    sizes: Sequence[Sized], rows: Sequence[Floats], protocol: Protocol, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Features and logarithms of times of the drafts to be learnt from."""
    inputs, labels = [], []
    for sized, table in zip(sizes, rows, strict=True):
        count = min(protocol.samples, len(table))
        for number in rng.choice(len(table), count, replace=False).tolist():
            time = sized.drafts.time_ps(number)
            if time < NONE:
                inputs.append(table[number])
                labels.append(np.log(time))
    return np.array(inputs), np.array(labels)


def _ranked(model: Any, table: Floats, rng: np.random.Generator) -> list[int]:
    """Drafts by predicted time; equals in random order (DCC, section IV-D)."""
    predicted = model.inplace_predict(table)
    order: list[int] = np.lexsort((rng.random(len(table)), predicted)).tolist()
    return order


def _first_that_runs(sized: Sized, order: Sequence[int]) -> int:
    return next(time for number in order if (time := sized.drafts.time_ps(number)) < NONE)
