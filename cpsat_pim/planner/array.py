"""An array of equal nodes and rectangles of it (docs/array.md, section 1)."""

from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.base.validate import is_a, not_negative, one_of, positive

#: 1.1 pJ/bit/hop: NicePIM, section VIII-B.
HOP_FJ_PER_BIT = 1100
MESH, HOST = "mesh", "host"
#: Machines of devices whose banks or units only reach each other over the host.
HOST_DEVICES = ("hbm-pim", "attacc", "gddr6-aim", "upmem")


@frozen(order=True)
class Region:
    """The rectangle of nodes with rows [y, y+h) and columns [x, x+w)."""

    y: int = field(validator=not_negative)
    x: int = field(validator=not_negative)
    h: int = field(validator=positive)
    w: int = field(validator=positive)

    @property
    def size(self) -> int:
        """Nodes of the region."""
        return self.h * self.w

    def overlaps(self, other: "Region") -> bool:
        """Whether a node is in both."""
        rows = self.y < other.y + other.h and other.y < self.y + self.h
        return rows and self.x < other.x + other.w and other.x < self.x + self.w

    def to_list(self) -> list[int]:
        """[y, x, h, w]."""
        return [self.y, self.x, self.h, self.w]


@frozen(kw_only=True)
class NodeArray:
    """`rows` x `cols` nodes and the network between them.

    `flit_bytes` None: half a DRAM column. `hop_fj_per_bit`: fJ for a bit over a link. `router_cycles` a hop.
    `local_port_flits` a cycle into and out of a node. `capacity_bytes` None: the node's DRAM level.

    Raises:
        ValueError: a field is out of range.
    """

    rows: int = field(validator=positive)
    cols: int = field(validator=positive)
    node: PIMArchitecture = field(validator=is_a(PIMArchitecture))
    flit_bytes: int = field(validator=positive)
    hop_fj_per_bit: int = field(default=HOP_FJ_PER_BIT, validator=not_negative)
    router_cycles: int = field(default=1, validator=not_negative)
    local_port_flits: int = field(default=1, validator=positive)
    capacity_bytes: int = field(validator=positive)
    interconnect: str = field(default=MESH, validator=one_of(MESH, HOST))

    @flit_bytes.default
    def _half_a_column(self) -> int:
        return max(1, self.node.column_bytes // 2)

    @capacity_bytes.default
    def _dram_bytes(self) -> int:
        return self.node.hierarchy[Level.DRAM].capacity_bytes

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.rows * self.cols

    @property
    def whole(self) -> Region:
        """All of the array."""
        return Region(0, 0, self.rows, self.cols)

    def numbers(self, region: Region) -> Iterator[int]:
        """The nodes of a region, row by row."""
        for y in range(region.y, region.y + region.h):
            yield from range(y * self.cols + region.x, y * self.cols + region.x + region.w)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the node by its name."""
        keys = ("flit_bytes", "hop_fj_per_bit", "router_cycles", "local_port_flits", "capacity_bytes", "interconnect")
        return {"rows": self.rows, "cols": self.cols, "node": self.node.name} | {k: getattr(self, k) for k in keys}


def default_interconnect(node: PIMArchitecture) -> str:
    """Return `host` for the devices that have no network between nodes, else `mesh`."""
    return HOST if node.name in HOST_DEVICES else MESH


def default_array(node: PIMArchitecture) -> NodeArray:
    """An architecture's vaults x units."""
    return NodeArray(rows=node.vault_count, cols=node.pu_count, node=node, interconnect=default_interconnect(node))


def parse_array(text: str, node: PIMArchitecture) -> NodeArray:
    """The array of `4x8` nodes.

    Raises:
        ValueError: the text is not two positive integers.
    """
    sides = text.split("x")
    if len(sides) != 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
        raise ValueError(f"array: must be rows x columns, like 4x8 (got {text!r})")
    return NodeArray(rows=int(sides[0]), cols=int(sides[1]), node=node, interconnect=default_interconnect(node))
