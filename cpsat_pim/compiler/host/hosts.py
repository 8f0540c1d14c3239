"""Hosts as data. Source of every figure: attacc_simulator c600051, `src/config.py`, unless the line says otherwise."""

from attrs import field, frozen

from cpsat_pim.base.validate import positive, share


@frozen(kw_only=True)
class Host:
    """A processor with caches and the memory that the PIM devices are; bandwidths in bytes per second."""

    name: str
    cores: int = field(validator=positive)
    flops: int = field(validator=positive)
    memory_bandwidth: int = field(validator=positive)
    link_bandwidth: int = field(validator=positive)
    l1_bytes: int = field(validator=positive)
    l2_bytes: int = field(validator=positive)
    compute_efficiency: float = field(validator=share)
    memory_efficiency: float = field(validator=share)


#: `make_xpu_config(GPUType.A100a)`: an A100 whose memory is five HBM3 stacks.
A100_HBM3 = Host(
    name="a100-hbm3",
    cores=108,
    flops=312 * 10**12,
    memory_bandwidth=3352 * 10**9,
    link_bandwidth=600 * 10**9,  # NVLink 3, both directions together
    l1_bytes=192 * 1024,
    l2_bytes=40 * 1024 * 1024,
    compute_efficiency=0.8,  # SCALING_FACTOR MAX_COMPUTE_UTIL
    memory_efficiency=0.85,  # SCALING_FACTOR MAX_OFF_MEM_BW_UTIL
)
