"""Why no rings load every link less: what proves a lower bound, so that others can check it.

A block and link weights are checked by counting, without a solver (`tracesim.rings` does). A search is not: it says
that CP-SAT found no rings at the load below.
"""

from fractions import Fraction
from typing import Any, TypeAlias

from attrs import asdict, frozen

from cpsat_pim.planner.rings.cuts import Block
from cpsat_pim.planner.rings.instance import Instance, Mesh
from cpsat_pim.planner.rings.routes import link_ends


@frozen(kw_only=True)
class SetProof:
    """Numbers that show how long each ring over one set is at least, in weighted links.

    A ring leaves and enters every node once, and leaves every proper part of the set. `leaving` and `entering` are in
    the order of the set; `parts` are nodes and a value.
    """

    leaving: tuple[int, ...]
    entering: tuple[int, ...]
    parts: tuple[tuple[tuple[int, ...], int], ...] = ()

    @property
    def length(self) -> int:
        """No ring is shorter."""
        return sum(self.leaving) + sum(self.entering) + sum(value for _, value in self.parts)


@frozen(kw_only=True)
class LinkWeights:
    """The heaviest load is at least the weighted length of all rings over the weight of all links.

    Attributes:
        weights: int[link], at least 0, not all 0; unit weights count hops.
        proofs: one of each set.
    """

    weights: tuple[int, ...]
    proofs: tuple[SetProof, ...]

    @property
    def ratio(self) -> Fraction:
        """The bound before it is rounded up."""
        return Fraction(sum(proof.length for proof in self.proofs), sum(self.weights))

    @property
    def bound(self) -> int:
        """The load of the heaviest link is at least this."""
        return max(1, -(-self.ratio.numerator // self.ratio.denominator))


@frozen(kw_only=True)
class Search:
    """CP-SAT proved that no rings have a load below `bound`. This cannot be checked without a solver."""

    bound: int
    seconds: float


Certificate: TypeAlias = Block | LinkWeights | Search


def block_as_weights(instance: Instance, block: Block) -> LinkWeights:
    """The same bound as link weights: 1 on the links out of the block, and its part of each set that it splits."""
    cols = instance.mesh.cols

    def is_inside(node: int) -> bool:
        y, x = divmod(node, cols)
        return block.y <= y < block.y + block.height and block.x <= x < block.x + block.width

    weights = tuple(int(is_inside(a) and not is_inside(b)) for a, b in link_ends(instance.mesh).tolist())
    proofs = []
    for nodes in instance.sets:
        inside, zeros = tuple(filter(is_inside, nodes)), (0,) * len(nodes)
        parts = ((inside, 1),) if 0 < len(inside) < len(nodes) else ()
        proofs.append(SetProof(leaving=zeros, entering=zeros, parts=parts))
    return LinkWeights(weights=weights, proofs=tuple(proofs))


def certificate_document(mesh: Mesh, certificate: Certificate) -> dict[str, Any]:
    """For JSON; link weights as [from node, to node, weight], without zeros."""
    if isinstance(certificate, Block):
        return {"kind": "block", "bound": certificate.bound, **asdict(certificate)}
    if isinstance(certificate, Search):
        return {"kind": "search", "bound": certificate.bound, "solver": "CP-SAT"}
    ends = link_ends(mesh).tolist()
    weights = [[*ends[i], weight] for i, weight in enumerate(certificate.weights) if weight]
    kind = "hops" if set(certificate.weights) == {1} else "link weights"
    sets = [asdict(proof) for proof in certificate.proofs]
    return {"kind": kind, "bound": certificate.bound, "weights": weights, "sets": sets}
