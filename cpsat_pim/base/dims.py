"""Loop dims, tensors, memory levels and parallel directions, in the order that all code uses."""

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


#: The levels that may store a tensor or be bypassed by it, inner to outer.
BUFFERS = (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)


#: The levels whose tiles may cover only some loops of their level (uneven residency), inner to outer.
ON_CHIP = (Level.PE, Level.GLOBAL_BUFFER)


class Direction(IntEnum):
    """Parallel directions: rows and columns of the PE array, lanes within a PE."""

    H = 0
    W = 1
    INTERNAL = 2


#: The dims whose loops do not move tensor t (the complement of Eq. 1). The three classes and G partition the dims.
IRRELEVANT: dict[Tensor, tuple[Dim, ...]] = {
    Tensor.I: (Dim.K,),
    Tensor.W: (Dim.P, Dim.Q, Dim.N),
    Tensor.O: (Dim.R, Dim.S, Dim.C),
}

#: The dims that select an element of tensor t (Eq. 1).
RELEVANT: dict[Tensor, tuple[Dim, ...]] = {t: tuple(d for d in Dim if d not in IRRELEVANT[t]) for t in Tensor}

#: DRAM axis orders of each tensor, outermost axis first; mappings store the index (Eq. 50, 51).
LAYOUT_ORDERS: dict[Tensor, tuple[str, str]] = {
    Tensor.I: ("NGCHW", "NHWGC"),
    Tensor.W: ("GKCSR", "SRCGK"),
    Tensor.O: ("NGKQP", "NQPGK"),
}
