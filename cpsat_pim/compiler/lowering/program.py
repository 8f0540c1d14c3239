"""A kernel as runs of equal commands: what the walks of `tables.commands` take, and the stream made of it."""

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from tracesim.commands import Stream

Ints = NDArray[np.int64]

#: Parts of a kernel whose ticks are stated one by one.
PARTS = ("host writes", "modes", "loads", "compute", "stores", "host reads")
HOST_WRITES, MODES, LOADS, COMPUTE, STORES, HOST_READS = range(len(PARTS))


@frozen(eq=False)
class Program:
    """The stream of every channel with the ticks predicted for it.

    `parts`: ticks by `PARTS`; `input_vectors` of the exchange buffer, before `output_vectors` of results.
    """

    stream: Stream
    ticks: int
    parts: Ints
    input_vectors: int
    output_vectors: int
    bank_rows: int = field(default=1)
