"""The same rings with rows and columns exchanged.

A route that moves along the row first becomes, in the transposed mesh, one that moves along the column first: that is
the XY route from its end to its beginning, walked backwards. So transposed rings, run in the other direction, load the
opposite of the transposed links, and the heaviest load stays the same. Bounds carry over for the same reason.
"""

from attrs import evolve

from cpsat_pim.planner.rings.certificate import Certificate, LinkWeights, Search, SetProof
from cpsat_pim.planner.rings.cuts import Block
from cpsat_pim.planner.rings.instance import Instance, Mesh
from cpsat_pim.planner.rings.routes import link_ends
from cpsat_pim.planner.rings.schedule import Schedule


def transposed_schedule(schedule: Schedule) -> Schedule:
    """Return the schedule of the transposed instance."""
    mesh = schedule.instance.mesh
    return evolve(
        schedule,
        instance=transposed_instance(schedule.instance),
        rings=tuple(_transposed(ring[::-1], mesh) for ring in schedule.rings),
        certificate=_transposed_certificate(schedule.certificate, schedule.instance),
    )


def sorted_schedule(schedule: Schedule) -> Schedule:
    """Return the same schedule with nodes in increasing order in each set, and sets by their first node."""
    instance = schedule.instance
    order = sorted(range(len(instance.sets)), key=lambda s: min(instance.sets[s]))
    certificate = schedule.certificate
    if isinstance(certificate, LinkWeights):
        proofs = tuple(_sorted_proof(certificate.proofs[s], instance.sets[s]) for s in order)
        certificate = evolve(certificate, proofs=proofs)
    return evolve(
        schedule,
        instance=evolve(instance, sets=[sorted(instance.sets[s]) for s in order]),
        rings=tuple(schedule.rings[s] for s in order),
        certificate=certificate,
    )


def _sorted_proof(proof: SetProof, nodes: tuple[int, ...]) -> SetProof:
    order = sorted(range(len(nodes)), key=lambda i: nodes[i])
    leaving, entering = (tuple(numbers[i] for i in order) for numbers in (proof.leaving, proof.entering))
    return evolve(proof, leaving=leaving, entering=entering)


def transposed_instance(instance: Instance) -> Instance:
    """Return the instance with rows and columns exchanged; sets and their nodes keep their order."""
    mask = None if instance.mask is None else instance.mask.transposed
    sets = [_transposed(nodes, instance.mesh) for nodes in instance.sets]
    return Instance(mesh=instance.mesh.transposed, sets=sets, mask=mask)


def _transposed(nodes: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
    return tuple(node % mesh.cols * mesh.rows + node // mesh.cols for node in nodes)


def _transposed_certificate(certificate: Certificate, instance: Instance) -> Certificate:
    """As many links enter a block as leave it, so a block stays one."""
    if isinstance(certificate, Search):
        return certificate
    if isinstance(certificate, Block):
        b = certificate
        return evolve(b, y=b.x, x=b.y, height=b.width, width=b.height)
    mesh = instance.mesh
    weight_of = {
        _transposed((b, a), mesh): weight
        for (a, b), weight in zip(link_ends(mesh).tolist(), certificate.weights, strict=True)
    }
    weights = tuple(weight_of[a, b] for a, b in link_ends(mesh.transposed).tolist())
    pairs = zip(instance.sets, certificate.proofs, strict=True)
    return LinkWeights(weights=weights, proofs=tuple(_transposed_proof(proof, nodes, mesh) for nodes, proof in pairs))


def _transposed_proof(proof: SetProof, nodes: tuple[int, ...], mesh: Mesh) -> SetProof:
    """A ring run backwards leaves a part where it entered it, so it leaves the rest of the set there."""
    parts = tuple((_transposed(tuple(n for n in nodes if n not in part), mesh), value) for part, value in proof.parts)
    return SetProof(leaving=proof.entering, entering=proof.leaving, parts=parts)
