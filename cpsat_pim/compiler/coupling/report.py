"""A decision as text and as JSON."""

from typing import Any

from cpsat_pim.compiler.coupling.model import Decision, Problem
from cpsat_pim.compiler.plan import mapping_data

#: Version of the JSON that `as_data` returns.
FORMAT = 1


def format_decision(problem: Problem, decided: Decision) -> str:
    """Status and gap, a line a layer, and what every batch size takes."""
    batches = ", ".join(map(str, problem.batches))
    unit, scale = ("ms", 1e9) if decided.objective == "time" else ("J", 1e15)
    lines = [
        f"{problem.model.name}, batch {batches}, {problem.lengths[0]} to {problem.lengths[-1]} tokens",
        f"{decided.objective:13} {decided.value / scale:.3f} {unit} for all tokens "
        f"({decided.status}: no choice takes less than {decided.bound / scale:.3f}, gap {100 * decided.gap:.3f} %)",
    ]
    for name, option in decided.weights.items():
        times = ", ".join(f"{time / 1e6:.2f}" for time in option.times_ps)
        lines.append(f"{name:13} {option.describe()}; {times} us")
    for batch, attention in decided.attentions.items():
        mean = attention.time_ps / len(problem.lengths) / 1e6
        lines.append(f"{f'attention x{batch}':13} {attention.place}; {mean:.2f} us in the mean of all lengths")
    for batch in problem.batches:
        tokens = len(problem.lengths)
        lines.append(
            f"{f'batch {batch}':13} {problem.time_ps(decided, batch) / tokens / 1e9:.4f} ms and "
            f"{problem.energy_fj(decided, batch) / tokens / 1e12:.2f} mJ a token; "
            f"{problem.stored_bytes(decided, batch) / 2**30:.1f} of {problem.capacity_bytes / 2**30:.1f} GiB"
        )
    return "\n".join(lines)


def as_data(problem: Problem, decided: Decision) -> dict[str, Any]:
    """The decision as JSON takes it; picoseconds and femtojoules."""
    return {
        "format": FORMAT,
        "status": decided.status,
        "goal": decided.objective,
        "objective": decided.value,
        "bound": decided.bound,
        "unit": "ps" if decided.objective == "time" else "fJ",
        "model": problem.model.name,
        "batches": list(problem.batches),
        "lengths": [problem.lengths[0], problem.lengths[-1]],
        "weights": {
            name: {
                "on_pim": list(option.on_pim),
                "sixteenths": option.sixteenths,
                "times_ps": list(option.times_ps),
                "energies_fj": list(option.energies_fj),
                "stored_bytes": option.stored_bytes,
                "mappings": [mapping_data(mapping) for mapping in option.mappings],
            }
            for name, option in decided.weights.items()
        },
        "attention": {
            str(batch): {
                "place": found.place,
                "time_ps": found.time_ps,
                "bound_ps": found.bound_ps,
                "energy_fj": found.energy_fj,
                "stored_bytes": found.stored_bytes,
                "mappings": [mapping_data(mapping) for mapping in found.mappings],
            }
            for batch, found in decided.attentions.items()
        },
        "batch": {
            str(batch): {
                "time_ps": problem.time_ps(decided, batch),
                "energy_fj": problem.energy_fj(decided, batch),
                "stored_bytes": problem.stored_bytes(decided, batch),
            }
            for batch in problem.batches
        },
        "capacity_bytes": problem.capacity_bytes,
        "space": {
            "weights": {name: len(options) for name, options in problem.weights.items()},
            "attention": {str(batch): len(options) for batch, options in problem.attentions.items()},
        },
    }
