"""The typed interface of `tracesim`: simulate a mapped layer, and raise `Disagreement` if its prediction is wrong."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

import tracesim
import tracesim.stream
from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import build_arch
from cpsat_pim.base.dims import BUFFERS, Dim, Level
from cpsat_pim.base.files import file_stem, write_json
from cpsat_pim.base.reading import read_json
from cpsat_pim.base.units import to_fj
from cpsat_pim.base.watched import call_watched
from cpsat_pim.evaluate.cost import Figures, Prediction, access_energies_fj, predict, rate
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.mapping_file import build_mapping
from cpsat_pim.mapping.widths import in_whole_units
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import build_layer
from tracesim.stream import ColumnStream
from tracesim.timeline import Timeline, record_timeline

#: Version of the reproducer's format.
VERSION = 1


class Disagreement(Exception):
    """A mapping is illegal, or its prediction differs from its recomputed or simulated figures: a bug, never a hard
    instance.

    `differences` has a line per violated rule or differing figure, with both values.
    """

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        mapping: Mapping,
        differences: list[str],
        predicted: Figures,
        simulated: Figures | None,
    ) -> None:
        # Pickling rebuilds an exception from its arguments, on the way from a worker process.
        super().__init__(layer, arch, mapping, differences, predicted, simulated)
        self.layer, self.arch, self.mapping = layer, arch, mapping
        self.differences, self.predicted, self.simulated = differences, predicted, simulated

    def __str__(self) -> str:
        return "\n  ".join([f"{self.layer.name}: the mapping found does not hold:", *self.differences])


@frozen(kw_only=True)
class MappedLayer:
    """A mapped layer on a machine, as read from a file.

    `recorded` are the predicted figures in the file, None if it has none. `is_reproducer`: the file was written because
    of a disagreement.
    """

    layer: ConvWorkload
    arch: PIMArchitecture
    mapping: Mapping
    recorded: dict[str, Any] | None = None
    is_reproducer: bool = False


def never() -> bool:
    """Let a simulation go on to its end."""
    return False


def verify(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    mapping: Mapping,
    prediction: Prediction,
    is_over: Callable[[], bool] = never,
) -> Figures | None:
    """Return the simulated figures of a legal mapping, after comparing the prediction with recomputed and simulated
    figures. Return None if the simulation had to stop, because `is_over` said so, before its end.

    Raises:
        Disagreement: the mapping is illegal, or a figure other than the simulated latency differs.
    """
    predicted = prediction.figures
    problems = check_mapping(layer, arch, mapping)
    if problems:
        raise Disagreement(layer, arch, mapping, problems, predicted, None)
    recosted = predict(layer, arch, mapping).figures
    problems = differences(predicted, recosted, "recosted")
    if predicted.latency_cycles != recosted.latency_cycles:
        problems.append(f"latency_cycles: predicted {predicted.latency_cycles}, recosted {recosted.latency_cycles}")
    simulated = _simulate_until(is_over, layer, arch, mapping)
    problems += differences(predicted, simulated, "simulated") if simulated else []
    if problems:
        raise Disagreement(layer, arch, mapping, problems, predicted, simulated)
    return simulated


def differences(predicted: Figures, other: Figures, how: str) -> list[str]:
    """Return a line for each exact figure that differs; `how` names the origin of `other`."""
    ours, theirs = predicted.to_dict(), other.to_dict()
    return [f"{key}: predicted {ours[key]}, {how} {theirs[key]}" for key in predicted.differences(other)]


# --- Simulation ------------------------------------------------------------------------------------------------------


def simulate(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> Figures:
    """Return what the trace simulator counts for a mapping, legal or not, whose factors multiply to the layer's
    bounds.
    """
    return _figures(tracesim.simulate(*_nest_on_device(layer, arch, mapping)))


def _figures(trace: tracesim.Trace) -> Figures:
    """Return a trace as figures."""
    activations, columns = (tuple(int(n) for n in counts) for counts in (trace.activations, trace.columns))
    return Figures(
        latency_cycles=trace.latency_cycles,
        compute_cycles=trace.compute_cycles,
        dram_cycles=trace.dram_cycles,
        energy_fj=trace.energy_fj,
        row_activations=activations,  # type: ignore[arg-type]
        column_accesses=columns,  # type: ignore[arg-type]
        accesses=tuple(tuple((int(r), int(w)) for r, w in level) for level in trace.accesses),
    )


def _simulate_until(
    is_over: Callable[[], bool], layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping
) -> Figures | None:
    """Return what the simulator counts, or None if it has to stop before its end."""
    if is_over is never:
        return simulate(layer, arch, mapping)
    try:
        nest = _nest_on_device(layer, arch, mapping)
        return _figures(call_watched(lambda stop: tracesim.simulate(*nest, stop), is_over))
    except tracesim.Stopped:
        return None


def stream_columns(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> ColumnStream:
    """Return every column access of a mapping, in the order of its loop nest, as `simulate` counts them."""
    return tracesim.stream.stream_columns(*_nest_on_device(layer, arch, mapping))


def record(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, limit: int) -> Timeline:
    """Record the simulated pipeline, at most `limit` events, and the DRAM rows that it opens."""
    return record_timeline(*_nest_on_device(layer, arch, mapping), limit)


def _nest_on_device(
    layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping
) -> tuple[tracesim.Nest, tracesim.Placement, tracesim.Device]:
    """Build the inputs of the simulator."""
    layer, arch = in_whole_units(layer, arch)
    layout, banks, counts = (np.array(x, np.int64) for x in (mapping.layout, mapping.banks, mapping.bank_counts))
    placement = tracesim.Placement(layout, mapping.block_h, mapping.block_w, banks, counts)
    return _nest(layer, mapping), placement, _device(arch)


def _nest(layer: ConvWorkload, mapping: Mapping) -> tracesim.Nest:
    """Convert the mapping to an explicit loop nest."""
    loops = [(m, d, mapping.temporal[m][d]) for m in reversed(Level) for d in mapping.order[m]]
    return tracesim.Nest(
        loops=np.array(loops, np.int64).reshape(-1, 3),
        spatial=np.array(mapping.spatial, np.int64),
        stored=np.array(mapping.stored, np.bool_),
        conv=np.array([*layer.stride, *layer.dilation], np.int64),
        width_bytes=np.array(layer.width_bytes, np.int64),
        outside=np.array(mapping.outside, np.int64),
    )


@lru_cache(maxsize=32)
def _device(arch: PIMArchitecture) -> tracesim.Device:
    """Convert the machine to the simulator's device, in cycles, bytes and femtojoules."""
    t = arch.dram_timings
    buffers = [arch.hierarchy[m] for m in BUFFERS]
    rates = [[rate(m.read_bandwidth_limit), rate(m.write_bandwidth_limit)] for m in buffers]
    return tracesim.Device(
        row_bytes=arch.row_bytes,
        column_bytes=arch.column_bytes,
        banks=arch.banks,
        open_page=arch.page_policy == "open",
        timing=np.array([t.tRCDRD, t.tRP, t.tRAS, t.tRC, t.tRTP, t.tCCD_L, t.RL, t.BL], np.int64),
        access_fj=np.array(access_energies_fj(arch), np.int64),
        activation_fj=to_fj(arch.activation_energy),
        mac_fj=to_fj(arch.pe_array.compute_unit.mac_energy),
        multicast=arch.multicast,
        spatial_reduction=arch.spatial_reduction,
        bandwidth=np.array(rates, np.int64),
        ports=np.array([m.ports for m in buffers], np.int64),
        interconnect=np.array(rate(arch.pe_array.interconnect_bandwidth), np.int64),
        double_buffered=np.array([m.double_buffered for m in buffers[: Level.ROW_BUFFER]], np.bool_),
        shared_bus=arch.shared_data_bus,
        reduction_latency=arch.pipeline_latency,
    )


# --- Reproducers -----------------------------------------------------------------------------------------------------


def reproducer(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    mapping: Mapping | None,
    differences: Sequence[str],
    predicted: Figures | None,
    simulated: Figures | None,
) -> dict[str, Any]:
    """Return everything that reproduces a disagreement, as plain data."""
    return {
        "version": VERSION,
        "layer": {"name": layer.name, **layer.shape},
        "architecture": arch.to_dict(),
        "mapping": mapping.to_dict() if mapping else None,
        "differences": [*differences],
        "predicted": predicted.to_dict() if predicted else None,
        "simulated": simulated.to_dict() if simulated else None,
    }


def write_reproducer(disagreement: Disagreement, directory: str | Path) -> Path:
    """Write a disagreement to a JSON file in a directory, which is created if necessary; `python -m cpsat_pim simulate`
    reads the file.
    """
    data = reproducer(
        disagreement.layer,
        disagreement.arch,
        disagreement.mapping,
        disagreement.differences,
        disagreement.predicted,
        disagreement.simulated,
    )
    path = Path(directory) / f"disagreement-{file_stem(disagreement.layer.name)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(data, path)
    return path


def read_reproducer(path: str | Path) -> MappedLayer:
    """Read the mapped layer and the machine of a file that `write_reproducer` wrote.

    Raises:
        ValueError: the file cannot be read, or something in it is missing or wrong; lines `<file>: ...`.
    """
    data = read_json(path)
    if data.get("version") != VERSION:
        raise ValueError(f"{path}: is no reproducer of version {VERSION}")
    layer = build_layer(f"{path}: layer", data.get("layer"))
    mapping = build_mapping(f"{path}: mapping", data.get("mapping"))
    for dim in Dim:
        _require_bound(path, layer, mapping, dim)
    arch = build_arch(f"{path}: architecture", data.get("architecture"))
    return MappedLayer(layer=layer, arch=arch, mapping=mapping, is_reproducer=True)


def _require_bound(path: str | Path, layer: ConvWorkload, mapping: Mapping, dim: Dim) -> None:
    """Check that the loops cover the layer: the simulator gets only the loops, not the bounds."""
    covered = mapping.extents(Level.DRAM)[dim]
    if covered != layer.bounds[dim]:
        raise ValueError(f"{path}: mapping: {dim.name}: the factors multiply to {covered}, not to {layer.bounds[dim]}")
