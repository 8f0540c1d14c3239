"""A space of 1,024 machines, and two networks of two layers."""

from attrs import evolve

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.tuner.area import AreaModel
from cpsat_pim.tuner.space import Axis, HardwareSpace
from cpsat_pim.tuner.task import TuneTask
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

H, W = "arch.pe_array.array_shape.h", "arch.pe_array.array_shape.w"
BUFFER = "arch.hierarchy.GLOBAL_BUFFER.entries"
SHARED = {
    "arch.dram_timings.co_w": 32768,
    "arch.hierarchy.ROW_BUFFER.entries": 262144,
    "arch.hierarchy.ROW_BUFFER.row_buffer_size": 524288,
    "arch.hierarchy.ROW_BUFFER.read_bandwidth_limit": 4096,
}

#: A plan and its space, as files.
FILE = """
version: 1
space: space.yaml
networks: [net.yaml]
bytes: [2, 2, 2, 4]
methods: [random, exact]
trials: 4
"""
SPACE = """
version: 1
arch: stacked-3d-4x4
axes:
  array.rows: [2, 4]
  arch.pe_array.array_shape.h: {from: 2, to: 16, factor: 2}
  arch.hierarchy.GLOBAL_BUFFER.entries.W: [1 KiB, 64 KiB]
area: {limit_mm2: 30}
"""


def small_space(limit_mm2: float | None = 1.0) -> HardwareSpace:
    """2 or 4 rows of 2 nodes, 4 x 4 sizes of PE arrays, 2 x 4 x 4 buffers."""
    sides, sizes = (2, 5, 8, 16), (512, 2048, 8192, 32768)
    axes = [
        Axis(path="array.rows", values=(2, 4)),
        Axis(path="array.cols", values=(2,)),
        Axis(path=H, values=sides),
        Axis(path=W, values=sides),
        Axis(path=f"{BUFFER}.I", values=sizes[:2]),
        Axis(path=f"{BUFFER}.W", values=sizes),
        Axis(path=f"{BUFFER}.O", values=sizes),
    ]
    arch = read_arch("stacked-3d-4x4")
    return HardwareSpace(name="small", arch=arch, axes=axes, shared=SHARED, area=AreaModel(limit_mm2=limit_mm2))


def small_task(space: HardwareSpace, alpha: float = 1.0, beta: float = 1.0) -> TuneTask:
    """A pair of convolutions and a pair of matrix products."""
    return TuneTask(
        name="small",
        space=space,
        networks=[
            chain("images", ConvWorkload(R=3, S=3, P=14, Q=14, C=16, K=32), ConvWorkload(P=14, Q=14, C=32, K=48)),
            chain("matrices", ConvWorkload(C=256, K=512), ConvWorkload(C=512, K=100)),
        ],
        alpha=alpha,
        beta=beta,
    )


def chain(name: str, *layers: ConvWorkload) -> Network:
    """Layers one after the other, with 16-bit data."""
    nodes = []
    for i, layer in enumerate(layers):
        own = evolve(layer, name=f"l{i}", input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=4)
        nodes.append(NetworkNode(name=f"l{i}", workload=own, after=(f"l{i - 1}",) if i else ()))
    return Network(name=name, layers=nodes)
