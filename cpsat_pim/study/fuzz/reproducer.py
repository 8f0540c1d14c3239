"""Disagreements as files: a reproducer that `simulate` reads, extended by the comparison and its objective."""

from collections.abc import Callable
from pathlib import Path

from cpsat_pim.arch.reading import build_arch
from cpsat_pim.base.files import write_json
from cpsat_pim.base.reading import Value, read_json, read_plain
from cpsat_pim.evaluate.cost import Figures, predict
from cpsat_pim.evaluate.verify import VERSION, reproducer, simulate
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping import ONE_BANK, Mapping
from cpsat_pim.mapping.constraints import CHOOSE, choice_of_bank_counts, fixed_bank_counts
from cpsat_pim.mapping.mapping_file import build_mapping
from cpsat_pim.report.jsonfile import OBJECTIVE
from cpsat_pim.study.fuzz.campaign import Discovery
from cpsat_pim.study.fuzz.compare import COMPARISONS, PINS, Case, Finding, attempt
from cpsat_pim.workload.network import build_layer


def write_discovery(discovery: Discovery, path: str | Path) -> None:
    """Write a disagreement, with the predicted and simulated figures of the mapping that shows it.

    Raises:
        OSError: it cannot be written.
    """
    case, witness = discovery.case, discovery.finding.witness
    predicted = _figures(case, witness, lambda *mapped: predict(*mapped).figures)
    simulated = _figures(case, witness, simulate)
    shown = reproducer(case.layer, case.arch, witness, discovery.finding.lines, predicted, simulated)
    question = {
        "comparison": discovery.comparison,
        "objective": case.objective.to_dict(),
        "pinned": list(case.pinned),
        "bank_counts": list(case.bank_counts) if case.bank_counts else CHOOSE,
    }
    write_json(shown | question, path)


def _figures(case: Case, mapping: Mapping | None, count: Callable[..., Figures]) -> Figures | None:
    """Return the figures of a mapping; None if there is no mapping, or its figures cannot be computed."""
    found = attempt(case, lambda: count(case.layer, case.arch, mapping)) if mapping else None
    return None if isinstance(found, Finding) else found


def read_case(path: str | Path) -> tuple[str, Case]:
    """Read the comparison and the case of such a file; a file without a comparison was written by `run`.

    Raises:
        ValueError: it cannot be read, or something in it is missing or wrong; lines `<file>: ...`.
    """
    data = read_json(path)
    if data.get("version") != VERSION:
        raise ValueError(f"{path}: is no reproducer of version {VERSION}")
    name = str(data.get("comparison", "trace"))
    if name not in COMPARISONS:
        raise ValueError(f"{path}: comparison: must be one of {', '.join(COMPARISONS)} (got {name})")
    layer = build_layer(f"{path}: layer", data.get("layer"))
    arch = build_arch(f"{path}: architecture", data.get("architecture"))
    mapping = build_mapping(f"{path}: mapping", data["mapping"]) if data.get("mapping") else None
    objective = read_plain(f"{path}: objective", data.get("objective", Objective.named("energy").to_dict()), OBJECTIVE)
    pinned = data.get("pinned", [])
    if not isinstance(pinned, list) or not all(name in PINS for name in pinned):
        raise ValueError(f"{path}: pinned: must be a list of {', '.join(PINS)} (got {pinned})")
    counts = read_plain(f"{path}: bank_counts", data.get("bank_counts", ONE_BANK), Value(choice_of_bank_counts))
    return name, Case(
        layer=layer,
        arch=arch,
        objective=objective,
        mapping=mapping,
        pinned=pinned,
        bank_counts=fixed_bank_counts(counts),
    )
