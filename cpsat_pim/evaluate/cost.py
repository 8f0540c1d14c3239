"""The typed interface of `tables`: layers, machines and mappings in, exact predicted figures out."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.base.units import to_fj, to_fraction
from cpsat_pim.base.watched import call_watched
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.widths import in_whole_units
from cpsat_pim.workload import ConvWorkload
from tables.counts.cost import Cost, exact_cost
from tables.counts.latency import exact_latency, with_walk
from tables.counts.on_chip import Machine, Rate
from tables.counts.stream import Stopped, is_long
from tables.dram import Dram
from tables.nest import EVEN, Ints, LayerShape, Nest

#: The denominators in which bandwidths are expressed: parts of a byte, or of a cycle.
_MOST_PARTS = 10**6


@frozen(kw_only=True)
class Figures:
    """The cost of a mapped layer, predicted or simulated: cycles, fJ, and counts per tensor (I, W, O)."""

    latency_cycles: int
    compute_cycles: int
    dram_cycles: int
    energy_fj: int
    row_activations: tuple[int, int, int]
    column_accesses: tuple[int, int, int]
    accesses: tuple[tuple[tuple[int, int], ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data, with tensors and levels by name."""
        return {
            "latency_cycles": self.latency_cycles,
            "compute_cycles": self.compute_cycles,
            "dram_cycles": self.dram_cycles,
            "energy_fj": self.energy_fj,
            "row_activations": {t.name: self.row_activations[t] for t in Tensor},
            "column_accesses": {t.name: self.column_accesses[t] for t in Tensor},
            "accesses": {
                m.name: {t.name: dict(zip(("read", "write"), self.accesses[m][t], strict=True)) for t in Tensor}
                for m in Level
            },
        }

    def differences(self, other: "Figures") -> list[str]:
        """Return the names of the exact figures (all but the latency) in which two results differ."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [key for key in mine if key != "latency_cycles" and mine[key] != theirs[key]]


@frozen(kw_only=True)
class Prediction:
    """Predicted figures, and the cycles of each resource. The latency is the largest of `bounds` plus the pipeline
    latency.
    """

    figures: Figures
    bounds: dict[str, int]


def predict(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> Prediction:
    """Return exact counts, energy and predicted latency of a legal mapping.

    The last few are kept: a search, its answer and the verification ask for those of one mapping.
    """
    layer, arch = in_whole_units(layer, arch)
    return _kept(
        (layer, arch, mapping, True),
        lambda: _count(to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch)),
    )


def predict_by_formula(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> Prediction:
    """Return the same, with the latency by the formula: the walks of poor mappings take seconds."""
    layer, arch = in_whole_units(layer, arch)
    nest = to_nest(layer, mapping, arch.spatial_reduction)
    return _kept((layer, arch, mapping, False), lambda: _count_by_formula(nest, to_machine(arch)))


def predict_until(
    is_over: Callable[[], bool],
    layer: ConvWorkload,
    arch: PIMArchitecture,
    mapping: Mapping,
    *,
    is_walked: bool = True,
) -> Prediction | None:
    """Return the same, with the latency by the formula if not `is_walked`; None if its streams are so long that
    `is_over` ended their count.
    """
    layer, arch = in_whole_units(layer, arch)
    nest, machine = to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch)
    count = _count if is_walked else _count_by_formula
    if not any(is_long(nest, t) for t in Tensor):
        return _kept((layer, arch, mapping, is_walked), lambda: count(nest, machine))
    try:
        watched = partial(call_watched, partial(count, nest, machine), is_over)
        return _kept((layer, arch, mapping, is_walked), watched)
    except Stopped:
        return None


#: What a prediction is of, and whether its latency is walked.
_Key = tuple[ConvWorkload, PIMArchitecture, Mapping, bool]
#: The predictions that were asked for last.
_recent: dict[_Key, Prediction] = {}
_MOST_RECENT = 8


def _kept(key: _Key, count: Callable[[], Prediction]) -> Prediction:
    """Return the prediction of a layer on a machine under a mapping, counted unless it is kept."""
    prediction = _recent.pop(key, None) or count()
    _recent[key] = prediction
    while len(_recent) > _MOST_RECENT:
        del _recent[next(iter(_recent))]
    return prediction


def _count(nest: Nest, machine: Machine, stop: Ints | None = None) -> Prediction:
    return to_prediction(with_walk(exact_cost(nest, machine, stop), nest, machine))


def _count_by_formula(nest: Nest, machine: Machine, stop: Ints | None = None) -> Prediction:
    return to_prediction(exact_cost(nest, machine, stop))


def predicted_energy(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> int:
    """Return the energy of a legal mapping in fJ, as `predict` does, without the walk that its latency takes."""
    layer, arch = in_whole_units(layer, arch)
    return exact_cost(to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch)).energy_fj


def stream_cycles(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> tuple[int, ...]:
    """Return the DRAM time of each tensor's stream in banks of its own (docs/model.md, section 5), cycles."""
    layer, arch = in_whole_units(layer, arch)
    cost = exact_cost(to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch))
    return tuple(stream.cycles for stream in cost.streams)


def walk_latency(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> int:
    """Return the latency of a legal mapping to the cycle: what the simulator counts, without a walk over elements."""
    layer, arch = in_whole_units(layer, arch)
    return exact_latency(to_nest(layer, mapping, arch.spatial_reduction), to_machine(arch))


def to_prediction(cost: Cost) -> Prediction:
    """Convert a cost of `tables` to a prediction."""
    figures = Figures(
        latency_cycles=cost.latency_cycles,
        compute_cycles=cost.compute_cycles,
        dram_cycles=cost.dram_cycles,
        energy_fj=cost.energy_fj,
        row_activations=tuple(s.activations for s in cost.streams),  # type: ignore[arg-type]
        column_accesses=tuple(s.columns for s in cost.streams),  # type: ignore[arg-type]
        accesses=tuple(tuple((int(r), int(w)) for r, w in level) for level in cost.accesses),
    )
    return Prediction(figures=figures, bounds=cost.latency_terms)


def to_nest(layer: ConvWorkload, mapping: Mapping, spatial_reduction: bool = True) -> Nest:
    """Convert a mapping to the loop nest that `tables` evaluates."""
    return Nest(
        temporal=mapping.temporal,
        spatial=mapping.spatial,
        order=mapping.order,
        stored=mapping.stored,
        layout=mapping.layout,
        block_h=mapping.block_h,
        block_w=mapping.block_w,
        stride=layer.stride,
        dilation=layer.dilation,
        width_bytes=layer.width_bytes,
        spatial_reduction=spatial_reduction,
        outside=(*mapping.outside, *EVEN[Level.ROW_BUFFER :]),
        part=mapping.banks,
        bank_counts=mapping.bank_counts,
    )


@lru_cache(maxsize=32)
def to_machine(arch: PIMArchitecture) -> Machine:
    """Convert a machine to the form that `tables` evaluates."""
    timings = arch.dram_timings
    inner = [arch.hierarchy[m] for m in (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)]
    return Machine(
        dram=Dram(
            row_bytes=arch.row_bytes,
            column_bytes=arch.column_bytes,
            banks=arch.banks,
            is_open=arch.page_policy == "open",
            tRCD=timings.tRCDRD,
            tRP=timings.tRP,
            tRAS=timings.tRAS,
            tRC=timings.tRC,
            tRTP=timings.tRTP,
            tCCD=timings.tCCD_L,
            RL=timings.RL,
            burst=timings.burst_cycles,
        ),
        access_fj=access_energies_fj(arch),
        activation_fj=to_fj(arch.activation_energy),
        mac_fj=to_fj(arch.pe_array.compute_unit.mac_energy),
        multicast=arch.multicast,
        spatial_reduction=arch.spatial_reduction,
        bandwidth=tuple((rate(m.read_bandwidth_limit), rate(m.write_bandwidth_limit)) for m in inner),
        ports=tuple(m.ports for m in inner),
        interconnect=rate(arch.pe_array.interconnect_bandwidth),
        double_buffered=(inner[Level.PE].double_buffered, inner[Level.GLOBAL_BUFFER].double_buffered),
        is_bus_shared=arch.shared_data_bus,
        pipeline_latency=arch.pipeline_latency,
    )


def access_energies_fj(arch: PIMArchitecture) -> tuple[tuple[int, int], ...]:
    """Return the fJ per element read and written, PE..DRAM."""
    return tuple(
        (to_fj(m.access_cost), to_fj(m.access_cost if m.write_cost is None else m.write_cost)) for m in arch.hierarchy
    )


def rate(limit: float | None) -> Rate:
    """Convert bytes per cycle to a fraction; (0, 1) means no limit.

    The fraction is exact to millionths of a byte, or of a cycle where a byte takes several. Longer fractions would
    exceed 64 bits where transfers are added up, and 10.666666666666666 is meant to be 32/3.
    """
    if limit is None:
        return (0, 1)
    exact = to_fraction(limit)
    if exact < 1:
        cycles = (1 / exact).limit_denominator(_MOST_PARTS)
        return (cycles.denominator, cycles.numerator)
    nearest = exact.limit_denominator(_MOST_PARTS)
    return (nearest.numerator, nearest.denominator)


def to_shape(layer: ConvWorkload) -> LayerShape:
    """Convert a layer to the form that the shape tables evaluate."""
    return LayerShape(layer.bounds, layer.stride, layer.dilation)


def tile_width(layer: ConvWorkload, level: int, t: int) -> int:
    """Return the bytes per element at a level; at the row buffer an output counts at least its own width."""
    return layer.psum_bytes if t == Tensor.O and level < Level.ROW_BUFFER else layer.width_bytes[t]


def energy_parts_fj(layer: ConvWorkload, arch: PIMArchitecture, figures: Figures) -> dict[str, int]:
    """Return the parts of a mapped layer's energy, fJ: MACs, accesses of each level, row activations (Eq. 41-43)."""
    costs = access_energies_fj(arch)
    accesses = {
        m.name: sum(reads * costs[m][0] + writes * costs[m][1] for reads, writes in figures.accesses[m]) for m in Level
    }
    macs = layer.macs * to_fj(arch.pe_array.compute_unit.mac_energy)
    rows = sum(figures.row_activations) * to_fj(arch.activation_energy)
    return {"MAC": macs, **accesses, "activation": rows}
