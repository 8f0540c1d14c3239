"""The JSON document of solved layers, schema 1 (docs/json.md): its frame and the totals of its layers' entries."""

import math
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.evaluate.performance import performance_of

SCHEMA = 1

#: An object of JSON.
Entry = dict[str, Any]


def build_document(
    *, network: str, arch: Entry, objective: Entry, layers: list[Entry], seconds: float, interrupted: bool
) -> Entry:
    """Assemble a document from its parts, and add the totals over the layers' entries.

    `nodes` among the totals is the number of nodes of the machine. All figures are of one of them. `performance` among
    them is that of the layers with a mapping.
    """
    nodes = arch["vault_count"] * arch["pu_count"]
    totals = _totals(layers)
    totals["performance"] = _performance(arch, totals, layers)
    return {
        "schema": SCHEMA,
        "network": network,
        "arch": arch,
        "objective": objective,
        "layers": layers,
        "totals": totals | {"nodes": nodes, "seconds": round(seconds, 3), "interrupted": interrupted},
    }


def _totals(layers: list[Entry]) -> Entry:
    """Sum the layers' entries times their counts; only layers with a mapping have costs."""
    mapped = [layer for layer in layers if layer["mapping"]]

    def total(cost: Callable[[Entry], int]) -> int:
        return sum(layer["count"] * cost(layer["predicted"]) for layer in mapped)

    def total_of(key: str) -> int | float:
        total: int | float = sum(layer["count"] * (layer[key] or 0) for layer in mapped)
        return total

    return {
        "layers": sum(layer["count"] for layer in layers),
        "mapped": sum(layer["count"] for layer in mapped),
        "macs": sum(layer["count"] * useful_macs(layer["shape"]) for layer in layers),
        "latency_cycles": total(itemgetter("latency_cycles")),
        "energy_fj": total(itemgetter("energy_fj")),
        "objective": total_of("objective"),
        "bound": total_of("bound"),
        "row_activations": {t.name: total(lambda p, t=t: p["row_activations"][t.name]) for t in Tensor},  # type: ignore[misc]
    }


def _performance(arch: Entry, totals: Entry, layers: list[Entry]) -> Entry | None:
    """Return the performance of all layers with a mapping, one after the other; None without a clock."""
    macs = sum(layer["count"] * useful_macs(layer["shape"]) for layer in layers if layer["mapping"])
    found = performance_of(arch, totals["latency_cycles"], totals["energy_fj"], macs)
    return found.to_dict() if found else None


def useful_macs(shape: Entry) -> int:
    """Count the multiply-accumulates of a shape without those of the padding."""
    return math.prod(shape[d.name] - shape.get("zeros", {}).get(d.name, 0) for d in Dim)
