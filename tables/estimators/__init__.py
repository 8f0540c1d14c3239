"""Estimates of row activations from the literature, to be compared with the exact counts of `tables.counts.stream`.

No mapping is chosen by them. Each follows its paper's text literally. Where the text is ambiguous or cannot be meant
literally, the docstring says which reading is taken, and why. All of them assume one bank with an open page and no page
policy, so they use only the row size of a `Dram`.
"""

from collections.abc import Callable

from tables.dram import Dram
from tables.estimators.hybrid_cost_model import hybrid_cost_model_activations
from tables.estimators.pim_dls import pim_dls_activations
from tables.estimators.pim_optimizer import pim_optimizer_activations
from tables.nest import I, Nest, O, W

#: The tensors that each estimator covers.
COVERS: dict[str, tuple[int, ...]] = {
    "pim_optimizer": (I, W, O),
    "pim_dls": (I, W, O),
    "hybrid_cost_model": (I,),
}


def _pim_optimizer(nest: Nest, t: int, dram: Dram) -> float:
    """PIM Optimizer, Eq. 32."""
    return pim_optimizer_activations(nest, t, dram.row_bytes)


def _pim_dls(nest: Nest, t: int, dram: Dram) -> float:
    """PIM-DLS, Eq. 7."""
    return pim_dls_activations(nest, t, dram.row_bytes)


def _hybrid_cost_model(nest: Nest, t: int, dram: Dram) -> float:
    """HCM, Eq. 1; ValueError for another tensor than I."""
    if t not in COVERS["hybrid_cost_model"]:
        raise ValueError(f"hybrid_cost_model.t: must be the input, {I} (got {t})")
    return hybrid_cost_model_activations(nest, dram.row_bytes)


#: Estimators by name. Each takes (nest, tensor, dram) and returns the estimated activations of the tensor's stream.
ESTIMATORS: dict[str, Callable[[Nest, int, Dram], float]] = {
    "pim_optimizer": _pim_optimizer,
    "pim_dls": _pim_dls,
    "hybrid_cost_model": _hybrid_cost_model,
}
