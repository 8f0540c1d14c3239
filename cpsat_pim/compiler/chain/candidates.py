"""The candidates of every statement: the host, and mappings of the device with their exact times and rows of banks.

Mappings of a statement are its best one (and, of a matrix that must be packed, its best one with the packing
charged), and the best ones of other statements with the same matrix: then one copy of the matrix may serve both.
"""

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from cpsat_pim.compiler.broadcast import AnyMapping, best_of_kernel, lowered_of
from cpsat_pim.compiler.broadcast import Lowered as BroadcastLowered
from cpsat_pim.compiler.chain.roofline import host_time, result_elements, roofline_ps
from cpsat_pim.compiler.chain.statements import Part
from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.host import Host, host_of
from cpsat_pim.compiler.language import Affine, KernelMistake
from cpsat_pim.compiler.lowering import Lowered, lower
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction, matrix_rows
from cpsat_pim.compiler.lowering.bank_contraction import problem as bank_problem
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.data import Placement
from cpsat_pim.compiler.lowering.in_order import problem as in_order_problem
from cpsat_pim.compiler.lowering.in_order_elementwise import InOrderElementwise
from cpsat_pim.compiler.lowering.targets import bank_target, broadcast_target, has_bank_mode, in_order_target
from cpsat_pim.compiler.mapping import Contraction, Mapping, contraction_of
from cpsat_pim.compiler.mapping.contraction import BATCH, DEPTH, OUTPUTS
from cpsat_pim.compiler.mapping.elementwise import SpreadMapping
from cpsat_pim.compiler.search.objective import best_by, matrix_ps
from cpsat_pim.compiler.search.space import output_ps
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import Device
from tables.commands.steps import ceiling

HOST, PIM = "host", "PIM"


@frozen(kw_only=True)
class Layout:
    """A matrix in the banks: equal `key`s mean equal contents. `rows` of every bank; `packing_ps`: 0 if resident."""

    key: tuple[Any, ...]
    tensor: str
    rows: int
    packing_ps: int


@frozen(kw_only=True)
class Candidate:
    """A way to compute a statement, in picoseconds without packing. `added_ps`: of these the host's addition of the
    result to earlier values. `working_rows`: rows that elements take while the statement runs, and only then."""

    place: str
    time_ps: int
    formula: str = ""
    mapping: Mapping | AnyMapping | None = None
    ticks: int = 0
    added_ps: int = 0
    working_rows: int = 0
    layout: Layout | None = None


@frozen
class Choices:
    """The candidates of a statement; if the device has none, `reason` says why. `mappings`: how many its best mapping
    is the best of."""

    part: Part
    candidates: tuple[Candidate, ...]
    reason: str
    mappings: int


@frozen
class Setting:
    """What all statements share; with `packs` parameters are packed for every run, too."""

    device: Device
    channels: int
    packs: bool = False

    @property
    def host(self) -> Host:
        """The host that the device names."""
        return host_of(self.device)

    @property
    def has_host(self) -> bool:
        """Whether the device names a host; UPMEM has another kind of host, which is not modelled."""
        return self.device.system.host is not None

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.device.core.element_bytes


def candidates_of(parts: tuple[Part, ...], setting: Setting) -> tuple[Choices, ...]:
    """The candidates of all statements.

    Raises:
        KernelMistake: a statement has none: no mapping, and the host is not modelled.
    """
    found = [_own_mappings(part, setting) for part in parts]
    result = []
    for part, (mappings, reason, count) in zip(parts, found, strict=True):
        form = _matrix_form(part, mappings)
        others = [
            mapping
            for other, (given, _, _) in zip(parts, found, strict=True)
            if form is not None and other is not part and _matrix_form(other, given) == form
            for mapping in given
        ]
        tried = [(mapping, False) for mapping in mappings] + [(mapping, True) for mapping in others]
        on_pim = {mapping: made for mapping, checks in tried if (made := _candidate(part, mapping, setting, checks))}
        candidates = (*_on_host(part, setting), *on_pim.values())
        if not candidates:
            raise KernelMistake(f"{reason} (the host of {setting.device.name} is not modelled)")
        result.append(Choices(part, candidates, reason, count))
    return tuple(result)


def _on_host(part: Part, setting: Setting) -> tuple[Candidate, ...]:
    """The statement on the host, if the device has a model of it."""
    if not setting.has_host:
        return ()
    time_ps, formula = host_time(part, setting.host, setting.element_bytes)
    return (Candidate(place=HOST, time_ps=time_ps, formula=formula),)


def _own_mappings(part: Part, setting: Setting) -> tuple[list[Any], str, int]:
    """The best mappings of a statement by itself, or why there is none; and how many there are in all."""
    mappings, count = [], 0
    if any(loop.extent == 0 for loop in part.statement.loops):
        return [], f"{part.statement.place}: the loops have no iterations", 0
    if part.adds and not setting.has_host:
        return [], f"{part.statement.place}: expected a sum that starts from zeros: the host adds to other values", 0
    try:
        for packs in (False, True) if _may_be_packed(part, setting) else (False,):
            found, count = _best(part, setting, packs)
            mappings.append(found)
    except KernelMistake as mistake:
        return [], str(mistake), 0
    return list(dict.fromkeys(mappings)), "", count


def _best(part: Part, setting: Setting, packs: bool) -> tuple[Any, int]:
    """The mapping of least time, and how many there are."""
    device, kernel = setting.device, part.kernel
    if not is_attacc_like(device):
        best = best_of_kernel(kernel, device, setting.channels, "time", packs)
        return best.mapping, best.mappings
    contraction = contraction_of(kernel, part.statement)
    answer = best_by("time", contraction, target_of(device), setting.channels, packs)
    if answer is None:
        raise KernelMistake(f"{part.statement.place}: no mapping fits the banks of {device.name}")
    return answer.optimum.mapping, answer.optimum.mappings


def _may_be_packed(part: Part, setting: Setting) -> bool:
    """Whether the statement is a product whose matrix is not resident."""
    try:
        matrix = contraction_of(part.kernel, part.statement).matrix.tensor
    except KernelMistake:
        return False
    return setting.packs or part.versions[matrix] >= 0


def _candidate(part: Part, mapping: Any, setting: Setting, checks: bool) -> Candidate | None:
    """A mapping with its exact time; None if `checks` and the device cannot run it."""
    if checks and _problem(part, mapping, setting) is not None:
        return None
    added = 0
    if part.adds:
        elements = result_elements(part)  # the host reads both terms and writes the sum
        added = roofline_ps(setting.host, elements, 3 * elements * setting.element_bytes)
    lowered = lowered_part(part, mapping, setting.device)
    if isinstance(lowered, Lowered):
        target = target_of(setting.device)
        contraction = contraction_of(part.kernel, part.statement).with_hull(mapping.hull)
        ticks, read = lowered.ticks, output_ps(contraction, target, setting.host, mapping.splits)
        columns = Placement(lowered, contraction, target).bank_columns
        rows, working = ceiling(columns, setting.device.core.columns), 0
    else:
        ticks, read = lowered.program.ticks, 0
        rows, working = _rows(lowered)
    return Candidate(
        place=PIM,
        time_ps=ticks * setting.device.tick_ps + read + added,
        mapping=mapping,
        ticks=ticks,
        added_ps=added,
        working_rows=working,
        layout=_layout(part, mapping, rows, setting),
    )


def lowered_part(part: Part, mapping: Any, device: Device) -> Any:
    """The commands of a statement under a mapping."""
    if is_attacc_like(device):
        return lower(mapping, contraction_of(part.kernel, part.statement), target_of(device))
    return lowered_of(part.kernel, mapping, device)


def _rows(lowered: BroadcastLowered) -> tuple[int, int]:
    """Rows of the matrix, and rows in use while the statement runs."""
    if isinstance(lowered, BankElementwise | InOrderElementwise):
        return 0, lowered.program.bank_rows
    if isinstance(lowered, BankContraction):
        return matrix_rows(lowered.elements.passes, lowered.target), 0
    return lowered.program.bank_rows, 0


def _problem(part: Part, mapping: Any, setting: Setting) -> str | None:
    """Why the device cannot run another statement's mapping of the same matrix, or None."""
    contraction, device = contraction_of(part.kernel, part.statement), setting.device
    if mapping.hull:
        return "loop variables of a hull are named in their own statement only"
    if is_attacc_like(device):
        return mapping.problem(contraction, target_of(device))  # type: ignore[no-any-return]
    if has_bank_mode(device):
        return bank_problem(mapping, contraction, bank_target(device))
    return in_order_problem(mapping, contraction, in_order_target(device))


def _layout(part: Part, mapping: Any, rows: int, setting: Setting) -> Layout | None:
    """Where the matrix of a product is; None of an elementwise statement."""
    if isinstance(mapping, SpreadMapping):
        return None
    contraction = contraction_of(part.kernel, part.statement).with_hull(mapping.hull)
    packing = 0
    if _may_be_packed(part, setting):
        packing = matrix_ps(contraction, target_of_any(setting.device), mapping.splits)
    # AttAcc: of a matrix over which several vectors walk, no batch element straddles a row (`place_batch`).
    walks = mapping.channel_extents(contraction)[1] > 1
    key = (*(_matrix_form(part, [mapping]) or ()), mapping, walks, part.number if mapping.hull else -1)
    return Layout(key=key, tensor=contraction.matrix.tensor, rows=rows, packing_ps=packing)


def target_of_any(device: Device) -> Any:
    """The compiler's view of any device."""
    if is_attacc_like(device):
        return target_of(device)
    return broadcast_target(device)


def _matrix_form(part: Part, mappings: list[Any]) -> tuple[Any, ...] | None:
    """What two statements with the same matrix have in common: the tensor as the same statement wrote it, and its
    indices by class and place of their loops. None of statements without mappings or without a matrix."""
    if not mappings or isinstance(mappings[0], SpreadMapping):
        return None
    contraction = contraction_of(part.kernel, part.statement)
    matrix, names = contraction.matrix, dict(_class_names(contraction))
    loops = tuple(
        tuple((loop.start, loop.stop) for loop in contraction.loops[number]) for number in (BATCH, OUTPUTS, DEPTH)
    )
    indices = tuple(index.substitute(names) for index in matrix.indices)
    return matrix.tensor, part.versions[matrix.tensor], loops, indices


def _class_names(contraction: Contraction) -> Iterator[tuple[str, Affine]]:
    """A name for every loop variable that two statements have in common."""
    for number, loops in enumerate(contraction.loops):
        for at, loop in enumerate(loops):
            yield loop.variable, Affine.of(f"{number}.{at}")
