"""A compiled kernel: its mapping, its cost with a proof, and what the simulator and the numbers say."""

from collections.abc import Mapping as Names
from functools import singledispatch
from typing import Any

from attrs import asdict, field, frozen

from cpsat_pim.compiler.mapping import CLASSES, Mapping
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping, SpreadMapping
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.search.objective import OBJECTIVES

#: Version of the JSON that `Plan.as_data` returns.
FORMAT = 1


@frozen(kw_only=True)
class Plan:
    """A kernel on a device.

    `mappings`: of every product, by name. `ticks` are those of every channel without refresh, `compute_ticks` those of
    the MACs and rows alone. `host_ps`: reading the results. `bound_ps`: no mapping of the space takes less.
    `space`: how many mappings there are; `walked`: how many of them exactly. `simulated`, `refreshed`: ticks of the
    simulator without and with refresh. `functional`: the channels whose results on numbers were compared, and equal.
    `axis_names`: of the axes that owners cut. `part_ticks`: ticks by `lowering.program.PARTS` where they are known.
    `remarks`: what a reader must know.
    `operations`: of the kernel's statements; a multiply-accumulate is two.
    `goal`: what was minimised, with its `value` and `bound` in femtojoules or picoseconds; those of time are `time_ps`
    and `bound_ps`. `energy_fj`: None if the device file states no energies. `matrix_ps`: packing the matrix, 0 if it is
    resident.
    """

    kernel: str
    sizes: Names[str, int]
    operations: int
    device: str
    tick_ps: int
    channels: int
    mappings: Names[str, Any]
    axis_names: tuple[str, ...]
    ticks: int
    compute_ticks: int
    host_ps: int
    time_ps: int
    bound_ps: int
    space: int
    walked: int
    simulated: int
    refreshed: int
    functional: int
    commands: Names[str, int]
    part_ticks: Names[str, int] = field(factory=dict)
    remarks: tuple[str, ...] = ()
    goal: str = "time"
    value: int | None = None
    energy_fj: int | None = None
    matrix_ps: int = 0

    @property
    def objective(self) -> int:
        """The value of what was minimised."""
        return self.time_ps if self.value is None else self.value

    @property
    def bound(self) -> int:
        """No mapping of the space has a smaller value; objectives other than time are searched to the end."""
        return self.bound_ps if self.value is None else self.value

    @property
    def status(self) -> str:
        """OPTIMAL: the bound is reached."""
        return "OPTIMAL" if self.bound == self.objective else "FEASIBLE"

    @property
    def power_w(self) -> float | None:
        """Mean power of the energy that is known over the time, W."""
        return None if self.energy_fj is None or not self.time_ps else self.energy_fj / self.time_ps / 1e3

    @property
    def tops(self) -> float | None:
        """10^12 operations a second; None where nothing takes time."""
        return self.operations / self.time_ps if self.time_ps else None

    @property
    def tops_per_w(self) -> float | None:
        """10^12 operations per joule of the energy that is known."""
        return 1e3 * self.operations / self.energy_fj if self.energy_fj else None

    def as_data(self) -> dict[str, Any]:
        """The plan as JSON takes it."""
        return {
            "format": FORMAT,
            "status": self.status,
            "goal": self.goal,
            "objective": self.objective,
            "bound": self.bound,
            "unit": OBJECTIVES[self.goal],
            "kernel": self.kernel,
            "sizes": dict(self.sizes),
            "device": self.device,
            "tick_ps": self.tick_ps,
            "channels": self.channels,
            "ticks": self.ticks,
            "parts": {
                "compute_ticks": self.compute_ticks,
                "rearrangement_ticks": self.ticks - self.compute_ticks,
                "host_ps": self.host_ps,
                "matrix_ps": self.matrix_ps,
                **{f"{name.replace(' ', '_')}_ticks": ticks for name, ticks in self.part_ticks.items()},
            },
            "time_ps": self.time_ps,
            "energy_fj": self.energy_fj,
            "power_w": self.power_w,
            "operations": self.operations,
            "tops": self.tops,
            "tops_per_w": self.tops_per_w,
            "commands": dict(self.commands),
            "mapping": {name: mapping_data(mapping) for name, mapping in self.mappings.items()},
            "simulated": {"ticks": self.simulated, "ticks_with_refresh": self.refreshed},
            "functional": {"channels_equal": self.functional},
            "space": {"mappings": self.space, "walked": self.walked},
            "remarks": list(self.remarks),
        }


@singledispatch
def mapping_data(mapping: Any) -> dict[str, Any]:
    """A mapping as JSON takes it."""
    return asdict(mapping)


@mapping_data.register
def _(mapping: BroadcastMapping) -> dict[str, Any]:
    return {
        **asdict(mapping),
        "splits": dict(zip(CLASSES, mapping.splits, strict=True)),
        "owners": [None if owner == UNUSED else CLASSES[owner] for owner in mapping.owners],
        "hull": list(mapping.hull),
    }


@mapping_data.register
def _(mapping: Mapping) -> dict[str, Any]:
    return {
        "splits": dict(zip(CLASSES, mapping.splits, strict=True)),
        "owners": [None if owner == UNUSED else CLASSES[owner] for owner in mapping.owners],
        "lanes": "depth" if mapping.is_tree else "outputs",
        "output_tile": mapping.output_tile,
        "depth_tile": mapping.depth_tile,
        "order": mapping.order,
        "overlaps_drains": mapping.overlaps_drains,
        "overlaps_loads": mapping.overlaps_loads,
        "hull": list(mapping.hull),
    }


def format_plan(plan: Plan) -> str:
    """The plan as text."""
    microseconds = plan.time_ps / 1e6
    sizes = ", ".join(f"{name}={value}" for name, value in plan.sizes.items())
    counts = ", ".join(f"{name} {count}" for name, count in plan.commands.items() if count)
    lines = [
        f"{plan.kernel} ({sizes}) on {plan.device}, {plan.channels} channels",
        *(
            line
            for name, mapping in plan.mappings.items()
            for line in (f"{name}:", *describe_mapping(mapping, plan.axis_names))
        ),
        f"{plan.goal:13} {_amount(plan)} ({_proof(plan)})",
        *([] if plan.goal == "time" else [f"time          {microseconds:.3f} us"]),
        *([] if plan.energy_fj is None or plan.goal == "energy" else [f"energy        {plan.energy_fj / 1e9:.3f} uJ"]),
        *([] if plan.power_w is None else [f"power         {plan.power_w:.4g} W, mean of this energy over the time"]),
        *_throughput(plan),
        f"device        {plan.ticks:,} ticks of {plan.tick_ps} ps: {_ticks_by_part(plan)}",
        *([f"host          {plan.host_ps / 1e6:.3f} us to read the results"] if plan.host_ps else []),
        *([f"matrix        {plan.matrix_ps / 1e6:.3f} us to pack it for the banks"] if plan.matrix_ps else []),
        f"simulated     {plan.simulated:,} ticks, {plan.refreshed:,} with refresh",
        f"functional    equal on {plan.functional} channel(s)",
        f"commands      {counts}",
        *(f"remark        {remark}" for remark in plan.remarks),
    ]
    return "\n".join(lines)


def _throughput(plan: Plan) -> list[str]:
    """Operations a second, and per joule where the energy is known."""
    if plan.tops is None:
        return []
    efficiency = "" if plan.tops_per_w is None else f", {plan.tops_per_w:.4g} TOPS/W"
    return [f"throughput    {plan.tops:.4g} TOPS{efficiency}: {plan.operations:,} operations, of which a MAC is two"]


def _ticks_by_part(plan: Plan) -> str:
    """What the ticks are spent on."""
    if plan.part_ticks:
        return ", ".join(f"{ticks:,} {name}" for name, ticks in plan.part_ticks.items() if ticks)
    return f"{plan.compute_ticks:,} compute, {plan.ticks - plan.compute_ticks:,} moves that MACs do not hide"


def _amount(plan: Plan) -> str:
    """The value of the objective in microseconds or microjoules."""
    return f"{plan.objective / 1e9:.3f} uJ" if OBJECTIVES[plan.goal] == "fJ" else f"{plan.objective / 1e6:.3f} us"


def _proof(plan: Plan) -> str:
    """What is proven."""
    if plan.status == "OPTIMAL":
        return f"OPTIMAL: the best of {plan.space:,} mappings, {plan.walked:,} walked, the others excluded by bounds"
    gap = 100 * (plan.time_ps - plan.bound_ps) / plan.bound_ps
    return f"FEASIBLE: none of {plan.space:,} mappings takes less than {plan.bound_ps / 1e6:.3f} us, gap {gap:.2f} %"


@singledispatch
def describe_mapping(mapping: Any, axis_names: tuple[str, ...]) -> list[str]:
    """A mapping in words, in lines of two columns."""
    raise TypeError(f"no mapping: {mapping!r}")


@describe_mapping.register
def _(mapping: Mapping, axis_names: tuple[str, ...]) -> list[str]:
    beside = [name for name, on in (("drains", mapping.overlaps_drains), ("loads", mapping.overlaps_loads)) if on]
    return [
        *_cuts(mapping, axis_names),
        f"lanes         {'depth (tree)' if mapping.is_tree else 'outputs'}",
        f"tiles         {mapping.output_tile} accumulator(s), {mapping.depth_tile} input column(s), {mapping.order}",
        f"beside MACs   {' and '.join(beside) or 'nothing'}",
        *_hull(mapping),
    ]


@describe_mapping.register
def _(mapping: BroadcastMapping, axis_names: tuple[str, ...]) -> list[str]:
    kept = "loaded once for all outputs" if mapping.keeps_inputs else "loaded for every output"
    stored = "written into the banks of the cores and " if mapping.stores_inputs else ""
    return [
        *_cuts(mapping, axis_names),
        f"lanes         {mapping.lanes}",
        f"tiles         {mapping.depth_tile} input column(s), {mapping.order}; inputs are {stored}{kept}",
        *_hull(mapping),
    ]


@describe_mapping.register
def _(mapping: SpreadMapping, axis_names: tuple[str, ...]) -> list[str]:
    return [f"channels      {mapping.channels}, all their cores with equally many elements"]


@describe_mapping.register
def _(mapping: ElementwiseMapping, axis_names: tuple[str, ...]) -> list[str]:
    return [
        f"channels      {mapping.channels}",
        f"banks         {'both' if mapping.both_banks else 'the even one'} of every block",
        f"rows          operands {'share them' if mapping.shares_rows else 'have rows of their own'}",
        f"order         {'bank by bank' if mapping.takes_turns else 'each kind of command for both banks'}",
    ]


def _hull(mapping: Mapping | BroadcastMapping) -> list[str]:
    """What lies between needed elements of the matrix and takes part."""
    return [f"hull          of {', '.join(mapping.hull)}: what lies between is in the banks"] if mapping.hull else []


def _cuts(mapping: Mapping | BroadcastMapping, axis_names: tuple[str, ...]) -> list[str]:
    """How channels and axes are cut."""
    split = [f"{name} by {parts}" for name, parts in zip(CLASSES, mapping.splits, strict=True) if parts > 1]
    axes = [
        f"{name} {'unused' if owner == UNUSED else CLASSES[owner]}"
        for name, owner in zip(axis_names, mapping.owners, strict=True)
    ]
    return [f"channels      {', '.join(split) or 'all equal'}", f"axes          {', '.join(axes)}"]
