"""A solved network made by hand, without a solver: two layers of one shape that run 1 and 3 times."""

import json
from pathlib import Path
from typing import Any

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.result import NetworkLayer, Objective, SolvedLayer, SolvedNetwork, Status
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

ONES = (1,) * 8
ARCH = PIMArchitecture()
#: 4 x 8 x 6 MACs: P=4 and K=2 of 8 on the array, K=4 in the global buffer, C=6 as 3 x 2 in the PE and its lanes.
LAYER = ConvWorkload(name="a", P=4, C=6, K=8, psum_bytes=4)
MAPPING = Mapping(
    temporal=((1, 1, 1, 1, 3, 1, 1, 1), (1, 1, 1, 1, 1, 4, 1, 1), ONES, ONES),
    spatial=((1, 1, 4, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 2, 1, 1), (1, 1, 1, 1, 2, 1, 1, 1)),
    order=((Dim.C,), (Dim.K,), (), ()),
    stored=((False, True, True), (True, False, False), (False,) * 3),
)


def solved_layer(**changes: Any) -> SolvedLayer:
    """The layer as solved to optimality."""
    prediction = predict(LAYER, ARCH, MAPPING)
    fields: dict[str, Any] = {
        "workload": LAYER,
        "arch": ARCH,
        "objective": Objective.named("energy"),
        "status": Status.OPTIMAL,
        "mapping": MAPPING,
        "prediction": prediction,
        "simulated": simulate(LAYER, ARCH, MAPPING),
        "bound": prediction.figures.energy_fj,
        "solve_seconds": 1.5,
        "solver_info": {},
    }
    return SolvedLayer(**fields | changes)


def solved_network(**changes: Any) -> SolvedNetwork:
    """Layer `a` once and layer `b`, named like a tag, three times; `changes` are of the latter."""
    names = (("a", 1, {}), ("<b>", 3, changes))
    layers = [NetworkLayer(name=n, count=count, after=(), solved=solved_layer(**more)) for n, count, more in names]
    return SolvedNetwork(
        network="pair", arch=ARCH, objective=Objective.named("energy"), layers=tuple(layers), seconds=2.0
    )


def document(**changes: Any) -> dict[str, Any]:
    """The network as a file holds it."""
    text = json.dumps(solved_network(**changes).to_dict())
    data: dict[str, Any] = json.loads(text)
    return data


def shared_bank_document() -> dict[str, Any]:
    """Layer `a` alone on a node of one bank, which all three tensors share."""
    arch, mapping = evolve(ARCH, node_banks=1), evolve(MAPPING, banks=(0, 0, 0))
    prediction, simulated = predict(LAYER, arch, mapping), simulate(LAYER, arch, mapping)
    solved = solved_layer(arch=arch, mapping=mapping, prediction=prediction, simulated=simulated)
    layer = NetworkLayer(name="a", count=1, after=(), solved=solved)
    network = SolvedNetwork(
        network="one bank", arch=arch, objective=Objective.named("energy"), layers=(layer,), seconds=2.0
    )
    data: dict[str, Any] = json.loads(json.dumps(network.to_dict()))
    return data


def write_results(path: Path, **changes: Any) -> Path:
    """The file."""
    path.write_text(json.dumps(document(**changes)))
    return path


UNMAPPED: dict[str, Any] = {"mapping": None, "prediction": None, "simulated": None, "status": Status.UNKNOWN}
