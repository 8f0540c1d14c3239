"""What each phase of a step costs: the typed shell over `tables.array` (docs/array.md, sections 5 and 6)."""

from typing import Any

import numpy as np
from attrs import field, frozen

from cpsat_pim.base.dims import Level
from cpsat_pim.base.units import to_fj
from cpsat_pim.evaluate.cost import access_energies_fj
from cpsat_pim.planner.array import HOST, NodeArray
from tables.array.counts import (
    ACTIVATED,
    ADDITIONS,
    BYTES,
    EJECT,
    FLIT_HOPS,
    FLITS,
    INJECT,
    LONGEST,
    READ,
    TOTALS,
    TOUR,
    WRITTEN,
    Grid,
    new_memo,
    sum_links,
)


@frozen(kw_only=True)
class Rates:
    """What a column, an activation, an addition and a flit's hop of an array cost; from the node's machine."""

    array: NodeArray
    column_cycles: int
    activation_cycles: int
    read_fj: int
    write_fj: int
    activation_fj: int
    addition_fj: int
    flit_hop_fj: int
    #: The array as the kernels read it.
    grid: Grid = field(init=False, eq=False, repr=False)

    @grid.default
    def _grid(self) -> Grid:
        array, node = self.array, self.array.node
        is_host = array.interconnect == HOST
        return Grid(array.rows, array.cols, is_host, array.flit_bytes, node.column_bytes, node.row_bytes, new_memo())


def rates_of(array: NodeArray) -> Rates:
    """The rates of an array."""
    node, timings = array.node, array.node.dram_timings
    read_fj, write_fj = access_energies_fj(node)[Level.DRAM]
    words = node.column_bytes // node.hierarchy[Level.DRAM].word_bytes
    return Rates(
        array=array,
        column_cycles=timings.tCCD_L,
        activation_cycles=timings.tRP + timings.tRCDRD,
        read_fj=words * read_fj,
        write_fj=words * write_fj,
        activation_fj=to_fj(node.activation_energy),
        addition_fj=to_fj(node.pe_array.compute_unit.mac_energy),
        flit_hop_fj=8 * array.flit_bytes * array.hop_fj_per_bit,
    )


class Work:
    """The counters of one phase, which kernels add to."""

    def __init__(self, array: NodeArray) -> None:
        self.loads = np.zeros((array.nodes, 6), dtype=np.int64)
        self.dram = np.zeros((array.nodes, 3), dtype=np.int64)
        self.totals = np.zeros(TOTALS, dtype=np.int64)
        self.received = np.zeros(array.nodes, dtype=np.int64)

    def cost(self, name: str, rates: Rates) -> "PhaseCost":
        """What was counted; asked for once."""
        sum_links(rates.grid, self.loads)
        loads, dram, totals = self.loads, self.dram, self.totals
        busiest = int(loads[:, :INJECT].max())
        port = -(-int(loads[:, INJECT : EJECT + 1].max()) // rates.array.local_port_flits)
        chain = rates.array.router_cycles * int(totals[LONGEST] + totals[TOUR])
        columns = dram[:, READ] + dram[:, WRITTEN]
        node_cycles = columns * rates.column_cycles + dram[:, ACTIVATED] * rates.activation_cycles
        return PhaseCost(
            name=name,
            network_cycles=max(busiest, port) + chain if totals[FLITS] else 0,
            dram_cycles=int(node_cycles.max()),
            max_link_flits=busiest,
            bytes=int(totals[BYTES]),
            flits=int(totals[FLITS]),
            flit_hops=int(totals[FLIT_HOPS]),
            columns_read=int(dram[:, READ].sum()),
            columns_written=int(dram[:, WRITTEN].sum()),
            activations=int(dram[:, ACTIVATED].sum()),
            additions=int(totals[ADDITIONS]),
            loads=loads,
            received=self.received,
        )


@frozen(kw_only=True)
class PhaseCost:
    """One phase: cycles of the network and of the fullest DRAM, exact counts, and loads for reports.

    `loads`, int64[nodes, 6]: flits east, west, south, north, injected, ejected. `received`, int64[nodes]: bytes.
    """

    name: str
    network_cycles: int = 0
    dram_cycles: int = 0
    max_link_flits: int = 0
    bytes: int = 0
    flits: int = 0
    flit_hops: int = 0
    columns_read: int = 0
    columns_written: int = 0
    activations: int = 0
    additions: int = 0
    loads: np.ndarray = field(eq=False, repr=False)
    received: np.ndarray = field(eq=False, repr=False)

    @property
    def cycles(self) -> int:
        """The network and the DRAM work side by side."""
        return max(self.network_cycles, self.dram_cycles)

    @property
    def columns(self) -> int:
        """DRAM columns read and written."""
        return self.columns_read + self.columns_written

    def noc_fj(self, rates: Rates) -> int:
        """Energy of the network."""
        return self.flit_hops * rates.flit_hop_fj

    def dram_fj(self, rates: Rates) -> int:
        """Energy of the DRAM."""
        columns = self.columns_read * rates.read_fj + self.columns_written * rates.write_fj
        return columns + self.activations * rates.activation_fj

    def additions_fj(self, rates: Rates) -> int:
        """Energy of additions and comparisons."""
        return self.additions * rates.addition_fj

    def energy_fj(self, rates: Rates) -> int:
        """All of it."""
        return self.noc_fj(rates) + self.dram_fj(rates) + self.additions_fj(rates)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as prediction and simulation both give it."""
        keys = ("network_cycles", "dram_cycles", "max_link_flits", "flits", "flit_hops", "bytes")
        counts = {"columns": self.columns, "activations": self.activations, "additions": self.additions}
        return {key: getattr(self, key) for key in keys} | counts
