"""The limits of a problem, one by one, and the problem without some of them.

A limit is lifted by a value that restricts no mapping: a buffer that holds whole tensors, a tensor that a level may
store or not, an absent constraint. The rest of the problem is fixed: the layer, the rules of a mapping, the length of a
row, and, where there is a budget, the cost of accesses and all speeds.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from attrs import asdict, evolve, field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.pe_array import LANE_DIMS
from cpsat_pim.arch.reading import change_arch
from cpsat_pim.base.dims import BUFFERS, LAYOUT_ORDERS, ON_CHIP, Dim, Direction, Level, Tensor
from cpsat_pim.mapper.result import NO_LIMIT, Budget
from cpsat_pim.mapping import ONE_BANK, banks_text
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.workload import ConvWorkload

#: More than any buffer of a real machine, and little enough to be counted with.
_MOST_BYTES = 2**60


@frozen(kw_only=True)
class Problem:
    """A layer, a machine, and the constraints and the budget that mappings keep."""

    layer: ConvWorkload
    arch: PIMArchitecture
    constraints: Constraints = FREE
    budget: Budget = NO_LIMIT


@frozen(kw_only=True)
class Case:
    """A problem with some limits lifted.

    `stores`: the tensors that levels must (True) or cannot store. `changes`: of the machine, by the paths of its files.
    """

    base: Problem
    stores: dict[tuple[Level, Tensor], bool]
    changes: dict[str, Any] = field(factory=dict)

    def problem(self) -> Problem | None:
        """Return the problem; None if a level must store what it cannot."""
        arch = change_arch(self.base.arch, self.changes) if self.changes else self.base.arch
        stored = [list(row) for row in self.base.constraints.stored]
        for (level, tensor), is_stored in self.stores.items():
            if stored[level][tensor] not in (None, is_stored):
                return None
            stored[level][tensor] = is_stored
        return evolve(self.base, arch=arch, constraints=evolve(self.base.constraints, stored=stored))

    def changed(self, changes: dict[str, Any]) -> "Case":
        """Return the case with other values in the machine."""
        return evolve(self, changes=self.changes | changes)

    def without_store(self, level: Level, tensor: Tensor) -> "Case":
        """Return the case in which a level may store a tensor or not."""
        return evolve(self, stores={key: value for key, value in self.stores.items() if key != (level, tensor)})

    def with_constraints(self, **fields: Any) -> "Case":
        """Return the case with other constraints."""
        return evolve(self, base=evolve(self.base, constraints=evolve(self.base.constraints, **fields)))

    def with_budget(self, **fields: Any) -> "Case":
        """Return the case with another budget."""
        return evolve(self, base=evolve(self.base, budget=evolve(self.base.budget, **fields)))


@frozen(kw_only=True)
class Limit:
    """A limit by its `name` in files, what it belongs to (`of`: machine, constraints or budget), and its `value`.

    `lifted`: the value that restricts no mapping. `values`: of a number, those from the next one to `lifted`; each
    allows all mappings that those before it allow.
    """

    name: str
    of: str = field(eq=False)
    value: Any = field(eq=False)
    lifted: Any = field(eq=False)
    change: Callable[[Case, Any], Case] = field(eq=False, repr=False)
    values: range | None = field(default=None, eq=False, repr=False)

    def lift(self, case: Case) -> Case:
        """Return the case without the limit."""
        return self.change(case, self.lifted)


def limits_of(problem: Problem) -> tuple[Case, tuple[Limit, ...]]:
    """Return a problem as a case, and all its limits that may restrict a mapping."""
    limits = [
        *_capacities(problem),
        *_stores(problem.arch),
        *_array(problem),
        *_columns(problem),
        *_banks(problem.arch),
        *_constraints(problem.constraints),
        *_budgets(problem.budget),
    ]
    levels = [evolve(level, stores=(True, True, True), bypass_defined=False) for level in problem.arch.hierarchy]
    base = evolve(problem, arch=evolve(problem.arch, hierarchy=tuple(levels)))
    return Case(base=base, stores=_stored(problem.arch)), tuple(limits)


# --- The machine -----------------------------------------------------------------------------------------------------


def _of_machine(path: str, value: Any, lifted: Any, values: range | None = None, **lanes: int) -> Limit:
    """Return the limit of a field of the machine, and perhaps the lanes that it has to have."""
    others = {f"pe_array.compute_unit.{key}": number for key, number in lanes.items()}
    return Limit(
        name=path,
        of="machine",
        value=value,
        lifted=lifted,
        change=lambda case, new: case.changed({path: new} | others),
        values=values,
    )


def _number(path: str, value: int, lifted: int) -> Limit:
    """Return the limit of a field that allows more the larger it is."""
    return _of_machine(path, value, lifted, range(value + 1, lifted + 1))


def _capacities(problem: Problem) -> Iterator[Limit]:
    """Yield buffers that do not hold whole tensors, and double buffers.

    To lift double buffering makes room, but the machine slower, so it is fixed where cycles are limited.
    """
    for level in Level:
        memory = problem.arch.hierarchy[level]
        small = list(_small_buffers(problem, level))
        yield from small
        if small and level in ON_CHIP and memory.double_buffered and problem.budget.cycles is None:
            yield _of_machine(f"hierarchy.{level.name}.double_buffered", True, False)


def _small_buffers(problem: Problem, level: Level) -> Iterator[Limit]:
    """Yield the entries of a level's buffers that do not hold whole tensors."""
    arch, path = problem.arch, f"hierarchy.{level.name}.entries"
    memory, most = arch.hierarchy[level], _most_bytes(problem, level)
    if isinstance(memory.entries, int):
        sizes = {path: (memory.entries, arch.usable_bytes(level), min(sum(most.values()), _MOST_BYTES))}
    else:
        sizes = {
            f"{path}.{t.name}": (memory.entries_of(t), arch.usable_bytes_of(level, t), min(most[t], _MOST_BYTES // 4))
            for t in Tensor
        }
    for name, (entries, usable, enough) in sizes.items():
        if usable < enough:
            yield _number(name, entries, -(-2 * enough // memory.word_bytes))


def _most_bytes(problem: Problem, level: Level) -> dict[Tensor, int]:
    """Return the most bytes that tensors take: all of each; in DRAM a row per element, with blocks half empty."""
    layer, widths = problem.layer, problem.layer.width_bytes
    times, row = (4, problem.arch.row_bytes) if level is Level.DRAM else (1, 0)
    return {t: times * layer.elements(t) * (widths[3 if t is Tensor.O else t] + row) for t in Tensor}


def _stored(arch: PIMArchitecture) -> dict[tuple[Level, Tensor], bool]:
    """Return the tensors that levels must store, and cannot store for another reason than the size of their buffers."""
    levels = {level: arch.hierarchy[level] for level in BUFFERS}
    return {
        (level, t): memory.stores[t]
        for level, memory in levels.items()
        for t in Tensor
        if memory.bypass_defined or not memory.stores[t]
    }


def _stores(arch: PIMArchitecture) -> Iterator[Limit]:
    """Yield `stores` and `bypass_defined`, tensor by tensor."""
    for (level, tensor), is_stored in _stored(arch).items():
        yield Limit(
            name=f"hierarchy.{level.name}.stores.{tensor.name}",
            of="machine",
            value=is_stored,
            lifted=None,
            change=lambda case, _, level=level, tensor=tensor: case.without_store(level, tensor),  # type: ignore[misc]
        )


def _array(problem: Problem) -> Iterator[Limit]:
    """Yield rows, columns and lanes of which constraints ask for more than there are."""
    array = problem.arch.pe_array
    wanted = {s: _most_places(problem, s) for s in Direction}
    for direction, side in ((Direction.H, "h"), (Direction.W, "w")):
        there = getattr(array.array_shape, side)
        if wanted[direction] > there:
            yield _number(f"pe_array.array_shape.{side}", there, wanted[direction])
    if max(wanted.values()) > 1:
        yield from _lanes(problem, wanted[Direction.INTERNAL])
        if array.exclusive_spatial:
            yield _of_machine("pe_array.exclusive_spatial", True, False)


def _lanes(problem: Problem, wanted: int) -> Iterator[Limit]:
    """Yield the number of lanes, and which dims may be spread over them."""
    unit, path = problem.arch.pe_array.compute_unit, "pe_array.compute_unit"
    is_scalar = unit.unit_type == "scalar"
    if wanted > unit.num_macs and not is_scalar:
        yield _number(f"{path}.num_macs", unit.num_macs, wanted)
    if unit.internal_dim is not None:
        yield _of_machine(f"{path}.internal_dim", Dim(unit.internal_dim).name, None)
    if len(LANE_DIMS[unit.unit_type]) < len(Dim):
        lanes = {"num_macs": wanted} if is_scalar else {}
        yield _of_machine(f"{path}.unit_type", unit.unit_type, "simd", None, **lanes)


def _most_places(problem: Problem, direction: Direction) -> int:
    """Return the most places along a direction that are of use: factors that are fixed there, those that find no loop
    elsewhere, and for a dataflow class one dim that is spread.
    """
    places = math.prod(n or 1 for n in problem.constraints.spatial[direction])
    places *= math.prod(_homeless(problem, dim) for dim in Dim)
    return places * (max(problem.layer.bounds) if problem.constraints.dataflow else 1)


def _homeless(problem: Problem, dim: Dim) -> int:
    """Return the rest of a dim's bound if all its loops are fixed, else 1."""
    loops = [row[dim] for row in problem.constraints.temporal]
    return max(1, problem.layer.bounds[dim] // math.prod(n or 1 for n in loops)) if all(loops) else 1


def _columns(problem: Problem) -> Iterator[Limit]:
    """Yield the width of a column if elements do not fill whole ones; rows consist of whole columns."""
    bits, row = problem.arch.dram_timings.co_w, problem.arch.row_bytes
    whole = math.lcm(*(int(8 * width) for width in problem.layer.width_bytes))
    if bits % whole:
        name, enough = "dram_timings.co_w", -(-bits // whole) * whole
        yield Limit(
            name=name,
            of="machine",
            value=bits,
            lifted=enough,
            change=lambda case, new: case.changed(
                {name: new, "hierarchy.ROW_BUFFER.row_buffer_size": -(-row // (new // 8)) * (new // 8)}
            ),
            values=range(enough, enough + 1),
        )


def _banks(arch: PIMArchitecture) -> Iterator[Limit]:
    """Yield the number of banks of a node. Without it each tensor has banks of its own, as large as the DRAM: what
    constraints say of the node's banks is void.
    """
    if arch.node_banks is not None:
        yield Limit(
            name="node_banks",
            of="machine",
            value=arch.node_banks,
            lifted=None,
            change=lambda case, new: case.changed({"node_banks": new}).with_constraints(
                banks=None, bank_counts=ONE_BANK
            ),
        )


# --- Constraints and budget ------------------------------------------------------------------------------------------


def _constraints(constraints: Constraints) -> Iterator[Limit]:
    """Yield everything that constraints fix, as their file names it."""
    tables = (("temporal", Level, Dim), ("spatial", Direction, Dim), ("stored", BUFFERS, Tensor))
    for table, places, members in tables:
        rows = getattr(constraints, table)
        for place, member in ((p, x) for p in places for x in members if rows[p][x] is not None):
            name = f"{table}.{place.name}.{member.name}"
            yield _of_constraints(name, rows[place][member], _without_entry(table, place, member))
    for level in (m for m in Level if constraints.order[m]):
        letters = "".join(dim.name for dim in constraints.order[level])
        yield _of_constraints(f"order.{level.name}", letters, _without_order(level))
    for tensor in (t for t in Tensor if constraints.layout[t] is not None):
        order = LAYOUT_ORDERS[tensor][constraints.layout[tensor] or 0]
        yield _of_constraints(f"layout.{tensor.name}", order, _without_layout(tensor))
    if constraints.dataflow:
        yield _of_constraints("dataflow", constraints.dataflow.value, lambda case: case.with_constraints(dataflow=None))
    if constraints.banks:
        yield _of_constraints("banks", banks_text(constraints.banks), lambda case: case.with_constraints(banks=None))
    if constraints.bank_counts not in (ONE_BANK, None):
        counts = list(constraints.bank_counts or ())
        yield _of_constraints("bank_counts", counts, lambda case: case.with_constraints(bank_counts=None))


def _of_constraints(name: str, value: Any, lift: Callable[[Case], Case]) -> Limit:
    return Limit(name=name, of="constraints", value=value, lifted=None, change=lambda case, _: lift(case))


def _without_entry(table: str, place: int, member: int) -> Callable[[Case], Case]:
    def lift(case: Case) -> Case:
        rows = [list(row) for row in getattr(case.base.constraints, table)]
        rows[place][member] = None
        return case.with_constraints(**{table: rows})

    return lift


def _without_order(level: Level) -> Callable[[Case], Case]:
    def lift(case: Case) -> Case:
        order = case.base.constraints.order
        return case.with_constraints(order=[() if m is level else order[m] for m in Level])

    return lift


def _without_layout(tensor: Tensor) -> Callable[[Case], Case]:
    def lift(case: Case) -> Case:
        layout = case.base.constraints.layout
        return case.with_constraints(layout=tuple(None if t is tensor else layout[t] for t in Tensor))

    return lift


def _budgets(budget: Budget) -> Iterator[Limit]:
    """Yield the limits of a budget."""
    for name, value in asdict(budget).items():
        if value is not None:
            yield Limit(
                name=f"budget.{name}",
                of="budget",
                value=value,
                lifted=None,
                change=lambda case, new, name=name: case.with_budget(**{name: new}),  # type: ignore[misc]
            )
