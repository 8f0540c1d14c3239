"""The tensors' axes: names, orders, and how a loop index becomes a coordinate (section 1)."""

import numpy as np

from tracesim.records import Ints

R, S, P, Q, C, K, N, G = range(8)
INPUT, WEIGHT, OUTPUT = range(3)
PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM = range(4)
READ, WRITE = range(2)

AXIS_DIM = np.array([[N, G, C, Q, P], [G, K, C, S, R], [N, G, K, Q, P]])
"""[tensor][axis]: the dim an axis counts; axes in the tensor's first order. I's last two axes are H and W."""

AXIS_H, AXIS_W = 3, 4

AXIS_ORDER = np.array(
    [
        [[0, 1, 2, 3, 4], [0, 3, 4, 1, 2]],  # NGCHW, NHWGC
        [[0, 1, 2, 3, 4], [3, 4, 2, 0, 1]],  # GKCSR, SRCGK
        [[0, 1, 2, 3, 4], [0, 3, 4, 1, 2]],  # NGKQP, NQPGK
    ]
)
"""[tensor][order]: axes of AXIS_DIM, outermost first."""


def axis_coefficients(conv: Ints) -> Ints:
    """Return int64[3, 5, 8]: an element's coordinate is the sum over dims of coefficient times index."""
    coefficients = np.zeros((3, 5, 8), np.int64)
    for tensor in range(3):
        for axis in range(5):
            coefficients[tensor, axis, AXIS_DIM[tensor, axis]] = 1
    coefficients[INPUT, AXIS_W, P], coefficients[INPUT, AXIS_H, Q] = conv[0], conv[1]
    coefficients[INPUT, AXIS_W, R], coefficients[INPUT, AXIS_H, S] = conv[2], conv[3]
    return coefficients
