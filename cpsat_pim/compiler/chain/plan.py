"""A compiled chain: where every statement runs, what it takes, and what is proven."""

from collections.abc import Mapping as Names
from math import prod
from typing import Any

from attrs import frozen

from cpsat_pim.compiler.chain.candidates import HOST, PIM, Candidate, Choices, Layout
from cpsat_pim.compiler.plan import FORMAT, describe_mapping, mapping_data


@frozen
class Line:
    """A statement with its chosen candidate. `refreshed`: its ticks with refresh in the simulator; `functional`: the
    channels whose results on numbers were compared, and equal. Both are 0 on the host."""

    choices: Choices
    chosen: Candidate
    refreshed: int
    functional: int

    @property
    def best_ps(self) -> dict[str, int]:
        """The least time of a candidate by place, without packing."""
        times: dict[str, int] = {}
        for candidate in self.choices.candidates:
            times[candidate.place] = min(candidate.time_ps, times.get(candidate.place, candidate.time_ps))
        return times


@frozen(kw_only=True)
class ChainPlan:
    """A kernel of several statements on a device. `rows` of a bank; `layouts`: the matrices that the banks hold;
    `bound_ps`: no choice of candidates takes less; `whole`: whether the chain as a whole was equal on numbers."""

    kernel: str
    sizes: Names[str, int]
    device: str
    host: str | None
    channels: int
    tick_ps: int
    axis_names: tuple[str, ...]
    rows: int
    lines: tuple[Line, ...]
    layouts: tuple[Layout, ...]
    time_ps: int
    bound_ps: int
    whole: str
    is_checked: bool

    @property
    def choices(self) -> int:
        """Ways to take a candidate for every statement."""
        return prod(len(line.choices.candidates) for line in self.lines)

    @property
    def status(self) -> str:
        """OPTIMAL over the candidates; HOST: no statement has a mapping, so that nothing is chosen or proven."""
        if all(candidate.place == HOST for line in self.lines for candidate in line.choices.candidates):
            return "HOST"
        return "OPTIMAL" if self.bound_ps == self.time_ps else "FEASIBLE"

    @property
    def packed(self) -> tuple[Layout, ...]:
        """The matrices that the host packs."""
        return tuple(layout for layout in self.layouts if layout.packing_ps)

    @property
    def moves(self) -> list[dict[str, Any]]:
        """What the host does between the statements, with its picoseconds."""
        packed = [{"what": "pack", "tensor": found.tensor, "time_ps": found.packing_ps} for found in self.packed]
        added = [
            {"what": "add", "tensor": line.choices.part.target, "time_ps": line.chosen.added_ps}
            for line in self.lines
            if line.chosen.added_ps
        ]
        return [*packed, *added]

    def as_data(self) -> dict[str, Any]:
        """The plan as JSON takes it."""
        return {
            "format": FORMAT,
            "status": self.status,
            "goal": "time",
            "objective": self.time_ps,
            "bound": None if self.status == "HOST" else self.bound_ps,
            "unit": "ps",
            "kernel": self.kernel,
            "sizes": dict(self.sizes),
            "device": self.device,
            "host": self.host,
            "channels": self.channels,
            "tick_ps": self.tick_ps,
            "statements": [_line_data(line) for line in self.lines],
            "moves": self.moves,
            "rows": {"used": sum(layout.rows for layout in self.layouts), "of": self.rows},
            "functional": {"chain": self.whole},
            "space": {"choices": self.choices},
        }


def _line_data(line: Line) -> dict[str, Any]:
    chosen, part = line.chosen, line.choices.part
    data = {
        "statement": part.text,
        "at": part.statement.place,
        "place": chosen.place,
        "time_ps": chosen.time_ps,
        "candidates": [{"place": found.place, "time_ps": found.time_ps} for found in line.choices.candidates],
    }
    if chosen.place == HOST:
        return {**data, "formula": chosen.formula, "no_mapping": line.choices.reason or None}
    return {
        **data,
        "ticks": chosen.ticks,
        "mapping": mapping_data(chosen.mapping),
        "rows": chosen.layout.rows if chosen.layout else chosen.working_rows,
        "simulated": {"ticks": chosen.ticks, "ticks_with_refresh": line.refreshed},
        "functional": {"channels_equal": line.functional},
        "space": {"mappings": line.choices.mappings},
    }


def format_chain(plan: ChainPlan) -> str:
    """The plan as text."""
    sizes = ", ".join(f"{name}={value}" for name, value in plan.sizes.items())
    lines = [f"{plan.kernel} ({sizes}) on {plan.device}, {plan.channels} channels: {len(plan.lines)} statements"]
    for number, line in enumerate(plan.lines, 1):
        lines += _format_line(number, line, plan)
    used = sum(layout.rows for layout in plan.layouts)
    lines += [
        f"time          {_us(plan.time_ps)} ({_proof(plan)})",
        *(f"move          {move['what']} {move['tensor']}: {_us(move['time_ps'])} of the host" for move in plan.moves),
        f"rows          {used:,} of {plan.rows:,} of a bank hold matrices",
        f"functional    the chain: {plan.whole}",
        "remark        every intermediate result passes the host: reading and loading it are in the statements' times",
    ]
    if not plan.is_checked:
        lines.append("remark        the device is not checked against a simulator")
    return "\n".join(lines)


def _format_line(number: int, line: Line, plan: ChainPlan) -> list[str]:
    """A statement: its place and time, then why, or its mapping in words."""
    chosen, part = line.chosen, line.choices.part
    head = f"{number}  {part.text}: {chosen.place}, {_us(chosen.time_ps)}"
    if chosen.place == HOST:
        times = line.best_ps
        why = f"{PIM} takes {_us(times[PIM])}" if PIM in times else f"no mapping: {line.choices.reason}"
        return [head, f"   by {plan.host}, {chosen.formula}; {why}"]
    words = [f"   {text}" for text in describe_mapping(chosen.mapping, plan.axis_names)]
    ticks = f"   device        {chosen.ticks:,} ticks, {line.refreshed:,} with refresh{_source(line)}"
    equal = f"   functional    equal on {line.functional} channel(s)"
    host = [f"   host          {_us(line.best_ps[HOST])} if it computed the statement"] if HOST in line.best_ps else []
    return [head, *words, ticks, equal, *host]


def _source(line: Line) -> str:
    """Which mapping was chosen: the fastest one, or one with less packing, or that of another statement."""
    own = next(found for found in line.choices.candidates if found.place == PIM) == line.chosen
    return (
        f"; the best of {line.choices.mappings:,} mappings by itself"
        if own
        else "; chosen for its layout, others are faster by themselves"
    )


def _us(time_ps: int) -> str:
    """Microseconds; those of the host may be fractions of a nanosecond."""
    return f"{time_ps / 1e6:.3f} us" if time_ps >= 1000 or time_ps == 0 else f"{time_ps / 1e6:.6f} us"


def _proof(plan: ChainPlan) -> str:
    """What is proven."""
    if plan.status == "HOST":
        return "HOST: by formula, nothing is proven"
    if plan.status == "OPTIMAL":
        return f"OPTIMAL: the best of {plan.choices:,} choice(s) of the statements' candidates"
    return f"FEASIBLE: no choice of candidates takes less than {_us(plan.bound_ps)}"
