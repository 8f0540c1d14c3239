"""The processor that drives a device, as data (`docs/devices.md`, section 7)."""

from attrs import field, frozen

from cpsat_pim.base.validate import one_of, positive, share, text

_kind = one_of("pim-host")


@frozen(kw_only=True)
class Host:
    """A processor with caches and the memory that the PIM devices are; bandwidths in bytes per second.

    `formulas`: the published model that turns its figures into times (`compiler.host`). `l1_bytes` of every core and
    `l2_bytes` are its on-chip memory. `link_bandwidth`: between it and PIM devices that are not its memory.
    """

    kind: str = field(default="pim-host", validator=_kind)
    name: str = field(validator=text)
    formulas: str = field(default="attacc-xpu", validator=one_of("attacc-xpu"))
    cores: int = field(validator=positive)
    flops: int = field(validator=positive)
    memory_bandwidth: int = field(validator=positive)
    link_bandwidth: int = field(validator=positive)
    l1_bytes: int = field(validator=positive)
    l2_bytes: int = field(validator=positive)
    compute_efficiency: float = field(validator=share)
    memory_efficiency: float = field(validator=share)
