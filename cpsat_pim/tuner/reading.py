"""Files of spaces and of tuning plans (docs/tuner.md).

version: 1                        # a space
name: mine
arch: stacked-3d-4x4              # a preset or a file
axes:                             # fields of the machine, as in sweeps, and array.rows, array.cols
  array.rows: [2, 4]
  arch.pe_array.array_shape.h: {from: 8, to: 64, factor: 2}
  arch.hierarchy.GLOBAL_BUFFER.entries.I: [16 KiB, 32 KiB]
shared: {arch.dram_timings.co_w: 32768}   # of all nodes together
area: {limit_mm2: 48}

version: 1                        # a tuning plan
space: nicepim                    # a preset or a file
networks: [googlenet, resnet50]
bytes: [2, 2, 2, 4]               # of I, W, O and partial sums
reference: {array.rows: 4}        # the machine that costs 1
methods: [gp, exact]
trials: 60
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import change_arch, read_arch
from cpsat_pim.base.reading import Field, FileKind, Listing, Record, Value, fields_of, record_of
from cpsat_pim.base.validate import Rule, one_of, positive, seed_number, text
from cpsat_pim.planner.array import HOST, MESH
from cpsat_pim.planner.space import Space
from cpsat_pim.study.sweep.points import NamedObject
from cpsat_pim.study.sweep.reading import Axis as AxisValues
from cpsat_pim.study.sweep.reading import Reference
from cpsat_pim.tuner.area import AreaModel
from cpsat_pim.tuner.fields import numbers_of
from cpsat_pim.tuner.methods import METHODS
from cpsat_pim.tuner.run import EXACT, TunePlan
from cpsat_pim.tuner.space import COLS, ROWS, Axis, HardwareSpace
from cpsat_pim.tuner.task import Fidelity, TuneTask
from cpsat_pim.workload.network import Network, read_network

_NUMBER = Rule(
    "must be a number, or an amount with a unit",
    lambda v: isinstance(v, str | int | float) and not isinstance(v, bool),
    {"type": ["number", "string"]},
)
_REAL = Rule(
    "must be a number of at least 0",
    lambda v: isinstance(v, int | float) and not isinstance(v, bool) and v >= 0,
    {"type": "number", "minimum": 0},
)
_ARCH_FIELD = r"arch(\.[A-Za-z]\w*)+"
_BYTES = ("input_bytes", "weight_bytes", "output_bytes", "psum_bytes")
_WIDTHS = Rule(
    "must be four positive integers: bytes of I, W, O and partial sums",
    lambda v: isinstance(v, tuple) and len(v) == 4 and all(map(positive.holds, v)),
    {"type": "array", "items": positive.schema, "minItems": 4, "maxItems": 4},
)
_SEEDS = Rule(
    "must be a list of integers from 0 on",
    lambda v: isinstance(v, tuple) and bool(v) and all(map(seed_number.holds, v)),
    {"type": "array", "items": seed_number.schema, "minItems": 1},
)
_WEIGHTS = Rule(
    "must be a list of numbers of at least 0",
    lambda v: isinstance(v, tuple) and all(map(_REAL.holds, v)),
    {"type": "array", "items": _REAL.schema},
)


def read_space(name_or_path: str | Path, directory: Path | None = None) -> HardwareSpace:
    """Read a space: a preset by its name, or a file.

    Raises:
        ValueError: no such name, an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    space: HardwareSpace = SPACES.read(name_or_path, directory)
    return space


def read_tune_plan(path: str | Path) -> TunePlan:
    """Read the tuning plan of a file.

    Raises:
        ValueError: an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    plan: TunePlan = TUNE_PLANS.read(path)
    return plan


# --- Spaces ----------------------------------------------------------------------------------------------------------


def _build_space(
    name: str, arch: NamedObject, axes: dict[str, Any], shared: dict[str, Any] | None = None, **values: Any
) -> HardwareSpace:
    """Build a space; values with units are converted as the machine's own."""
    machine: PIMArchitecture = arch.value
    if not axes:
        raise ValueError("HardwareSpace.axes: must have at least one axis")
    return HardwareSpace(
        name=name,
        arch=machine,
        axes=[Axis(path=path, values=_numbers(machine, f"axes.{path}", path, given)) for path, given in axes.items()],
        shared={path: _numbers(machine, f"shared.{path}", path, [value])[0] for path, value in (shared or {}).items()},
        **values,
    )


def _numbers(machine: PIMArchitecture, where: str, path: str, given: Iterable[Any]) -> tuple[float, ...]:
    """Return values in the units of the machine.

    Raises:
        ValueError: a text is no amount that this field may have.
    """
    return tuple(
        float(value) if not isinstance(value, str) else _amount(machine, where, path, value) for value in given
    )


def _amount(machine: PIMArchitecture, where: str, path: str, value: str) -> float:
    name = path.removeprefix("arch.")
    try:
        numbers = numbers_of(change_arch(machine, {name: value}))
    except ValueError as error:
        line = next(iter(str(error).splitlines()))
        raise ValueError(f"HardwareSpace.{where}: {line.partition(': ')[2] or line}") from error
    if name not in numbers:
        raise ValueError(f"HardwareSpace.{where}: is no number of the machine (got {value!r})")
    return numbers[name]


_VALUES = Field(kind=AxisValues(Value(_NUMBER)))
SPACES = FileKind(
    kind="space of machines",
    package="cpsat_pim.tuner",
    folder="spaces",
    record=Record(
        fields={
            "name": Field(kind=Value(text), required=True),
            "arch": Field(kind=Reference(read_arch), required=True),
            "axes": Field(
                kind=Record(
                    fields={ROWS: _VALUES, COLS: _VALUES},
                    patterns={_ARCH_FIELD: _VALUES},
                    doc="Fields and their values.",
                ),
                required=True,
            ),
            "shared": Field(
                kind=Record(
                    fields={},
                    patterns={_ARCH_FIELD: Field(kind=Value(_NUMBER))},
                    doc="Numbers of the machine that all nodes have together.",
                )
            ),
            "area": Field(kind=record_of(AreaModel)),
            "interconnect": Field(kind=Value(one_of(MESH, HOST))),
        },
        build=_build_space,
    ),
)


# --- Plans -----------------------------------------------------------------------------------------------------------


def _build_plan(
    name: str,
    space: NamedObject,
    networks: tuple[NamedObject, ...],
    bytes: tuple[int, int, int, int] | None = None,
    fidelity: str = "analytic",
    time_limit: float = 600.0,
    node_time: float = 20.0,
    plans: Space | None = None,
    **values: Any,
) -> TunePlan:
    """Build a plan from the keys of its file."""
    own = {key: values.pop(key) for key in ("batch", "alpha", "beta", "weights", "reference") if key in values}
    found = [with_bytes(network.value, bytes) for network in networks]
    task = TuneTask(
        name=name,
        space=space.value,
        networks=found,
        fidelity=Fidelity(name=fidelity, time_limit=time_limit, node_time=node_time, plans=plans or Space()),
        **own,
    )
    return TunePlan(name=name, task=task, **values)


def with_bytes(network: Network, widths: tuple[int, int, int, int] | None) -> Network:
    """Return a network with other bytes per element of I, W, O and partial sums, if any are given."""
    if widths is None:
        return network
    fields: Any = dict(zip(_BYTES, widths, strict=True))
    layers: Any = [evolve(node, workload=evolve(node.workload, **fields)) for node in network.layers]
    return evolve(network, layers=layers)


_METHOD = one_of(*METHODS, EXACT)
_METHODS = Rule(
    f"must be a list of {', '.join([*METHODS, EXACT])}",
    lambda v: isinstance(v, tuple) and bool(v) and all(map(_METHOD.holds, v)),
    {"type": "array", "items": _METHOD.schema, "minItems": 1},
)
_FIDELITY = fields_of(Fidelity)
_REFERENCE = Record(
    fields={ROWS: Field(kind=Value(_REAL)), COLS: Field(kind=Value(_REAL))},
    patterns={_ARCH_FIELD: Field(kind=Value(_REAL))},
    doc="Values of the machine that costs 1.",
)
_PLAN_SPACE = Record(
    fields=fields_of(Space, ("dims", "home_dims", "layouts", "cuts")),
    build=Space,
    doc="The space in which plans are searched.",
)
TUNE_PLANS = FileKind(
    kind="tuning plan",
    record=Record(
        fields={
            "name": Field(kind=Value(text), required=True),
            "space": Field(kind=Reference(read_space), required=True),
            "networks": Field(kind=Listing(Reference(read_network), "a list of networks"), required=True),
            "bytes": Field(kind=Value(_WIDTHS)),
            "batch": Field(kind=Value(positive)),
            "alpha": Field(kind=Value(_REAL)),
            "beta": Field(kind=Value(_REAL)),
            "weights": Field(kind=Value(_WEIGHTS)),
            "reference": Field(kind=_REFERENCE),
            "methods": Field(kind=Value(_METHODS)),
            "seeds": Field(kind=Value(_SEEDS)),
            "trials": Field(kind=Value(positive)),
            "initial": Field(kind=Value(positive)),
            "side_by_side": Field(kind=Value(positive)),
            "fidelity": _FIDELITY["name"],
            "time_limit": _FIDELITY["time_limit"],
            "node_time": _FIDELITY["node_time"],
            "plans": Field(kind=_PLAN_SPACE),
        },
        build=_build_plan,
    ),
)
