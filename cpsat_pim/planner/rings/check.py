"""A schedule held against `tracesim.rings`, which counts loads and checks certificates by itself."""

from fractions import Fraction
from math import ceil

from cpsat_pim.planner.rings.certificate import LinkWeights, Search
from cpsat_pim.planner.rings.cuts import Block
from cpsat_pim.planner.rings.routes import link_ends
from cpsat_pim.planner.rings.schedule import Schedule
from tracesim.rings import SetBound, block_bound, covers, heaviest_load, weights_bound


class Disagreement(Exception):
    """What is claimed of a schedule is not what is counted."""


def check_schedule(schedule: Schedule) -> None:
    """Count the load of all rings and check the certificate; a search's certificate is taken as it is.

    Raises:
        Disagreement: the rings are no rings of the sets, their load is another one, or the bound is not proven.
    """
    instance = schedule.instance
    if not covers(instance.sets, schedule.rings):
        raise Disagreement(f"{instance.name}: some ring does not visit its set")
    counted = heaviest_load(instance.mesh.cols, schedule.rings)
    if counted != schedule.load:
        raise Disagreement(f"{instance.name}: load {schedule.load} is claimed, {counted} is counted")
    proven = _proven_bound(schedule)
    if proven is not None and ceil(proven) != schedule.bound:
        raise Disagreement(f"{instance.name}: bound {schedule.bound} is claimed, {proven} is proven")


def _proven_bound(schedule: Schedule) -> Fraction | int | None:
    """What the certificate proves; None if only a solver could say."""
    mesh, sets, certificate = schedule.instance.mesh, schedule.instance.sets, schedule.certificate
    if isinstance(certificate, Search):
        return None
    if isinstance(certificate, Block):
        block = (certificate.y, certificate.x, certificate.height, certificate.width)
        return block_bound(mesh.rows, mesh.cols, sets, block)
    return _weights_bound(schedule, certificate)


def _weights_bound(schedule: Schedule, certificate: LinkWeights) -> Fraction:
    mesh, sets = schedule.instance.mesh, schedule.instance.sets
    ends = [(a, b) for a, b in link_ends(mesh).tolist()]
    weights = {link: weight for link, weight in zip(ends, certificate.weights, strict=True) if weight}
    proofs = [SetBound(p.leaving, p.entering, p.parts) for p in certificate.proofs]
    return weights_bound(mesh.rows, mesh.cols, sets, weights, proofs)
