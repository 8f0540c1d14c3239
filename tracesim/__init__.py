"""Ground-truth simulator: walks a mapped loop nest and scans every DRAM tile address by address.

Nothing here predicts. `simulate` is given an explicit loop nest, a placement in DRAM and the device's
rules, and reports what happens: accesses, column accesses, row activations, DRAM time, energy and latency.
The rules are those of `docs/model.md`; its section numbers are cited where a rule is carried out.

    records   what goes in and what comes out
    axes      the tensors' axes and how loop indices become coordinates
    tiles     which coordinates a tile, an array tile or a step set holds, enumerated
    nest      the walk over the temporal loops, and which tile each level holds
    traffic   accesses per level (section 4)
    address   layouts, and a tile's elements in increasing byte address (section 3)
    bank      columns, open rows and DRAM time (section 5)
    route     links between levels, and how long a move over one takes
    pipeline  when every transfer and every array step happens (section 6)
    simulator all of it in order
    timeline  the same walk, with a log of what happens when
    stream    the same scans, column by column and without a clock
    service   how long banks take to serve them with writes timed as writes, and bank by bank
    rings     rings on a mesh of nodes: loads by walking, bounds by counting
"""

from tracesim.records import Device, Nest, Placement, Trace
from tracesim.simulator import Stopped, simulate

__all__ = ["Device", "Nest", "Placement", "Stopped", "Trace", "simulate"]
