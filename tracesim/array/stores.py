"""The nodes' memories when a plan is carried out: what of each stack lies on which node."""

from typing import NamedTuple

import numpy as np

from tracesim.array.areas import Area
from tracesim.array.arithmetic import ExecutionError, mask
from tracesim.array.inputs import Case
from tracesim.array.needs import member_area
from tracesim.array.records import Ints


class Store(NamedTuple):
    """Elements of a stack in the nodes' memories: both int64[nodes, N, C, H, W]; `present` is 0 or 1."""

    values: Ints
    present: Ints


def store_tensor(case: Case, homes: dict[int, Store], tensor: int, values: Ints) -> None:
    """Let each node store, of int64[nodes, N, C, H, W], what is at home there of a tensor."""
    stack = case.network.members[tensor].stack
    whole = mask(case.network.stack_shapes[stack], member_area(case.network, tensor))
    for node, area in enumerate(home_boxes(case, stack)):
        kept = whole * mask(whole.shape, area)
        given = values[node] if values.shape[1:] == whole.shape else _in_stack(case, tensor, values[node])
        homes[stack].values[node][kept == 1] = given[kept == 1]
        homes[stack].present[node] |= kept


def _in_stack(case: Case, tensor: int, values: Ints) -> Ints:
    """Return a tensor's values at its place in an otherwise empty stack."""
    first, count = case.network.members[tensor].channel, case.network.shapes[tensor][1]
    placed = np.zeros(case.network.stack_shapes[case.network.members[tensor].stack], np.int64)
    placed[:, first : first + count] = values
    return placed


def collect(case: Case, homes: dict[int, Store], tensor: int) -> Ints:
    """Return a tensor int64[N, C, H, W] from its home; each lies on one node, unless spread over a sum."""
    member = case.network.members[tensor]
    store, channels = homes[member.stack], slice(member.channel, member.channel + case.network.shapes[tensor][1])
    present = store.present[:, :, channels]
    if tensor in case.network.spread:
        values, holder = store.values[:, :, channels], present.argmax(axis=0)[None]
        own: Ints = np.take_along_axis(values, holder, axis=0)[0]
        require(bool((present.any(axis=0) & ((values == own) | (present == 0))).all()), "copies of an element differ")
        return own
    require(bool((present.sum(axis=0) == 1).all()), "an element is not at home exactly once")
    collected: Ints = (store.values[:, :, channels] * present).sum(axis=0)
    return collected


def home_boxes(case: Case, stack: int) -> list[Area]:
    """Return by node what is at home there."""
    nowhere = Area((0, 0), (), (0, 0), (0, 0))
    return [case.homes[stack].get(node, nowhere) for node in range(_nodes(case))]


def empty_store(case: Case, shape: tuple[int, ...]) -> Store:
    """Return nodes' memories of a stack with nothing in them."""
    return Store(np.zeros((_nodes(case), *shape), np.int64), np.zeros((_nodes(case), *shape), np.int64))


def _nodes(case: Case) -> int:
    return case.plan.array.rows * case.plan.array.cols


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise an ExecutionError unless something holds."""
    if not holds:
        raise ExecutionError(message)
