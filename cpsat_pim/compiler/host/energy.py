"""Energy of the host, as AttAcc's published model has it (attacc_simulator c600051, `src/devices.py`, class xPU).

Source of every figure: `src/config.py`, ENERGY_TABLE['GPU'].
"""

from cpsat_pim.compiler.host.attacc_xpu import Product, Tile, l1_tile, l2_tile, traffic_bytes
from cpsat_pim.compiler.host.hosts import Host

#: Femtojoules of a byte: memory (3.59 pJ/bit), L2 (0.3 pJ/bit), L1 (0.16 pJ/bit), registers; of a byte on the link.
MEMORY_FJ, L2_FJ, L1_FJ, REGISTER_FJ, LINK_FJ = 28720, 2400, 1280, 67.5, 10400
#: Femtojoules of a multiplication with its addition.
MAC_FJ = 320
#: Rows and columns of the tile that registers hold (`_get_traffic`).
REGISTER_TILE = Tile(16, 16)


def product_fj(host: Host, work: Product) -> int:
    """Femtojoules of a product: what passes memory, caches and registers, and its MACs."""
    macs = work.flops // 2
    moved = MEMORY_FJ * traffic_bytes(work, l2_tile(host, work)) + L2_FJ * traffic_bytes(work, l1_tile(host, work))
    register = 3 * work.m * work.n * work.k * REGISTER_FJ  # as published: elements of one product, not bytes of all
    return round(moved + L1_FJ * traffic_bytes(work, REGISTER_TILE) + register + MAC_FJ * macs)


def link_fj(moved_bytes: int) -> int:
    """Femtojoules of bytes on the link between host and PIM devices."""
    return LINK_FJ * moved_bytes
