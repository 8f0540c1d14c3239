"""The vocabulary: loop dims, tensors, levels and parallel directions, in the order used everywhere."""

from enum import IntEnum


class Dim(IntEnum):
    """Loop dims of a (grouped) convolution; C and K count channels per group (Eq. 1, plus the group dim G)."""

    R = 0
    S = 1
    P = 2
    Q = 3
    C = 4
    K = 5
    N = 6
    G = 7


class Tensor(IntEnum):
    """The three operands."""

    I = 0  # noqa: E741 - the field's letter
    W = 1
    O = 2  # noqa: E741 - the field's letter


class Level(IntEnum):
    """Memory levels, inner to outer."""

    PE = 0
    GLOBAL_BUFFER = 1
    ROW_BUFFER = 2
    DRAM = 3


#: The levels that may store a tensor or let it pass, inner to outer.
BUFFERS = (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)


#: Those whose tiles need not cover all loops of their level, inner to outer.
ON_CHIP = (Level.PE, Level.GLOBAL_BUFFER)


class Direction(IntEnum):
    """Parallel directions: rows and columns of the PE array, lanes within a PE."""

    H = 0
    W = 1
    INTERNAL = 2


#: Dims that do not move tensor t (the complement of Eq. 1): three classes that, with G apart, partition the dims.
IRRELEVANT: dict[Tensor, tuple[Dim, ...]] = {
    Tensor.I: (Dim.K,),
    Tensor.W: (Dim.P, Dim.Q, Dim.N),
    Tensor.O: (Dim.R, Dim.S, Dim.C),
}

#: Dims that select an element of tensor t (Eq. 1).
RELEVANT: dict[Tensor, tuple[Dim, ...]] = {t: tuple(d for d in Dim if d not in IRRELEVANT[t]) for t in Tensor}

#: DRAM axis orders of each tensor, outermost first; the index is what mappings store (Eq. 50, 51).
LAYOUT_ORDERS: dict[Tensor, tuple[str, str]] = {
    Tensor.I: ("NGCHW", "NHWGC"),
    Tensor.W: ("GKCSR", "SRCGK"),
    Tensor.O: ("NGKQP", "NQPGK"),
}
