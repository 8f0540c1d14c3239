"""Ground truth of a network's plan on an array of nodes (docs/array.md): what moves, where it lies, how long it takes.

Nothing here predicts. It derives from the layers' bounds, the partitions and the homes who owns, needs, makes and sends
what. Messages are sent flit by flit, boxes are scanned run by run, and small networks are carried out on integers.

    records     what goes in
    readings    which channels layers read of stacks
    network     stacks, sums, and what each layer reads (section 2)
    parts       digits, part ranges, sharing sets, tours (sections 3 and 5)
    areas       boxes of a tensor
    views       what pooled and resized elements are made of
    needs       a node's boxes of I, W, O and of a home (section 4)
    scan        columns and rows of a box in a layout (section 4)
    flows       what moves and what is read and written in a phase
    inputs      weights and pull (section 5)
    outputs     reduce, push, sums, join (section 5)
    messages    flows as messages on links, ports or buses (sections 6 and 7)
    traffic     the messages flit by flit, and when phases begin and end
    alike       layers in whose steps the same happens
    capacity    DRAM use of each node and step (section 6)
    simulator   all of it in order
    arithmetic  what a node computes
    execute     the same flows, carrying values
"""

from tracesim.array.execute import execute_plan
from tracesim.array.records import Array, Dram, Grid, Home, Layer, Plan, Pool, Resize, Step, Tours
from tracesim.array.simulator import Figures, PhaseFigures, simulate_plan

__all__ = [
    "Array",
    "Dram",
    "Figures",
    "Grid",
    "Home",
    "Layer",
    "PhaseFigures",
    "Plan",
    "Pool",
    "Resize",
    "Step",
    "Tours",
    "execute_plan",
    "simulate_plan",
]
