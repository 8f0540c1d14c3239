"""What devices whose cores all obey one command of their channel have in common (HBM-PIM, AiM, UPMEM)."""

from attrs import frozen

from cpsat_pim.device import Device


@frozen(slots=False, eq=False)
class BroadcastTarget:
    """A device whose channels' axes end with the sums that a core accumulates."""

    device: Device

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of a channel's axes, the last one of the accumulators."""
        return (*(axis.name for axis in self.device.group.axes), "accumulators")

    @property
    def channels(self) -> int:
        """Channels of all stacks."""
        return self.device.system.channels
