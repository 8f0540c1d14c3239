"""Tables of docs/array-results.md, from the rows of scripts/plans/results.json (`scripts/benchmark_plan.py`)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "array-results.md"
#: Planners beside the optimal one, in the order of columns.
BASELINES = ("sequential", "alternating", "greedy")

Row = dict[str, Any]


def write_page(rows: Row, wanted: list[str]) -> None:
    """Put the tables that have rows between the marks of the page: those of the given marks, or all."""
    text = PAGE.read_text(encoding="utf-8")
    for mark in wanted or TABLES:
        head, is_of, cells = TABLES[mark]
        lines = [f"| {' | '.join(cells(row))} |" for row in rows.values() if is_of(row)]
        if lines:
            start, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
            before, rest = text.split(start)
            table = "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines])
            text = before + start + "\n" + table + "\n" + end + rest.split(end)[1]
    PAGE.write_text(text, encoding="utf-8")


# --- Rows of the tables ----------------------------------------------------------------------------------------------


def is_of_baselines(row: Row) -> bool:
    """Whether the sequential baseline ran too, with all the room."""
    return {"plan", "sequential"} <= set(row["plans"]) and not row["capacity"]


def baseline_cells(row: Row) -> Iterator[str]:
    """Latency and energy of each plan, how far it is proven, which were simulated, and the ceiling."""
    plans = row["plans"]
    best = plans["plan"]
    yield f"{row['network']}, {row['array']}"
    yield row["node_costs"]
    yield f"{best['latency_cycles']:,} cycles, {_mj(best)}"
    yield f"{_proof(best)}, {best['cpu_seconds']:.0f} s"
    yield from (_compared(plans.get(name), best) for name in BASELINES)
    yield _simulated([plans[name] for name in ("plan", *BASELINES) if name in plans])
    yield f"{row['ideal_cycles']:,}"
    yield f"{plans['sequential']['latency_cycles'] / row['ideal_cycles']:.2f}"


def is_of_proofs(row: Row) -> bool:
    """Whether one of NicePIM's machines has all the room, and node programs cost their bounds."""
    return "plan" in row["plans"] and not row["capacity"] and not row["arch"] and row["node_costs"] == "bounds"


def proof_cells(row: Row) -> Iterator[str]:
    """What was proven, in how many seconds of one processor."""
    best = row["plans"]["plan"]
    yield from (row["network"], row["array"])
    yield from (f"{best['latency_cycles']:,}", f"{best['bound']:,}", _proof(best), f"{best['cpu_seconds']:.0f} s")
    yield f"{best['partitions_computed']:,} of {best['partitions']:,}"
    yield f"{best['memory_mib']:,.0f} MiB" if "memory_mib" in best else "-"
    for key in ("toured_cycles", "saved_by_tours"):
        yield f"{100 * best[key] / best['latency_cycles']:.2f} %" if key in best else "-"


def is_of_solved(row: Row) -> bool:
    """Whether node programs of one of NicePIM's machines were solved."""
    return "plan" in row["plans"] and not row["capacity"] and not row["arch"] and row["node_costs"] == "solved"


def solved_cells(row: Row) -> Iterator[str]:
    """What was proven with a store of node problems, and how many of them were solved, now or before."""
    best = row["plans"]["plan"]
    yield from (row["network"], row["array"])
    yield from (f"{best['latency_cycles']:,}", f"{best['bound']:,}", _proof(best), _mj(best))
    yield f"{best['cpu_seconds']:.0f} s"
    yield f"{best['node_solves']:,} ({best['node_reused']:,})"
    yield f"{best['node_problems']:,}"
    yield _simulated([best])


def is_of_capacities(row: Row) -> bool:
    """Whether a node has less room than the machine's."""
    return "plan" in row["plans"] and bool(row["capacity"])


def capacity_cells(row: Row) -> Iterator[str]:
    """The best plan that fits, and what was proven."""
    best = row["plans"]["plan"]
    yield from (row["network"], row["array"])
    yield from (f"{row[key] / 2**20:.2f} MiB" for key in ("capacity", "least_capacity"))
    yield from (f"{best['latency_cycles']:,}", f"{best['bound']:,}", _proof(best), f"{best['cpu_seconds']:.0f} s")
    yield _simulated([best])


def is_of_language_models(row: Row) -> bool:
    """Whether nodes are those of another machine."""
    return "plan" in row["plans"] and bool(row["arch"])


def language_cells(row: Row) -> Iterator[str]:
    """Milliseconds and millijoules of a language model, and what was proven."""
    best = row["plans"]["plan"]
    yield row["network"]
    yield row["arch"]
    yield row["array"] + (", home columns" if row["home_columns"] else "")
    yield from (f"{1000 * best[key] / row['clock']:.3f} ms" for key in ("latency_cycles", "bound"))
    yield _proof(best)
    yield _mj(best)
    yield f"{best['cpu_seconds']:.0f} s"
    yield _simulated([best])


def is_of_nn_dataflow(row: Row) -> bool:
    """Whether a schedule was replayed."""
    return {"nn_dataflow", "plan"} <= set(row["plans"])


def replay_cells(row: Row) -> Iterator[str]:
    """What nn_dataflow says, what it costs here, and the optimal planner beside it."""
    theirs, ours = row["plans"]["nn_dataflow"], row["plans"]["plan"]
    yield from (row["network"], row["array"], f"{theirs['their_cycles']:,.0f}")
    for figures in (theirs, ours):
        yield from (f"{figures['latency_cycles']:,}", f"{figures['energy_fj'] / 1e12:.2f} mJ")
    yield f"{100 * (ours['latency_cycles'] / theirs['latency_cycles'] - 1):+.1f} %"
    yield _simulated([theirs, ours])


# --- Cells -----------------------------------------------------------------------------------------------------------


def _mj(figures: Row) -> str:
    return f"{figures['energy_fj'] / 1e12:.3f} mJ"


def _proof(best: Row) -> str:
    gap = (best["latency_cycles"] - best["bound"]) / best["latency_cycles"]
    return "OPTIMAL" if best["status"] == "OPTIMAL" else f"gap {100 * gap:.2f} %"


def _compared(figures: Row | None, best: Row) -> str:
    """Latency and energy, and how much more than those of the best plan."""
    if figures is None:
        return "-"
    more = [100 * (figures[key] / best[key] - 1) for key in ("latency_cycles", "energy_fj")]
    cut = " *" if figures["choices_cut"] else ""
    return f"{figures['latency_cycles']:,}{cut} ({more[0]:+.1f} %), {_mj(figures)} ({more[1]:+.1f} %)"


def _simulated(plans: list[Row]) -> str:
    """By how much the simulated latency is off where exact figures are equal; of how many plans."""
    found = [one for one in plans if one["simulated_cycles"] is not None]
    if not found:
        return "no"
    unequal = sum(one["differences"] for one in found)
    off = max((one["simulated_cycles"] / one["latency_cycles"] - 1 for one in found), key=abs)
    text = f"{len(found)} of {len(plans)}" if len(plans) > 1 else "yes"
    return f"{text}, {100 * off:+.2f} %" + (f", {unequal} FIGURES DIFFER" if unequal else "")


#: Of each table: its head, which rows it has, and the cells of one.
TABLES: dict[str, tuple[tuple[str, ...], Callable[[Row], bool], Callable[[Row], Iterator[str]]]] = {
    "baselines": (
        ("network, array", "node costs", "optimal planner", "proof", *BASELINES, "simulated", "ideal", "ceiling"),
        is_of_baselines,
        baseline_cells,
    ),
    "nn_dataflow": (
        ("network", "array", "its own time", "replayed", "energy", "optimal planner", "energy", "latency", "simulated"),
        is_of_nn_dataflow,
        replay_cells,
    ),
    "proofs": (
        ("network", "array", "latency", "bound", "gap", "processor", "partitions computed",
         "memory", "exchanges along tours", "saved by others at most"),
        is_of_proofs,
        proof_cells,
    ),
    "solved": (
        ("network", "array", "latency", "bound", "gap", "energy", "processor", "solved now (known before)", "of",
         "simulated"),
        is_of_solved,
        solved_cells,
    ),
    "capacities": (
        ("network", "array", "capacity of a node", "least that any plan takes", "latency", "bound", "gap", "processor",
         "simulated"),
        is_of_capacities,
        capacity_cells,
    ),
    "language models": (
        ("model", "device", "nodes", "latency", "bound", "gap", "energy", "processor", "simulated"),
        is_of_language_models,
        language_cells,
    ),
}  # fmt: skip
